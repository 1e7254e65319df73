/**
 * The panel's door: a second Elysia app with an API of its own, and the page that uses it. No CORS, no inline script,
 * nothing from elsewhere; behind one check of who may come in.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Config } from '../config.ts'
import type { Gateway } from '../gateway/gateway-api.ts'
import { type Call, directCall } from '../model/call.ts'
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
import { askPhone, isPhonePath } from './admin/phone.ts'
import { FailedTries } from './auth.ts'
import { rootOf } from './behind-proxy.ts'
import { problemResponse } from './errors.ts'
import { unopenedStream } from './event-stream.ts'
import { Waiting } from './http-call.ts'
import { type AnsweringAt, observed } from './observed.ts'
import { addOperations } from './operation-routes.ts'
import { absent, answerOf, isHead, methodsByPath, templateOf } from './paths.ts'
import { addOwnRoute, declared, doorErrors, failed, noted, type RouteContext } from './route.ts'
import { addDocsRoutes } from './service-routes.ts'

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
  /** Where the built panel may lie; the first folder that is there is it. */
  folders: readonly string[]
  /** Addresses worth a link. */
  links?: { rest_url?: string; sandbox_phone?: string }
  /** The gateway's by default. */
  clock?: Clock
}

/** The door, as `platform/serve.ts` serves it. */
export interface AdminApp {
  /** Never throws. */
  fetch(request: Request, peer?: Peer): Response | Promise<Response>
  /** Why there is no page to serve, if there is none; the API answers all the same. */
  pageMissing(): Promise<SvcError | undefined>
  /** Refuses new calls and ends waits and live streams. */
  beginShutdown(): void
  /** Path and query of a link that signs in once; undefined where nobody has to sign in. */
  signInLink(): Promise<string | undefined>
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

/** @throws Error when the address is open to others and there is no token */
export function createAdminApp(options: AdminOptions): AdminApp {
  const { gateway, config, clock = gateway.clock } = options
  const log = options.log.child('admin')
  const access = createAccess({ ...config, clock, signIns: gateway.signIns })
  const context = {
    by: panel,
    gateway,
    log,
    waiting: new Waiting(),
    clock,
    basePath: config.basePath,
    service: serviceOf(options, { started_at: clock.now(), token_required: access.required }),
  }
  const tries = new FailedTries(context)
  const files = openPanelFiles(options.folders)
  const looking = { ...directCall(), by: panel, service: context.service }
  const events = new PanelEvents({
    status: () => invoke(status, gateway, {}, looking, log),
    clock,
    log,
  })
  const { called, methods } = addRoutes(options, context, { access, events, looking })
  const page = pageAnswers(files, access)
  const phoneOf = (path: string) => (isPhonePath(path) ? options.links?.sandbox_phone : undefined)
  const answered = async (request: Request, path: string, isApi: boolean): Promise<Response> => {
    const phone = phoneOf(path)
    if (phone !== undefined) return await askPhone(request, phone)
    return isApi || appPath.test(path) ? called(request, path) : await page(request, path)
  }

  const fetch: AnsweringAt = async (request, peer, path) => {
    const isApi = path === '/api' || path.startsWith('/api/')
    const open = openPaths.has(path) || !(isApi || phoneOf(path))
    try {
      const refusal = (await access.refusal(request, open)) ?? context.waiting.stopped
      if (refusal) return await tries.answer(problemResponse(refusal), peer)
      if (!open || !access.required) peer?.accept()
      const answer = await answered(request, path, isApi)
      // The page tells times by it: in a sandbox the phone moves the clock.
      if (isApi) answer.headers.set('date', new Date(clock.now()).toUTCString())
      return path === '/api/sign-in' ? await tries.answer(answer, peer) : answer
    } catch (error) {
      return failed(error, context)
    }
  }

  return {
    pageMissing: () => files.missing(),
    signInLink: async () => (access.required ? `/sign-in?code=${await access.newLink()}` : undefined),
    beginShutdown() {
      context.waiting.stop()
      events.stop()
    },
    fetch: observed(
      fetch,
      context,
      path => templateOf(path, methods),
      path => filePath.test(path),
    ),
  }
}

/** Adds all that is described in the document. @returns what answers a call */
function addRoutes(
  { config, version }: AdminOptions,
  context: RouteContext,
  { access, events, looking }: { access: Access; events: PanelEvents; looking: Call },
): {
  called(request: Request, path: string): Response | Promise<Response>
  methods: ReturnType<typeof methodsByPath>
} {
  const app: Elysia = new Elysia({ normalize: false, strictPath: true })
  app.onError(({ code, error, request }) =>
    code === 'NOT_FOUND' ? absent(request, methods) : failed(error, context),
  )
  addCallRoutes(app, context)
  const { maxUploadBytes } = config
  addOperations(app, { ...context, maxUploadBytes }, [...mediaOperations, getWaitingFile], '/api')
  const live = async (request: Request) => {
    if (isHead(request)) return unopenedStream()
    const changes = await invoke(followChanges, context.gateway, {}, looking, context.log)
    return events.open(changes, async () => !(await access.refusal(request, false)))
  }
  app.get('/api/events', ({ request }) => live(request), {
    response: { 200: declared(eventStream) },
    detail: liveDetail,
  })
  addSignInRoutes(app, context, access, () => events.endSignedOut())
  addOperations(app, context, [health])
  addDocsRoutes(app, { version, tokenRequired: access.required, about })
  const methods = methodsByPath(app)
  return { methods, called: (request, path) => answerOf(app, methods, request, path) }
}

/** What the door knows of the service. */
const serviceOf = (
  { config, version, links }: AdminOptions,
  known: Pick<ServiceFacts, 'started_at' | 'token_required'>,
): ServiceFacts => ({
  version,
  base_path: config.basePath,
  media_root: config.mediaRoot,
  store_max_age_days: config.storeMaxAgeDays,
  store_max_count: config.storeMaxCount,
  max_upload_bytes: config.maxUploadBytes,
  ...links,
  ...known,
})

/** The page and its files: what anybody may load, since nothing in it is secret. */
function pageAnswers(files: PanelFiles, access: Access) {
  const signInByLink = async (request: Request): Promise<Response> => {
    const code = new URL(request.url).searchParams.get('code') ?? ''
    // A program that only looks, such as a chat's preview of links, spends none.
    const cookie = request.method === 'HEAD' ? undefined : await access.signInByLink(code, request)
    return new Response(null, {
      status: 303,
      headers: {
        location: `${rootOf(request)}/${cookie || !access.required ? '' : '?link=used'}`,
        'cache-control': 'no-store',
        'referrer-policy': 'no-referrer',
        ...(cookie && { 'set-cookie': cookie }),
      },
    })
  }
  return async (request: Request, path: string): Promise<Response> => {
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      const refused = new SvcError('method_not_allowed', 'This path takes GET alone')
      return problemResponse(refused, { allow: 'GET, HEAD' })
    }
    if (path === '/sign-in') return await signInByLink(request)
    const file = await files.serve(request, path)
    if (file) return file
    // A page in place of a script would only be misunderstood.
    if (filePath.test(path)) throw new SvcError('not_found', 'There is nothing at this path')
    const answer = await files.page(request, path, await access.isNobody(request))
    const cookie = await access.renewal(request)
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
    answer: Done,
    errors: ['rate_limited'],
    headers: async ({ token }, request) => ({ 'set-cookie': access.signIn(token, request) }),
    run: () => ({ success: true }),
  })
  addOwnRoute(app, context, ['/api/sign-out', 'sign_out'], {
    summary: 'Sign out',
    description: 'Ends the sign-in of this browser, with its live streams.',
    body: closed({}),
    answer: Done,
    errors: [],
    async headers(_body, request) {
      const cookie = await access.signOut(request)
      await onSignOut()
      return { 'set-cookie': cookie }
    },
    run: () => ({ success: true }),
  })
}

const Done = Type.Object({ success: Type.Boolean() })
const eventStream: JsonSchema = { type: 'string', description: 'text/event-stream' }
const liveDetail = {
  operationId: 'events',
  summary: 'Live changes',
  description:
    'Server-sent events: hello at the start, message (also when the status of a sent one changes), read (somebody looked at a conversation), unread (somebody marked one as unread), sessions, names (an account is gone or has another name), status, and now and then the time (Unix milliseconds).',
  tags: ['panel'],
  ...noted({ errors: doorErrors }),
}

/** What may be called without having signed in. */
const openPaths: ReadonlySet<string> = new Set(['/api/sign-in', '/openapi.json'])
const filePath = /^\/((assets|locales)\/|icon\.svg$)/
const appPath = /^\/(docs(\/|$)|openapi\.json$|healthz$)/
