/**
 * Support for proxies. What they forward about a caller (address, TLS, prefix) counts only if the connection itself
 * comes from an address of `--trust-proxy`: anybody can send such headers.
 *
 * A proxy may serve svc below a path (prefix) of its host. Routes see paths without the prefix: it is removed
 * here if the proxy did not remove it. Code that writes URLs uses `rootOf` or `prefixOf`.
 */
import { parsePrefix } from '../config/values.ts'
import type { Config } from '../config.ts'
import { firstSegments } from '../model/paths.ts'
import { canonicalAddress, createRangeCheck } from '../platform/address.ts'
import { isLoopback, type Peer } from '../platform/serve.ts'

/** The proxy that a request came through, if any: its path prefix, and whether the Host is the proxy's. */
interface ProxyRoute {
  /** `/svc`, or '' at the root of a host; undefined if a proxy does not send it. */
  readonly prefix: string | undefined
  /** True if the Host is a name that only a proxy has. */
  readonly isProxyHost: boolean
  /** What a trusted proxy says about the caller; undefined if the connection comes from elsewhere. */
  readonly forwarded: Forwarded | undefined
}
interface Forwarded {
  readonly address: string
  readonly isOverTls: boolean
}
/** Key of a `ProxyRoute` on its request. */
const proxyRouteKey = Symbol('way')
/** A request that passed `withoutPrefix`. */
interface RoutedRequest extends Request {
  [proxyRouteKey]?: ProxyRoute
}

type Fetch = (request: Request, peer: Peer) => Response | Promise<Response>

/**
 * Wraps a service so that it sees paths without the prefix, whether the proxy removed it or not, and knows what
 * trusted proxies say about callers.
 */
export function withoutPrefix(
  config: Pick<Config, 'host' | 'allowHosts' | 'publicUrl' | 'trustedProxies'>,
  fetch: Fetch,
): Fetch {
  const { allowHosts, publicUrl, trustedProxies } = config
  if (allowHosts.length + trustedProxies.length === 0 && publicUrl === undefined) return fetch
  const isTrusted = createRangeCheck(trustedProxies)
  const address = publicUrl === undefined ? undefined : new URL(publicUrl)
  const configured = address && parsePrefix(address.pathname)
  const hostOf = (headers: Headers) => URL.parse(`${address?.protocol ?? 'http:'}//${headers.get('host')}`)
  return (request: RoutedRequest, peer) => {
    const { headers } = request
    const host = hostOf(headers)
    const hasProxyHost = isLoopback(config.host) && !isLoopback(host?.hostname ?? '')
    const forwarded = trustedProxies.length > 0 ? readForwarded(headers, peer, isTrusted) : undefined
    const header = forwarded && headers.get('x-forwarded-prefix')
    const sent = header ? parsePrefix(header) : undefined
    const isProxied = hasProxyHost || host?.host === address?.host || (forwarded && isForwarded(headers))
    // A prefix in the header was removed by the proxy that sent it. Only the configured one may still be
    // there.
    const mayBeLeft = configured && (sent === undefined || sent === configured)
    if (mayBeLeft && removePrefix(request, configured))
      request[proxyRouteKey] = { forwarded, isProxyHost: hasProxyHost, prefix: configured }
    else {
      // On another host the prefix may differ.
      const isSameHost = host?.hostname === address?.hostname || isLoopback(host?.hostname ?? '')
      request[proxyRouteKey] = {
        forwarded,
        isProxyHost: hasProxyHost,
        prefix: sent ?? (isProxied ? (isSameHost ? configured : undefined) : ''),
      }
    }
    return fetch(request, peer)
  }
}

/** Whether there seems to be a proxy in front, and none is trusted. */
export const lacksTrustedProxy = (
  config: Pick<Config, 'allowHosts' | 'publicUrl' | 'trustedProxies'>,
): boolean =>
  (config.allowHosts.length > 0 || config.publicUrl !== undefined) && config.trustedProxies.length === 0

/** What the start of a service and doctor say then. */
export const untrustedProxy =
  'without --trust-proxy, all callers behind a proxy have its address, and X-Forwarded-Prefix and -Proto are ignored: name the address of the proxy there, if there is one'

/** Removes the prefix from a request's path. @returns whether the path began with the prefix */
function removePrefix(request: Request, prefix: string): boolean {
  const { url } = request
  const start = url.indexOf('/', 8)
  const isBelow = url.startsWith(prefix, start) && /^([/?]|$)/.test(url.slice(start + prefix.length))
  if (!isBelow || ownPaths.test(prefix)) return false
  const rest = url.slice(start + prefix.length)
  // Change the request in place: the server identifies the connection by this object.
  Object.defineProperty(request, 'url', {
    value: `${url.slice(0, start)}${rest.startsWith('/') ? '' : '/'}${rest}`,
    configurable: true,
  })
  return true
}

/** Paths of svc. A prefix that begins like one of them is ambiguous: the proxy has to remove it. */
const ownPaths = new RegExp(`^/(${firstSegments.join('|').replaceAll('.', '\\.')})(/|$)`)

/** Returns the prefix of this service for a caller, '' without one; undefined if a proxy does not send it. */
export const prefixOf = (request: RoutedRequest): string | undefined =>
  request[proxyRouteKey] === undefined ? '' : request[proxyRouteKey].prefix

/**
 * Returns the root of this service for URLs in the answer to a request, without a slash at the end: `/svc`,
 * or '' without a prefix. If a proxy does not send its prefix, the root is relative to the requested path
 * (`.`, `../..`).
 */
export function rootOf(request: Request): string {
  const depth = new URL(request.url).pathname.split('/').length - 2
  return prefixOf(request) ?? (depth <= 0 ? '.' : Array(depth).fill('..').join('/'))
}

const forwardingHeaders = [
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
  'x-forwarded-prefix',
  'x-forwarded-port',
  'x-forwarded-server',
  'forwarded',
  'via',
  'x-real-ip',
]
const isForwarded = (headers: Headers): boolean => forwardingHeaders.some(name => headers.has(name))

/**
 * Seconds. Proxies end a request without data after a minute (nginx) or 50 s (HAProxy's usual
 * configuration).
 */
const maxProxyWait = 45

/**
 * Whether a proxy passes the request on, as far as it says so, trusted or not. A caller that forges this changes only
 * how long its own calls wait.
 */
export const isProxied = (request: RoutedRequest): boolean =>
  request[proxyRouteKey]?.isProxyHost === true || isForwarded(request.headers)

/** Returns the maximum seconds that a call may wait before its answer; undefined without a proxy. */
export const maxWaitOf = (request: RoutedRequest): number | undefined =>
  isProxied(request) ? maxProxyWait : undefined

/** Maximum proxies that a request may pass. */
const maxHops = 32

/**
 * Reads what the proxies of `--trust-proxy` say about a caller. Each adds the address that called it to the end of
 * X-Forwarded-For (else of Forwarded, RFC 7239): from there back to the first address that is none of theirs, which is
 * the caller's. What is no address ends the reading; everything before it was sent by the caller.
 */
function readForwarded(
  headers: Headers,
  peer: Peer,
  isTrusted: (address: string) => boolean,
): Forwarded | undefined {
  let address = canonicalAddress(peer.remoteAddress ?? '')
  if (address === undefined || !isTrusted(address)) return undefined
  // A proxy that sends one kind of header passes the other kind on as the caller sent it.
  const isRfc7239 = !headers.has('x-forwarded-for') && !headers.has('x-forwarded-proto')
  const listOf = (name: string) =>
    (
      headers
        .get(isRfc7239 ? 'forwarded' : `x-forwarded-${name}`)
        ?.split(',')
        .slice(-maxHops) ?? []
    ).map(step => (isRfc7239 ? new RegExp(`(?:^|;)\\s*${name}=([^;]*)`, 'i').exec(step)?.[1] : step) ?? '')
  let hops = 0
  for (const step of listOf('for').reverse()) {
    const [, bracketed, four, six] = addressForm.exec(step.trim()) ?? []
    const before = canonicalAddress(bracketed ?? four ?? six ?? '')
    if (before === undefined) break
    address = before
    hops++
    if (!isTrusted(address)) break
  }
  const protocols = listOf('proto')
  return { address, isOverTls: /^\s*"?https"?\s*$/i.test(protocols.at(-hops || -1) ?? protocols[0] ?? '') }
}

/** `192.0.2.1:443`, `"[2001:db8::1]:443"`, `2001:db8::1`; an address in brackets, IPv4, or IPv6. */
const addressForm = /^"?(?:\[([\da-f:.]+)\](?::[\w.-]+)?|([\d.]+)(?::[\w.-]+)?|([\da-f:.]+))"?$/i

/** Returns the address of a caller, behind trusted proxies too. Limits, logs and the audit log name callers by it. */
export function addressOf(request: RoutedRequest, peer: Peer | undefined): string | undefined {
  const forwarded = request[proxyRouteKey]?.forwarded
  if (forwarded) return forwarded.address
  const address = peer?.remoteAddress
  return address === undefined ? undefined : (canonicalAddress(address) ?? address)
}

/**
 * Whether the caller uses TLS, to svc itself or to a trusted proxy in front. Only browsers send an Origin; another
 * caller that forges it changes only its own answer.
 */
export const isOverTls = (request: RoutedRequest): boolean =>
  request.url.startsWith('https:') ||
  Boolean(request.headers.get('origin')?.startsWith('https:')) ||
  request[proxyRouteKey]?.forwarded?.isOverTls === true

/** Gives a copy of a request what is known about the request's proxy. @returns the copy */
export const withProxyRouteOf = (copy: RoutedRequest, request: RoutedRequest): Request => {
  copy[proxyRouteKey] = request[proxyRouteKey]
  return copy
}
