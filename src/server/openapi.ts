/**
 * The REST door: the nine tools, media, the outbox, docs. An Elysia app declares a route per tool from the tool's own schemas, and
 * the OpenAPI document is generated from those routes. Every failure leaves as problem+json.
 */
import { Elysia } from 'elysia'
import type { Config } from '../config.ts'
import type { Gateway } from '../gateway/face.ts'
import { SvcError } from '../model/error.ts'
import type { Log } from '../platform/log.ts'
import type { Tool } from '../tools/index.ts'
import { createGuard } from './auth.ts'
import { problemResponse } from './errors.ts'
import { Waiting } from './http-call.ts'
import { addMediaRoutes } from './media-routes.ts'
import { addOutboxRoutes } from './outbox-routes.ts'
import { failed } from './route.ts'
import { addServiceRoutes, openPaths } from './service-routes.ts'
import { addToolRoutes } from './tool-routes.ts'

export interface OpenApiOptions {
  gateway: Gateway
  config: Pick<Config, 'host' | 'token' | 'allowHosts' | 'maxUploadBytes'>
  tools: readonly Tool[]
  log: Log
  version: string
}

/** The door, as `platform/serve.ts` serves it. */
export interface OpenApiApp {
  /** Never throws. */
  fetch(request: Request): Response | Promise<Response>
  /** Refuses new calls and ends the waits of running ones; their answers are still written. */
  beginShutdown(): void
  /** The OpenAPI document, for whoever wants it without a request. */
  document(): Promise<Record<string, unknown>>
}

/** @throws Error when the address is open to others and there is no token */
export function createOpenApiApp(options: OpenApiOptions): OpenApiApp {
  const guard = createGuard(options.config)
  const context = {
    gateway: options.gateway,
    log: options.log.child('rest'),
    waiting: new Waiting(),
  }
  const app: Elysia = new Elysia({ normalize: false, strictPath: true })
  // Before the routes, since a hook holds for what comes after it. Routes answer their own failures: what arrives here is
  // a path or method that no route has, or a fault of Elysia.
  app.onError(({ code, error, request }) =>
    code === 'NOT_FOUND' ? absent(request, methods) : failed(error, context),
  )
  addToolRoutes(app, options.tools, context)
  addMediaRoutes(app, context, options.config.maxUploadBytes)
  addOutboxRoutes(app, context)
  const document = addServiceRoutes(app, context, {
    version: options.version,
    tokenRequired: guard.tokenRequired,
  })
  const methods = methodsByPath(app)
  return {
    document,
    beginShutdown: () => context.waiting.stop(),
    fetch(request) {
      const path = pathOf(request.url)
      const open = openPaths.has(path)
      const refusal = guard.refusal(request, open) ?? (open ? undefined : context.waiting.stopped)
      if (refusal) return problemResponse(refusal)
      switch (request.method) {
        case 'HEAD':
          return headOf(app, request)
        case 'OPTIONS':
          return optionsOf(path, methods)
        default:
          return app.fetch(routable(request, path))
      }
    },
  }
}

/** The path as it was sent, without query: what both the guard and the router see. */
function pathOf(url: string): string {
  const start = url.indexOf('/', url.indexOf('://') + 3)
  if (start < 0) return '/'
  const query = url.indexOf('?', start)
  return query < 0 ? url.slice(start) : url.slice(start, query)
}

/** Elysia looks for the path from the 12th character of the address, which hosts of up to three letters break. */
function routable(request: Request, path: string): Request {
  const { url } = request
  return url.indexOf('/', 11) === url.indexOf(path, url.indexOf('://') + 3)
    ? request
    : new Request(`http://localhost${url.slice(url.indexOf('/', url.indexOf('://') + 3))}`, request)
}

/** Paths with `:name` segments → their methods. */
function methodsByPath(app: Elysia): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>()
  for (const route of app.routes)
    found.set(route.path, [...(found.get(route.path) ?? []), route.method.toUpperCase()])
  for (const list of found.values()) {
    if (list.includes('GET')) list.push('HEAD')
    list.push('OPTIONS')
  }
  return found
}

function allowedAt(
  path: string,
  methods: ReadonlyMap<string, readonly string[]>,
): readonly string[] | undefined {
  const exact = methods.get(path)
  if (exact) return exact
  if (/^\/media\/[^/]+\/[^/]+$/.test(path)) return methods.get('/media/:message_id/:item')
  return /^\/outbox\/[^/]+$/.test(path) ? methods.get('/outbox/:id') : undefined
}

function absent(request: Request, methods: ReadonlyMap<string, readonly string[]>): Response {
  const path = pathOf(request.url)
  const allowed = allowedAt(path, methods)
  if (allowed)
    return problemResponse(
      new SvcError('method_not_allowed', `This path takes ${allowed.join(', ')}, not the method sent`),
      { allow: allowed.join(', ') },
    )
  const isTool = path.startsWith('/tools/default/')
  const names = [...methods.keys()].flatMap(known => /^\/tools\/default\/(\w+)$/.exec(known)?.[1] ?? [])
  return problemResponse(
    isTool
      ? new SvcError('not_found', 'There is no tool of this name', {
          hint: `The tools are ${names.join(', ')}.`,
        })
      : new SvcError('not_found', 'There is nothing at this path'),
  )
}

function optionsOf(path: string, methods: ReadonlyMap<string, readonly string[]>): Response {
  const allowed = allowedAt(path, methods)
  // No CORS headers: pages of other origins are not to call this service.
  return allowed
    ? new Response(null, { status: 204, headers: { allow: allowed.join(', ') } })
    : problemResponse(new SvcError('not_found', 'There is nothing at this path'))
}

/** What GET would answer, without the body. */
async function headOf(app: Elysia, request: Request): Promise<Response> {
  const path = pathOf(request.url)
  const get = new Request(request.url, { headers: request.headers, signal: request.signal })
  const { status, headers, body } = await app.fetch(routable(get, path))
  await body?.cancel().catch(() => {})
  return new Response(null, { status, headers })
}
