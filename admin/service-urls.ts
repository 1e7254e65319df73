/** What the page brings along, and addresses of the service as this browser reaches them. */
import { navigate as go } from 'wouter-preact/use-browser-location'

export type Texts = Readonly<Record<string, string>>

export interface Language {
  code: string
  /** In itself. */
  name: string
}

/** So that nothing has to be asked for: the languages, and the texts of the likely one. */
interface Start {
  languages: readonly Language[]
  language: string
  texts: Texts
  /** The person has to sign in first. */
  signed_out: boolean
  /** Where the panel lies on its host, unless at its root; relative to the address of the page where a proxy does not tell. */
  root?: string
}
export const start = JSON.parse(document.getElementById('start')!.textContent) as Start

/** The path below which a proxy serves the panel: `/svc`, or '' at the root of its host. */
export const base: string =
  start.root === undefined ? '' : new URL(`${start.root}/`, location.href).pathname.replace(/\/$/, '')

/** The path of the page that is open, as the panel's own addresses are written. */
export const herePath = (): string => location.pathname.slice(base.length) || '/'

/** Opens an address of the panel. */
export const navigate: typeof go = (to, options) => go(`${base}${to}`, options)

const isLoopback = (host: string) => /^(localhost|127(\.\d+){3}|\[::1\])$/.test(host)

/** The service tells how it is reached on its own machine; who looks from another one needs that one's name. */
export function elsewhere(address: string): string {
  const url = new URL(address)
  if (isLoopback(url.hostname) && !isLoopback(location.hostname)) url.hostname = location.hostname
  return url.href.replace(/\/$/, '')
}

/** The sandbox's phone, which the panel passes on: its own address is that of the service's machine. */
export const phonePath = `${base}/phone`
