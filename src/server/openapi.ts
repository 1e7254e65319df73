/**
 * The REST door: the nine tools, media, the outbox, docs. An Elysia app declares a route per tool from the tool's own schemas, and
 * the OpenAPI document is generated from those routes. Every failure leaves as problem+json.
 */

import { Elysia } from 'elysia'
import type { Config } from '../config.ts'
import type { Gateway } from '../gateway/gateway-api.ts'
import { SvcError } from '../model/error.ts'
import { owner } from '../model/principal.ts'
import { operations, sideOperations } from '../operations/operations.ts'
import { metrics } from '../operations/service.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Peer } from '../platform/serve.ts'
import { createGuard, FailedTries, type Guard } from './auth.ts'
import { problemResponse } from './errors.ts'
import { EventLinks, isByLink } from './event-links.ts'
import { Waiting } from './http-call.ts'
import { type AnsweringAt, observed } from './observed.ts'
import { addOperations } from './operation-routes.ts'
import { absent, answerOf, methodsByPath, pathOf, templateOf } from './paths.ts'
import { failed, type RouteContext } from './route.ts'
import { addServiceRoutes, isOpenPath } from './service-routes.ts'

export interface OpenApiOptions {
  gateway: Gateway
  config: Pick<Config, 'host' | 'token' | 'allowHosts' | 'maxUploadBytes'> & Partial<Pick<Config, 'basePath'>>
  log: Log
  version: string
  /** For tests: the time of callers that are slowed down, and of event streams. */
  clock?: Clock
}

/** The door, as `platform/serve.ts` serves it. */
export interface OpenApiApp {
  /** Never throws. */
  fetch(request: Request, peer?: Peer): Response | Promise<Response>
  /** Refuses new calls and ends the waits of running ones; their answers are still written. */
  beginShutdown(): void
  /** The OpenAPI document, for whoever wants it without a request. */
  document(): Promise<Record<string, unknown>>
}

/** `/metrics` alone, for whoever may reach the port: without a token. */
export function createMetricsApp({
  gateway,
  config,
  log,
}: Pick<OpenApiOptions, 'gateway' | 'config' | 'log'>): Pick<OpenApiApp, 'fetch'> {
  const { app, context, guard } = emptyApp({ gateway, config, log })
  addOperations(app, context, [metrics])
  const methods = methodsByPath(app)
  return {
    async fetch(request) {
      const refusal = guard.refusal(request, true)
      return refusal ? problemResponse(refusal) : await answerOf(app, methods, request, pathOf(request.url))
    },
  }
}

/** @throws Error when the address is open to others and there is no token */
export function createOpenApiApp(options: OpenApiOptions): OpenApiApp {
  const parts = emptyApp(options)
  const served = operations.filter(({ rest }) => !rest?.panelOnly)
  addOperations(parts.app, parts.context, served)
  const { tokenRequired } = parts.guard
  const document = addServiceRoutes(parts.app, { version: options.version, tokenRequired })
  return { document, ...doorOf(parts) }
}

/**
 * What clients of another door than REST need besides: uploads, the bytes of media, what waits, health.
 *
 * @throws Error when the address is open to others and there is no token
 */
export function createSideApp(
  options: Pick<OpenApiOptions, 'gateway' | 'config' | 'log'>,
): Omit<OpenApiApp, 'document'> {
  const parts = emptyApp(options)
  addOperations(parts.app, parts.context, sideOperations)
  return doorOf(parts)
}

interface Parts {
  app: Elysia
  context: RouteContext & { readonly links: EventLinks }
  guard: Guard
}

/** An app without routes; a failure leaves it as problem+json. */
function emptyApp({
  gateway,
  config,
  log,
  clock = systemClock,
}: Pick<OpenApiOptions, 'gateway' | 'config' | 'log' | 'clock'>): Parts {
  const context = {
    by: owner,
    gateway,
    log: log.child('rest'),
    waiting: new Waiting(),
    links: new EventLinks(clock),
    clock,
    basePath: config.basePath,
    maxUploadBytes: config.maxUploadBytes,
  }
  const app: Elysia = new Elysia({ normalize: false, strictPath: true })
  // Before the routes, since a hook holds for what comes after it. Routes answer their own failures: what arrives here is
  // a path or method that no route has, or a fault of Elysia.
  app.onError(({ code, error, request }) =>
    code === 'NOT_FOUND' ? absent(request, methodsByPath(app)) : failed(error, context),
  )
  return { app, context, guard: createGuard(config) }
}

/** The app, whose routes are all there, behind the check of callers. */
function doorOf({ app, context, guard }: Parts): Omit<OpenApiApp, 'document'> {
  const methods = methodsByPath(app)
  const tries = new FailedTries(context)
  const byLink = (request: Request, peer: Peer | undefined) => {
    // A browser that was given a link is judged by its page, as at the panel.
    const refusal = guard.refusal(request, true) ?? guard.foreign(request, false) ?? context.waiting.stopped
    const linked = refusal ?? context.links.follow(request)
    if (linked instanceof SvcError) return problemResponse(linked)
    peer?.accept()
    return answerOf(app, methods, linked, pathOf(linked.url))
  }
  const fetch: AnsweringAt = (request, peer, path) => {
    if (isByLink(request, path)) return byLink(request, peer)
    const open = isOpenPath(path)
    const refusal = guard.refusal(request, open) ?? (open ? undefined : context.waiting.stopped)
    if (refusal) return tries.answer(problemResponse(refusal), peer)
    // A caller who may make every call is accepted on open paths too: clients use one connection for both.
    if (!open || !guard.refusal(request, false)) peer?.accept()
    return answerOf(app, methods, request, path)
  }
  return {
    beginShutdown: () => context.waiting.stop(),
    fetch: observed(fetch, context, path => templateOf(path, methods)),
  }
}
