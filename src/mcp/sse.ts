/** The transport of 2024: GET /sse opens a stream that names an address, to which the client then posts its messages. */
import { randomUUID } from 'node:crypto'
import {
  isJSONRPCResultResponse,
  type JSONRPCMessage,
  type McpServer,
  type MessageExtraInfo,
  parseJSONRPCMessage,
  type RequestId,
  type Transport,
} from '@modelcontextprotocol/server'
import type { Delivery } from '../model/call.ts'
import { rootOf } from '../server/behind-proxy.ts'
import { backlogs } from '../server/event-stream.ts'
import { flushed, turn, unbuffered } from './exchange.ts'

const keepAliveMs = 15_000
/** Of each caller, so that nobody takes another's; and of all together, as the last line. */
const maxOfCaller = 1000
const maxStreams = 3000

/** What makes the server of one connection. */
export type SseServer = (
  closed: AbortSignal,
  request: Request,
  deliver: (id: RequestId, delivery: Delivery) => void,
) => McpServer

/** The open streams by their session ids. */
export class SseSessions {
  readonly #server: SseServer
  readonly #messagesPath: string
  readonly #open = new Map<string, SseTransport>()

  /** @param messagesPath where clients post */
  constructor(server: SseServer, messagesPath: string) {
    this.#server = server
    this.#messagesPath = messagesPath
  }

  /** GET: the stream; `undefined` when there are too many. @param caller whose it is: an address */
  async open(request: Request, caller: string): Promise<Response | undefined> {
    const own = this.#open.values().filter(transport => transport.caller === caller)
    if (this.#open.size >= maxStreams || [...own].length >= maxOfCaller) return undefined
    const id = randomUUID()
    const closed = new AbortController()
    const transport = new SseTransport(
      `${rootOf(request)}${this.#messagesPath}?sessionId=${id}`,
      caller,
      request.signal,
    )
    const server = this.#server(closed.signal, request, (requestId, delivery) =>
      transport.deliver(requestId, delivery),
    )
    server.server.onclose = () => {
      closed.abort()
      this.#open.delete(id)
    }
    this.#open.set(id, transport)
    await server.connect(transport)
    return transport.response()
  }

  /** POST: hands the message over. @returns false when there is no such stream, undefined when it is no message */
  take(id: string, body: unknown, request: Request): boolean | undefined {
    const transport = this.#open.get(id)
    if (!transport) return false
    let message: JSONRPCMessage
    try {
      message = parseJSONRPCMessage(body)
    } catch {
      return undefined
    }
    transport.onmessage?.(message, { request })
    return true
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open.values()].map(transport => transport.close()))
  }
}

/** A frame on its way out, and who hears that the kernel took it. */
interface Frame {
  readonly text: string
  taken?(): void
}

class SseTransport implements Transport {
  /** Whose it is: an address. */
  readonly caller: string
  onclose?: () => void
  onerror?: (error: Error) => void
  onmessage?: <T extends JSONRPCMessage>(message: T, extra?: MessageExtraInfo) => void
  readonly #deliveries = new Map<RequestId, Delivery>()
  readonly #queue: Frame[] = []
  /** Who never reads is cut off when there is no room for what waits in all streams. */
  readonly #backlog = backlogs.open(() => void this.close())
  /** Characters in the queue. */
  #waiting = 0
  readonly #signal: AbortSignal
  readonly #gone = () => void this.close()
  #wake: (() => void) | undefined
  #closed = false
  #keepAlive: ReturnType<typeof setInterval> | undefined

  constructor(endpoint: string, caller: string, signal: AbortSignal) {
    this.caller = caller
    this.#signal = signal
    this.#push({ text: `event: endpoint\ndata: ${endpoint}\n\n` })
  }

  async start(): Promise<void> {
    if (this.#signal.aborted) this.#gone()
    else this.#signal.addEventListener('abort', this.#gone, { once: true })
    this.#keepAlive = setInterval(() => this.#push({ text: ': keepalive\n\n' }), keepAliveMs)
  }

  /** The stream. A frame counts as taken when the runtime asks for the next one: then it has drained. */
  response(): Response {
    const encoder = new TextEncoder()
    let before: Frame | undefined
    const stream = new ReadableStream<Uint8Array>(
      {
        pull: async controller => {
          before?.taken?.()
          before = undefined
          while (this.#queue.length === 0 && !this.#closed)
            await new Promise<void>(resolve => {
              this.#wake = resolve
            })
          // Who hung up before is heard now; the kernel would take the frame all the same.
          if (this.#queue[0]?.taken) await turn()
          const frame = this.#closed ? undefined : this.#queue.shift()
          if (!frame) return controller.close()
          this.#waiting -= frame.text.length
          this.#backlog.holds(this.#waiting, true)
          before = frame
          controller.enqueue(encoder.encode(frame.text))
        },
        cancel: () => this.close(),
      },
      { highWaterMark: 0 },
    )
    return new Response(stream, {
      headers: {
        'content-type': 'text/event-stream',
        'cache-control': 'no-cache, no-transform',
        ...unbuffered,
      },
    })
  }

  /** Settles it once the answer is taken. */
  deliver(id: RequestId, delivery: Delivery): void {
    if (this.#closed) delivery.settle(false)
    else this.#deliveries.set(id, delivery)
  }

  /** Never rejects, as that of stdio. */
  async send(message: JSONRPCMessage): Promise<void> {
    if (this.#closed) return
    const id = 'method' in message ? undefined : message.id
    const delivery = id === undefined ? undefined : this.#deliveries.get(id)
    const text = `event: message\ndata: ${JSON.stringify(message)}\n\n`
    if (id === undefined || !delivery) return this.#push({ text })
    // From here on it is delivered, also to a client that closes: its session ends with the stream, and nothing can tell.
    const taken = () => {
      this.#deliveries.delete(id)
      void flushed(text.length).then(() => delivery.settle(isJSONRPCResultResponse(message)))
    }
    this.#push({ text, taken })
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    clearInterval(this.#keepAlive)
    this.#signal.removeEventListener('abort', this.#gone)
    for (const delivery of this.#deliveries.values()) delivery.settle(false)
    this.#deliveries.clear()
    this.#queue.length = 0
    this.#waiting = 0
    this.#backlog.end()
    this.#wake?.()
    this.onclose?.()
  }

  #push(frame: Frame): void {
    this.#queue.push(frame)
    this.#waiting += frame.text.length
    this.#wake?.()
    this.#backlog.holds(this.#waiting, false)
  }
}
