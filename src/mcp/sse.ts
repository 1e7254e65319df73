/**
 * The SSE transport of 2024: GET /sse opens a stream. Its first event is the address to which the client
 * posts messages.
 */
import { randomUUID } from 'node:crypto'
import {
  type JSONRPCMessage,
  type McpServer,
  type MessageExtraInfo,
  parseJSONRPCMessage,
  type Transport,
} from '@modelcontextprotocol/server'
import type { Principal } from '../model/principal.ts'
import { SharedRoom, shares } from '../model/shares.ts'
import { attempt } from '../platform/fields.ts'
import { RoomPart } from '../platform/runtime.ts'
import { rootOf } from '../server/behind-proxy.ts'
import { backlogs, streamHeaders } from '../server/event-stream.ts'
import { beginStream } from '../server/limits.ts'
import { takePlace } from '../server/open-calls.ts'
import { createDrainedBody, waitForFlush, waitForTurn } from '../server/written.ts'
import { ConnectionDeliveries, closeWithKey } from './exchange.ts'
import type { Caller } from './sessions.ts'

const keepAliveMs = 15_000

/** Creates the server of one connection. */
export type CreateSseServer = (
  closed: AbortSignal,
  request: Request,
  by: Principal,
  deliveries: ConnectionDeliveries,
) => McpServer

interface SsePorts {
  createServer: CreateSseServer
  /** Path to which clients post messages. */
  messagesPath: string
  /** For tests: see `UnconfirmedAnswers`. */
  confirmMs?: number | undefined
}

/** The open streams, by session id. */
export class SseSessions extends RoomPart<SsePorts> {
  readonly #open = new Map<string, SseTransport>()
  readonly #places = new SharedRoom(shares.mcpStreams)

  /** Opens a stream (GET). Returns undefined if too many are open. */
  async open(request: Request, caller: Caller): Promise<Response | undefined> {
    const endStream = beginStream(caller.by)
    const leave = takePlace(this.#places, caller.by, caller.address)
    if (!leave) {
      endStream()
      return undefined
    }
    const id = randomUUID()
    const closed = new AbortController()
    const transport = new SseTransport(
      `${rootOf(request)}${this.ports.messagesPath}?sessionId=${id}`,
      caller,
      request.signal,
      this.ports.confirmMs,
    )
    const server = this.ports.createServer(closed.signal, request, caller.by, transport.deliveries)
    server.server.onclose = () => {
      closed.abort()
      leave()
      endStream()
      this.#open.delete(id)
    }
    this.#open.set(id, transport)
    closeWithKey(caller.by, () => transport.close(), closed.signal)
    await server.connect(transport)
    return transport.response()
  }

  /**
   * Takes a posted message.
   *
   * @returns false if the caller has no such stream, undefined if the body is not a message
   */
  take(id: string, body: unknown, request: Request, { identity }: Caller): boolean | undefined {
    const transport = this.#open.get(id)
    if (transport?.caller.identity !== identity) return false
    const message = attempt(() => parseJSONRPCMessage(body))
    if (!message) return undefined
    transport.deliveries.confirm(message)
    transport.onmessage?.(message, { request })
    return true
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open.values()].map(transport => transport.close()))
  }
}

/** An SSE event or comment that waits to be written. */
interface Frame {
  readonly text: string
  readonly isMessage: boolean
  /** Settles the delivery, if the frame is an answer. */
  readonly settle?: ((written: boolean) => void) | undefined
}

/** Frames that wait for the client to read them. */
class FrameQueue {
  readonly #frames: Frame[] = []
  /** Settle functions of the answers that still wait. */
  readonly #unsettled = new Set<(written: boolean) => void>()
  readonly #backlog: ReturnType<typeof backlogs.open>
  /** Characters of all frames. */
  #length = 0
  #notify: (() => void) | undefined
  #isClosed = false

  /** @param giveUp called for a client that does not read, when the streams of the process hold too many bytes */
  constructor(giveUp: () => void) {
    this.#backlog = backlogs.open(giveUp)
  }

  push(frame: Frame): void {
    if (frame.settle) this.#unsettled.add(frame.settle)
    this.#frames.push(frame)
    this.#length += frame.text.length
    this.#notify?.()
    this.#backlog.update(this.#length, false)
  }

  /** Yields the frames as bytes, as fast as the client reads. */
  async *drain(): AsyncGenerator<Uint8Array> {
    const encoder = new TextEncoder()
    for (;;) {
      while (this.#frames.length === 0 && !this.#isClosed)
        await new Promise<void>(resolve => {
          this.#notify = resolve
        })
      // Lets the event loop notice a client that hung up: the kernel would accept the frame anyway.
      if (this.#frames[0]?.isMessage) await waitForTurn()
      const frame = this.#frames.shift()
      if (!frame) return
      this.#length -= frame.text.length
      this.#backlog.update(this.#length, true)
      const bytes = encoder.encode(frame.text)
      yield bytes
      const { settle } = frame
      if (!settle) continue
      this.#unsettled.delete(settle)
      void waitForFlush(bytes.length).then(() => settle(true))
    }
  }

  /** Ends `drain`. What still waits is not written. */
  close(): void {
    this.#isClosed = true
    for (const settle of this.#unsettled) settle(false)
    this.#frames.length = 0
    this.#length = 0
    this.#backlog.end()
    this.#notify?.()
  }
}

class SseTransport implements Transport {
  readonly caller: Caller
  onclose?: () => void
  onmessage?: <T extends JSONRPCMessage>(message: T, extra?: MessageExtraInfo) => void
  /** Deliveries of open requests. */
  readonly deliveries: ConnectionDeliveries
  readonly #frames = new FrameQueue(() => void this.close())
  readonly #signal: AbortSignal
  readonly #closeOnAbort = () => void this.close()
  #closed = false
  #keepAlive: ReturnType<typeof setInterval> | undefined

  constructor(endpoint: string, caller: Caller, signal: AbortSignal, confirmMs?: number) {
    this.caller = caller
    this.deliveries = new ConnectionDeliveries(() => !this.#closed && !caller.isProxied, confirmMs)
    this.#signal = signal
    this.#frames.push({ text: `event: endpoint\ndata: ${endpoint}\n\n`, isMessage: false })
  }

  async start(): Promise<void> {
    if (this.#signal.aborted) this.#closeOnAbort()
    else this.#signal.addEventListener('abort', this.#closeOnAbort, { once: true })
    this.#keepAlive = setInterval(
      () => this.#frames.push({ text: ': keepalive\n\n', isMessage: false }),
      keepAliveMs,
    )
  }

  response(): Response {
    const body = createDrainedBody(this.#frames.drain(), () => void this.close())
    return new Response(body, { headers: streamHeaders })
  }

  /** Queues a message. Never rejects, same as `LineTransport.send`. */
  async send(message: JSONRPCMessage): Promise<void> {
    if (this.#closed) return
    const settle = this.deliveries.take(message)
    this.#frames.push({
      text: `event: message\ndata: ${JSON.stringify(message)}\n\n`,
      isMessage: true,
      settle,
    })
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    clearInterval(this.#keepAlive)
    this.#signal.removeEventListener('abort', this.#closeOnAbort)
    this.deliveries.loseAll()
    this.#frames.close()
    this.onclose?.()
  }
}
