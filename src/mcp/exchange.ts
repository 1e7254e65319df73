/**
 * Deliveries of answers over MCP. An answer that was written may still be unread: its client may be stopped, and
 * then killed. What shows that it was read is a sign of life after it: the next request, an orderly end, or a
 * connection that is still open a minute later.
 */
import { isJSONRPCResultResponse, type JSONRPCMessage, type RequestId } from '@modelcontextprotocol/server'
import { Delivery } from '../model/call.ts'
import type { Principal } from '../model/principal.ts'
import { type AwakeTimer, endsWithin, startAwakeTimer } from '../platform/clock.ts'
import { type DeliveryWatch, watchBody } from '../server/written.ts'

/** A set of running tasks, and a wait until all have ended. */
export class PendingSet<One> {
  readonly #all = new Set<One>()
  #notifyEmpty: (() => void) | undefined

  add(task: One): void {
    this.#all.add(task)
  }

  delete(task: One): void {
    if (this.#all.delete(task) && this.#all.size === 0) this.#notifyEmpty?.()
  }

  /** Resolves when no task is left, at the latest after `withinMs`. */
  async whenEmpty(withinMs: number): Promise<void> {
    if (this.#all.size === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#notifyEmpty = resolve
    await endsWithin(withinMs, promise)
  }
}

/** After a key has ended, its waiting calls have this time for their errors, in milliseconds. */
const lastAnswersMs = 200

/**
 * Closes what belongs to a key shortly after the key has ended.
 *
 * @param closed aborts if it was closed before
 */
export function closeWithKey(
  { ended }: Principal,
  close: () => Promise<unknown>,
  closed?: AbortSignal,
): void {
  const closeSoon = () => {
    startAwakeTimer(lastAnswersMs, () => {
      close().catch(() => {})
    })
  }
  if (ended?.aborted) closeSoon()
  else ended?.addEventListener('abort', closeSoon, { once: true, ...(closed && { signal: closed }) })
}

/** Chunks that a stream may be ahead of its reader. */
const maxAhead = 8

/** How far a stream is ahead of its reader. */
class Backlog {
  #ahead = 0
  #onRead: (() => void) | undefined

  /** Counts one more chunk as soon as there is room for it. */
  async enter(signal: AbortSignal): Promise<void> {
    while (this.#ahead >= maxAhead && !signal.aborted) {
      const { promise, resolve } = Promise.withResolvers<void>()
      const wake = () => resolve()
      this.#onRead = wake
      signal.addEventListener('abort', wake)
      await promise
      signal.removeEventListener('abort', wake)
    }
    this.#ahead++
  }

  /** The connection has taken a chunk. */
  leave(): void {
    this.#ahead = Math.max(0, this.#ahead - 1)
    this.#onRead?.()
  }
}

/** Deliveries by their HTTP requests, so that a call finds its own. */
export class RequestDeliveries {
  /** Deliveries that are not settled. */
  readonly pending = new PendingSet<Delivery>()
  readonly #byRequest = new WeakMap<Request, Delivery>()
  readonly #backlogs = new WeakMap<Request, Backlog>()

  /** Resolves when the reader of the answer to a request has read most of it, and counts one more chunk. */
  async waitForReader(request: Request | undefined, signal: AbortSignal): Promise<void> {
    if (!request) return
    const backlog = this.#backlogs.get(request) ?? new Backlog()
    this.#backlogs.set(request, backlog)
    await backlog.enter(signal)
  }

  /** Call it for each chunk of the answer to a request that the connection takes. */
  noteRead(request: Request): void {
    this.#backlogs.get(request)?.leave()
  }

  /** Creates the delivery of a request that expects an answer. */
  open(request: Request): Delivery {
    const exchange: Delivery = new Delivery(() => this.pending.delete(exchange))
    this.pending.add(exchange)
    this.#byRequest.set(request, exchange)
    return exchange
  }

  /** Returns the delivery of a request, if `open` created one. */
  of(request: Request | undefined): Delivery | undefined {
    return request && this.#byRequest.get(request)
  }
}

/**
 * First bytes of a stream. Bun sends the headers with them; without them a stream looks dead until its first
 * event.
 */
const streamOpening = new TextEncoder().encode(': open\n\n')

/**
 * Returns the response with a body that reports to `watch`. A stream of events starts with
 * `streamOpening`.
 */
export function watchResponse(response: Response, watch: DeliveryWatch): Response {
  if (!response.body) {
    watch.onWritten()
    return response
  }
  const isStream = response.headers.get('content-type') === 'text/event-stream'
  const body = watchBody(
    response.body as ReadableStream<Uint8Array>,
    watch,
    isStream ? streamOpening : undefined,
  )
  return new Response(body, response)
}

/** How long svc waits for a sign of life after an answer was written, in milliseconds. */
const signOfLifeMs = 60_000

/** An answer that was written, and is not confirmed. */
interface WrittenAnswer {
  /** Ids of the requests that it answers, if the client can cancel them. */
  readonly calls?: ReadonlySet<unknown>
  /** Where only what comes on the same connection confirms it: that connection. */
  readonly connection?: unknown
  /** Id of its stream, if the client can resume it. */
  readonly stream?: string | undefined
}

/** What a client sends. */
export interface ClientMessages {
  /** The parsed body or line. */
  readonly body: unknown
  /** Id of the stream that it resumes. */
  readonly resumed?: string | undefined
  readonly connection?: string
}

/** Answers to one client that were written, and that no sign of life has followed yet. */
export class UnconfirmedAnswers {
  readonly #isConnected: () => boolean
  readonly #withinMs: number
  readonly #all = new Map<Delivery, WrittenAnswer & { timer: AwakeTimer }>()
  /** How all have ended. */
  #outcome: boolean | undefined

  /**
   * @param isConnected whether the client has a connection open, which is a sign of life after `withinMs`. Not
   *   through a proxy: that keeps connections open when its client is dead
   */
  constructor(isConnected: () => boolean, withinMs = signOfLifeMs) {
    this.#isConnected = isConnected
    this.#withinMs = withinMs
  }

  get size(): number {
    return this.#all.size
  }

  /** Adds an answer when its last byte was written: what the client sends from now on confirms it. */
  add(delivery: Delivery, answer: WrittenAnswer): void {
    const known = delivery.isAwaited ? this.#outcome : true
    delivery.reportWritten()
    if (known !== undefined) {
      delivery.report(known)
      return
    }
    const timer = startAwakeTimer(this.#withinMs, () => this.#end(delivery, this.#isConnected()))
    timer.unref()
    this.#all.set(delivery, { ...answer, timer })
  }

  /**
   * Takes what the client sends as a sign of life. The cancellation of a call, and the resumption of the stream
   * of its answer, do not show that this answer was read.
   */
  confirm({ body, connection, resumed }: ClientMessages): void {
    if (this.#all.size === 0) return
    const cancelled = [body].flat().map(cancelledBy)
    for (const [delivery, { calls, stream, ...answer }] of this.#all) {
      const isResumed = resumed !== undefined && resumed === stream
      const isCancelled = cancelled.every(id => id !== undefined && calls?.has(id))
      if (answer.connection === connection && !isResumed && !isCancelled) this.#end(delivery, true)
    }
  }

  /** Ends all, also those that are added later. isRead: the client has ended in order. */
  end(isRead: boolean): void {
    this.#outcome ??= isRead
    for (const delivery of this.#all.keys()) this.#end(delivery, isRead)
  }

  #end(delivery: Delivery, isRead: boolean): void {
    this.#all.get(delivery)?.timer.stop()
    this.#all.delete(delivery)
    delivery.report(isRead)
  }
}

/** Returns the id of the request that a message cancels. */
export function cancelledBy(message: unknown): unknown {
  const { method, params } = (message ?? {}) as { method?: unknown; params?: { requestId?: unknown } }
  return method === 'notifications/cancelled' ? params?.requestId : undefined
}

/** The deliveries of one connection, by the ids of their requests. */
export class ConnectionDeliveries {
  readonly #byRequest = new Map<RequestId, Delivery>()
  readonly #unconfirmed: UnconfirmedAnswers
  #isClosed = false

  /** @param isConnected as in `UnconfirmedAnswers` */
  constructor(isConnected: () => boolean, withinMs?: number) {
    this.#unconfirmed = new UnconfirmedAnswers(isConnected, withinMs)
  }

  /** Whether answers wait for a sign of life. */
  get isUnconfirmed(): boolean {
    return this.#unconfirmed.size > 0
  }

  add(id: RequestId, delivery: Delivery): void {
    if (this.#isClosed) delivery.report(false)
    else this.#byRequest.set(id, delivery)
  }

  /**
   * Removes the delivery of the request that this message answers.
   *
   * @returns a function to call with whether the answer was written; undefined if no delivery waits for it.
   *   Written, it waits for a sign of life
   */
  take(message: JSONRPCMessage): ((written: boolean) => void) | undefined {
    const id = 'method' in message ? undefined : message.id
    const delivery = id === undefined ? undefined : this.#byRequest.get(id)
    if (id === undefined || !delivery) return undefined
    this.#byRequest.delete(id)
    return written => {
      if (!written || this.#isClosed || !isJSONRPCResultResponse(message)) delivery.report(false)
      else this.#unconfirmed.add(delivery, { calls: new Set([id]) })
    }
  }

  /** Takes a message of the client as a sign of life. */
  confirm(message: unknown): void {
    this.#unconfirmed.confirm({ body: message })
  }

  /** The client has ended in order: it has read what was written. */
  confirmAll(): void {
    this.#unconfirmed.end(true)
  }

  /** Ends the connection: settles all deliveries that are not confirmed as lost. */
  loseAll(): void {
    this.#isClosed = true
    this.#unconfirmed.end(false)
    for (const delivery of this.#byRequest.values()) delivery.report(false)
    this.#byRequest.clear()
  }
}

/** Returns an HTTP response with a JSON-RPC error, for a message that is rejected. */
export const rpcErrorResponse = (
  status: number,
  code: number,
  message: string,
  headers: Record<string, string> = {},
  data?: object,
) => Response.json({ jsonrpc: '2.0', error: { code, message, data }, id: null }, { status, headers })
