/** Deliveries of answers: each is settled when its answer is written, or when the client is gone. */
import { isJSONRPCResultResponse, type JSONRPCMessage, type RequestId } from '@modelcontextprotocol/server'
import { Delivery } from '../model/call.ts'
import type { Principal } from '../model/principal.ts'
import { endsWithin, startAwakeTimer } from '../platform/clock.ts'
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

/** Deliveries by their HTTP requests, so that a call finds its own. */
export class RequestDeliveries {
  /** Deliveries that are not settled. */
  readonly pending = new PendingSet<Delivery>()
  readonly #byRequest = new WeakMap<Request, Delivery>()

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

/** The deliveries of one connection, by the ids of their requests. */
export class ConnectionDeliveries {
  readonly #byRequest = new Map<RequestId, Delivery>()
  #isClosed = false

  add(id: RequestId, delivery: Delivery): void {
    if (this.#isClosed) delivery.report(false)
    else this.#byRequest.set(id, delivery)
  }

  /**
   * Removes the delivery of the request that this message answers.
   *
   * @returns a function to call with whether the answer was written; undefined if no delivery waits for it
   */
  take(message: JSONRPCMessage): ((written: boolean) => void) | undefined {
    const id = 'method' in message ? undefined : message.id
    const delivery = id === undefined ? undefined : this.#byRequest.get(id)
    if (id === undefined || !delivery) return undefined
    this.#byRequest.delete(id)
    return written => delivery.report(written && isJSONRPCResultResponse(message))
  }

  /** Ends the connection: settles all deliveries that were not taken as lost. */
  loseAll(): void {
    this.#isClosed = true
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
