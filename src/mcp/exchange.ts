/**
 * One HTTP request and the calls whose answers go out with it: settled when the answer was taken by the socket, or when
 * the client is gone.
 */
import { Delivery } from '../model/call.ts'
import { endsWithin } from '../platform/clock.ts'
import { flushMsOf, piecesOf } from '../platform/serve.ts'

/**
 * How long an answer that counts is held open once its bytes are out. By then what was handed to the runtime is in the
 * kernel, and a client that had hung up before is known: its end is read, or refuses what was written. Without it one
 * answer in some dozens was lost on a loaded machine to a client that left just before (measured). Clients take the
 * message as it comes; only the end of the stream waits.
 */
const holdMs = 30

/** Exchanges by their requests: how a call finds its own. */
export class Exchanges {
  readonly #byRequest = new WeakMap<Request, Delivery>()
  #open = 0
  #none: (() => void) | undefined

  /** The exchange of a request that asks for an answer. */
  open(request: Request): Delivery {
    this.#open++
    const exchange = new Delivery(() => {
      if (--this.#open === 0) this.#none?.()
    })
    this.#byRequest.set(request, exchange)
    return exchange
  }

  of(request: Request | undefined): Delivery | undefined {
    return request && this.#byRequest.get(request)
  }

  /** Resolves when every answer is written or lost, or when the time is over. */
  async settled(withinMs: number): Promise<void> {
    if (this.#open === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#none = resolve
    await endsWithin(withinMs, promise)
  }
}

export interface Watch {
  /** Aborts when the client's connection closes before the answer is complete. */
  readonly signal: AbortSignal
  /** Every byte was taken. */
  written(): void
  /** The client left before. */
  lost(): void
  /** Whether it matters that the client was there to the end; asked when all is out. */
  counts(): boolean
  /** Each chunk on its way out. */
  saw?(chunk: Uint8Array): void
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
  return new Response(body, { status: response.status, headers: response.headers })
}

/**
 * The same bytes with back-pressure: the next chunk is asked for when the one before has drained into the kernel, and the
 * end when all of them have (seen on Bun 1.4.5, see `settlingBody`).
 */
function watchedBody(
  source: ReadableStream<Uint8Array>,
  watch: Watch,
  first: Uint8Array | undefined,
): ReadableStream<Uint8Array> {
  const { signal } = watch
  const reader = source.getReader()
  let over = false
  let size = 0
  let pieces = piecesOf(first ?? new Uint8Array())
  const leave = () => {
    if (over) return
    over = true
    signal.removeEventListener('abort', leave)
    watch.lost()
    reader.cancel().catch(() => {})
  }
  if (signal.aborted) leave()
  else signal.addEventListener('abort', leave, { once: true })
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        for (;;) {
          const piece = pieces.next()
          if (!piece.done) return controller.enqueue(piece.value)
          const { done, value } = await reader.read()
          if (done) break
          watch.saw?.(value)
          size += value.length
          pieces = piecesOf(value)
        }
        if (watch.counts()) {
          await held(size)
          // The body was cancelled with it.
          if (over) return
        }
        over = true
        signal.removeEventListener('abort', leave)
        controller.close()
        watch.written()
      },
      cancel: leave,
    },
    { highWaterMark: 0 },
  )
}

/** Until so many bytes that were handed to the runtime are out, and a client that is not there any more is known to be gone. */
export async function held(bytes = 0): Promise<void> {
  await new Promise(resolve => setTimeout(resolve, Math.max(holdMs, flushMsOf(bytes))))
  await new Promise(resolve => setImmediate(resolve))
}
