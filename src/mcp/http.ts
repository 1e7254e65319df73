/**
 * MCP over HTTP: Streamable HTTP at one path, for both eras, or the two paths of the older SSE transport.
 * Callers pass the same check as at the REST door.
 */

import { randomUUID } from 'node:crypto'
import {
  createMcpHandler,
  isInitializeRequest,
  isJsonContentType,
  isLegacyRequest,
  type McpHttpHandler,
  type McpServer,
} from '@modelcontextprotocol/server'
import type { Config } from '../config.ts'
import { Delivery } from '../model/call.ts'
import { isSvcError, SvcError } from '../model/error.ts'
import { adviceOf, plainly } from '../model/next-step.ts'
import { owner } from '../model/principal.ts'
import { toSvcError } from '../operations/gate.ts'
import type { afterAwake } from '../platform/clock.ts'
import { seen } from '../platform/escape-controls.ts'
import type { Peer } from '../platform/serve.ts'
import { createGuard, FailedTries } from '../server/auth.ts'
import { doneWith, filesLimit, parsedBody } from '../server/body.ts'
import { problemResponse } from '../server/errors.ts'
import { unopenedStream } from '../server/event-stream.ts'
import { Waiting } from '../server/http-call.ts'
import type { CallDoor, McpContext, McpShared } from './context.ts'
import { Exchanges, rpcError, watched } from './exchange.ts'
import { Questions } from './questions.ts'
import { createMcpServer } from './server.ts'
import { SessionIds } from './session-ids.ts'
import { type Caller, Sessions, TooMany } from './sessions.ts'
import { SseSessions } from './sse.ts'

export interface McpHttpOptions extends McpShared {
  readonly config: Pick<Config, 'host' | 'token' | 'allowHosts'>
  /** Streamable HTTP at /mcp, or the transport of 2024 at /sse and /messages. */
  readonly transport: 'http' | 'sse'
  /** Signs the ids of sessions; without it none lives longer than this process. */
  readonly sessionKey?: string
  /** For tests: when a session without connections ends. */
  readonly idleMs?: number
  /** For tests: counts the time in which a client may come back for an answer. */
  readonly after?: typeof afterAwake
  /** For tests: when messages come again whose reader hung up right after them. */
  readonly undecidedMs?: number
  /** For tests: makes the servers. */
  readonly server?: typeof createMcpServer
}

/** The door, as `platform/serve.ts` serves it. */
export interface McpHttpDoor {
  /** Never throws. */
  fetch(request: Request, peer?: Peer): Promise<Response>
  /** Refuses new calls and ends the waits of running ones; their answers are still written. */
  beginShutdown(): void
  /** Ends streams and sessions once the answers under way are written, or the time is over. */
  close(graceMs: number): Promise<void>
}

/** Base64 of 16 MiB with room for the rest, as at the REST door. */
const maxBodyBytes = 24 * 1024 * 1024

/** @throws Error when the address is open to others and there is no token */
export function createMcpHttp(options: McpHttpOptions): McpHttpDoor {
  const guard = createGuard(options.config)
  const tries = new FailedTries({ log: options.log })
  const waiting = new Waiting()
  const exchanges = new Exchanges()
  const servers = serversOf(options, waiting, exchanges)
  const paths =
    options.transport === 'sse' ? olderPaths(servers) : streamablePath(options, servers, exchanges)
  return {
    async fetch(request, peer) {
      const refusal = guard.refusal(request, false) ?? waiting.stopped
      if (refusal) return tries.answer(problemResponse(refusal), peer)
      peer?.accept()
      try {
        const address = peer?.remoteAddress ?? ''
        const { token } = options.config
        return await paths.answer(request, {
          address,
          identity: token === undefined ? `address ${address}` : `token ${token}`,
        })
      } catch (error) {
        doneWith(request)
        // What came as the door closed met a handler that was closed.
        return problemResponse(waiting.stopped ?? toSvcError(error, options.log, { signal: request.signal }))
      }
    },
    beginShutdown: () => waiting.stop(),
    async close(graceMs) {
      waiting.stop()
      paths.stop?.()
      await exchanges.underWay.over(graceMs)
      await paths.close()
    },
  }
}

/** What one transport serves. */
interface Paths {
  answer(request: Request, caller: Caller): Promise<Response>
  /** Nothing waits for what its client does next. */
  stop?(): void
  close(): Promise<void>
}

/** Makes the servers of connections, and of single requests. */
type Servers = (
  request: Request | undefined,
  connection: Pick<McpContext, 'era' | 'lasting' | 'closed'>,
  deliver?: CallDoor['deliver'],
) => McpServer

const legacy = { era: 'legacy', lasting: true } as const

function serversOf(options: McpHttpOptions, waiting: Waiting, exchanges: Exchanges): Servers {
  const make = options.server ?? createMcpServer
  const questions = new Questions()
  const settled: CallDoor['deliver'] = (delivery, ctx) => {
    const exchange = exchanges.of(ctx.http?.req)
    if (exchange) exchange.onDelivered(delivered => delivery.settle(delivered))
    else delivery.settle(false)
  }
  return (request, { era, lasting, closed }, deliver = settled) =>
    make({
      ...options,
      by: owner,
      local: false,
      era,
      lasting,
      closed,
      ...askedFor(request?.url, options),
      calls: { waiting, questions, deliver },
    })
}

/** Serves requests that stand for themselves: the modern era, and plain calls of the legacy one without a session. */
const stateless = (
  { changes, log }: McpHttpOptions,
  servers: Servers,
  responseMode: 'auto' | 'sse',
): McpHttpHandler =>
  createMcpHandler(
    ({ era, requestInfo: request }) =>
      servers(request, { era, lasting: false, closed: request?.signal ?? new AbortController().signal }),
    {
      responseMode,
      maxRequestBodySize: maxBodyBytes,
      onerror: error => log.debug('mcp', { error }),
      bus: {
        publish() {},
        subscribe: listener =>
          changes.subscribe(change =>
            listener(
              change.kind === 'updated'
                ? { kind: 'resource_updated', uri: change.uri }
                : { kind: 'resources_list_changed' },
            ),
          ),
      },
    },
  )

/** Streamable HTTP at /mcp, for both eras. */
function streamablePath(options: McpHttpOptions, servers: Servers, exchanges: Exchanges): Paths {
  const sessions = new Sessions({
    server: (closed, request) => servers(request, { ...legacy, closed }),
    exchanges,
    ids: new SessionIds(options.sessionKey ?? randomUUID()),
    idleMs: options.idleMs,
    undecidedMs: options.undecidedMs,
    after: options.after,
  })
  const plain = stateless(options, servers, 'auto')
  // A call may wait for minutes: its stream begins at once and shows life, else something on the way cuts it.
  const streaming = stateless(options, servers, 'sse')

  async function alone(request: Request, parsedBody?: unknown): Promise<Response> {
    const method = (parsedBody as { method?: unknown } | undefined)?.method
    // Nobody waits for the end of a subscription.
    const exchange = method === 'subscriptions/listen' ? new Delivery() : exchanges.open(request)
    const handler = method === 'tools/call' ? streaming : plain
    const response = await handler.fetch(request, parsedBody === undefined ? {} : { parsedBody })
    const settle = (delivered: boolean) => {
      doneWith(request)
      exchange.settle(delivered)
    }
    return watched(response, {
      signal: request.signal,
      counts: () => exchange.awaited,
      written: () => settle(true),
      lost: () => settle(false),
    })
  }

  return {
    async answer(request, caller) {
      if (new URL(request.url).pathname !== '/mcp') throw elsewhere('/mcp')
      const wrong = wrongParameter(request.url)
      if (wrong) return wrong
      const id = request.headers.get('mcp-session-id')
      // What GET of a session opens is a stream.
      if (request.method === 'HEAD' && id !== null)
        return sessions.has(id, caller) ? unopenedStream() : noSession()
      const posted = request.method === 'POST' ? await readJson(request) : { value: undefined }
      if (posted instanceof Response) return posted
      const { value } = posted
      const isAlone = request.method === 'POST' ? !(await isLegacyRequest(request, value)) : id === null
      if (isAlone) return alone(request, value)
      // A client may initialize with an id that is not known any more: it gets a new session.
      const isNew = isInitializeRequest(value) && (id === null || !sessions.has(id, caller))
      if (isNew) {
        doneWith(request)
        return (await sessions.open(request, value, caller)) ?? tooMany()
      }
      if (id === null) return alone(request, value)
      // The answer is a stream whose end is its client's: the call has its arguments now.
      doneWith(request)
      return await sessions.serve(id, request, caller, value).then(
        response => response ?? noSession(),
        error => {
          if (error instanceof TooMany) return tooMany()
          throw error
        },
      )
    },
    stop: () => sessions.stop(),
    async close() {
      await Promise.all([plain.close(), streaming.close(), sessions.close()])
    },
  }
}

/** The transport of 2024: /sse opens a stream, and what is posted to /messages is answered there. */
function olderPaths(servers: Servers): Paths {
  const sse = new SseSessions(
    (closed, request, deliveries) =>
      servers(request, { ...legacy, closed }, (delivery, ctx) => deliveries.add(ctx.mcpReq.id, delivery)),
    '/messages',
  )
  async function posted(request: Request): Promise<Response> {
    const id = new URL(request.url).searchParams.get('sessionId') ?? ''
    const body = await readJson(request)
    doneWith(request)
    if (body instanceof Response) return body
    const taken = sse.take(id, body.value, request)
    if (taken === undefined) return rpcError(400, -32600, 'The body is no JSON-RPC message')
    return taken ? new Response('Accepted', { status: 202 }) : noSession()
  }
  return {
    async answer(request, caller) {
      const { pathname } = new URL(request.url)
      const allow = { '/sse': 'GET', '/messages': 'POST' }[pathname]
      if (allow === undefined) throw elsewhere('/sse')
      const isHead = allow === 'GET' && request.method === 'HEAD'
      if (request.method !== allow && !isHead) {
        const methods = allow === 'GET' ? 'GET, HEAD' : allow
        return rpcError(405, -32000, 'Method not allowed', { allow: methods })
      }
      if (allow === 'POST') return posted(request)
      const wrong = wrongParameter(request.url)
      if (wrong) return wrong
      if (isHead) return unopenedStream()
      const opened = await sse.open(request, caller.address)
      return opened ?? rpcError(503, -32000, 'This caller has too many streams open')
    },
    close: () => sse.close(),
  }
}

const elsewhere = (path: string) =>
  new SvcError('not_found', 'Nothing is served at this path', { hint: `MCP is at ${path}.` })

/** What a connection may ask for in its address, and what each value has to be. */
const parameters: Readonly<Record<string, RegExp>> = { structured: /^[01]$/, consumer: /^[\w.-]{1,64}$/ }

/** `/mcp?structured=1&consumer=NAME`: for this connection, where the service does not do it for all. */
function askedFor(
  url: string | undefined,
  { structured, consumer }: McpHttpOptions,
): Pick<McpContext, 'structured' | 'consumer'> {
  const asked = url === undefined ? new URLSearchParams() : new URL(url).searchParams
  const reader = asked.get('consumer') ?? consumer
  return {
    structured: structured || asked.get('structured') === '1',
    ...(reader !== undefined && { consumer: reader }),
  }
}

/** A parameter that is mistyped would give something else than what was asked for, without a word. */
function wrongParameter(url: string): Response | undefined {
  const { searchParams } = new URL(url)
  const wrong = [...searchParams].find(([name, value]) => {
    const form = Object.hasOwn(parameters, name) ? parameters[name] : undefined
    return !form?.test(value) || searchParams.getAll(name).length > 1
  })
  if (!wrong) return undefined
  const what = `${seen(JSON.stringify(wrong[0].slice(0, 80)))} in the address is unknown here, or its value is wrong`
  return rpcError(400, -32602, `${what}: expected structured=1, consumer=NAME, or nothing`)
}

async function readJson(request: Request): Promise<{ value: unknown } | Response> {
  if (!isJsonContentType(request.headers.get('content-type')))
    return rpcError(415, -32000, 'Content-Type must be application/json')
  try {
    return { value: await parsedBody(request, filesLimit(maxBodyBytes), JSON.parse) }
  } catch (error) {
    doneWith(request)
    if (!isSvcError(error)) throw error
    const { code, details, message, retryAfter } = error
    if (code === 'bad_json') return rpcError(400, -32700, message, {}, details)
    const told = `${message}. ${adviceOf(error, plainly('mcp'))}`
    if (code === 'payload_too_large') return rpcError(413, -32000, told)
    if (code === 'rate_limited') return rpcError(429, -32000, told, { 'retry-after': String(retryAfter) })
    return rpcError(400, -32700, message)
  }
}

const tooMany = () =>
  rpcError(503, -32000, 'This caller has too many sessions open; end some with DELETE', {
    'retry-after': '60',
  })

const noSession = () => rpcError(404, -32001, 'Session not found')
