/** About the service itself: health, the docs page and the OpenAPI document. */
import type { Elysia } from 'elysia'
import type { JsonSchema } from '../tools/schema.ts'
import { createDocs, docsPaths, type Prepared, prepare, respond } from './docs.ts'
import type { DocumentOptions } from './document.ts'
import { declared, jsonAnswer, noted, type RouteContext } from './route.ts'

/** What anybody may read who passes the Host and Origin check, with a token required or not. */
export const openPaths: ReadonlySet<string> = new Set([
  '/',
  '/docs/',
  '/healthz',
  '/openapi.json',
  ...docsPaths,
])

const encoded = (text: string) => new TextEncoder().encode(text)

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
  let prepared: Promise<Prepared> | undefined
  const hidden = { detail: { hide: true } }
  app.get(
    '/openapi.json',
    async ({ request }) => {
      prepared ??= document().then(value => prepare(encoded(JSON.stringify(value)), 'application/json'))
      return respond(request, await prepared, "default-src 'none'")
    },
    hidden,
  )
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
  for (const path of ['/', '/docs/'])
    app.get(path, () => new Response(null, { status: 302, headers: { location: '/docs' } }), {
      detail: { hide: true },
    })
  addHealthRoute(app, context)
  return document
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
      response: { 200: declared(health), 503: declared(health) },
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

const health: JsonSchema = {
  type: 'object',
  description: 'How the service is.',
  required: ['status', 'version', 'role', 'stalled', 'sessions', 'connected', 'store', 'disk'],
  properties: {
    status: {
      type: 'string',
      enum: ['ok', 'degraded'],
      description:
        'degraded: the store fails, the poller is stalled, the disk is nearly full, or an account is not connected or its polls fail.',
    },
    version: { type: 'string' },
    role: {
      type: 'string',
      enum: ['poller', 'watcher'],
      description: 'watcher: another process polls, this one follows the store.',
    },
    stalled: {
      type: 'boolean',
      description: 'Of a watcher: the polling process keeps its lock and shows no life.',
    },
    sessions: { type: 'integer' },
    connected: { type: 'integer' },
    failing: {
      type: 'integer',
      description: 'Of how many accounts the polls have failed for 30 s or more; absent when of none.',
    },
    store: { type: 'string', enum: ['ok', 'unavailable'] },
    disk: {
      type: 'string',
      enum: ['ok', 'low'],
      description:
        'low: less is free than is kept for messages. Uploads and downloads are refused; messages are still stored.',
    },
    trouble: {
      type: 'object',
      description: 'Only with a store that is unavailable: what is wrong and what to do.',
      required: ['message', 'hint'],
      properties: { message: { type: 'string' }, hint: { type: 'string' } },
    },
  },
}
