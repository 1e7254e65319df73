/**
 * One HTTP request and the calls whose answers go out with it: settled when the answer was taken by the socket, or when
 * the client is gone.
 */
import { Delivery } from '../model/call.ts'
import { endsWithin } from '../platform/clock.ts'
import { flushMsOf, piecesOf } from '../platform/serve.ts'

/**
 * In a session the end of a stream waits this long once the kernel has its answer: a client that hung up in that time may
 * have left just before its answer came, or be done with it (Codex 0.169 is), and only its next request tells which.
 * Clients take the message as it comes; only the end of the stream waits.
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
  /** The kernel has every byte. Only where somebody tells later whether the client has read them, and only if it counts. */
  out?(): void
  /** The end: the client has every byte, or will have. */
  written(): void
  /** The client hung up before the kernel had every byte. */
  lost(): void
  /** The client hung up after `out`, in place of `written`. */
  leftAfter?(): void
  /** Whether it matters what became of it; asked when all is out. */
  counts(): boolean
  /** Each chunk on its way out. */
  saw?(chunk: Uint8Array): void
}

/** Bun sends the headers with the first bytes: a stream that begins silently would look dead until its first event. */
const hello = new TextEncoder().encode(': open\n\n')

/** Tells a proxy (nginx) to pass a stream on without buffering it. */
export const unbuffered = { 'x-accel-buffering': 'no' } as const

/** The same response, watched to the end of its body; a stream of events begins at once. */
export function watched(response: Response, watch: Watch): Response {
  if (!response.body) {
    watch.written()
    return response
  }
  const isStream = response.headers.get('content-type') === 'text/event-stream'
  const body = watchedBody(response.body as ReadableStream<Uint8Array>, watch, isStream ? hello : undefined)
  const headers = new Headers(response.headers)
  if (isStream) for (const [name, value] of Object.entries(unbuffered)) headers.set(name, value)
  return new Response(body, { status: response.status, headers })
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
  /** The kernel has all; from here on a client that hangs up may have read it. */
  let isOut = false
  let hasLeft = () => {}
  const end = (then: () => void) => {
    if (over) return
    over = true
    signal.removeEventListener('abort', leave)
    then()
  }
  const leave = () => {
    if (isOut) return hasLeft()
    end(() => watch.lost())
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
          if (done || over) break
          watch.saw?.(value)
          // Who hung up before is heard now; the kernel would take the bytes all the same.
          if (watch.counts()) await turn()
          if (over) return
          size += value.length
          pieces = piecesOf(value)
        }
        if (over) return
        isOut = true
        let left = false
        if (watch.counts()) {
          const { promise, resolve } = Promise.withResolvers<void>()
          hasLeft = () => {
            left = true
            resolve()
          }
          watch.out?.()
          await flushed(size)
          if (watch.leftAfter && !left) await Promise.race([sleep(holdMs), promise])
        }
        end(() => (left && watch.leftAfter ? watch.leftAfter() : watch.written()))
        if (!left) controller.close()
      },
      cancel: leave,
    },
    { highWaterMark: 0 },
  )
}

const sleep = (ms: number) => new Promise<void>(resolve => setTimeout(resolve, ms))

/** One turn of the event loop: a hang-up that the kernel knows of is heard. */
export const turn = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

/** Resolves when the kernel has the bytes that were handed to the runtime: until then they are lost if this process dies. */
export async function flushed(bytes: number): Promise<void> {
  await sleep(flushMsOf(bytes))
  await turn()
}
