/**
 * MCP over HTTP: Streamable HTTP at `/mcp` for both eras, or the SSE transport of 2024 at `/sse` and
 * `/messages`. Callers pass the same checks as at the REST door.
 */

import { randomUUID } from 'node:crypto'
import { isInitializeRequest, isJsonContentType, isLegacyRequest } from '@modelcontextprotocol/server'
import type { Config } from '../config.ts'
import type { Gateway } from '../gateway/gateway-api.ts'
import { isSvcError, SvcError } from '../model/error.ts'
import { adviceOf, plainWordingOf } from '../model/next-step.ts'
import type { Principal } from '../model/principal.ts'
import { createFailureCounter } from '../operations/failed-calls.ts'
import { toSvcError } from '../operations/gate.ts'
import type { startAwakeTimer } from '../platform/clock.ts'
import { escapeControls } from '../platform/escape-controls.ts'
import type { Peer } from '../platform/serve.ts'
import { createGuard, givenTokenOf } from '../server/auth.ts'
import { addressOf, isProxied } from '../server/behind-proxy.ts'
import { createFilesLimit, readParsed, releaseBody } from '../server/body.ts'
import { noteCaller, requestIdOf } from '../server/caller.ts'
import { toProblemResponse } from '../server/errors.ts'
import { createUnopenedStream } from '../server/event-stream.ts'
import { FailedAttempts } from '../server/failed-attempts.ts'
import { ShutdownSignal } from '../server/http-call.ts'
import { answerWithinLimits } from '../server/limits.ts'
import { answerAsRead, noteAccepted, rejectEndless } from './accept.ts'
import type { CallTransport, McpContext, McpShared, ServerFactory } from './context.ts'
import { RequestDeliveries, rpcErrorResponse } from './exchange.ts'
import { QuestionTickets } from './questions.ts'
import { createMcpServer } from './server.ts'
import { SessionIds } from './session-ids.ts'
import { type Caller, McpSessions, TooManySessionsError } from './sessions.ts'
import { type CreateSseServer, SseSessions } from './sse.ts'
import { StatelessRequests } from './stateless.ts'

export interface McpHttpOptions extends McpShared {
  readonly gateway: Gateway
  readonly config: Pick<Config, 'host' | 'token' | 'allowHosts'> &
    Partial<Pick<Config, 'basePath' | 'socket'>>
  /** Streamable HTTP at /mcp, or the transport of 2024 at /sse and /messages. */
  readonly transport: 'http' | 'sse'
  /** Key that signs the ids of MCP sessions. Without it, no session lives longer than this process. */
  readonly sessionKey?: string
  /** Overrides in tests after which time a session without connections ends, in milliseconds. */
  readonly idleMs?: number
  /** Timer for the time in which a client may come back for an answer. Tests replace it. */
  readonly after?: typeof startAwakeTimer
  /** For tests: see `UnconfirmedAnswers`. */
  readonly confirmMs?: number
  /** Creates the servers. Tests replace it. */
  readonly server?: typeof createMcpServer
}

/** The MCP door over HTTP, as `platform/serve.ts` serves it. */
export interface McpHttpDoor {
  /** Answers a request. Never throws. */
  fetch(request: Request, peer?: Peer): Promise<Response>
  /** Ends the waits of calls, and streams without a call. Other calls go on. */
  drain(): void
  /** Does that, and rejects new calls. Answers of running ones are still written. */
  beginShutdown(): void
  /** Ends streams and sessions when the open answers are written, at the latest after `graceMs`. */
  close(graceMs: number): Promise<void>
}

/** Longest request body: 16 MiB as base64 and the other arguments. Same as at the REST door. */
const maxBodyBytes = 24 * 1024 * 1024

/**
 * Creates the MCP door over HTTP.
 *
 * @throws Error if other machines can reach the address and no token is set
 */
export function createMcpHttp(options: McpHttpOptions): McpHttpDoor {
  const { config, gateway } = options
  const guard = createGuard({ ...config, isSocket: config.socket !== undefined, keys: gateway.keys })
  const waiting = new ShutdownSignal()
  const onFailure = createFailureCounter(options.gateway, options.log, waiting.signal)
  const tries = new FailedAttempts({ log: options.log, onFailure })
  const exchanges = new RequestDeliveries()
  const servers = serverFactoryOf(options, waiting, exchanges)
  const paths =
    options.transport === 'sse'
      ? createSsePaths(servers, options)
      : createStreamablePath(options, servers, exchanges)
  return {
    async fetch(request, peer) {
      const by = await guard.identify(request, false, () => addressOf(request, peer))
      if (by instanceof SvcError) return tries.throttle(toProblemResponse(by), addressOf(request, peer))
      if (waiting.stopError) return toProblemResponse(waiting.stopError)
      peer?.accept()
      noteCaller(request, by, peer)
      try {
        const address = addressOf(request, peer) ?? ''
        const isPassedOn = isProxied(request)
        const caller: Caller = {
          by,
          address,
          identity: identityOf(by, address, config.token),
          isProxied: isPassedOn,
          connection: isPassedOn ? undefined : peer?.connection,
        }
        return await answerWithinLimits(
          by,
          () => address,
          () => paths.answer(request, caller),
        )
      } catch (error) {
        releaseBody(request)
        // A request that arrives during the shutdown may fail in a closed handler. Then the shutdown is the
        // reason.
        return toProblemResponse(
          waiting.stopError ??
            toSvcError(error, options.log, { signal: request.signal, requestId: requestIdOf(request) }),
        )
      }
    },
    drain() {
      waiting.drain()
      paths.drain?.()
    },
    beginShutdown: () => waiting.stop(),
    async close(graceMs) {
      waiting.stop()
      paths.stop?.()
      await exchanges.pending.whenEmpty(graceMs)
      await paths.close()
    },
  }
}

/** Returns what the MCP sessions of a caller are bound to: its key and the secret that it showed, the token, or its address. */
function identityOf(by: Principal, address: string, token: string | undefined): string {
  if (by.id !== undefined) return `${by.kind} ${by.id} ${by.secret}`
  return token === undefined ? `address ${address}` : `token ${token}`
}

/** The paths of one transport. */
interface TransportPaths {
  answer(request: Request, caller: Caller): Promise<Response>
  /** Ends streams without a call: their clients open them again, at another node. */
  drain?(): void
  /** Same as `McpSessions.stop`. */
  stop?(): void
  close(): Promise<void>
}

const legacyConnection = { era: 'legacy', lasting: true } as const

function serverFactoryOf(
  options: McpHttpOptions,
  waiting: ShutdownSignal,
  exchanges: RequestDeliveries,
): ServerFactory {
  const make = options.server ?? createMcpServer
  const questions = new QuestionTickets()
  const settled: CallTransport['deliver'] = (delivery, ctx) => {
    const exchange = exchanges.of(ctx.http?.req)
    if (exchange)
      exchange.onDelivered(
        delivered => delivery.report(delivered),
        () => delivery.reportWritten(),
      )
    else delivery.report(false)
  }
  return (request, connection, deliver = settled) =>
    make({
      ...options,
      ...connection,
      local: false,
      hasToken: request !== undefined && givenTokenOf(request) !== undefined,
      ...connectionSettingsOf(request?.url, options),
      calls: {
        waiting,
        questions,
        deliver,
        // The transport of 2024 has one stream for all.
        ...(options.transport === 'http' && {
          waitForReader: (ctx, signal) => exchanges.waitForReader(ctx.http?.req, signal),
        }),
      },
    })
}

/** Streamable HTTP at /mcp, for both eras. */
function createStreamablePath(
  options: McpHttpOptions,
  servers: ServerFactory,
  exchanges: RequestDeliveries,
): TransportPaths {
  const sessions = new McpSessions({
    server: (closed, request, by) => servers(request, { ...legacyConnection, by, closed }),
    exchanges,
    countErasures: () => options.gateway.people.countErasures(),
    ids: new SessionIds(options.sessionKey ?? randomUUID()),
    log: options.log,
    tasks: options.gateway.tasks,
    idleMs: options.idleMs,
    confirmMs: options.confirmMs,
    after: options.after,
  })
  const stateless = new StatelessRequests({ ...options, servers, exchanges, maxBodyBytes })
  async function answerParsed(request: Request, value: unknown, caller: Caller): Promise<Response> {
    const id = request.headers.get('mcp-session-id')
    // The key may have ended while the body was read.
    caller.by.ended?.throwIfAborted()
    const isAlone = request.method === 'POST' ? !(await isLegacyRequest(request, value)) : id === null
    if (isAlone) return stateless.answer(request, caller, value)
    // A client that initializes with an unknown session id gets a new session.
    const isNew = isInitializeRequest(value) && (id === null || !sessions.has(id, caller))
    if (id === null && !isNew) return stateless.answer(request, caller, value)
    // The body is read, and the answer may be a stream that stays open for long.
    releaseBody(request)
    try {
      if (isNew) return await sessions.open(request, value, caller)
      return (await sessions.serve(id!, request, caller, value)) ?? rejectUnknownSession()
    } catch (error) {
      if (error instanceof TooManySessionsError) return rejectTooManySessions()
      throw error
    }
  }
  return {
    async answer(request, caller) {
      if (pathOf(request) !== '/mcp') throw wrongPathError('/mcp')
      const wrong = rejectWrongParameter(request.url)
      if (wrong) return wrong
      const id = request.headers.get('mcp-session-id')
      // GET of a session opens a stream, so HEAD answers with the headers of a stream.
      if (request.method === 'HEAD' && id !== null)
        return sessions.has(id, caller) ? createUnopenedStream() : rejectUnknownSession()
      const posted = request.method === 'POST' ? await readJson(request) : { value: undefined }
      if (posted instanceof Response) return posted
      const { value } = posted
      noteAccepted(request)
      return (
        rejectEndless(request, value) ??
        answerAsRead(request, value, await answerParsed(request, value, caller))
      )
    },
    drain: () => sessions.endStreams(),
    stop() {
      sessions.stop()
      stateless.stop()
    },
    async close() {
      await Promise.all([stateless.close(), sessions.close()])
    },
  }
}

/**
 * The SSE transport of 2024: GET /sse opens a stream, and POST /messages sends requests that are answered on
 * it.
 */
function createSsePaths(servers: ServerFactory, { confirmMs }: McpHttpOptions): TransportPaths {
  const createServer: CreateSseServer = (closed, request, by, deliveries) =>
    servers(request, { ...legacyConnection, by, closed }, (delivery, ctx) =>
      deliveries.add(ctx.mcpReq.id, delivery),
    )
  const sse = new SseSessions({ createServer, messagesPath: '/messages', confirmMs })
  async function posted(request: Request, caller: Caller): Promise<Response> {
    const id = new URL(request.url).searchParams.get('sessionId') ?? ''
    const body = await readJson(request)
    releaseBody(request)
    if (body instanceof Response) return body
    const taken = sse.take(id, body.value, request, caller)
    if (taken === undefined) return rpcErrorResponse(400, -32600, 'The body is not a JSON-RPC message')
    return taken ? new Response('Accepted', { status: 202 }) : rejectUnknownSession()
  }
  return {
    async answer(request, caller) {
      const allow = { '/sse': 'GET', '/messages': 'POST' }[pathOf(request)]
      if (allow === undefined) throw wrongPathError('/sse')
      const isHead = allow === 'GET' && request.method === 'HEAD'
      if (request.method !== allow && !isHead) {
        const methods = allow === 'GET' ? 'GET, HEAD' : allow
        return rpcErrorResponse(405, -32000, 'Method not allowed', { allow: methods })
      }
      if (allow === 'POST') return posted(request, caller)
      const wrong = rejectWrongParameter(request.url)
      if (wrong) return wrong
      if (isHead) return createUnopenedStream()
      const opened = await sse.open(request, caller)
      return opened ?? rpcErrorResponse(503, -32000, 'This caller has too many streams open')
    },
    close: () => sse.close(),
  }
}

/** Returns the path of a request. A slash at its end makes no difference. */
const pathOf = ({ url }: Request): string => new URL(url).pathname.replace(/(?<=.)\/$/, '')

const wrongPathError = (path: string) =>
  new SvcError('not_found', 'Nothing is served at this path', { hint: `MCP is at ${path}.` })

/** Query parameters that a connection may have, with the pattern of their values. */
const parameterPatterns: Readonly<Record<string, RegExp>> = {
  structured: /^[01]$/,
  consumer: /^[\w.-]{1,64}$/,
}

/**
 * Reads `/mcp?structured=1&consumer=NAME`. The consumer replaces that of the service; structured content is
 * on if the connection or the service has it on.
 */
function connectionSettingsOf(
  url: string | undefined,
  { structured, consumer }: McpHttpOptions,
): Pick<McpContext, 'structured' | 'consumer'> {
  const query = url === undefined ? new URLSearchParams() : new URL(url).searchParams
  const reader = query.get('consumer') ?? consumer
  return {
    structured: structured || query.get('structured') === '1',
    ...(reader !== undefined && { consumer: reader }),
  }
}

/**
 * Returns an error for an unknown or wrong parameter: ignoring it would silently give the caller something
 * else.
 */
function rejectWrongParameter(url: string): Response | undefined {
  const { searchParams } = new URL(url)
  const wrong = [...searchParams].find(([name, value]) => {
    const pattern = Object.hasOwn(parameterPatterns, name) ? parameterPatterns[name] : undefined
    return !pattern?.test(value) || searchParams.getAll(name).length > 1
  })
  if (!wrong) return undefined
  const parameter = escapeControls(JSON.stringify(wrong[0].slice(0, 80)))
  return rpcErrorResponse(
    400,
    -32602,
    `${parameter} in the address is unknown, or its value is wrong: expected structured=1, consumer=NAME, or nothing`,
  )
}

async function readJson(request: Request): Promise<{ value: unknown } | Response> {
  if (!isJsonContentType(request.headers.get('content-type')))
    return rpcErrorResponse(415, -32000, 'Content-Type must be application/json')
  try {
    return { value: await readParsed(request, createFilesLimit(maxBodyBytes), JSON.parse) }
  } catch (error) {
    releaseBody(request)
    if (!isSvcError(error)) throw error
    const { code, details, message, retryAfter } = error
    if (code === 'bad_json') return rpcErrorResponse(400, -32700, message, {}, details)
    const text = `${message}. ${adviceOf(error, plainWordingOf('mcp'))}`
    if (code === 'payload_too_large') return rpcErrorResponse(413, -32000, text)
    if (code === 'rate_limited')
      return rpcErrorResponse(429, -32000, text, { 'retry-after': String(retryAfter) })
    return rpcErrorResponse(400, -32700, message)
  }
}

const rejectTooManySessions = () =>
  rpcErrorResponse(503, -32000, 'This caller has too many sessions open; end some with DELETE', {
    'retry-after': '60',
  })

const rejectUnknownSession = () => rpcErrorResponse(404, -32001, 'Session not found')
