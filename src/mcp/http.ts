/**
 * MCP over HTTP: Streamable HTTP at one path, for both eras, or the two paths of the older SSE transport.
 * Callers pass the same check as at the REST door.
 */
import {
  createMcpHandler,
  isInitializeRequest,
  isJsonContentType,
  isLegacyRequest,
  type McpHttpHandler,
  type ServerContext,
} from '@modelcontextprotocol/server'
import type { Config } from '../config.ts'
import { Delivery } from '../model/call.ts'
import { isSvcError, SvcError } from '../model/error.ts'
import type { Peer } from '../platform/serve.ts'
import { createGuard } from '../server/auth.ts'
import { readBytes } from '../server/body.ts'
import { problemResponse } from '../server/errors.ts'
import { Waiting } from '../server/http-call.ts'
import { FailedTries } from '../server/tries.ts'
import { toSvcError } from '../tools/index.ts'
import type { McpCall } from './call.ts'
import type { McpContext, McpShared } from './context.ts'
import { Exchanges, watched } from './exchange.ts'
import { Questions } from './questions.ts'
import { createMcpServer } from './server.ts'
import { Sessions } from './sessions.ts'
import { SseSessions } from './sse.ts'

export interface McpHttpOptions extends McpShared {
  readonly config: Pick<Config, 'host' | 'token' | 'allowHosts'>
  /** Streamable HTTP at /mcp, or the transport of 2024 at /sse and /messages. */
  readonly transport: 'http' | 'sse'
  /** For tests: when a session without connections ends. */
  readonly idleMs?: number
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
  const overSse = options.transport === 'sse'
  const make = options.server ?? createMcpServer
  const guard = createGuard(options.config)
  const tries = new FailedTries({ log: options.log })
  const waiting = new Waiting()
  const questions = new Questions()
  const exchanges = new Exchanges()
  const deliver = (call: McpCall, ctx: ServerContext) => {
    const exchange = exchanges.of(ctx.http?.req)
    if (exchange) exchange.onDelivered(delivered => call.delivery.settle(delivered))
    else call.delivery.settle(false)
  }
  const serverOf = (
    request: Request | undefined,
    { era, lasting, closed }: Pick<McpContext, 'era' | 'lasting' | 'closed'>,
    to = deliver,
  ) => {
    const structured = options.structured || asksForStructure(request?.url)
    return make(
      { ...options, structured, local: false, era, lasting, closed },
      { local: false, era, waiting, questions, deliver: to },
    )
  }
  const legacy = { era: 'legacy', lasting: true } as const
  const sessions = new Sessions({
    server: (closed, request) => serverOf(request, { ...legacy, closed }),
    ...{ exchanges, idleMs: options.idleMs },
  })
  const sse = new SseSessions(
    (closed, request, delivered) =>
      serverOf(request, { ...legacy, closed }, (call, ctx) => delivered(ctx.mcpReq.id, call)),
    '/messages',
  )
  const stateless = (responseMode: 'auto' | 'sse'): McpHttpHandler =>
    createMcpHandler(
      ({ era, requestInfo: request }) => {
        const closed = request?.signal ?? neverAborts()
        return serverOf(request, { era, lasting: false, closed })
      },
      {
        responseMode,
        maxRequestBodySize: maxBodyBytes,
        onerror: error => options.log.debug('mcp', { error }),
        bus: {
          publish() {},
          subscribe: listener =>
            options.changes.subscribe(change =>
              listener(
                change.kind === 'updated'
                  ? { kind: 'resource_updated', uri: change.uri }
                  : { kind: 'resources_list_changed' },
              ),
            ),
        },
      },
    )
  const plain = stateless('auto')
  // A call may wait for minutes: its stream begins at once and shows life, else something on the way cuts it.
  const streaming = stateless('sse')

  /** A request that stands for itself: the modern era, and plain calls of the legacy one without a session. */
  async function alone(request: Request, parsedBody?: unknown): Promise<Response> {
    const method = (parsedBody as { method?: unknown } | undefined)?.method
    // Nobody waits for the end of a subscription.
    const exchange = method === 'subscriptions/listen' ? new Delivery() : exchanges.open(request)
    const handler = method === 'tools/call' ? streaming : plain
    const response = await handler.fetch(request, parsedBody === undefined ? {} : { parsedBody })
    return watched(response, {
      signal: request.signal,
      counts: () => exchange.awaited,
      written: () => exchange.settle(true),
      lost: () => exchange.settle(false),
    })
  }

  async function streamable(request: Request, caller: string): Promise<Response> {
    const id = request.headers.get('mcp-session-id')
    if (request.method !== 'POST') {
      if (id === null) return alone(request)
      return (await sessions.serve(id, request)) ?? rpcError(404, -32001, 'Session not found')
    }
    const body = await readJson(request)
    if (body instanceof Response) return body
    if (!(await isLegacyRequest(request, body.value))) return alone(request, body.value)
    if (id !== null) {
      return (await sessions.serve(id, request, body.value)) ?? rpcError(404, -32001, 'Session not found')
    }
    if (!isInitializeRequest(body.value)) return alone(request, body.value)
    return (
      (await sessions.open(request, body.value, caller)) ??
      rpcError(503, -32000, 'This caller has too many sessions open; end some with DELETE', {
        'retry-after': '60',
      })
    )
  }

  async function posted(request: Request): Promise<Response> {
    const id = new URL(request.url).searchParams.get('sessionId') ?? ''
    const body = await readJson(request)
    if (body instanceof Response) return body
    const taken = sse.take(id, body.value, request)
    if (taken === undefined) return rpcError(400, -32600, 'The body is no JSON-RPC message')
    return taken ? new Response('Accepted', { status: 202 }) : rpcError(404, -32001, 'Session not found')
  }

  async function routed(request: Request, caller: string): Promise<Response> {
    const { pathname } = new URL(request.url)
    if (!overSse && pathname === '/mcp') return streamable(request, caller)
    if (overSse && pathname === '/sse') {
      if (request.method !== 'GET') return rpcError(405, -32000, 'Method not allowed', { allow: 'GET' })
      return (
        (await sse.open(request, caller)) ?? rpcError(503, -32000, 'This caller has too many streams open')
      )
    }
    if (overSse && pathname === '/messages') {
      if (request.method !== 'POST') return rpcError(405, -32000, 'Method not allowed', { allow: 'POST' })
      return posted(request)
    }
    throw new SvcError('not_found', 'Nothing is served at this path', {
      hint: `MCP is at ${overSse ? '/sse' : '/mcp'}.`,
    })
  }

  return {
    async fetch(request, peer) {
      const refusal = guard.refusal(request, false) ?? waiting.stopped
      if (refusal) return tries.answer(problemResponse(refusal), peer)
      peer?.accept()
      try {
        return await routed(request, peer?.remoteAddress ?? '')
      } catch (error) {
        return problemResponse(toSvcError(error, options.log, { signal: request.signal }))
      }
    },
    beginShutdown: () => waiting.stop(),
    async close(graceMs) {
      waiting.stop()
      await exchanges.settled(graceMs)
      await Promise.all([plain.close(), streaming.close(), sessions.close(), sse.close()])
    },
  }
}

/** `/mcp?structured=1`: for this connection, where the service does not do it for all. */
const asksForStructure = (url: string | undefined) =>
  url !== undefined && new URL(url).searchParams.get('structured') === '1'

const neverAborts = () => new AbortController().signal

async function readJson(request: Request): Promise<{ value: unknown } | Response> {
  if (!isJsonContentType(request.headers.get('content-type')))
    return rpcError(415, -32000, 'Content-Type must be application/json')
  try {
    return { value: JSON.parse(new TextDecoder().decode(await readBytes(request, maxBodyBytes))) }
  } catch (error) {
    if (isSvcError(error, 'payload_too_large')) return rpcError(413, -32000, error.message)
    if (isSvcError(error)) return rpcError(400, -32700, error.message)
    return rpcError(400, -32700, 'The body is not valid JSON')
  }
}

const rpcError = (status: number, code: number, message: string, headers: Record<string, string> = {}) =>
  Response.json({ jsonrpc: '2.0', error: { code, message }, id: null }, { status, headers })
