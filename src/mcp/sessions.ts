/**
 * MCP sessions of the legacy era over Streamable HTTP. Each session has its own server. So svc can ask the
 * client, report progress and changes to it, and let it resume a stream after its connection broke.
 *
 * A session lives in this process. If a caller opened a session at another process of the same data
 * directory, it is opened again from its id (see `SessionIds`). So a client continues after a restart; some
 * clients never do after a 404. Messages that a lost session handed out unconfirmed come again. The modern
 * era has no sessions.
 */
import {
  type InitializeRequest,
  isJSONRPCRequest,
  type McpServer,
  type RequestId,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server'
import { Delivery } from '../model/call.ts'
import type { Principal } from '../model/principal.ts'
import { SharedRoom, shares } from '../model/shares.ts'
import { type AwakeTimer, startAwakeTimer } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Tasks } from '../platform/tasks.ts'
import { beginStream } from '../server/limits.ts'
import { openCallsOf, takePlace } from '../server/open-calls.ts'
import {
  cancelledBy,
  closeWithKey,
  type RequestDeliveries,
  rpcErrorResponse,
  UnconfirmedAnswers,
  watchResponse,
} from './exchange.ts'
import { SessionEvents, streamIdOf } from './session-events.ts'
import type { SessionIds } from './session-ids.ts'

export interface McpSessionsOptions {
  /** Creates the server of a session. `request` opens the session; `closed` aborts when the session ends. */
  server(closed: AbortSignal, request: Request, by: Principal): McpServer
  readonly exchanges: RequestDeliveries
  readonly ids: SessionIds
  readonly log: Log
  readonly tasks: Pick<Tasks, 'repeat'>
  /** Same as `PeopleStore.countErasures`. */
  countErasures(): Promise<number>
  /** Overrides `defaultIdleMs` in tests. */
  readonly idleMs?: number
  /** Timer for the time in which a client may come back. Tests replace it. */
  readonly after?: typeof startAwakeTimer | undefined
  /** For tests: see `UnconfirmedAnswers`. */
  readonly confirmMs?: number | undefined
}

/** A session ends after this time without an open connection. A request with its id opens it again. */
const defaultIdleMs = 30 * 60_000
/** Maximum number of idle sessions per key or address. The most recently used ones stay. */
const maxIdleOfCaller = 250
/** How many ids of sessions that clients have ended are remembered. */
const maxEnded = 10_000
const sweepEveryMs = 30_000
/**
 * Delay that clients are asked to wait before they resume a broken stream. After `resumeMs` the client counts
 * as gone.
 */
const retryMs = 500
const resumeMs = 3000
/** A caller over HTTP. */
export interface Caller {
  readonly by: Principal
  readonly address: string
  /** What sessions are bound to: a secret of a key, or the token if the service requires one, else the address. */
  readonly identity: string
  /** Whether a proxy passes the request on. It may keep its connection open when its client is dead. */
  readonly isProxied: boolean
  /** The client's connection, where it has one of its own: not through a proxy, not on a Unix socket. */
  readonly connection?: string | undefined
}

/** Returns by what idle sessions are counted: the key, else the address. A proxy has one for all. */
const countedAs = ({ address, by }: Caller): string => (by.id === undefined ? address : `${by.kind} ${by.id}`)

interface McpSession {
  readonly caller: Caller
  readonly transport: WebStandardStreamableHTTPServerTransport
  readonly events: SessionEvents
  /** Users who were erased before the answers in `events`: see `PeopleStore.countErasures`. */
  erasures: number
  /** Number of open requests and streams, and of those among them that no proxy passes on. */
  openCount: number
  directCount: number
  /** Time of the monotonic clock in milliseconds. */
  idleSince: number
  /** Whether the client has made a request in it. Sessions without one end first. */
  isUsed: boolean
  /** Answers on broken streams that the client may still resume, by stream id. */
  readonly brokenAnswers: Map<string, Answer>
  readonly unconfirmed: UnconfirmedAnswers
  close(): Promise<void>
}

interface Answer {
  readonly exchange: Delivery
  /** Ids of the requests that it answers. */
  readonly calls: ReadonlySet<RequestId>
  /** Called when the client has not come back for the answer. */
  readonly giveUp: () => void
  /** Runs since the connection broke. */
  timer?: AwakeTimer
}

export class McpSessions {
  readonly #options: McpSessionsOptions
  readonly #sessions = new Map<string, McpSession>()
  /** Sessions that are being opened again from their ids. */
  readonly #reopening = new Map<string, Promise<McpSession>>()
  /** Ids of sessions that their clients have ended. */
  readonly #ended = new Set<string>()
  readonly #closing = new AbortController()
  /** Counts sessions that are open or idle. One takes about 60 KB. */
  readonly #places = new SharedRoom(shares.mcpSessions)

  constructor(options: McpSessionsOptions) {
    this.#options = options
    const failure = 'idle sessions of MCP not ended'
    const often = {
      everyMs: sweepEveryMs,
      firstMs: sweepEveryMs,
      log: options.log,
      signal: this.#closing.signal,
    }
    options.tasks.repeat({ ...often, name: 'mcp_sessions', failure }, () => this.#sweep())
  }

  /** Returns whether the session is open in this process and belongs to this caller. */
  has(id: string, caller: Caller): boolean {
    return this.#sessions.get(id)?.caller.identity === caller.identity
  }

  /** Opens a session for an `initialize` request. @throws TooManySessionsError */
  async open(request: Request, parsedBody: InitializeRequest, caller: Caller): Promise<Response> {
    const session = await this.#startSession(
      request,
      caller,
      this.#options.ids.create(parsedBody.params, caller.identity),
    )
    try {
      return await this.#serve(session, request, caller, parsedBody)
    } finally {
      // An invalid `initialize` request has opened no session.
      if (session.transport.sessionId === undefined) await session.close()
    }
  }

  /**
   * Answers a request of a session. Returns undefined if no session has this id, or if it belongs to another
   * caller.
   *
   * @throws TooManySessionsError if the session would have to be opened again and the caller has too many
   */
  async serve(
    id: string,
    request: Request,
    caller: Caller,
    parsedBody?: unknown,
  ): Promise<Response | undefined> {
    const session = this.#sessions.get(id) ?? (await this.#reopen(id, request, caller))
    if (session?.caller.identity !== caller.identity) return undefined
    const hasRequest = messagesOf(parsedBody).some(isJSONRPCRequest)
    session.isUsed ||= hasRequest
    const resumed = resumeEventOf(request)
    session.unconfirmed.confirm({ body: parsedBody, resumed: streamIdOf(resumed) })
    if (resumed !== '') await this.#dropErased(session)
    if (session.events.isForeign(resumed)) return rejectEndedStream()
    const response = await this.#serve(session, request, caller, parsedBody)
    if (request.method === 'DELETE' && response.ok) this.#rememberEnded(id)
    return response
  }

  /** Drops the answers that a client may resume if a user was erased since: they may contain this user. */
  async #dropErased(session: McpSession): Promise<void> {
    const erasures = await this.#options.countErasures()
    if (erasures !== session.erasures) session.events.clear()
    session.erasures = erasures
  }

  /** Remembers that the client has ended the session, so that it is not opened again. */
  #rememberEnded(id: string): void {
    this.#ended.add(id)
    for (const oldest of this.#ended) {
      if (this.#ended.size <= maxEnded) break
      this.#ended.delete(oldest)
    }
  }

  /**
   * Opens a session again from its id, or returns undefined. Requests that arrive at the same time share one
   * opening.
   */
  #reopen(id: string, request: Request, caller: Caller): Promise<McpSession | undefined> {
    const params = this.#ended.has(id) ? undefined : this.#options.ids.read(id, caller.identity)
    if (!params) return Promise.resolve(undefined)
    const opening = this.#reopening.get(id) ?? this.#reopenFromParams(id, params, request, caller)
    this.#reopening.set(id, opening)
    return opening.finally(() => this.#reopening.delete(id))
  }

  async #reopenFromParams(
    id: string,
    params: InitializeRequest['params'],
    { url }: Request,
    caller: Caller,
  ): Promise<McpSession> {
    const session = await this.#startSession(new Request(url), caller, id)
    const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
    for (const parsedBody of [
      { jsonrpc: '2.0', id: 0, method: 'initialize', params },
      { jsonrpc: '2.0', method: 'notifications/initialized' },
    ]) {
      const replayed = new Request(url, { method: 'POST', headers: { ...headers, 'mcp-session-id': id } })
      await (await session.transport.handleRequest(replayed, { parsedBody })).text()
    }
    return session
  }

  /** Starts a session whose server waits for its `initialize` request. @throws TooManySessionsError */
  async #startSession(request: Request, caller: Caller, id: string): Promise<McpSession> {
    const erasures = await this.#options.countErasures()
    this.#sweep()
    const leave = takePlace(this.#places, caller.by, caller.address)
    if (!leave) throw new TooManySessionsError()
    const closed = new AbortController()
    const events = new SessionEvents()
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => id,
      eventStore: events,
      retryInterval: retryMs,
      onsessioninitialized: () => void this.#sessions.set(id, session),
    })
    const server = this.#options.server(closed.signal, request, caller.by)
    const session: McpSession = {
      caller,
      transport,
      events,
      erasures,
      openCount: 0,
      directCount: 0,
      idleSince: performance.now(),
      isUsed: false,
      brokenAnswers: new Map(),
      unconfirmed: new UnconfirmedAnswers(() => session.directCount > 0, this.#options.confirmMs),
      close: () => server.close(),
    }
    server.server.onclose = () => {
      leave()
      closed.abort()
      if (transport.sessionId !== undefined) this.#sessions.delete(transport.sessionId)
      for (const { giveUp, timer } of session.brokenAnswers.values()) {
        timer?.stop()
        giveUp()
      }
      session.brokenAnswers.clear()
      session.unconfirmed.end(false)
    }
    closeWithKey(caller.by, session.close, closed.signal)
    await server.connect(transport)
    return session
  }

  /** Ends the streams that belong to no call. */
  endStreams(): void {
    for (const { transport } of this.#sessions.values()) transport.closeStandaloneSSEStream()
  }

  /** Stops waiting for signs of life: answers that are not confirmed count as unread. */
  stop(): void {
    for (const { unconfirmed } of this.#sessions.values()) unconfirmed.end(false)
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await Promise.all([...this.#sessions.values()].map(session => session.close()))
  }

  async #serve(
    session: McpSession,
    request: Request,
    { isProxied }: Caller,
    parsedBody: unknown,
  ): Promise<Response> {
    const { brokenAnswers, unconfirmed, transport } = session
    const { after = startAwakeTimer, exchanges } = this.#options
    let stream = streamIdOf(resumeEventOf(request))
    const resumed = stream === undefined ? undefined : brokenAnswers.get(stream)
    const exchange =
      resumed?.exchange ?? (request.method === 'POST' ? exchanges.open(request) : new Delivery())
    const giveUp = resumed?.giveUp ?? (() => cancelRequests(transport, parsedBody, exchange))
    const calls =
      resumed?.calls ??
      new Set(
        messagesOf(parsedBody)
          .filter(isJSONRPCRequest)
          .map(({ id }) => id),
      )
    const answer: Answer = { exchange, calls, giveUp }
    const { by } = session.caller
    const isStream =
      request.method === 'GET' ||
      messagesOf(parsedBody).some(message => 'method' in message && message.method === 'events/stream')
    const endStream = isStream ? beginStream(by) : openCallsOf(by).hold()
    session.openCount++
    if (!isProxied) session.directCount++
    const endRequest = () => {
      endStream()
      if (!isProxied) session.directCount--
      if (--session.openCount === 0) session.idleSince = performance.now()
    }
    let response: Response
    try {
      response = await transport.handleRequest(request, parsedBody === undefined ? {} : { parsedBody })
    } catch (error) {
      endRequest()
      exchange.report(false)
      throw error
    }
    this.#endCancelled(session, parsedBody)
    if (resumed && stream !== undefined) {
      // This attempt failed; the client may still resume the stream with a correct request.
      if (!response.ok) {
        endRequest()
        return response
      }
      resumed.timer?.stop()
      brokenAnswers.delete(stream)
    }
    return watchResponse(response, {
      signal: request.signal,
      isCounted: () => exchange.isAwaited,
      // The id of the first event contains the stream id. Clients of old revisions get no ids and cannot
      // resume.
      onChunk: chunk => {
        exchanges.noteRead(request)
        const [, id = ''] = /^id: (\S+)/m.exec(new TextDecoder().decode(chunk.subarray(0, 200))) ?? []
        stream ??= streamIdOf(id)
      },
      onWritten() {
        endRequest()
        unconfirmed.add(exchange, { calls, stream })
      },
      onLost() {
        endRequest()
        if (stream === undefined) return giveUp()
        const key = stream
        answer.timer = after(resumeMs, () => {
          brokenAnswers.delete(key)
          giveUp()
        })
        answer.timer.unref()
        brokenAnswers.set(key, answer)
      },
    })
  }

  /**
   * Ends the streams of cancelled requests with an error. The SDK never answers them, so they would stay
   * open.
   */
  #endCancelled({ transport }: McpSession, parsedBody: unknown): void {
    for (const message of messagesOf(parsedBody)) {
      const id = cancelledBy(message)
      // Other values are no request ids, and may be nested too deep to serialize.
      // A cancellation does not show that an answer was unread: some clients cancel every finished call
      // (OpenCode 1.18).
      if (typeof id === 'string' || typeof id === 'number') endRequestWithError(transport, id)
    }
  }

  #sweep(): void {
    const now = performance.now()
    for (const { events } of this.#sessions.values()) events.prune()
    const idle = [...this.#sessions.values()].filter(({ openCount }) => openCount === 0)
    idle.sort((a, b) => Number(b.isUsed) - Number(a.isUsed) || b.idleSince - a.idleSince)
    const kept = new Map<string, number>()
    for (const session of idle) {
      const caller = countedAs(session.caller)
      const count = kept.get(caller) ?? 0
      kept.set(caller, count + 1)
      if (count >= maxIdleOfCaller || now - session.idleSince > (this.#options.idleMs ?? defaultIdleMs))
        session.close().catch(() => {})
    }
  }
}

/** Thrown when this caller, or the process, has too many MCP sessions to open another. */
export class TooManySessionsError extends Error {}

/** Returns the event id after which a client resumes a stream; '' if the request does not resume one. */
const resumeEventOf = ({ headers, method }: Request): string =>
  (method === 'GET' && headers.get('last-event-id')) || ''

/**
 * Rejects resuming a stream of an earlier process: its answer never comes, and the client would retry for
 * ever.
 */
const rejectEndedStream = () => rpcErrorResponse(400, -32000, 'That stream ended with an earlier process')

const messagesOf = (body: unknown): object[] =>
  [body].flat().filter((value): value is object => typeof value === 'object' && value !== null)

/** Cancels the requests of a client that does not come back, and settles their answer as lost. */
function cancelRequests(
  transport: WebStandardStreamableHTTPServerTransport,
  parsedBody: unknown,
  exchange: Delivery,
): void {
  exchange.report(false)
  for (const message of messagesOf(parsedBody)) {
    if (!isJSONRPCRequest(message)) continue
    const params = { requestId: message.id, reason: 'the connection was lost' }
    transport.onmessage?.({ jsonrpc: '2.0', method: 'notifications/cancelled', params })
    endRequestWithError(transport, message.id)
  }
}

function endRequestWithError(transport: WebStandardStreamableHTTPServerTransport, id: RequestId): void {
  // Runs after the abort, which the server handles in a microtask. `send` fails if the request was answered
  // already.
  setImmediate(() => {
    transport.send({ jsonrpc: '2.0', id, error: { code: -32000, message: 'Cancelled' } }).catch(() => {})
  })
}
