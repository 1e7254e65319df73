/**
 * Who may call: the one check in front of every HTTP door.
 *
 * A service on a loopback address trusts the local user and nobody the user's browser talks to: the Host must be a
 * loopback name (a page that rebinds its own name to 127.0.0.1 fails) and requests of foreign pages are refused (a page
 * may send simple requests anywhere). On any other address, and behind a proxy (--allow-host), a bearer token is required.
 * There is no CORS. Calls without the right token are slowed per address, and told in the log.
 */
import { SvcError } from '../model/error.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import { nodeCrypto } from '../platform/lazy-crypto.ts'
import type { Log } from '../platform/log.ts'
import type { Peer } from '../platform/serve.ts'
import { problemResponse } from './errors.ts'

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
    if (origin !== null && !isOwnOrigin(origin, host, allowed)) return foreignOrigin(origin, host)
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
      return nodeCrypto().timingSafeEqual(sha256(given), tokenHash)
        ? undefined
        : new SvcError('unauthorized', 'The token is wrong')
    },
  }
}

const foreignHost = () =>
  new SvcError('forbidden', 'The Host header names neither this machine nor an allowed host', {
    hint: 'Call it as localhost or 127.0.0.1. Behind a proxy, start svc with --allow-host <name>.',
  })
/** @param origin of a page on another port of the Host is most often our own, behind a proxy that drops the port */
function foreignOrigin(origin = '', host = ''): SvcError {
  const page = URL.parse(origin)
  if (page?.hostname && page.hostname === hostName(host))
    return new SvcError(
      'forbidden',
      `The page at ${page.protocol}//${page.host} may not call this service, which the request calls ${host}`,
      {
        hint: `If a proxy serves that page for svc, let it pass on the Host with its port (nginx: proxy_set_header Host $http_host), and start svc with --allow-host ${page.host}.`,
      },
    )
  return new SvcError('forbidden', 'Web pages of other origins may not call this service', {
    hint: 'Call it from a program, from its own /docs, or start svc with --allow-host <name>, or <name>:<port>, for a page behind a proxy.',
  })
}

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
  nodeCrypto().timingSafeEqual(sha256(given), sha256(token))

// Hashes are of equal length, so the comparison tells neither length nor place of a difference.
const sha256 = (text: string) => nodeCrypto().createHash('sha256').update(text).digest()

/** An address has so many answers a minute at once; each further one waits. */
const freeTries = 100
const waitMs = 1000
/** More than so many do not wait, of one address and of all: they are refused at once. */
const waitingOfOne = 20
const waitingOfAll = 500
const minuteMs = 60_000
/** Of more addresses than these the oldest are forgotten. */
const maxAddresses = 10_000

interface Tries {
  since: number
  count: number
  waiting: number
}

/**
 * The token is looked at first, so a call with the right one never comes here, and nobody locks anybody else out, behind
 * one proxy either. It follows that no delay keeps a token from being guessed: that takes a token that cannot be, and
 * where others can reach the service one that can is refused at the start. What this saves is work and connections.
 */
export class FailedTries {
  readonly #log: Log
  readonly #clock: Clock
  readonly #addresses = new Map<string, Tries>()
  #waiting = 0

  constructor({ log, clock = systemClock }: { log: Log; clock?: Clock }) {
    this.#log = log
    this.#clock = clock
  }

  /** A 401 at its time, or `rate_limited` in its place, with the end of its connection; any other answer as it is. */
  answer(given: Response, peer: Peer | undefined): Response | Promise<Response> {
    if (given.status !== 401) return given
    given.headers.set('connection', 'close')
    const tries = this.#count(peer?.remoteAddress ?? '')
    if (tries.count <= freeTries) return given
    if (tries.waiting < waitingOfOne && this.#waiting < waitingOfAll) return this.#late(given, tries)
    const retryAfter = (tries.since + minuteMs - this.#clock.monotonic()) / 1000
    const refusal = new SvcError('rate_limited', 'Too many calls of this address have no right token', {
      retryAfter: Math.max(1, Math.ceil(retryAfter)),
      hint: 'Send the right token; calls that do are answered at once.',
    })
    return problemResponse(refusal, { connection: 'close' })
  }

  async #late(given: Response, tries: Tries): Promise<Response> {
    tries.waiting++
    this.#waiting++
    await this.#clock.sleep(waitMs)
    tries.waiting--
    this.#waiting--
    return given
  }

  /** The log hears of an address once a minute, with what came in the minute before. */
  #count(address: string): Tries {
    const now = this.#clock.monotonic()
    const known = this.#addresses.get(address)
    const tries =
      known && now - known.since < minuteMs ? known : { since: now, count: 0, waiting: known?.waiting ?? 0 }
    tries.count++
    if (tries === known) return tries
    this.#log.warn('calls without the right token', { address, calls: known?.count ?? 1 })
    this.#addresses.delete(address)
    this.#addresses.set(address, tries)
    const [oldest] = this.#addresses.keys()
    if (oldest !== undefined && this.#addresses.size > maxAddresses) this.#addresses.delete(oldest)
    return tries
  }
}
