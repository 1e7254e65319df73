/**
 * The REST service: the nine tools, media, the outbox, docs. An Elysia app declares one route per operation
 * from the operation's schemas. The OpenAPI document is generated from those routes. Every error is
 * answered as problem+json.
 */
import { Elysia } from 'elysia'
import type { Config } from '../config.ts'
import type { Gateway } from '../gateway/gateway-api.ts'
import { SvcError } from '../model/error.ts'
import { anyCaller, owner } from '../model/principal.ts'
import { createFailureCounter } from '../operations/failed-calls.ts'
import { operations, operationsBesideMcp } from '../operations/operations.ts'
import { metrics } from '../operations/service.ts'
import { type Clock, endsWithin, systemClock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Peer } from '../platform/serve.ts'
import { createGuard, type Guard, givenTokenOf, type Identity, withIdentity } from './auth.ts'
import { addressOf } from './behind-proxy.ts'
import { noteCaller, requestIdOf } from './caller.ts'
import { toProblemResponse } from './errors.ts'
import { EventLinks, isByLink } from './event-links.ts'
import { FailedAttempts } from './failed-attempts.ts'
import { ShutdownSignal } from './http-call.ts'
import { addInvitationRoutes, isInvitationCall } from './invite.ts'
import { answerWithinLimits } from './limits.ts'
import { addNoticeRoutes, identifySender, isNoticePath, takeNtfyAddress } from './notify.ts'
import { observeCalls, type PathHandler } from './observed.ts'
import { addOperations } from './operation-routes.ts'
import { answerByRoute, answerMissing, listMethodsByPath, pathOf, templateOf } from './paths.ts'
import { type RouteContext, toErrorAnswer } from './route.ts'
import { addServiceRoutes, isOpenPath } from './service-routes.ts'

/** Options of the REST service. */
export interface OpenApiOptions {
  gateway: Gateway
  config: Pick<Config, 'host' | 'token' | 'allowHosts' | 'maxUploadBytes'> &
    Partial<Pick<Config, 'basePath' | 'secretKey' | 'socket' | 'storeUrl'>>
  log: Log
  version: string
  /** For tests: the clock for delayed callers and event streams. */
  clock?: Clock
}

/** The REST service, for `platform/serve.ts`. */
export interface OpenApiApp {
  /** Never throws. */
  fetch(request: Request, peer?: Peer): Response | Promise<Response>
  /** Ends the waiting of calls, and streams; their answers are still written. Other calls go on. */
  drain(): void
  /** Does that, and rejects new calls. */
  beginShutdown(): void
  /** Returns the OpenAPI document without a request. */
  document(): Promise<Record<string, unknown>>
}

/** Creates a service with only `/metrics`, without a token: everybody who can reach the port may read it. */
export function createMetricsApp({
  gateway,
  config,
  log,
}: Pick<OpenApiOptions, 'gateway' | 'config' | 'log'>): Pick<OpenApiApp, 'fetch'> {
  const { app, context, guard } = createEmptyApp({ gateway, config, log })
  addOperations(app, { ...context, by: owner }, [metrics])
  const methods = listMethodsByPath(app)
  return {
    async fetch(request, peer) {
      const denial = guard.hostDenialOf(request, true)
      if (denial) return toProblemResponse(denial)
      const address = () => addressOf(request, peer)
      return answerWithinLimits(anyCaller, address, () =>
        answerByRoute(app, methods, request, pathOf(request.url)),
      )
    },
  }
}

/** Creates the REST service. @throws Error if other machines can reach the address and there is no token */
export function createOpenApiApp(options: OpenApiOptions): OpenApiApp {
  const parts = createEmptyApp(options)
  const served = operations.filter(({ rest }) => !rest?.panelOnly)
  addOperations(parts.app, parts.context, served)
  addInvitationRoutes(parts.app, parts.context)
  addNoticeRoutes(parts.app, parts.context)
  const { needsToken } = parts.guard
  const document = addServiceRoutes(parts.app, { version: options.version, needsToken })
  const guarded = guardApp(parts)
  const fetch: OpenApiApp['fetch'] = (request, peer) => {
    takeNtfyAddress(request)
    return guarded.fetch(request, peer)
  }
  return { document, ...guarded, fetch }
}

/**
 * Creates the HTTP service beside `svc mcp -t http`: uploads, the bytes of media, waiting messages, health.
 *
 * @throws Error if other machines can reach the address and there is no token
 */
export function createAppBesideMcp(
  options: Pick<OpenApiOptions, 'gateway' | 'config' | 'log'>,
): Omit<OpenApiApp, 'document'> {
  const parts = createEmptyApp(options)
  addOperations(parts.app, parts.context, operationsBesideMcp)
  return guardApp(parts)
}

interface AppParts {
  app: Elysia
  context: RouteContext & { readonly links: EventLinks }
  guard: Guard
}

/** Creates an app without routes. Every error is answered as problem+json. */
function createEmptyApp({
  gateway,
  config,
  log,
  clock = systemClock,
}: Pick<OpenApiOptions, 'gateway' | 'config' | 'log' | 'clock'>): AppParts {
  const context: AppParts['context'] = {
    by: anyCaller,
    gateway,
    log: log.child('rest'),
    shutdown: new ShutdownSignal(),
    links: new EventLinks({ clock, signIns: gateway.signIns, keys: gateway.keys }),
    clock,
    basePath: config.basePath,
    maxUploadBytes: config.maxUploadBytes,
  }
  const app: Elysia = new Elysia({ normalize: false, strictPath: true })
  // This hook comes before the routes, since it applies only to later ones. Routes answer their own errors.
  // So this gets paths and methods that no route has, and errors of Elysia.
  app.onError(({ code, error, request }) =>
    code === 'NOT_FOUND'
      ? answerMissing(request, listMethodsByPath(app))
      : toErrorAnswer(error, context, undefined, { requestId: requestIdOf(request) }),
  )
  return {
    app,
    context,
    guard: createGuard({ ...config, isSocket: config.socket !== undefined, keys: gateway.keys, clock }),
  }
}

/**
 * How long an answer that everyone gets waits until it is known who asks. The health is asked while the store
 * fails, too.
 */
const maxAcceptMs = 100

/** Puts the check of callers in front of an app. All routes must be added before. */
function guardApp({ app, context, guard }: AppParts): Omit<OpenApiApp, 'document'> {
  const methods = listMethodsByPath(app)
  const onFailure = createFailureCounter(context.gateway, context.log, context.shutdown.signal)
  const tries = new FailedAttempts({ ...context, onFailure })
  const byLink = async (request: Request, peer: Peer | undefined) => {
    // For a browser with a link, check the page that makes the request, as the panel does.
    const denial =
      guard.hostDenialOf(request, true) ?? guard.pageDenialOf(request, false) ?? context.shutdown.stopError
    // A link needs no token, but one that is given has to be right.
    const isTokenGiven = !denial && givenTokenOf(request) !== undefined
    const by = isTokenGiven ? await guard.identify(request, false, () => addressOf(request, peer)) : denial
    const linked = by instanceof SvcError ? by : await context.links.resolve(request, peer)
    if (linked instanceof SvcError) return tries.throttle(toProblemResponse(linked), addressOf(request, peer))
    peer?.accept()
    return answerByRoute(app, methods, linked, pathOf(linked.url))
  }
  const answerOpen = (request: Request, peer: Peer | undefined, path: string) => {
    // Accept a caller with the right token: clients use one connection for all paths.
    const identity = withIdentity(
      guard.identify(request, false, () => addressOf(request, peer)),
      by => by instanceof SvcError || peer?.accept(),
    )
    const answer = () => {
      noteCaller(request, anyCaller, peer)
      return answerByRoute(app, methods, request, path)
    }
    return identity instanceof Promise ? endsWithin(maxAcceptMs, identity).then(answer) : answer()
  }
  /** Calls of the page of an invitation: a browser sends its cookie with them, so they must come from that page. */
  const visit = async (request: Request, peer: Peer | undefined, path: string) => {
    const denial = guard.pageDenialOf(request, false) ?? context.shutdown.stopError
    if (denial) return toProblemResponse(denial)
    noteCaller(request, anyCaller, peer)
    const answer = await answerByRoute(app, methods, request, path)
    if (answer.ok) peer?.accept()
    return tries.throttle(answer, addressOf(request, peer), 'join')
  }
  /** A program that notifies, each with its own kind of proof. */
  const notify = async (request: Request, peer: Peer | undefined, path: string) => {
    const address = () => addressOf(request, peer)
    const by = context.shutdown.stopError ?? (await identifySender(guard, request, address))
    if (by instanceof SvcError) return tries.throttle(toProblemResponse(by), address())
    noteCaller(request, by, peer)
    const answer = await answerWithinLimits(by, address, () => answerByRoute(app, methods, request, path))
    if (answer.ok) peer?.accept()
    return tries.throttle(answer, address())
  }
  const fetch: PathHandler = (request, peer, path) => {
    if (isNoticePath(path)) return notify(request, peer, path)
    const address = () => addressOf(request, peer)
    if (isByLink(request, path)) return answerWithinLimits(anyCaller, address, () => byLink(request, peer))
    const open = isOpenPath(path)
    const answer = (identity: Identity) => {
      if (identity instanceof SvcError) return tries.throttle(toProblemResponse(identity), address())
      if (open) {
        const answerAny = isInvitationCall(path) ? visit : answerOpen
        return answerWithinLimits(anyCaller, address, () => answerAny(request, peer, path))
      }
      const { stopError } = context.shutdown
      if (stopError) return toProblemResponse(stopError)
      peer?.accept()
      noteCaller(request, identity, peer)
      return answerWithinLimits(identity, address, () => answerByRoute(app, methods, request, path))
    }
    return withIdentity(guard.identify(request, open, address), answer)
  }
  return {
    drain: () => context.shutdown.drain(),
    beginShutdown: () => context.shutdown.stop(),
    fetch: observeCalls(fetch, context, path => templateOf(path, methods)),
  }
}
