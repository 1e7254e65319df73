/**
 * The HTTP service of the panel: a second Elysia app with its own API, and the page that uses it. One check
 * decides who may use it. There is no CORS, no inline script, and nothing is loaded from other servers.
 */
import { Elysia } from 'elysia'
import type { Config } from '../config.ts'
import type { Gateway } from '../gateway/gateway-api.ts'
import { createDirectCall } from '../model/call.ts'
import { SvcError } from '../model/error.ts'
import type { PageCaller } from '../model/key.ts'
import { anyCaller, type Principal } from '../model/principal.ts'
import type { ServiceFacts } from '../model/service.ts'
import { bounded, closed } from '../model/shapes.ts'
import { followChanges } from '../operations/events.ts'
import { createFailureCounter } from '../operations/failed-calls.ts'
import { invoke } from '../operations/gate.ts'
import { me } from '../operations/keys.ts'
import { linkedOperations } from '../operations/operations.ts'
import type { JsonSchema } from '../operations/schema.ts'
import { health, ready } from '../operations/service.ts'
import { status } from '../operations/status.ts'
import type { Clock } from '../platform/clock.ts'
import { withoutUndefined } from '../platform/fields.ts'
import type { Log } from '../platform/log.ts'
import type { Peer } from '../platform/serve.ts'
import { Access, type AccessOptions, secretHeader } from './admin/access.ts'
import { addCallRoutes } from './admin/call-routes.ts'
import { LiveChanges } from './admin/events.ts'
import { openPanelFiles, type PanelFiles } from './admin/files.ts'
import { forwardToPhone, isPhonePath } from './admin/phone.ts'
import { addressOf, rootOf, withProxyRouteOf } from './behind-proxy.ts'
import { callerAddressOf, noteCaller, principalOf, requestIdOf, withCallerOf } from './caller.ts'
import { toProblemResponse } from './errors.ts'
import { createUnopenedStream } from './event-stream.ts'
import { FailedAttempts } from './failed-attempts.ts'
import { ShutdownSignal } from './http-call.ts'
import { answerWithinLimits } from './limits.ts'
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
  > &
    Partial<Pick<Config, 'secretKey' | 'storeUrl'>>
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
  /** Ends waiting calls and live streams. Other calls go on. */
  drain(): void
  /** Does that, and rejects new calls. */
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
    { name: 'topics', description: 'Addresses by which programs notify people.' },
    { name: 'keys', description: 'Keys of callers, and what each may do.' },
    { name: 'agents', description: 'Agents that talk with users, their turns and their questions.' },
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
  const note: AccessOptions['note'] = async (operation, by, how, request) => {
    const call = { ...createDirectCall({ by, local: false }), address: callerAddressOf(request) }
    await invoke(operation, gateway, withoutUndefined({ by: how }), call, log)
  }
  const access = new Access({ ...config, clock, signIns: gateway.signIns, keys: gateway.keys, note })
  const service = serviceFactsOf(options, clock.now(), access)
  const context: RouteContext = {
    by: anyCaller,
    isPanel: true,
    gateway,
    log,
    shutdown: new ShutdownSignal(),
    clock,
    basePath: config.basePath,
    service,
  }
  const onFailure = createFailureCounter(context.gateway, context.log, context.shutdown.signal)
  const tries = new FailedAttempts({ ...context, onFailure })
  const files = openPanelFiles(options.folders)
  const events = new LiveChanges({
    service,
    follow: call => invoke(followChanges, gateway, {}, call, log),
    getStatus: call => invoke(status, gateway, {}, call, log),
    clock,
    log,
  })
  const { answerCall, methods } = addRoutes(options, context, access, events)
  /**
   * Returns what the caller of a page may do; undefined if it is not known. Names of the key, of people and of topics are not
   * in it: another server of this host has the cookie, too.
   */
  const meOf = async (request: Request): Promise<PageCaller | undefined> => {
    const by = await access.identify(request, false, () => callerAddressOf(request), true)
    if (by instanceof SvcError) return undefined
    const found = await invoke(me, gateway, {}, createDirectCall({ by, local: false }), log)
    const { principal, rights, tools } = found
    return { principal, rights, tools }
  }
  const page = createPageHandler(files, access, log, meOf, request =>
    onFailure(callerAddressOf(request) ?? '', 'sign_in'),
  )
  const phoneOf = (path: string) => (isPhonePath(path) ? options.links?.sandbox_phone : undefined)
  const answerRequest = async (
    request: Request,
    path: string,
    isApi: boolean,
    by: Principal,
  ): Promise<Response> => {
    const phone = phoneOf(path)
    if (phone !== undefined && by.grant) throw new SvcError('not_found', 'There is nothing at this path')
    if (phone !== undefined) return await forwardToPhone(request, phone)
    return isApi || appPath.test(path) ? answerCall(request, path) : await page(request, path)
  }

  const fetch: PathHandler = async (request, peer, path) => {
    const isApi = path === '/api' || path.startsWith('/api/')
    const isPhone = phoneOf(path) !== undefined
    const open = pathsWithoutSignIn.has(path) || !(isApi || isPhone)
    try {
      // The phone is of the simulated WeChat. It runs without the panel too, and knows nothing of it.
      const identity = await access.identify(request, open, () => addressOf(request, peer), isPhone)
      const by = context.shutdown.stopError ?? identity
      if (by instanceof SvcError) return await tries.throttle(toProblemResponse(by), addressOf(request, peer))
      // The page itself is served even while the store fails.
      const wasOpen = !(await access.isRequired().catch(() => true))
      if (!open || wasOpen) peer?.accept()
      noteCaller(request, by, peer)
      const answer = await answerWithinLimits(
        by,
        () => addressOf(request, peer),
        () => answerRequest(withoutPass(request), path, isApi, by),
      )
      // With the first key the panel begins to require a sign-in. The person who made it stays signed in.
      if (wasOpen && path === '/api/call/add_key' && (await access.isRequired()))
        for (const [name, value] of headersOf(await access.signInOwner(request)))
          answer.headers.append(name, value)
      // The page reads the time from this header: in a sandbox, the phone can change the clock.
      if (isApi) answer.headers.set('date', new Date(clock.now()).toUTCString())
      return path === '/api/sign-in'
        ? await tries.throttle(answer, addressOf(request, peer), 'sign_in')
        : answer
    } catch (error) {
      return toErrorAnswer(error, context, undefined, { requestId: requestIdOf(request) })
    }
  }

  const drain = () => {
    context.shutdown.drain()
    events.stop()
  }
  return {
    getPageError: () => files.getError(),
    createSignInLink: async () =>
      (await access.isRequired()) ? `/sign-in?code=${await access.createLink()}` : undefined,
    drain,
    beginShutdown() {
      drain()
      context.shutdown.stop()
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
  access: Access,
  events: LiveChanges,
): {
  answerCall(request: Request, path: string): Response | Promise<Response>
  methods: ReturnType<typeof listMethodsByPath>
} {
  const app: Elysia = new Elysia({ normalize: false, strictPath: true })
  app.onError(({ code, error, request }) =>
    code === 'NOT_FOUND'
      ? answerMissing(request, methods)
      : toErrorAnswer(error, context, undefined, { requestId: requestIdOf(request) }),
  )
  addCallRoutes(app, context)
  const { maxUploadBytes } = config
  addOperations(app, { ...context, maxUploadBytes }, linkedOperations, '/api')
  const live = async (request: Request) => {
    if (isHead(request)) return createUnopenedStream()
    const isAllowed = async () =>
      !((await access.identify(request, false, undefined, true)) instanceof SvcError)
    return await events.open(principalOf(request) ?? anyCaller, isAllowed)
  }
  app.get('/api/events', ({ request }) => live(request), {
    response: { 200: toElysiaSchema(eventStreamSchema) },
    detail: eventsDetail,
  })
  addSignInRoutes(app, context, access, () => events.endSignedOut())
  addOperations(app, context, [health, ready])
  addDocsRoutes(app, { version, needsToken: access.isRequired, about })
  const methods = listMethodsByPath(app)
  return { methods, answerCall: (request, path) => answerByRoute(app, methods, request, path) }
}

/** Returns the facts about the service that operations may use. */
const serviceFactsOf = (
  { config, version, links }: AdminOptions,
  startedAt: number,
  access: Access,
): ServiceFacts => ({
  version,
  base_path: config.basePath,
  media_root: config.mediaRoot,
  store_max_age_days: config.storeMaxAgeDays,
  store_max_count: config.storeMaxCount,
  max_upload_bytes: config.maxUploadBytes,
  ...links,
  started_at: startedAt,
  /** True from the first key on. */
  get token_required() {
    return access.wasRequired
  },
})

/**
 * Returns a function that serves the page and its files. Everybody may load them: they contain no secret.
 *
 * @param meOf returns the rights of a caller, for its page
 * @param onRefused called for a link that does not sign in
 */
function createPageHandler(
  files: PanelFiles,
  access: Access,
  log: Log,
  meOf: (request: Request) => Promise<PageCaller | undefined>,
  onRefused: (request: Request) => void,
) {
  const signInByLink = async (request: Request): Promise<Response> => {
    const code = new URL(request.url).searchParams.get('code') ?? ''
    // HEAD does not use up the link: chat apps send it to preview links.
    let signedIn: Awaited<ReturnType<Access['signInByLink']>>
    let isUsed = false
    try {
      if (request.method !== 'HEAD') signedIn = await access.signInByLink(code, request)
      isUsed = !signedIn && (await access.isRequired())
      if (isUsed && request.method !== 'HEAD') onRefused(request)
    } catch (error) {
      log.debug('a link to sign in cannot be checked', { error })
    }
    return new Response(null, {
      status: 303,
      headers: {
        // A browser sends no server what follows the #.
        location: `${rootOf(request)}/${isUsed ? '?link=used' : signedIn ? `#${secretHeader}=${signedIn.secret}` : ''}`,
        'cache-control': 'no-store',
        'referrer-policy': 'no-referrer',
        ...(signedIn && { 'set-cookie': signedIn.cookie }),
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
    let isSignedOut = false
    let cookie: string | undefined
    let me: PageCaller | undefined
    try {
      isSignedOut = await access.isSignedOut(request)
      cookie = await access.renewSignIn(request)
      if (!isSignedOut) me = await meOf(request)
    } catch (error) {
      log.debug('a sign-in cannot be checked', { error })
    }
    const answer = await files.getPage(request, path, isSignedOut, me)
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
    summary: 'Sign in with the token or a key',
    description:
      'Sets the cookie that the other calls want where a token is required, and returns in the header `svc-panel` the secret that they send in theirs.',
    body: closed({ token: bounded(1000) }),
    errors: ['rate_limited'],
    headers: async ({ token }, request) =>
      Object.fromEntries(headersOf(await access.signIn(token, request, () => callerAddressOf(request)))),
  })
  addOwnRoute(app, context, ['/api/pass', 'pass'], {
    summary: 'A pass for links',
    description:
      'Returns in the header `svc-pass` what a link to a GET route of the panel has in its query for a minute, as `pass`: for downloads and the event stream, which a browser loads without headers of the page. Without the header no sign-in is required.',
    body: closed({}),
    errors: [],
    async headers(_body, request): Promise<Record<string, string>> {
      const pass = await access.createPass(request)
      return pass === undefined ? {} : { 'svc-pass': pass }
    },
  })
  addOwnRoute(app, context, ['/api/sign-out', 'sign_out'], {
    summary: 'Sign out',
    description: 'Ends the sign-in of this browser, with its live streams.',
    body: closed({}),
    errors: [],
    async headers(_body, request) {
      const cookie = await access.signOut(request)
      await onSignOut()
      return { 'set-cookie': cookie }
    },
  })
}

const headersOf = ({ cookie, secret }: Awaited<ReturnType<Access['signIn']>>) =>
  [
    ['set-cookie', cookie],
    [secretHeader, secret],
  ] as const

/** Returns a request as the routes know it: the pass of a link is no input of an operation. */
function withoutPass(request: Request): Request {
  const url = new URL(request.url)
  if (request.method !== 'GET' || !url.searchParams.has('pass')) return request
  url.searchParams.delete('pass')
  const { headers, signal } = request
  return withCallerOf(withProxyRouteOf(new Request(url, { headers, signal }), request), request)
}

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
const appPath = /^\/(docs(\/|$)|openapi\.json$|healthz$|readyz$)/
