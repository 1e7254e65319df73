/**
 * Who may call: the one check in front of every HTTP door.
 *
 * A service on a loopback address trusts the local user and nobody the user's browser talks to: the Host must be a
 * loopback name (a page that rebinds its own name to 127.0.0.1 fails) and requests of foreign pages are refused (a page
 * may send simple requests anywhere). On any other address, and behind a proxy (--allow-host), a bearer token is required.
 * There is no CORS.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import { SvcError } from '../model/error.ts'

export interface GuardOptions {
  /** The address the door is bound to. */
  host: string
  /** The bearer token; required where others may call, see `isExposed`. */
  token?: string
  /** Names that a proxy in front uses: `svc.example.org`, or `svc.example.org:8443`. */
  allowHosts?: readonly string[]
}

export interface Guard {
  /**
   * What speaks against this request; `undefined` lets it through.
   *
   * @param open true for what anybody may read who passes the Host and Origin check: docs, schema, health
   */
  refusal(request: Request, open: boolean): SvcError | undefined
  /**
   * What speaks against the page that makes this request, wherever the door is bound: for doors that browsers open with
   * a cookie. `undefined` for our own pages and for callers that are no browser.
   */
  foreign(request: Request, open: boolean): SvcError | undefined
  /** Whether callers need the token. */
  readonly tokenRequired: boolean
}

/** @throws Error when a public address has no token: a fault of the program, never to be served */
export function createGuard(options: GuardOptions): Guard {
  const local = isLoopback(options.host)
  if (isExposed(options) && !options.token) throw new Error(`listening on ${options.host} needs a token`)
  const tokenHash = options.token ? sha256(options.token) : undefined
  const allowed = new Set((options.allowHosts ?? []).map(name => name.trim().toLowerCase()).filter(Boolean))
  // A Host counts by its name, which is what a page can rebind: proxies pass it with and without the port.
  const isOwnHost = (host: string) =>
    isLoopback(hostName(host)) || allowed.has(host) || allowed.has(hostName(host))
  // A client says the same Host each time: what passed last is not judged again.
  let lastHost: string | null = null
  const foreign: Guard['foreign'] = ({ headers }, open) => {
    const origin = headers.get('origin')
    const host = headers.get('host')?.toLowerCase() ?? ''
    if (origin !== null && !isOwnOrigin(origin, host, allowed)) return foreignOrigin()
    // Only browsers send this. A link to the docs may be followed from anywhere; anything else is ours alone.
    const site = open ? null : headers.get('sec-fetch-site')
    return site !== null && site !== 'same-origin' && site !== 'none' ? foreignOrigin() : undefined
  }

  return {
    tokenRequired: tokenHash !== undefined,
    foreign,
    refusal(request, open) {
      const { headers } = request
      if (local) {
        const host = headers.get('host')
        if (host === null || (host !== lastHost && !isOwnHost(host.toLowerCase()))) return foreignHost()
        lastHost = host
        const refused = foreign(request, open)
        if (refused) return refused
      }
      if (tokenHash === undefined || open) return undefined
      const given = bearer(headers.get('authorization'))
      if (given === undefined)
        return new SvcError('unauthorized', 'This service needs a token in the Authorization header')
      return timingSafeEqual(sha256(given), tokenHash)
        ? undefined
        : new SvcError('unauthorized', 'The token is wrong')
    },
  }
}

const foreignHost = () =>
  new SvcError('forbidden', 'The Host header names neither this machine nor an allowed host', {
    hint: 'Call it as localhost or 127.0.0.1. Behind a proxy, start svc with --allow-host <name>.',
  })
const foreignOrigin = () =>
  new SvcError('forbidden', 'Web pages of other origins may not call this service', {
    hint: 'Call it from a program, from its own /docs, or start svc with --allow-host <name>, or <name>:<port>, for a page behind a proxy.',
  })

/**
 * Own is the very address the request went to, or a host that --allow-host names: with the port that stands there, else on
 * the default port of http or https. On other ports of that host others may serve pages. `null` is nobody's.
 */
function isOwnOrigin(origin: string, host: string, allowed: ReadonlySet<string>): boolean {
  const url = URL.parse(origin)
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') return false
  if (url.protocol === 'http:' && url.host === withoutDefaultPort(host)) return true
  const defaultPort = url.protocol === 'https:' ? 443 : 80
  return allowed.has(url.host) || (url.port === '' && allowed.has(`${url.host}:${defaultPort}`))
}

const withoutDefaultPort = (host: string) => (host.endsWith(':80') ? host.slice(0, -3) : host)

/** The name in a Host header, without the port: `[::1]:80` → `[::1]`. */
function hostName(host: string): string {
  const end = host.lastIndexOf(':')
  return end > host.lastIndexOf(']') ? host.slice(0, end) : host
}

/** Whether others than the user of this machine may reach a service: by its address, or through a proxy in front. */
export const isExposed = ({ host, allowHosts = [] }: Pick<GuardOptions, 'host' | 'allowHosts'>): boolean =>
  !isLoopback(host) || allowHosts.length > 0

/** Whether a host name or address always means this machine. `0.0.0.0` and `::` do not: they mean everybody. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase().replace(/^\[(.*)\]$/, '$1')
  if (name === 'localhost' || name.endsWith('.localhost')) return true
  if (name === '::1' || name === '0:0:0:0:0:0:0:1') return true
  const v4 = /^(?:::ffff:)?127\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(name)
  return v4?.slice(1).every(part => Number(part) <= 255) === true
}

const bearer = (header: string | null): string | undefined =>
  header === null ? undefined : /^bearer +([^\s,]+) *$/i.exec(header)?.[1]

/** Compares in a time that tells nothing about the token. */
export const sameToken = (given: string, token: string): boolean =>
  timingSafeEqual(sha256(given), sha256(token))

// Hashes are of equal length, so the comparison tells neither length nor place of a difference.
const sha256 = (text: string) => createHash('sha256').update(text).digest()
