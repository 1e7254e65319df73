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
import { type AwakeTimer, afterAwake } from '../platform/clock.ts'
import { type Exchanges, rpcError, watched } from './exchange.ts'
import { Events, streamOf } from './session-events.ts'
import type { SessionIds } from './session-ids.ts'

export interface SessionsOptions {
  /** Creates the server of a session. `request` opens the session; `closed` aborts when the session ends. */
  server(closed: AbortSignal, request: Request): McpServer
  readonly exchanges: Exchanges
  readonly ids: SessionIds
  /** Overrides `defaultIdleMs` in tests. */
  readonly idleMs?: number
  /** Timer for the time in which a client may come back. Tests replace it. */
  readonly after?: typeof afterAwake | undefined
  /** Overrides `defaultUndecidedMs` in tests. */
  readonly undecidedMs?: number
}

/** A session ends after this time without an open connection. A request with its id opens it again. */
const defaultIdleMs = 30 * 60_000
/**
 * Maximum number of idle sessions per caller address. The most recently used ones stay. `maxOfCaller` limits
 * all sessions of an address, so one caller cannot use up the sessions of others. `maxSessions` limits all
 * sessions of the process; one takes about 60 KB.
 */
const maxIdle = 250
const maxOfCaller = 1000
const maxSessions = 3000
/** How many ids of sessions that clients have ended are remembered. */
const maxEnded = 10_000
const sweepEveryMs = 30_000
/**
 * Delay that clients are asked to wait before they resume a broken stream. After `resumeMs` the client counts
 * as gone.
 */
const retryMs = 500
const resumeMs = 3000
/**
 * How long svc waits for the next request of a client that hung up right after its answer. A request shows
 * that the client has read the answer. A client without a request and without an open connection counts as
 * gone, and its messages come again.
 */
const defaultUndecidedMs = 60_000

/**
 * How long the end of a stream is delayed after the kernel has taken the answer. A client that hangs up in
 * this time may have left before the answer came, or may be finished with it (Codex 0.169 is). Only its next
 * request shows which. The delay does not affect the message: clients read it as it comes.
 */
const holdMs = 30

/** A caller over HTTP. */
export interface Caller {
  readonly address: string
  /** Key that sessions are bound to: the token if the service requires one, else the address. */
  readonly identity: string
}

interface Session {
  readonly caller: Caller
  readonly transport: WebStandardStreamableHTTPServerTransport
  readonly events: Events
  /** Number of open requests and streams. */
  open: number
  /** Time of the monotonic clock in milliseconds. */
  idleSince: number
  /** Whether the client has made a request in it. Sessions without one end first. */
  used: boolean
  /** Answers on broken streams that the client may still resume, by stream id. */
  readonly broken: Map<string, Answer>
  /** Answers that the kernel has taken. The client may have read them or not. */
  readonly out: Set<Answer>
  close(): Promise<void>
}

interface Answer {
  readonly exchange: Delivery
  /** Called when the client has not come back for the answer. */
  readonly giveUp: () => void
  /** Runs since the client hung up. */
  timer?: AwakeTimer
}

export class Sessions {
  readonly #options: SessionsOptions
  readonly #sessions = new Map<string, Session>()
  /** Sessions that are being opened again from their ids. */
  readonly #opening = new Map<string, Promise<Session>>()
  /** Ids of sessions that their clients have ended. */
  readonly #ended = new Set<string>()
  readonly #sweeping = setInterval(() => this.#sweep(), sweepEveryMs)
  #stopping = false

  constructor(options: SessionsOptions) {
    this.#options = options
    this.#sweeping.unref()
  }

  /** Returns whether the session is open in this process and belongs to this caller. */
  has(id: string, caller: Caller): boolean {
    return this.#sessions.get(id)?.caller.identity === caller.identity
  }

  /** Opens a session for an `initialize` request. Returns undefined if there are too many sessions. */
  async open(request: Request, parsedBody: InitializeRequest, caller: Caller): Promise<Response | undefined> {
    if (!this.#hasRoom(caller)) return undefined
    const session = await this.#started(
      request,
      caller,
      this.#options.ids.make(parsedBody.params, caller.identity),
    )
    const response = await this.#serve(session, request, parsedBody)
    // An invalid `initialize` request has opened no session.
    if (session.transport.sessionId === undefined) await session.close()
    return response
  }

  /**
   * Answers a request of a session. Returns undefined if no session has this id, or if it belongs to another
   * caller.
   *
   * @throws TooMany if the session would have to be opened again and the caller has too many
   */
  async serve(
    id: string,
    request: Request,
    caller: Caller,
    parsedBody?: unknown,
  ): Promise<Response | undefined> {
    const session = this.#sessions.get(id) ?? (await this.#openedAgain(id, request, caller))
    if (session?.caller.identity !== caller.identity) return undefined
    const hasRequest = messagesOf(parsedBody).some(isJSONRPCRequest)
    session.used ||= hasRequest
    // A client that sends its next request, or ends the session with DELETE, has read the earlier answers.
    if (hasRequest || request.method === 'DELETE') decide(session, true)
    if (session.events.isForeign(lastEventOf(request))) return streamIsOver()
    const response = await this.#serve(session, request, parsedBody)
    if (request.method === 'DELETE' && response.ok) this.#end(id)
    return response
  }

  /** Remembers that the client has ended the session, so that it is not opened again. */
  #end(id: string): void {
    this.#ended.add(id)
    for (const oldest of this.#ended) {
      if (this.#ended.size <= maxEnded) break
      this.#ended.delete(oldest)
    }
  }

  #hasRoom({ address }: Caller): boolean {
    this.#sweep()
    const ofCaller = this.#sessions.values().filter(session => session.caller.address === address)
    return this.#sessions.size < maxSessions && [...ofCaller].length < maxOfCaller
  }

  /**
   * Opens a session again from its id, or returns undefined. Requests that arrive at the same time share one
   * opening.
   */
  #openedAgain(id: string, request: Request, caller: Caller): Promise<Session | undefined> {
    const params = this.#ended.has(id) ? undefined : this.#options.ids.read(id, caller.identity)
    if (!params) return Promise.resolve(undefined)
    const opening = this.#opening.get(id) ?? this.#openAgain(id, params, request, caller)
    this.#opening.set(id, opening)
    return opening.finally(() => this.#opening.delete(id))
  }

  async #openAgain(
    id: string,
    params: InitializeRequest['params'],
    { url }: Request,
    caller: Caller,
  ): Promise<Session> {
    if (!this.#hasRoom(caller)) throw new TooMany()
    const session = await this.#started(new Request(url), caller, id)
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

  /** Starts a session whose server waits for its `initialize` request. */
  async #started(request: Request, caller: Caller, id: string): Promise<Session> {
    const closed = new AbortController()
    const events = new Events()
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => id,
      eventStore: events,
      retryInterval: retryMs,
      onsessioninitialized: () => void this.#sessions.set(id, session),
    })
    const server = this.#options.server(closed.signal, request)
    const session: Session = {
      caller,
      transport,
      events,
      open: 0,
      idleSince: performance.now(),
      used: false,
      broken: new Map(),
      out: new Set(),
      close: () => server.close(),
    }
    server.server.onclose = () => {
      closed.abort()
      if (transport.sessionId !== undefined) this.#sessions.delete(transport.sessionId)
      for (const { giveUp, timer } of session.broken.values()) {
        timer?.stop()
        giveUp()
      }
      session.broken.clear()
      decide(session, false)
    }
    await server.connect(transport)
    return session
  }

  /** Stops waiting for the next requests of clients: answers that are not confirmed count as unread. */
  stop(): void {
    this.#stopping = true
    for (const session of this.#sessions.values()) decide(session, false)
  }

  async close(): Promise<void> {
    clearInterval(this.#sweeping)
    await Promise.all([...this.#sessions.values()].map(session => session.close()))
  }

  async #serve(session: Session, request: Request, parsedBody: unknown): Promise<Response> {
    const { broken, out, transport } = session
    const { after = afterAwake, exchanges, undecidedMs = defaultUndecidedMs } = this.#options
    let stream = streamOf(lastEventOf(request))
    const resumed = stream === undefined ? undefined : broken.get(stream)
    const exchange =
      resumed?.exchange ?? (request.method === 'POST' ? exchanges.open(request) : new Delivery())
    const giveUp = resumed?.giveUp ?? (() => giveUpRequests(transport, parsedBody, exchange))
    const answer: Answer = { exchange, giveUp }
    session.open++
    const endRequest = () => {
      if (--session.open === 0) session.idleSince = performance.now()
    }
    let response: Response
    try {
      response = await transport.handleRequest(request, parsedBody === undefined ? {} : { parsedBody })
    } catch (error) {
      endRequest()
      exchange.settle(false)
      throw error
    }
    this.#forgetCancelled(session, parsedBody)
    if (resumed && stream !== undefined) {
      // This attempt failed; the client may still resume the stream with a correct request.
      if (!response.ok) {
        endRequest()
        return response
      }
      resumed.timer?.stop()
      broken.delete(stream)
    }
    return watched(response, {
      signal: request.signal,
      holdMs,
      counts: () => exchange.awaited,
      // The id of the first event contains the stream id. Clients of old revisions get no ids and cannot
      // resume.
      saw: chunk => {
        const [, id = ''] = /^id: (\S+)/m.exec(new TextDecoder().decode(chunk.subarray(0, 200))) ?? []
        stream ??= streamOf(id)
      },
      out: () => void out.add(answer),
      written() {
        endRequest()
        out.delete(answer)
        exchange.settle(true)
      },
      lost() {
        endRequest()
        if (stream === undefined) return giveUp()
        const key = stream
        answer.timer = after(resumeMs, () => {
          broken.delete(key)
          giveUp()
        })
        answer.timer.unref()
        broken.set(key, answer)
      },
      leftAfter: () => {
        endRequest()
        if (!out.has(answer)) return
        if (this.#stopping) return decide(session, false)
        answer.timer = afterAwake(undecidedMs, () => {
          out.delete(answer)
          // An open connection means that the client is still there.
          exchange.settle(session.open > 0)
        })
        answer.timer.unref()
      },
    })
  }

  /**
   * Ends the streams of cancelled requests with an error. The SDK never answers them, so they would stay
   * open.
   */
  #forgetCancelled({ transport }: Session, parsedBody: unknown): void {
    for (const { method, params } of messagesOf(parsedBody)) {
      const id = method === 'notifications/cancelled' ? params?.requestId : undefined
      // Other values are no request ids, and may be nested too deep to serialize.
      // A cancellation does not show that an answer was unread: some clients cancel every finished call
      // (OpenCode 1.18).
      if (typeof id === 'string' || typeof id === 'number') endUnanswered(transport, id)
    }
  }

  #sweep(): void {
    const now = performance.now()
    for (const { events } of this.#sessions.values()) events.forget()
    const idle = [...this.#sessions.values()].filter(({ open }) => open === 0)
    idle.sort((a, b) => Number(b.used) - Number(a.used) || b.idleSince - a.idleSince)
    const kept = new Map<string, number>()
    for (const session of idle) {
      const { address } = session.caller
      const count = kept.get(address) ?? 0
      kept.set(address, count + 1)
      if (count >= maxIdle || now - session.idleSince > (this.#options.idleMs ?? defaultIdleMs))
        session.close().catch(() => {})
    }
  }
}

/** Thrown when this caller, or the process, has too many MCP sessions to open another. */
export class TooMany extends Error {}

/** Returns the event id after which a client resumes a stream; '' if the request does not resume one. */
const lastEventOf = ({ headers, method }: Request): string =>
  (method === 'GET' && headers.get('last-event-id')) || ''

/**
 * Rejects resuming a stream of an earlier process: its answer never comes, and the client would retry for
 * ever.
 */
const streamIsOver = () => rpcError(400, -32000, 'That stream ended with an earlier process')

/** Settles the answers that the kernel has taken: the client has read them, or has not. */
function decide({ out }: Session, isRead: boolean): void {
  for (const answer of [...out]) {
    answer.timer?.stop()
    out.delete(answer)
    answer.exchange.settle(isRead)
  }
}

interface SomeMessage {
  method?: unknown
  params?: { requestId?: unknown }
}

const messagesOf = (body: unknown): SomeMessage[] =>
  [body].flat().filter((value): value is SomeMessage => typeof value === 'object' && value !== null)

/** Cancels the requests of a client that does not come back, and settles their answer as lost. */
function giveUpRequests(
  transport: WebStandardStreamableHTTPServerTransport,
  parsedBody: unknown,
  exchange: Delivery,
): void {
  exchange.settle(false)
  for (const message of messagesOf(parsedBody)) {
    if (!isJSONRPCRequest(message)) continue
    const params = { requestId: message.id, reason: 'the connection was lost' }
    transport.onmessage?.({ jsonrpc: '2.0', method: 'notifications/cancelled', params })
    endUnanswered(transport, message.id)
  }
}

function endUnanswered(transport: WebStandardStreamableHTTPServerTransport, id: RequestId): void {
  // Runs after the abort, which the server handles in a microtask. `send` fails if the request was answered
  // already.
  setImmediate(() => {
    transport.send({ jsonrpc: '2.0', id, error: { code: -32000, message: 'Cancelled' } }).catch(() => {})
  })
}
