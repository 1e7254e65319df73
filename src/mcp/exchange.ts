/** Calls and the answers they go out with: settled when the answer was written, or when the client is gone. */
import { isJSONRPCResultResponse, type JSONRPCMessage, type RequestId } from '@modelcontextprotocol/server'
import { Delivery } from '../model/call.ts'
import { endsWithin } from '../platform/clock.ts'
import { type Watch, watchedBody } from '../server/written.ts'

/** Knows what is under way, and waits for its end. */
export class UnderWay<One> {
  readonly #all = new Set<One>()
  #none: (() => void) | undefined

  add(one: One): void {
    this.#all.add(one)
  }

  delete(one: One): void {
    if (this.#all.delete(one) && this.#all.size === 0) this.#none?.()
  }

  /** Resolves when there is nothing any more, or when the time is over. */
  async over(withinMs: number): Promise<void> {
    if (this.#all.size === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#none = resolve
    await endsWithin(withinMs, promise)
  }
}

/** Exchanges by their requests: how a call finds its own. */
export class Exchanges {
  /** Those of which the answer is neither written nor lost. */
  readonly underWay = new UnderWay<Delivery>()
  readonly #byRequest = new WeakMap<Request, Delivery>()

  /** The exchange of a request that asks for an answer. */
  open(request: Request): Delivery {
    const exchange: Delivery = new Delivery(() => this.underWay.delete(exchange))
    this.underWay.add(exchange)
    this.#byRequest.set(request, exchange)
    return exchange
  }

  of(request: Request | undefined): Delivery | undefined {
    return request && this.#byRequest.get(request)
  }
}

/** Bun sends the headers with the first bytes: a stream that begins silently would look dead until its first event. */
const hello = new TextEncoder().encode(': open\n\n')

/** The same response, watched to the end of its body; a stream of events begins at once. */
export function watched(response: Response, watch: Watch): Response {
  if (!response.body) {
    watch.written()
    return response
  }
  const isStream = response.headers.get('content-type') === 'text/event-stream'
  const body = watchedBody(response.body as ReadableStream<Uint8Array>, watch, isStream ? hello : undefined)
  return new Response(body, response)
}

/** The deliveries of one lasting connection, by the ids of their requests. */
export class Deliveries {
  readonly #byRequest = new Map<RequestId, Delivery>()
  #isOver = false

  add(id: RequestId, delivery: Delivery): void {
    if (this.#isOver) delivery.settle(false)
    else this.#byRequest.set(id, delivery)
  }

  /** Removes the delivery of the request that this message answers. @returns the function that settles it */
  take(message: JSONRPCMessage): ((written: boolean) => void) | undefined {
    const id = 'method' in message ? undefined : message.id
    const delivery = id === undefined ? undefined : this.#byRequest.get(id)
    if (id === undefined || !delivery) return undefined
    this.#byRequest.delete(id)
    return written => delivery.settle(written && isJSONRPCResultResponse(message))
  }

  /** The connection is over: what was not taken is lost. */
  lose(): void {
    this.#isOver = true
    for (const delivery of this.#byRequest.values()) delivery.settle(false)
    this.#byRequest.clear()
  }
}

/** An HTTP answer with a JSON-RPC error, for a message that is not served. */
export const rpcError = (
  status: number,
  code: number,
  message: string,
  headers: Record<string, string> = {},
  data?: object,
) => Response.json({ jsonrpc: '2.0', error: { code, message, data }, id: null }, { status, headers })
