/**
 * Authentication: the check in front of every HTTP service. It answers who calls.
 *
 * A service on a loopback address trusts the local user, but not the web pages in that user's browser. The
 * Host must be a loopback name, so a page that rebinds its own name to 127.0.0.1 fails. Requests of foreign
 * pages are denied, since a page may send simple requests anywhere. On any other address, and behind a proxy
 * (--allow-host), a bearer token is required: the master token, or a key. From the first key on, that holds on
 * loopback too. A token that a caller gives has to be right everywhere. There is no CORS. Calls without a right token are slowed down per address and logged.
 */
import type { Keys } from '../access/keys.ts'
import { hashOf, hasKeyForm, isSameHash } from '../access/secret.ts'
import { SvcError } from '../model/error.ts'
import { anyCaller, owner, type Principal } from '../model/principal.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import { isLoopback } from '../platform/serve.ts'
import { ensureToken, listNextTokens, readStoredToken } from './token.ts'

/** Options of the check. */
export interface GuardOptions {
  /** The address that the service is bound to. */
  host: string
  /** The master token; required if others can reach the service, see `isExposed`. */
  token?: string
  /** Host names that a proxy in front uses: `svc.example.org`, or `svc.example.org:8443`. */
  allowHosts?: readonly string[]
  /**
   * The data directory. From the first key on, the master token of its file is valid if `token` is absent. The
   * file is made if there is none.
   */
  basePath?: string
  /** Its secret key, and the address of its store on PostgreSQL, if it has them. */
  secretKey?: string | undefined
  newSecretKey?: string | undefined
  storeUrl?: string | undefined
  /** True on a Unix socket: only this user can open it, so keys do not close it. */
  isSocket?: boolean
  keys: Pick<Keys, 'hasAny' | 'tokenlessOwner' | 'authenticate'>
  /** Default: the system's clock. */
  clock?: Clock
}

/** The check of requests. */
export interface Guard {
  /**
   * Returns who makes a request, or why it is denied. The answer is no promise for a key in use, nor for the
   * owner while there are no keys.
   *
   * @param open true for paths that need no token, only the Host and Origin check: docs, schema, health
   * @param address returns the address of the caller, to be stored with the use of a key
   * @param given the token of the caller; by default the one in the Authorization header
   */
  identify(
    request: Request,
    open: boolean,
    address?: () => string | undefined,
    given?: string,
  ): Identity | Promise<Identity>
  /** Returns why the Host or the page of a request is denied; undefined if both are allowed. `open` as above. */
  hostDenialOf(request: Request, open: boolean): SvcError | undefined
  /**
   * Returns why the page that makes a request is denied, on every bound address. For services that browsers
   * use with a cookie. Undefined for our own pages and for callers other than browsers.
   */
  pageDenialOf(request: Request, open: boolean): SvcError | undefined
  /** Whether callers need a token now. */
  needsToken(): boolean | Promise<boolean>
}

/** Who makes a request, or why it is denied. */
export type Identity = Principal | SvcError

/** Answers when it is known who calls: at once, if that is known at once. */
export const withIdentity = <T>(
  identity: Identity | Promise<Identity>,
  answer: (identity: Identity) => T | Promise<T>,
): T | Promise<T> => (identity instanceof Promise ? identity.then(answer) : answer(identity))

/**
 * Creates the check.
 *
 * @throws Error if others can reach the service and there is no token: a bug in the program
 */
export function createGuard(options: GuardOptions): Guard {
  const { host: boundHost, isSocket, keys, clock = systemClock } = options
  const local = isLoopback(boundHost)
  if (isExposed(options) && !options.token) throw new Error(`listening on ${boundHost} needs a token`)
  const tokens = options.token ? [options.token, ...listNextTokens(options, options.token)] : []
  const tokenHashes = tokens.map(hashOf)
  const allowed = new Set((options.allowHosts ?? []).map(name => name.trim().toLowerCase()).filter(Boolean))
  // Compare the name in the Host, which a page can rebind. Proxies pass it with or without the port.
  const isOwnHost = (host: string) =>
    isLoopback(hostName(host)) || allowed.has(host) || allowed.has(hostName(host))
  // A client sends the same Host each time: the last one that passed is not checked again.
  let lastHost: string | null = null
  const pageDenialOf: Guard['pageDenialOf'] = ({ headers, url }, open) => {
    const origin = headers.get('origin')
    const host = headers.get('host')?.toLowerCase() ?? ''
    if (origin !== null && !isOwnOrigin(origin, host, url, allowed)) return foreignOriginError(origin, host)
    // Only browsers send this header. Any page may link to the docs; only our own pages may request the rest.
    const site = open ? null : headers.get('sec-fetch-site')
    return site !== null && site !== 'same-origin' && site !== 'none' ? foreignOriginError() : undefined
  }
  const hostDenialOf: Guard['hostDenialOf'] = (request, open) => {
    if (!local) return undefined
    const host = request.headers.get('host')
    if (host === null || (host !== lastHost && !isOwnHost(host.toLowerCase()))) return foreignHostError()
    lastHost = host
    return pageDenialOf(request, open)
  }
  const readMasterHash = createMasterReader(options, clock)
  const identifyByFile = async (token: string | undefined, hasKeys: boolean): Promise<Identity> => {
    const hash = await readMasterHash(hasKeys)
    if (token === undefined) return noTokenError()
    return hash !== undefined && isSameHash(hashOf(token), hash) ? owner : wrongTokenError()
  }

  const needsToken = () => tokens.length > 0 || (!isSocket && keys.hasAny())

  return {
    needsToken,
    hostDenialOf,
    pageDenialOf,
    identify(request, open, address, token = givenTokenOf(request)) {
      const denial = hostDenialOf(request, open)
      if (denial) return denial
      if (open) return anyCaller
      if (token !== undefined) {
        if (tokenHashes.some(hash => isSameHash(hashOf(token), hash))) return owner
        if (hasKeyForm(token)) {
          const by = keys.authenticate(token, address)
          if (by instanceof Promise) return orUnreadable(by.then(found => found ?? wrongTokenError()))
          return by ?? wrongTokenError()
        }
      }
      if (tokens.length > 0) return token === undefined ? noTokenError() : wrongTokenError()
      // A token that was given is right or wrong, also where none is needed.
      if (isSocket && token === undefined) return owner
      const judge = (hasKeys: boolean) =>
        hasKeys || token !== undefined ? orUnreadable(identifyByFile(token, hasKeys)) : keys.tokenlessOwner
      const closed = needsToken()
      return closed instanceof Promise ? orUnreadable(closed.then(judge)) : judge(closed)
    },
  }
}

/** Returns an identity; an error if the keys cannot be read. */
const orUnreadable = (identity: Promise<Identity>): Promise<Identity> =>
  identity.catch((error: unknown) =>
    error instanceof SvcError
      ? error
      : new SvcError('store_unavailable', 'The keys cannot be read', { cause: error }),
  )

/** The master token may be replaced while the service runs. Its file is read at most this often. */
const readMasterEveryMs = 1000

/**
 * Returns a function that returns the hash of the master token of a data directory, if there is one. If there are keys,
 * it makes a missing one: else the owner would have no token after the first key.
 */
function createMasterReader(
  { basePath, secretKey, storeUrl }: Pick<GuardOptions, 'basePath' | 'secretKey' | 'storeUrl'>,
  clock: Clock,
): (hasKeys: boolean) => Promise<string | undefined> {
  let last: Promise<string | undefined> | undefined
  let readAt = 0
  let hadKeys = false
  const read = async (hasKeys: boolean) => {
    if (basePath === undefined) return undefined
    const directory = { basePath, secretKey, storeUrl }
    const token = hasKeys ? (await ensureToken(directory)).token : await readStoredToken(directory)
    return token === undefined ? undefined : hashOf(token)
  }
  return hasKeys => {
    const now = clock.monotonic()
    if (last === undefined || hasKeys !== hadKeys || now - readAt >= readMasterEveryMs) {
      readAt = now
      hadKeys = hasKeys
      last = read(hasKeys)
    }
    return last
  }
}

const noTokenError = () =>
  new SvcError('unauthorized', 'This service needs a token in the Authorization header')
const wrongTokenError = () => new SvcError('unauthorized', 'The token is wrong, or was revoked')

const foreignHostError = () =>
  new SvcError('forbidden', 'The Host header names neither this machine nor an allowed host', {
    hint: 'Call it as localhost or 127.0.0.1. Behind a proxy, start svc with --allow-host <name>.',
  })
/**
 * Creates the error for a page of another origin. If only the port differs from the Host, the page is
 * probably our own, behind a proxy that drops the port; the error then says so.
 */
function foreignOriginError(origin = '', host = ''): SvcError {
  const page = URL.parse(origin)
  if (page?.hostname && page.hostname === hostName(host))
    return new SvcError(
      'forbidden',
      `The page at ${page.protocol}//${page.host} may not call this service: the Host header of its request is ${host}`,
      {
        hint: `If a proxy serves that page for svc, configure it to pass the Host with its port (nginx: proxy_set_header Host $http_host), and start svc with --allow-host ${page.host}.`,
      },
    )
  return new SvcError('forbidden', 'Web pages of other origins may not call this service', {
    hint: 'Call it from a program, from its own /docs, or start svc with --allow-host <name>, or <name>:<port>, for a page behind a proxy.',
  })
}

/**
 * Whether an Origin is our own: the address that the request went to, or a host of --allow-host, with the
 * port given there, else with the default port of http or https. Other programs may serve pages on other
 * ports of that host. The Origin `null` is never ours.
 *
 * @param target the URL of the request, which begins with https if svc serves TLS itself
 */
function isOwnOrigin(origin: string, host: string, target: string, allowed: ReadonlySet<string>): boolean {
  const url = URL.parse(origin)
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') return false
  if (target.startsWith(`${url.protocol}//`) && url.host === URL.parse(`${url.protocol}//${host}`)?.host)
    return true
  const defaultPort = url.protocol === 'https:' ? 443 : 80
  return allowed.has(url.host) || (url.port === '' && allowed.has(`${url.host}:${defaultPort}`))
}

/** Returns the name in a Host header, without the port: `[::1]:80` → `[::1]`. */
function hostName(host: string): string {
  const end = host.lastIndexOf(':')
  return end > host.lastIndexOf(']') ? host.slice(0, end) : host
}

/** Whether other machines can reach a service: by its address, or through a proxy. */
export const isExposed = ({ host, allowHosts = [] }: Pick<GuardOptions, 'host' | 'allowHosts'>): boolean =>
  !isLoopback(host) || allowHosts.length > 0

/**
 * Returns the value of a request's Authorization header; undefined if there is none. A scheme with nothing behind it
 * counts as none: pages such as `/docs` send it if the user has typed no token.
 */
export function authorizationOf({ headers }: Request): string | undefined {
  const header = headers.get('authorization')?.trim()
  return header === undefined || /^(bearer|basic)$/i.test(header) ? undefined : header
}

/** Returns the token that a caller gave: '', which is never right, for a header that has no single token. */
export function givenTokenOf(request: Request): string | undefined {
  const header = authorizationOf(request)
  return header && (/^bearer +([^\s,]+)$/i.exec(header)?.[1] ?? '')
}

/** Compares two tokens in constant time: hashes reveal neither the length nor the position of a difference. */
export const isSameToken = (given: string, token: string): boolean => isSameHash(hashOf(given), hashOf(token))
