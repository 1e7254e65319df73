/** About the service itself: health, the docs page and the OpenAPI document. */
import type { Elysia } from 'elysia'
import { Health } from '../gateway/health.ts'
import { metricsType } from '../platform/metrics.ts'
import { asyncApiDocument } from './asyncapi.ts'
import { rootOf } from './behind-proxy.ts'
import { createDocs, docsPaths, type Prepared, prepare, respond } from './docs.ts'
import type { DocumentOptions } from './document.ts'
import { declared, jsonAnswer, noted, type RouteContext } from './route.ts'

/** What anybody may read who passes the Host and Origin check, with a token required or not. */
export const openPaths: ReadonlySet<string> = new Set([
  '/',
  '/docs/',
  '/healthz',
  '/openapi.json',
  '/asyncapi.json',
  ...docsPaths,
])

const hidden = { detail: { hide: true } }

/** Adds GET of a JSON document, which is made once, when it is first asked for. */
function addDocument(app: Elysia, path: string, made: () => object | Promise<object>): void {
  let prepared: Promise<Prepared> | undefined
  const serve = async ({ request }: { request: Request }) => {
    prepared ??= Promise.resolve(made()).then(prepareJson)
    return respond(request, await prepared, "default-src 'none'")
  }
  app.get(path, serve, hidden)
}

const prepareJson = (document: object) => prepare(JSON.stringify(document), 'application/json')

/**
 * Adds GET `/openapi.json` and the docs page.
 *
 * @returns the OpenAPI document of all routes that `app` has when it is first asked for
 */
export function addDocsRoutes(app: Elysia, options: DocumentOptions): () => Promise<Record<string, unknown>> {
  const document = async () => {
    // Loaded at the first look: a service that nobody reads about starts without the generator.
    const { createDocument } = await import('./document.ts')
    return createDocument(app, options)
  }
  addDocument(app, '/openapi.json', document)
  const docs = createDocs()
  for (const path of docsPaths) app.get(path, ({ request }) => docs(request, path), hidden)
  return document
}

/** Adds GET `/`, `/healthz` and the docs. @returns as `addDocsRoutes` */
export function addServiceRoutes(
  app: Elysia,
  context: RouteContext,
  options: DocumentOptions,
): () => Promise<Record<string, unknown>> {
  const document = addDocsRoutes(app, options)
  addDocument(app, '/asyncapi.json', () => asyncApiDocument(options))
  const toDocs = ({ request }: { request: Request }) =>
    new Response(null, { status: 302, headers: { location: `${rootOf(request)}/docs` } })
  for (const path of ['/', '/docs/']) app.get(path, toDocs, hidden)
  addHealthRoute(app, context)
  addMetricsRoute(app, context)
  return document
}

/** Adds GET `/metrics`, for Prometheus. */
export function addMetricsRoute(app: Elysia, { gateway }: RouteContext): void {
  const headers = { 'content-type': metricsType, 'cache-control': 'no-store' }
  app.get('/metrics', async () => new Response(await gateway.metrics.text(), { headers }), hidden)
}

/** Adds GET `/healthz`. */
export function addHealthRoute(app: Elysia, context: RouteContext): void {
  app.get(
    '/healthz',
    async () => {
      const health = await context.gateway.health()
      // An expired account is for people to mend; restarting the service, as 503 makes others do, would not help.
      return new Response(JSON.stringify(health), {
        ...jsonAnswer,
        status: health.store === 'ok' ? 200 : 503,
      })
    },
    {
      response: { 200: declared(Health), 503: declared(Health) },
      detail: {
        operationId: 'health',
        summary: 'Health',
        description: '200 while the service works; 503 with the same body while the message store fails.',
        tags: ['service'],
        ...noted({ errors: ['forbidden'], open: true }),
      },
    },
  )
}
