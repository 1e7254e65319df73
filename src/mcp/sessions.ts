/**
 * Sessions of the legacy era over Streamable HTTP: one server each, so that a client can be asked, told of progress and of
 * changes, and can read on after its connection broke.
 *
 * A session lives in this process. One that it does not know, and that was opened by this caller at a service of the same
 * data directory, is opened again from its id (see `SessionIds`): a client goes on after a restart, which some never do
 * after a 404. What was handed out in a lost session and not confirmed comes again. The era after it has no sessions.
 */
import { randomUUID } from 'node:crypto'
import {
  type EventStore,
  type InitializeRequest,
  isJSONRPCRequest,
  type JSONRPCMessage,
  type McpServer,
  type RequestId,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server'
import { Delivery } from '../model/call.ts'
import { type AwakeTimer, afterAwake } from '../platform/clock.ts'
import { type Exchanges, rpcError, watched } from './exchange.ts'
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

/** Who calls. */
export interface Caller {
  readonly address: string
  /** Whom a session is bound to: the token, where one is needed, else the address. */
  readonly identity: string
}

/**
 * In a session the end of a stream waits this long once the kernel has its answer: a client that hung up in that time may
 * have left just before its answer came, or be done with it (Codex 0.169 is), and only its next request tells which.
 * Clients take the message as it comes; only the end of the stream waits.
 */
const holdMs = 30

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
  readonly broken: Map<string, Broken>
  /** Answers that the kernel has, and maybe the client. */
  readonly out: Set<Out>
  close(): Promise<void>
}

interface Broken {
  readonly exchange: Delivery
  readonly giveUp: () => void
  readonly timer: AwakeTimer
}

interface Out {
  readonly exchange: Delivery
  /** Since the client hung up. */
  timer?: AwakeTimer
}

export class Sessions {
  readonly #options: SessionsOptions
  readonly #sessions = new Map<string, Session>()
  /** Sessions that are being opened again. */
  readonly #opening = new Map<string, Promise<Session>>()
  readonly #ended = new Set<string>()
  #sweeping: ReturnType<typeof setInterval> | undefined
  #stopping = false

  constructor(options: SessionsOptions) {
    this.#options = options
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
    const lastEvent = request.method === 'GET' ? request.headers.get('last-event-id') : null
    if (lastEvent !== null && session.events.isForeign(lastEvent)) return streamIsOver()
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
        timer.stop()
        giveUp()
      }
      session.broken.clear()
      decide(session, false)
    }
    await server.connect(transport)
    if (!this.#sweeping) {
      this.#sweeping = setInterval(() => this.#sweep(), sweepEveryMs)
      this.#sweeping.unref()
    }
    return session
  }

  /** The service stops: no answer waits for what its client does next. */
  stop(): void {
    this.#stopping = true
    for (const session of this.#sessions.values()) decide(session, false)
  }

  async close(): Promise<void> {
    clearInterval(this.#sweeping)
    this.#sweeping = undefined
    await Promise.all([...this.#sessions.values()].map(session => session.close()))
  }

  async #serve(session: Session, request: Request, parsedBody: unknown): Promise<Response> {
    const { broken, transport } = session
    const { after = afterAwake } = this.#options
    const lastEvent = request.method === 'GET' ? request.headers.get('last-event-id') : null
    const back = lastEvent === null ? undefined : broken.get(streamOf(lastEvent) ?? '')
    const exchange =
      back?.exchange ?? (request.method === 'POST' ? this.#options.exchanges.open(request) : new Delivery())
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
    let stream = lastEvent === null ? undefined : streamOf(lastEvent)
    if (back && stream !== undefined && response.ok) {
      back.timer.stop()
      broken.delete(stream)
    }
    const isAnswer = request.method === 'POST' || back !== undefined
    const giveUp = back?.giveUp ?? (() => giveUpRequests(transport, parsedBody, exchange))
    const out: Out = { exchange }
    return watched(response, {
      signal: request.signal,
      holdMs,
      counts: () => exchange.awaited,
      // The first event names its stream; a client of an old revision is told no such thing and cannot come back.
      saw: chunk => {
        stream ??= streamOf(/^id: (\S+)/m.exec(new TextDecoder().decode(chunk.subarray(0, 200)))?.[1] ?? '')
      },
      out: () => void session.out.add(out),
      written() {
        left()
        session.out.delete(out)
        exchange.settle(true)
      },
      lost() {
        left()
        if (!isAnswer) return
        if (stream === undefined) return giveUp()
        const key = stream
        const timer = after(resumeMs, () => {
          broken.delete(key)
          giveUp()
        })
        timer.unref()
        broken.set(key, { exchange, giveUp, timer })
      },
      leftAfter: () => {
        left()
        if (!session.out.has(out)) return
        if (this.#stopping) return decide(session, false)
        out.timer = afterAwake(this.#options.undecidedMs ?? usualUndecidedMs, () => {
          session.out.delete(out)
          // What is open is a client that is there.
          exchange.settle(session.open > 0)
        })
        out.timer.unref()
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

const maxEvents = 500
const maxLength = 4 * 1024 * 1024
/** A client that has not come back by then does not come back. */
const keptMs = 60_000

interface Kept {
  readonly id: string
  readonly stream: string
  readonly message: JSONRPCMessage
  readonly length: number
  readonly at: number
}

/** The stream of news, which a client follows all the time. */
const standalone = '_GET_stream'

/**
 * What the streams of one session sent last, so that a client whose connection broke can read on. Bounded: the oldest
 * events are forgotten first. An event's id names its stream and, as a session may be opened again, when it began here.
 */
class Events implements EventStore {
  readonly #birth = randomUUID().slice(0, 8)
  readonly #kept: Kept[] = []
  #length = 0
  #last = 0

  async storeEvent(stream: string, message: JSONRPCMessage): Promise<string> {
    const id = `${stream}_${this.#birth}-${++this.#last}`
    const { length } = JSON.stringify(message)
    this.#kept.push({ id, stream, message, length, at: performance.now() })
    this.#length += length
    this.forget()
    return id
  }

  /** Drops what is too much or too old. */
  forget(): void {
    const oldest = performance.now() - keptMs
    for (let first = this.#kept[0]; first; first = this.#kept[0]) {
      const many = this.#kept.length > maxEvents || (this.#length > maxLength && this.#kept.length > 1)
      if (!many && first.at >= oldest) return
      this.#kept.shift()
      this.#length -= first.length
    }
  }

  /** Whether it names an answer of an earlier process. */
  isForeign(eventId: string): boolean {
    return streamOf(eventId) !== standalone && !eventId.includes(`_${this.#birth}-`)
  }

  async getStreamIdForEventId(id: string): Promise<string | undefined> {
    return streamOf(id)
  }

  async replayEventsAfter(
    lastEventId: string,
    { send }: { send: (id: string, message: JSONRPCMessage) => Promise<void> },
  ): Promise<string> {
    const stream = streamOf(lastEventId) ?? ''
    const isOurs = lastEventId.includes(`_${this.#birth}-`)
    const numberOf = (id: string) => Number(id.slice(id.lastIndexOf('-') + 1))
    const after = isOurs ? numberOf(lastEventId) : 0
    // The event that opens a stream carries no message.
    for (const event of [...this.#kept])
      if (event.stream === stream && numberOf(event.id) > after && 'jsonrpc' in event.message)
        await send(event.id, event.message)
    return stream
  }
}

/** The stream that an event belongs to. */
const streamOf = (eventId: string): string | undefined => /^(.+)_[0-9a-f]{8}-\d+$/.exec(eventId)?.[1]
