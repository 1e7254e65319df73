/** Paths and methods of an Elysia app: what it is asked for, and the answers where it has no route. */
import type { Elysia } from 'elysia'
import { SvcError } from '../model/error.ts'
import { tools } from '../operations/tools.ts'
import { asArrived } from './behind-proxy.ts'
import { problemResponse } from './errors.ts'

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
  // A small door has no page of docs.
  const few = methods.has('/docs')
    ? 'See /docs for what exists.'
    : `There is ${[...methods.keys()].join(', ')}.`
  const hint = names.includes(name) ? asAccount : names.length === 0 ? few : undefined
  const what = path.startsWith('/api/call/')
    ? 'There is no call of this name'
    : 'There is nothing at this path'
  return problemResponse(new SvcError('not_found', what, { hint }))
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
