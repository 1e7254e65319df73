/**
 * A service behind a proxy, at a path of its host. Routes see paths without that prefix: if the proxy left it on, it is taken
 * off here. Code that writes an address asks `rootOf` or `prefixOf`.
 */
import { prefixIn } from '../config/values.ts'
import type { Config } from '../config.ts'
import type { Peer } from '../platform/serve.ts'
import { isLoopback } from './auth.ts'

/** How a request reached this service. */
interface Way {
  /** `/svc`, or '' at the root of a host; undefined where a proxy does not tell. */
  readonly prefix: string | undefined
  /** It came by a name that only a proxy in front has. */
  readonly byProxy: boolean
}
const wayKey = Symbol('way')
interface Arrived extends Request {
  [wayKey]?: Way
}

type Fetch = (request: Request, peer: Peer) => Response | Promise<Response>

/** The doors behind a proxy: they see paths without the prefix, whether the proxy took it off or not. */
export function behindProxy(config: Pick<Config, 'host' | 'allowHosts' | 'publicUrl'>, fetch: Fetch): Fetch {
  const { allowHosts, publicUrl } = config
  if (allowHosts.length === 0 && publicUrl === undefined) return fetch
  const address = publicUrl === undefined ? undefined : new URL(publicUrl)
  const configured = address && prefixIn(address.pathname)
  const hostOf = (headers: Headers) => URL.parse(`${address?.protocol ?? 'http:'}//${headers.get('host')}`)
  return (request: Arrived, peer) => {
    const { headers } = request
    const host = hostOf(headers)
    const byProxy = isLoopback(config.host) && !isLoopback(host?.hostname ?? '')
    // Only behind a proxy that --allow-host names is this header believed.
    const header = allowHosts.length > 0 ? headers.get('x-forwarded-prefix') : null
    const told = header === null ? undefined : prefixIn(header)
    const isProxied = byProxy || host?.host === address?.host || cameByProxy(headers)
    // What a header tells was taken off by the proxy that sent it.
    const mayBeLeft = configured && (told === undefined || told === configured)
    if (mayBeLeft && takeOff(request, configured)) request[wayKey] = { byProxy, prefix: configured }
    else {
      // At another host it may lie elsewhere.
      const isThere = host?.hostname === address?.hostname || isLoopback(host?.hostname ?? '')
      request[wayKey] = { byProxy, prefix: told ?? (isProxied ? (isThere ? configured : undefined) : '') }
    }
    return fetch(request, peer)
  }
}

/** @returns whether the path began with the prefix */
function takeOff(request: Request, prefix: string): boolean {
  const { url } = request
  const start = url.indexOf('/', 8)
  const isBelow = url.startsWith(prefix, start) && /^([/?]|$)/.test(url.slice(start + prefix.length))
  if (!isBelow || ownPath.test(prefix)) return false
  const rest = url.slice(start + prefix.length)
  // The request itself stays: the server knows its connection by it.
  Object.defineProperty(request, 'url', {
    value: `${url.slice(0, start)}${rest.startsWith('/') ? '' : '/'}${rest}`,
  })
  return true
}

/** A prefix that begins like a path of svc cannot be told from it: the proxy has to take it off. */
const ownPath =
  /^\/(api|assets|locales|phone|docs|tools|media|outbox|shared|events|users|webhooks|metrics|mcp|sse|messages|conversations|sessions|accounts|settings|sign-in|healthz|openapi\.json|asyncapi\.json)(\/|$)/

/** Where the caller finds the root of this service: a prefix, or '' without one; undefined where a proxy does not tell. */
export const prefixOf = (request: Arrived): string | undefined =>
  request[wayKey] === undefined ? '' : request[wayKey].prefix

/**
 * The root of this service for addresses in the answer to a request, without a slash at its end: `/svc`, or '' without a
 * prefix; relative to the path that was asked for (`.`, `../..`) where a proxy does not tell its own.
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
const cameByProxy = (headers: Headers): boolean => forwardingHeaders.some(name => headers.has(name))

/** Proxies end a request that is silent for a minute (nginx), or for 50 s (HAProxy as it is usually set up). */
const longestWaitBehindProxy = 45

/** The most seconds that the answer to this request may take by itself. */
export const longestWait = (request: Arrived): number | undefined =>
  request[wayKey]?.byProxy || cameByProxy(request.headers) ? longestWaitBehindProxy : undefined

/**
 * Whether the caller speaks TLS with a proxy in front: svc itself speaks plain HTTP. A caller that sends these headers falsely
 * changes nothing but the answer to itself.
 */
export const isBehindTls = ({ headers }: Request): boolean =>
  Boolean(headers.get('origin')?.startsWith('https:')) ||
  /^https\b/i.test(headers.get('x-forwarded-proto') ?? '') ||
  /(^|[;,\s])proto="?https\b/i.test(headers.get('forwarded') ?? '')

/** The same caller. */
export const asArrived = (copy: Arrived, request: Arrived): Request => {
  copy[wayKey] = request[wayKey]
  return copy
}
