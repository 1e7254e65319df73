/**
 * The HTTP service of the panel: a second Elysia app with its own API, and the page that uses it. One check
 * decides who may use it. There is no CORS, no inline script, and nothing is loaded from other servers.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Config } from '../config.ts'
import type { Gateway } from '../gateway/gateway-api.ts'
import { type Call, createDirectCall } from '../model/call.ts'
import { SvcError } from '../model/error.ts'
import { panel } from '../model/principal.ts'
import type { ServiceFacts } from '../model/service.ts'
import { bounded, closed } from '../model/shapes.ts'
import { followChanges } from '../operations/events.ts'
import { invoke } from '../operations/gate.ts'
import { getWaitingFile } from '../operations/media.ts'
import { mediaOperations } from '../operations/operations.ts'
import type { JsonSchema } from '../operations/schema.ts'
import { health } from '../operations/service.ts'
import { status } from '../operations/status.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Peer } from '../platform/serve.ts'
import { type Access, createAccess } from './admin/access.ts'
import { addCallRoutes } from './admin/call-routes.ts'
import { PanelEvents } from './admin/events.ts'
import { openPanelFiles, type PanelFiles } from './admin/files.ts'
import { forwardToPhone, isPhonePath } from './admin/phone.ts'
import { FailedAttempts } from './auth.ts'
import { rootOf } from './behind-proxy.ts'
import { toProblemResponse } from './errors.ts'
import { createUnopenedStream } from './event-stream.ts'
import { ShutdownSignal } from './http-call.ts'
import { observeCalls, type PathHandler } from './observed.ts'
import { addOperations } from './operation-routes.ts'
import { answerByRoute, answerMissing, isHead, listMethodsByPath, templateOf } from './paths.ts'
import {
  addOwnRoute,
  guardErrors,
  type RouteContext,
  toElysiaSchema,
  toErrorAnswer,
  toRouteDetail,
} from './route.ts'
import { addDocsRoutes } from './service-routes.ts'

/** Options of the panel's service. */
export interface AdminOptions {
  gateway: Gateway
  config: Pick<
    Config,
    | 'host'
    | 'token'
    | 'allowHosts'
    | 'maxUploadBytes'
    | 'basePath'
    | 'mediaRoot'
    | 'storeMaxAgeDays'
    | 'storeMaxCount'
  >
  log: Log
  version: string
  /** Folders that may contain the built panel; the first one that exists is used. */
  folders: readonly string[]
  /** URLs that the panel links to. */
  links?: { rest_url?: string; sandbox_phone?: string }
  /** Default: the gateway's clock. */
  clock?: Clock
}

/** The panel's service, for `platform/serve.ts`. */
export interface AdminApp {
  /** Never throws. */
  fetch(request: Request, peer?: Peer): Response | Promise<Response>
  /** Returns why the page cannot be served, if so; the API works without it. */
  getPageError(): Promise<SvcError | undefined>
  /** Rejects new calls, and ends waiting calls and live streams. */
  beginShutdown(): void
  /** Creates a link that signs in once. Returns its path and query; undefined if no sign-in is needed. */
  createSignInLink(): Promise<string | undefined>
}

const about = {
  title: 'svc admin panel',
  summary: 'What the admin panel calls',
  description:
    'The API behind the panel: `POST /api/call/NAME` with the input of the operation as JSON. Programs are better served by the nine tools of `svc openapi`; this is for people who want a panel of their own.',
  tags: [
    { name: 'accounts', description: 'Accounts: log in and out, name, choose.' },
    { name: 'messages', description: 'Conversations, messages, media.' },
    { name: 'media', description: 'Bytes in and out, streamed.' },
    { name: 'webhooks', description: 'Endpoints that events are delivered to.' },
    { name: 'panel', description: 'The panel itself.' },
    { name: 'service', description: 'How the program behind it is.' },
  ],
}

/**
 * Creates the panel's service.
 *
 * @throws Error if other machines can reach the address and there is no token
 */
export function createAdminApp(options: AdminOptions): AdminApp {
  const { gateway, config, clock = gateway.clock } = options
  const log = options.log.child('admin')
  const access = createAccess({ ...config, clock, signIns: gateway.signIns })
  const context: RouteContext = {
    by: panel,
    gateway,
    log,
    shutdown: new ShutdownSignal(),
    clock,
    basePath: config.basePath,
    service: serviceFactsOf(options, { started_at: clock.now(), token_required: access.isRequired }),
  }
  const tries = new FailedAttempts(context)
  const files = openPanelFiles(options.folders)
  const viewCall = { ...createDirectCall(), by: panel, service: context.service }
  const events = new PanelEvents({
    getStatus: () => invoke(status, gateway, {}, viewCall, log),
    clock,
    log,
  })
  const { answerCall, methods } = addRoutes(options, context, { access, events, viewCall })
  const page = createPageHandler(files, access)
  const phoneOf = (path: string) => (isPhonePath(path) ? options.links?.sandbox_phone : undefined)
  const answerRequest = async (request: Request, path: string, isApi: boolean): Promise<Response> => {
    const phone = phoneOf(path)
    if (phone !== undefined) return await forwardToPhone(request, phone)
    return isApi || appPath.test(path) ? answerCall(request, path) : await page(request, path)
  }

  const fetch: PathHandler = async (request, peer, path) => {
    const isApi = path === '/api' || path.startsWith('/api/')
    const open = pathsWithoutSignIn.has(path) || !(isApi || phoneOf(path))
    try {
      const denial = (await access.denialOf(request, open)) ?? context.shutdown.stopError
      if (denial) return await tries.throttle(toProblemResponse(denial), peer)
      if (!open || !access.isRequired) peer?.accept()
      const answer = await answerRequest(request, path, isApi)
      // The page reads the time from this header: in a sandbox, the phone can change the clock.
      if (isApi) answer.headers.set('date', new Date(clock.now()).toUTCString())
      return path === '/api/sign-in' ? await tries.throttle(answer, peer) : answer
    } catch (error) {
      return toErrorAnswer(error, context)
    }
  }

  return {
    getPageError: () => files.getError(),
    createSignInLink: async () =>
      access.isRequired ? `/sign-in?code=${await access.createLink()}` : undefined,
    beginShutdown() {
      context.shutdown.stop()
      events.stop()
    },
    fetch: observeCalls(
      fetch,
      context,
      path => templateOf(path, methods),
      path => filePath.test(path),
    ),
  }
}

/**
 * Adds all routes of the API and its documents.
 *
 * @returns a function that answers calls, and the paths with their methods
 */
function addRoutes(
  { config, version }: AdminOptions,
  context: RouteContext,
  { access, events, viewCall }: { access: Access; events: PanelEvents; viewCall: Call },
): {
  answerCall(request: Request, path: string): Response | Promise<Response>
  methods: ReturnType<typeof listMethodsByPath>
} {
  const app: Elysia = new Elysia({ normalize: false, strictPath: true })
  app.onError(({ code, error, request }) =>
    code === 'NOT_FOUND' ? answerMissing(request, methods) : toErrorAnswer(error, context),
  )
  addCallRoutes(app, context)
  const { maxUploadBytes } = config
  addOperations(app, { ...context, maxUploadBytes }, [...mediaOperations, getWaitingFile], '/api')
  const live = async (request: Request) => {
    if (isHead(request)) return createUnopenedStream()
    const changes = await invoke(followChanges, context.gateway, {}, viewCall, context.log)
    return events.open(changes, async () => !(await access.denialOf(request, false)))
  }
  app.get('/api/events', ({ request }) => live(request), {
    response: { 200: toElysiaSchema(eventStreamSchema) },
    detail: eventsDetail,
  })
  addSignInRoutes(app, context, access, () => events.endSignedOut())
  addOperations(app, context, [health])
  addDocsRoutes(app, { version, tokenRequired: access.isRequired, about })
  const methods = listMethodsByPath(app)
  return { methods, answerCall: (request, path) => answerByRoute(app, methods, request, path) }
}

/** Returns the facts about the service that operations may use. */
const serviceFactsOf = (
  { config, version, links }: AdminOptions,
  startFacts: Pick<ServiceFacts, 'started_at' | 'token_required'>,
): ServiceFacts => ({
  version,
  base_path: config.basePath,
  media_root: config.mediaRoot,
  store_max_age_days: config.storeMaxAgeDays,
  store_max_count: config.storeMaxCount,
  max_upload_bytes: config.maxUploadBytes,
  ...links,
  ...startFacts,
})

/** Returns a function that serves the page and its files. Everybody may load them: they contain no secret. */
function createPageHandler(files: PanelFiles, access: Access) {
  const signInByLink = async (request: Request): Promise<Response> => {
    const code = new URL(request.url).searchParams.get('code') ?? ''
    // HEAD does not use up the link: chat apps send it to preview links.
    const cookie = request.method === 'HEAD' ? undefined : await access.signInByLink(code, request)
    return new Response(null, {
      status: 303,
      headers: {
        location: `${rootOf(request)}/${cookie || !access.isRequired ? '' : '?link=used'}`,
        'cache-control': 'no-store',
        'referrer-policy': 'no-referrer',
        ...(cookie && { 'set-cookie': cookie }),
      },
    })
  }
  return async (request: Request, path: string): Promise<Response> => {
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      const error = new SvcError('method_not_allowed', 'This path accepts GET only')
      return toProblemResponse(error, { allow: 'GET, HEAD' })
    }
    if (path === '/sign-in') return await signInByLink(request)
    const file = await files.serve(request, path)
    if (file) return file
    // An unknown file is an error: the browser would misread the page as a script.
    if (filePath.test(path)) throw new SvcError('not_found', 'There is nothing at this path')
    const answer = await files.getPage(request, path, await access.isSignedOut(request))
    const cookie = await access.renewSignIn(request)
    if (cookie) answer.headers.append('set-cookie', cookie)
    return answer
  }
}

/** Adds /api/sign-in and /api/sign-out. */
function addSignInRoutes(
  app: Elysia,
  context: RouteContext,
  access: Access,
  onSignOut: () => Promise<void>,
): void {
  addOwnRoute(app, context, ['/api/sign-in', 'sign_in'], {
    summary: 'Sign in with the token',
    description: 'Sets the cookie that the other calls want where a token is required.',
    body: closed({ token: bounded(1000) }),
    answer: SuccessAnswer,
    errors: ['rate_limited'],
    headers: async ({ token }, request) => ({ 'set-cookie': access.signIn(token, request) }),
    run: () => ({ success: true }),
  })
  addOwnRoute(app, context, ['/api/sign-out', 'sign_out'], {
    summary: 'Sign out',
    description: 'Ends the sign-in of this browser, with its live streams.',
    body: closed({}),
    answer: SuccessAnswer,
    errors: [],
    async headers(_body, request) {
      const cookie = await access.signOut(request)
      await onSignOut()
      return { 'set-cookie': cookie }
    },
    run: () => ({ success: true }),
  })
}

const SuccessAnswer = Type.Object({ success: Type.Boolean() })
const eventStreamSchema: JsonSchema = { type: 'string', description: 'text/event-stream' }
const eventsDetail = {
  operationId: 'events',
  summary: 'Live changes',
  description:
    'Server-sent events: hello at the start, message (also when the status of a sent one changes), read (somebody looked at a conversation), unread (somebody marked one as unread), sessions, names (an account is gone or has another name), status, and now and then the time (Unix milliseconds).',
  tags: ['panel'],
  ...toRouteDetail({ errors: guardErrors }),
}

/** Paths of the API that work without a sign-in. */
const pathsWithoutSignIn: ReadonlySet<string> = new Set(['/api/sign-in', '/openapi.json'])
const filePath = /^\/((assets|locales)\/|icon\.svg$)/
const appPath = /^\/(docs(\/|$)|openapi\.json$|healthz$)/
