/** Paths and methods of an Elysia app: parses requests, and answers those that no route handles. */
import type { Elysia } from 'elysia'
import { SvcError } from '../model/error.ts'
import { tools } from '../operations/tools.ts'
import { withProxyRouteOf } from './behind-proxy.ts'
import { withCallerOf } from './caller.ts'
import { toProblemResponse } from './errors.ts'

/**
 * Returns the path of a URL as it was sent, without the query. The guard and the router see the same path.
 */
export function pathOf(url: string): string {
  const start = url.indexOf('/', url.indexOf('://') + 3)
  if (start < 0) return '/'
  const query = url.indexOf('?', start)
  return query < 0 ? url.slice(start) : url.slice(start, query)
}

/** Parses the query. If a name occurs more than once, the last value counts. */
export function queryOf({ url }: Request): Record<string, string> {
  const at = url.indexOf('?')
  return at < 0 ? {} : Object.fromEntries(new URLSearchParams(url.slice(at + 1)))
}

/**
 * Returns a request that Elysia can route. It searches for the path from the 12th character of the URL, which
 * fails for hosts of up to three letters.
 */
function toRoutable(request: Request): Request {
  const { url } = request
  const start = url.indexOf('/', 8)
  return start < 11
    ? withNotesOf(new Request(`${new URL(url).protocol}//localhost${url.slice(start)}`, request), request)
    : request
}

/** Gives a copy of a request what the layers before noted on the request. @returns the copy */
const withNotesOf = (copy: Request, request: Request): Request =>
  withCallerOf(withProxyRouteOf(copy, request), request)

/** Returns all paths of an app, with `:name` segments, and their methods. */
export function listMethodsByPath(app: Elysia): ReadonlyMap<string, readonly string[]> {
  const byPath = Map.groupBy(app.routes, ({ path }) => path)
  return new Map(
    [...byPath].map(([path, routes]) => {
      const own = routes.map(({ method }) => method.toUpperCase())
      return [path, [...own, ...(own.includes('GET') ? ['HEAD'] : []), 'OPTIONS']]
    }),
  )
}

/** Returns the path of the route for a request's path, with `:name` segments; undefined if there is none. */
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

const allowedMethodsOf = (path: string, methods: ReadonlyMap<string, readonly string[]>) =>
  methods.get(templateOf(path, methods) ?? '')

/** Returns the answer if there is no route: 405 for a known path, 404 for an unknown one. */
export function answerMissing(request: Request, methods: ReadonlyMap<string, readonly string[]>): Response {
  const path = pathOf(request.url)
  const allowed = allowedMethodsOf(path, methods)
  if (allowed)
    return toProblemResponse(new SvcError('method_not_allowed', `This path accepts ${allowed.join(', ')}`), {
      allow: allowed.join(', '),
    })
  const names = [...methods.keys()].flatMap(known => /^\/tools\/default\/(\w+)$/.exec(known)?.[1] ?? [])
  const [, part, name = ''] = /^\/tools\/([^/]*)\/(.*)$/.exec(path) ?? []
  if (part === 'default')
    return toProblemResponse(
      new SvcError('not_found', 'There is no tool of this name', {
        hint: `The tools are ${names.join(', ')}.`,
      }),
    )
  // The caller probably took that part of the path for an account.
  const takes = tools.find(tool => tool.name === name)?.inputSchema.properties ?? {}
  const argument = ['session', 'session_name'].find(key => Object.hasOwn(takes, key))
  const asAccount = `It is /tools/default/${name} for all accounts${argument ? `; name one of them in the argument "${argument}"` : ''}.`
  // A service with few paths has no documentation page.
  const few = methods.has('/docs')
    ? 'See /docs for what exists.'
    : `There is ${[...methods.keys()].join(', ')}.`
  const hint = names.includes(name) ? asAccount : names.length === 0 ? few : undefined
  const what = path.startsWith('/api/call/')
    ? 'There is no call of this name'
    : 'There is nothing at this path'
  return toProblemResponse(new SvcError('not_found', what, { hint }))
}

/** Returns the answer to OPTIONS. */
function answerOptions(path: string, methods: ReadonlyMap<string, readonly string[]>): Response {
  const allowed = allowedMethodsOf(path, methods)
  // No CORS headers: pages of other origins must not call this service.
  return allowed
    ? new Response(null, { status: 204, headers: { allow: allowed.join(', ') } })
    : toProblemResponse(new SvcError('not_found', 'There is nothing at this path'))
}

/** Returns an app's answer to a request that passed the check of callers. */
export function answerByRoute(
  app: Elysia,
  methods: ReadonlyMap<string, readonly string[]>,
  request: Request,
  path: string,
): Response | Promise<Response> {
  if (request.method === 'HEAD') return answerHead(app, request)
  if (request.method === 'OPTIONS') return answerOptions(path, methods)
  return app.fetch(toRoutable(request))
}

/** GET requests that were made for a HEAD. */
const headRequests = new WeakSet<Request>()

/** Whether a GET was made for a HEAD. Its body is not sent, so a route computes only the headers. */
export const isHead = (request: Request): boolean => headRequests.has(request)

/**
 * Answers HEAD with the response to GET. The server sends its headers and Content-Length without the body,
 * and cancels a stream without reading it.
 */
async function answerHead(app: Elysia, request: Request): Promise<Response> {
  const get = toRoutable(
    withNotesOf(new Request(request.url, { headers: request.headers, signal: request.signal }), request),
  )
  headRequests.add(get)
  const answer = await app.fetch(get)
  if (!answer.headers.has('content-length')) return answer
  // Bun 1.4.5 omits the Content-Length of a stream, but sends that of a response without a body.
  await answer.body?.cancel().catch(() => {})
  return new Response(null, { status: answer.status, headers: answer.headers })
}
