/** Addresses of the service's other doors, as this browser reaches them. */

const isLoopback = (host: string) => /^(localhost|127(\.\d+){3}|\[::1\])$/.test(host)

/** The service tells how it is reached on its own machine; who looks from another one needs that one's name. */
export function elsewhere(address: string): string {
  const url = new URL(address)
  if (isLoopback(url.hostname) && !isLoopback(location.hostname)) url.hostname = location.hostname
  return url.href.replace(/\/$/, '')
}

/** The sandbox's phone, which the panel passes on: its own address is that of the service's machine. */
export const phonePath = '/phone'
