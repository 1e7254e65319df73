/**
 * Sessions of the legacy era over Streamable HTTP: one server each, so that a client can be asked, told of progress and of
 * changes, and can read on after its connection broke.
 *
 * A session lives in this process. One that it does not know, and that was opened by this caller at a service of the same
 * data directory, is opened again from its id (see `SessionIds`): a client goes on after a restart, which some never do
 * after a 404. What was handed out in a lost session and not confirmed comes again. The era after it has no sessions.
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
  /** Makes the server of a session, for the request that opens it; the signal aborts with the session. */
  server(closed: AbortSignal, request: Request): McpServer
  readonly exchanges: Exchanges
  readonly ids: SessionIds
  /** For tests. */
  readonly idleMs?: number
  /** For tests: counts the time in which a client may come back. */
  readonly after?: typeof afterAwake | undefined
  readonly undecidedMs?: number
}

/** A session without any open connection ends after this; a request under its id opens it again. */
const usualIdleMs = 30 * 60_000
/**
 * Of each caller the so many idle sessions that were used last are kept, and no more are opened than `maxOfCaller`: nobody
 * takes another's. `maxSessions` of all together are the last line, at about 60 KB each.
 */
const maxIdle = 250
const maxOfCaller = 1000
const maxSessions = 3000
/** Ids of sessions that their clients ended are remembered up to here. */
const maxEnded = 10_000
const sweepEveryMs = 30_000
/** Told to clients: when to come back after a broken stream. One that has not come back by `resumeMs` is gone. */
const retryMs = 500
const resumeMs = 3000
/**
 * A client that hung up right after its answer may have read it: its next request says so. One that is silent for so long,
 * with nothing open, is taken for gone, and its messages come again.
 */
const usualUndecidedMs = 60_000

/**
 * The end of a stream waits this long once the kernel has its answer: a client that hung up in that time may
 * have left just before its answer came, or be done with it (Codex 0.169 is), and only its next request tells which.
 * Clients take the message as it comes; only the end of the stream waits.
 */
const holdMs = 30

/** Who calls. */
export interface Caller {
  readonly address: string
  /** Whom a session is bound to: the token, where one is needed, else the address. */
  readonly identity: string
}

interface Session {
  readonly caller: Caller
  readonly transport: WebStandardStreamableHTTPServerTransport
  readonly events: Events
  /** Requests and streams that are open. */
  open: number
  idleSince: number
  /** Something was asked in it. One that was only opened goes before those. */
  used: boolean
  /** By stream: answers whose client may come back for them. */
  readonly broken: Map<string, Answer>
  /** Those that the kernel has, and maybe the client. */
  readonly out: Set<Answer>
  close(): Promise<void>
}

interface Answer {
  readonly exchange: Delivery
  /** The client does not come back for it. */
  readonly giveUp: () => void
  /** Since the client hung up. */
  timer?: AwakeTimer
}

export class Sessions {
  readonly #options: SessionsOptions
  readonly #sessions = new Map<string, Session>()
  /** Sessions that are being opened again. */
  readonly #opening = new Map<string, Promise<Session>>()
  readonly #ended = new Set<string>()
  readonly #sweeping = setInterval(() => this.#sweep(), sweepEveryMs)
  #stopping = false

  constructor(options: SessionsOptions) {
    this.#options = options
    this.#sweeping.unref()
  }

  /** Whether it runs here, and is this caller's. */
  has(id: string, caller: Caller): boolean {
    return this.#sessions.get(id)?.caller.identity === caller.identity
  }

  /** Opens a session for an `initialize`; `undefined` when there are too many. */
  async open(request: Request, parsedBody: InitializeRequest, caller: Caller): Promise<Response | undefined> {
    if (!this.#hasRoom(caller)) return undefined
    const session = await this.#started(
      request,
      caller,
      this.#options.ids.make(parsedBody.params, caller.identity),
    )
    const response = await this.#serve(session, request, parsedBody)
    // What was no proper initialize made no session.
    if (session.transport.sessionId === undefined) await session.close()
    return response
  }

  /**
   * The answer to a request of that session; `undefined` when there is none of that id.
   *
   * @throws TooMany when it would have to be opened again
   */
  async serve(
    id: string,
    request: Request,
    caller: Caller,
    parsedBody?: unknown,
  ): Promise<Response | undefined> {
    const session = this.#sessions.get(id) ?? (await this.#openedAgain(id, request, caller))
    if (session?.caller.identity !== caller.identity) return undefined
    const asks = messagesOf(parsedBody).some(isJSONRPCRequest)
    session.used ||= asks
    // A client that goes on, or ends its session in order, has read what is out.
    if (asks || request.method === 'DELETE') decide(session, true)
    if (session.events.isForeign(lastEventOf(request))) return streamIsOver()
    const response = await this.#serve(session, request, parsedBody)
    if (request.method === 'DELETE' && response.ok) this.#end(id)
    return response
  }

  /** Ended by its client: nobody opens it again. */
  #end(id: string): void {
    this.#ended.add(id)
    for (const oldest of this.#ended) {
      if (this.#ended.size <= maxEnded) break
      this.#ended.delete(oldest)
    }
  }

  #hasRoom({ address }: Caller): boolean {
    this.#sweep()
    const own = this.#sessions.values().filter(session => session.caller.address === address)
    return this.#sessions.size < maxSessions && [...own].length < maxOfCaller
  }

  /** Opens a session again from what its id says. Several of its requests may come at once. */
  #openedAgain(id: string, request: Request, caller: Caller): Promise<Session | undefined> {
    const said = this.#ended.has(id) ? undefined : this.#options.ids.read(id, caller.identity)
    if (!said) return Promise.resolve(undefined)
    const under = this.#opening.get(id) ?? this.#openAgain(id, said, request, caller)
    this.#opening.set(id, under)
    return under.finally(() => this.#opening.delete(id))
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
      const own = new Request(url, { method: 'POST', headers: { ...headers, 'mcp-session-id': id } })
      await (await session.transport.handleRequest(own, { parsedBody })).text()
    }
    return session
  }

  /** A server that waits for its `initialize`. */
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

  /** The service stops: no answer waits for what its client does next. */
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
    const { after = afterAwake, exchanges, undecidedMs = usualUndecidedMs } = this.#options
    let stream = streamOf(lastEventOf(request))
    const back = stream === undefined ? undefined : broken.get(stream)
    const exchange = back?.exchange ?? (request.method === 'POST' ? exchanges.open(request) : new Delivery())
    const giveUp = back?.giveUp ?? (() => giveUpRequests(transport, parsedBody, exchange))
    const answer: Answer = { exchange, giveUp }
    session.open++
    const left = () => {
      if (--session.open === 0) session.idleSince = performance.now()
    }
    let response: Response
    try {
      response = await transport.handleRequest(request, parsedBody === undefined ? {} : { parsedBody })
    } catch (error) {
      left()
      exchange.settle(false)
      throw error
    }
    this.#forgetCancelled(session, parsedBody)
    if (back && stream !== undefined) {
      // The client may still come back in the right way.
      if (!response.ok) {
        left()
        return response
      }
      back.timer?.stop()
      broken.delete(stream)
    }
    return watched(response, {
      signal: request.signal,
      holdMs,
      counts: () => exchange.awaited,
      // The first event names its stream; a client of an old revision is told no such thing and cannot come back.
      saw: chunk => {
        const [, id = ''] = /^id: (\S+)/m.exec(new TextDecoder().decode(chunk.subarray(0, 200))) ?? []
        stream ??= streamOf(id)
      },
      out: () => void out.add(answer),
      written() {
        left()
        out.delete(answer)
        exchange.settle(true)
      },
      lost() {
        left()
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
        left()
        if (!out.has(answer)) return
        if (this.#stopping) return decide(session, false)
        answer.timer = afterAwake(undecidedMs, () => {
          out.delete(answer)
          // What is open is a client that is there.
          exchange.settle(session.open > 0)
        })
        answer.timer.unref()
      },
    })
  }

  /** A cancelled request is never answered, so its stream would stay open: it is ended with an error nobody waits for. */
  #forgetCancelled({ transport }: Session, parsedBody: unknown): void {
    for (const { method, params } of messagesOf(parsedBody)) {
      const id = method === 'notifications/cancelled' ? params?.requestId : undefined
      // Anything else is no request's, and may be nested too deep to be written down.
      // Of an answer that is out it says nothing: some clients take back every call that they are done with (OpenCode 1.18).
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
      const before = kept.get(address) ?? 0
      kept.set(address, before + 1)
      if (before >= maxIdle || now - session.idleSince > (this.#options.idleMs ?? usualIdleMs))
        session.close().catch(() => {})
    }
  }
}

/** No more sessions are opened for this caller. */
export class TooMany extends Error {}

/** Where a client reads on; empty where it does not. */
const lastEventOf = ({ headers, method }: Request): string =>
  (method === 'GET' && headers.get('last-event-id')) || ''

/** A client that asks on for what an earlier process was about to answer would ask for ever. */
const streamIsOver = () => rpcError(400, -32000, 'That stream ended with an earlier process')

/** Says of answers that are out whether the client has read them. */
function decide({ out }: Session, isRead: boolean): void {
  for (const one of [...out]) {
    one.timer?.stop()
    out.delete(one)
    one.exchange.settle(isRead)
  }
}

interface SomeMessage {
  method?: unknown
  params?: { requestId?: unknown }
}

const messagesOf = (body: unknown): SomeMessage[] =>
  [body].flat().filter((one): one is SomeMessage => typeof one === 'object' && one !== null)

/** The client does not come back: what it asked for is cut off, and what was answered is lost. */
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
  // After the abort, which the server handles in a microtask; an answered request is not known any more.
  setImmediate(() => {
    transport.send({ jsonrpc: '2.0', id, error: { code: -32000, message: 'Cancelled' } }).catch(() => {})
  })
}
