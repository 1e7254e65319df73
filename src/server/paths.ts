/**
 * Paths and methods of an Elysia app: what it is asked for, and the answers where it has no route. And the path below which
 * a proxy serves svc: it is taken off where a request arrives, and `rootOf` gives it to whatever writes an address.
 */
import type { Elysia } from 'elysia'
import { prefixIn } from '../config/values.ts'
import type { Config } from '../config.ts'
import { SvcError } from '../model/error.ts'
import type { Peer } from '../platform/serve.ts'
import { tools } from '../tools/index.ts'
import { isLoopback } from './auth.ts'
import { problemResponse } from './errors.ts'

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
    const prefix = told ?? configured
    const isProxied = byProxy || host?.host === address?.host || cameByProxy(headers)
    if (prefix && takeOff(request, prefix)) request[wayKey] = { byProxy, prefix }
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
  /^\/(api|assets|locales|phone|docs|tools|media|outbox|shared|events|users|webhooks|metrics|mcp|sse|messages|conversations|sessions|accounts|settings|sign-in)(\/|$)/

/** Where the caller finds the root of this service: a prefix, or '' without one; undefined where a proxy does not tell. */
export const prefixOf = (request: Arrived): string | undefined =>
  request[wayKey] === undefined ? '' : request[wayKey].prefix

/**
 * The root of this service for addresses in the answer to a request, without a slash at its end: `/svc`, or '' without a
 * prefix; relative to the path that was asked for (`.`, `../..`) where a proxy does not tell its own.
 */
export function rootOf(request: Request): string {
  const depth = pathOf(request.url).split('/').length - 2
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
 * Whether the caller speaks TLS with a proxy in front: we ourselves speak plain HTTP. Whoever lies about it harms the own
 * answer alone.
 */
export const isBehindTls = ({ headers }: Request): boolean =>
  Boolean(headers.get('origin')?.startsWith('https:')) ||
  /^https\b/i.test(headers.get('x-forwarded-proto') ?? '') ||
  /(^|[;,\s])proto="?https\b/i.test(headers.get('forwarded') ?? '')

/** The path as it was sent, without query: what both the guard and the router see. */
export function pathOf(url: string): string {
  const start = url.indexOf('/', url.indexOf('://') + 3)
  if (start < 0) return '/'
  const query = url.indexOf('?', start)
  return query < 0 ? url.slice(start) : url.slice(start, query)
}

/** What the query says, each name once. */
export function queryOf({ url }: Request): Record<string, string> {
  const at = url.indexOf('?')
  return at < 0 ? {} : Object.fromEntries(new URLSearchParams(url.slice(at + 1)))
}

/** The same caller. */
const asArrived = (copy: Arrived, request: Arrived): Request => {
  copy[wayKey] = request[wayKey]
  return copy
}

/** Elysia looks for the path from the 12th character of the address, which hosts of up to three letters break. */
function routable(request: Request): Request {
  const { url } = request
  const start = url.indexOf('/', 8)
  return start < 11
    ? asArrived(new Request(`http://localhost${url.slice(start)}`, request), request)
    : request
}

/** Paths with `:name` segments → their methods. */
export function methodsByPath(app: Elysia): ReadonlyMap<string, readonly string[]> {
  const byPath = Map.groupBy(app.routes, ({ path }) => path)
  return new Map(
    [...byPath].map(([path, routes]) => {
      const own = routes.map(({ method }) => method.toUpperCase())
      return [path, [...own, ...(own.includes('GET') ? ['HEAD'] : []), 'OPTIONS']]
    }),
  )
}

/** The path of the route that has it, with `:name` where its parts vary. */
export function templateOf(
  path: string,
  methods: ReadonlyMap<string, readonly string[]>,
): string | undefined {
  if (methods.has(path)) return path
  const segments = path.split('/')
  const matches = (pattern: string) => {
    const parts = pattern.split('/')
    return (
      parts.length === segments.length &&
      parts.every((part, index) => (part.startsWith(':') ? segments[index] !== '' : part === segments[index]))
    )
  }
  return [...methods.keys()].find(matches)
}

const allowedAt = (path: string, methods: ReadonlyMap<string, readonly string[]>) =>
  methods.get(templateOf(path, methods) ?? '')

/** The answer where no route is: 405 for a path that is known, 404 for one that is not. */
export function absent(request: Request, methods: ReadonlyMap<string, readonly string[]>): Response {
  const path = pathOf(request.url)
  const allowed = allowedAt(path, methods)
  if (allowed)
    return problemResponse(
      new SvcError('method_not_allowed', `This path takes ${allowed.join(', ')}, not the method sent`),
      { allow: allowed.join(', ') },
    )
  const names = [...methods.keys()].flatMap(known => /^\/tools\/default\/(\w+)$/.exec(known)?.[1] ?? [])
  const [, part, name = ''] = /^\/tools\/([^/]*)\/(.*)$/.exec(path) ?? []
  if (part === 'default')
    return problemResponse(
      new SvcError('not_found', 'There is no tool of this name', {
        hint: `The tools are ${names.join(', ')}.`,
      }),
    )
  // As if that part of the path were an account.
  const takes = tools.find(tool => tool.name === name)?.inputSchema.properties ?? {}
  const argument = ['session', 'session_name'].find(key => Object.hasOwn(takes, key))
  const asAccount = `It is /tools/default/${name} for all accounts${argument ? `; name one of them in the argument "${argument}"` : ''}.`
  const few = `There is ${[...methods.keys()].join(', ')}.`
  const hint = names.includes(name) ? asAccount : names.length === 0 ? few : undefined
  return problemResponse(new SvcError('not_found', 'There is nothing at this path', { hint }))
}

/** What OPTIONS is answered with. */
function optionsOf(path: string, methods: ReadonlyMap<string, readonly string[]>): Response {
  const allowed = allowedAt(path, methods)
  // No CORS headers: pages of other origins are not to call this service.
  return allowed
    ? new Response(null, { status: 204, headers: { allow: allowed.join(', ') } })
    : problemResponse(new SvcError('not_found', 'There is nothing at this path'))
}

/** The answer of an app to a call that was let in. */
export function answerOf(
  app: Elysia,
  methods: ReadonlyMap<string, readonly string[]>,
  request: Request,
  path: string,
): Response | Promise<Response> {
  if (request.method === 'HEAD') return headOf(app, request)
  if (request.method === 'OPTIONS') return optionsOf(path, methods)
  return app.fetch(routable(request))
}

/** GET requests that answer a HEAD. */
const heads = new WeakSet<Request>()

/** Whether this GET answers a HEAD: nobody reads its body, so a route does only what its headers need. */
export const isHead = (request: Request): boolean => heads.has(request)

/** The answer of GET. The server sends its headers and Content-Length without the body, and cancels a stream unread. */
async function headOf(app: Elysia, request: Request): Promise<Response> {
  const get = routable(
    asArrived(new Request(request.url, { headers: request.headers, signal: request.signal }), request),
  )
  heads.add(get)
  const answer = await app.fetch(get)
  if (!answer.headers.has('content-length')) return answer
  // Bun 1.4.5 leaves out the Content-Length of a stream, and sends the header of an answer without a body.
  await answer.body?.cancel().catch(() => {})
  return new Response(null, { status: answer.status, headers: answer.headers })
}
