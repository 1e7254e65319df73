/**
 * Support for proxies that serve svc below a path (prefix) of their host. Routes see paths without the
 * prefix: it is removed here if the proxy did not remove it. Code that writes URLs uses `rootOf` or
 * `prefixOf`.
 */
import { isIP } from 'node:net'
import { parsePrefix } from '../config/values.ts'
import type { Config } from '../config.ts'
import { isLoopback, type Peer } from '../platform/serve.ts'

/** The proxy that a request came through, if any: its path prefix, and whether the Host is the proxy's. */
interface ProxyRoute {
  /** `/svc`, or '' at the root of a host; undefined if a proxy does not send it. */
  readonly prefix: string | undefined
  /** True if the Host is a name that only a proxy has. */
  readonly isProxyHost: boolean
}
/** Key of a `ProxyRoute` on its request. */
const proxyRouteKey = Symbol('way')
/** A request that passed `withoutPrefix`. */
interface RoutedRequest extends Request {
  [proxyRouteKey]?: ProxyRoute
}

type Fetch = (request: Request, peer: Peer) => Response | Promise<Response>

/** Wraps a service so that it sees paths without the prefix, whether the proxy removed it or not. */
export function withoutPrefix(
  config: Pick<Config, 'host' | 'allowHosts' | 'publicUrl'>,
  fetch: Fetch,
): Fetch {
  const { allowHosts, publicUrl } = config
  if (allowHosts.length === 0 && publicUrl === undefined) return fetch
  const address = publicUrl === undefined ? undefined : new URL(publicUrl)
  const configured = address && parsePrefix(address.pathname)
  const hostOf = (headers: Headers) => URL.parse(`${address?.protocol ?? 'http:'}//${headers.get('host')}`)
  return (request: RoutedRequest, peer) => {
    const { headers } = request
    const host = hostOf(headers)
    const hasProxyHost = isLoopback(config.host) && !isLoopback(host?.hostname ?? '')
    // Trust this header only with --allow-host.
    const header = allowHosts.length > 0 ? headers.get('x-forwarded-prefix') : null
    const sent = header === null ? undefined : parsePrefix(header)
    const isProxied = hasProxyHost || host?.host === address?.host || isForwarded(headers)
    // A prefix in the header was removed by the proxy that sent it. Only the configured one may still be
    // there.
    const mayBeLeft = configured && (sent === undefined || sent === configured)
    if (mayBeLeft && removePrefix(request, configured))
      request[proxyRouteKey] = { isProxyHost: hasProxyHost, prefix: configured }
    else {
      // On another host the prefix may differ.
      const isSameHost = host?.hostname === address?.hostname || isLoopback(host?.hostname ?? '')
      request[proxyRouteKey] = {
        isProxyHost: hasProxyHost,
        prefix: sent ?? (isProxied ? (isSameHost ? configured : undefined) : ''),
      }
    }
    return fetch(request, peer)
  }
}

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
  })
  return true
}

/** Paths of svc. A prefix that begins like one of them is ambiguous: the proxy has to remove it. */
const ownPaths =
  /^\/(api|assets|locales|phone|docs|tools|media|outbox|shared|events|users|webhooks|keys|agents|me|audit|export|forget|backups?|metrics|nodes|mcp|sse|messages|conversations|sessions|accounts|settings|sign-in|healthz|openapi\.json|asyncapi\.json)(\/|$)/

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

/** Whether a proxy passes the request on, as far as it says so. */
export const isProxied = (request: RoutedRequest): boolean =>
  request[proxyRouteKey]?.isProxyHost === true || isForwarded(request.headers)

/** Returns the maximum seconds that a call may wait before its answer; undefined without a proxy. */
export const maxWaitOf = (request: RoutedRequest): number | undefined =>
  isProxied(request) ? maxProxyWait : undefined

/**
 * Returns the address of a caller. A proxy of --allow-host, through which the Host came, says it in the last
 * entry of X-Forwarded-For; any other caller could forge that header.
 */
export function addressOf(request: RoutedRequest, peer: Peer | undefined): string | undefined {
  const header = request[proxyRouteKey]?.isProxyHost ? request.headers.get('x-forwarded-for') : null
  const forwarded = header?.split(',').at(-1)?.trim() ?? ''
  return isIP(forwarded) ? forwarded : peer?.remoteAddress
}

/**
 * Whether the caller uses TLS, to svc itself or to a proxy in front. A caller that forges these headers
 * changes only its own answer.
 */
export const isOverTls = ({ headers, url }: Request): boolean =>
  url.startsWith('https:') ||
  Boolean(headers.get('origin')?.startsWith('https:')) ||
  /^https\b/i.test(headers.get('x-forwarded-proto') ?? '') ||
  /(^|[;,\s])proto="?https\b/i.test(headers.get('forwarded') ?? '')

/** Gives a copy of a request what is known about the request's proxy. @returns the copy */
export const withProxyRouteOf = (copy: RoutedRequest, request: RoutedRequest): Request => {
  copy[proxyRouteKey] = request[proxyRouteKey]
  return copy
}
