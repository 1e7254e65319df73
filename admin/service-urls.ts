/** Data that the service writes into the page, and URLs of the service as this browser reaches them. */
import { navigate as go } from 'wouter-preact/use-browser-location'
import type { PageCaller } from '../src/model/key.ts'

export type Texts = Readonly<Record<string, string>>

export interface Language {
  code: string
  /** The language's name in that language. */
  name: string
}

/**
 * Saves requests: the list of languages, the texts of the one that the browser most likely wants, and the rights
 * of the caller.
 */
interface Start {
  languages: readonly Language[]
  language: string
  texts: Texts
  /** Whether the person must sign in first. */
  signed_out: boolean
  /** What the caller may do. Absent if a page of another origin opened this one: browsers then send no cookie. */
  me?: PageCaller
  /**
   * The panel's path on its host; absent when that is the root. Relative to the URL of the page if the proxy
   * does not name the path.
   */
  root?: string
}
export const start = JSON.parse(document.getElementById('start')!.textContent) as Start

/** The path under which a proxy serves the panel, such as `/svc`; '' at the root of its host. */
export const base: string =
  start.root === undefined ? '' : new URL(`${start.root}/`, location.href).pathname.replace(/\/$/, '')

/** Returns the path of the open page, without `base`. */
export const herePath = (): string => location.pathname.slice(base.length) || '/'

/** Opens a page of the panel. `to` is a path without `base`. */
export const navigate: typeof go = (to, options) => go(`${base}${to}`, options)

const isLoopback = (host: string) => /^(localhost|127(\.\d+){3}|\[::1\])$/.test(host)

/**
 * The service gives its address as seen on its own machine. A browser on another machine needs the host name
 * that it used itself.
 */
export function elsewhere(address: string): string {
  const url = new URL(address)
  if (isLoopback(url.hostname) && !isLoopback(location.hostname)) url.hostname = location.hostname
  return url.href.replace(/\/$/, '')
}

/** The sandbox's phone, proxied by the panel. Its own URL works only on the machine of the service. */
export const phonePath = `${base}/phone`
