/**
 * Detects whether an answer was written, for all interfaces: the kernel took every byte while the reader was
 * still connected. If a reader dies, svc cannot know what the kernel still held for it; such a reader uses
 * `after`.
 *
 * An answer counts as delivered shortly after it is written. If the process dies in between, messages come
 * twice. The other order would lose them.
 */
import type { Writable } from 'node:stream'
import type { Delivery } from '../model/call.ts'
import { flushMsOf, piecesOf, whenWritten } from '../platform/serve.ts'

/** Waits for one turn of the event loop, so that a disconnect that the kernel knows of is noticed. */
export const turn = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

const sleep = (ms: number) => new Promise<void>(resolve => setTimeout(resolve, ms))

/**
 * Resolves when the kernel has the bytes that were given to the runtime. Until then they are lost if this
 * process dies.
 */
export async function flushed(bytes: number): Promise<void> {
  await sleep(flushMsOf(bytes))
  await turn()
}

/** Writes a text. @returns false if the reader has disconnected */
export const writtenTo = (output: Writable, text: string): Promise<boolean> =>
  new Promise(resolve => output.write(text, error => resolve(!error)))

/**
 * Creates a body with back-pressure and without read-ahead. The generator continues after a `yield` when the
 * kernel has taken that piece (Bun 1.4.5; for Deno see `piecesOf`). The end of the generator ends the body.
 *
 * @param left called when the reader cancels, also while the generator waits
 */
export function drained(pieces: AsyncIterator<Uint8Array>, left: () => void): ReadableStream<Uint8Array> {
  let isCancelled = false
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await pieces.next()
        if (!done) controller.enqueue(value)
        else if (!isCancelled) controller.close()
      },
      cancel() {
        isCancelled = true
        left()
      },
    },
    { highWaterMark: 0 },
  )
}

/**
 * Callbacks for an answer that is being sent. Exactly one of `written`, `lost` and `leftAfter` is called,
 * once.
 */
export interface Watch {
  /** Aborts when the client's connection closes before the answer is complete. */
  readonly signal: AbortSignal
  /** Whether the delivery matters. Called for each chunk, and after the last one. */
  counts(): boolean
  /** Called for each chunk before it is sent. */
  saw?(chunk: Uint8Array): void
  /** Called when the runtime has every byte, but only if `counts()`. */
  out?(): void
  /** Called when the kernel has every byte. */
  written(): void
  /** Called if the client disconnected before the runtime had every byte. */
  lost(): void
  /** Called instead of `written` if the client disconnected after `out`. */
  leftAfter?(): void
  /**
   * If given, the body ends this long after the kernel has every byte. Until the end, a disconnect is
   * noticed.
   */
  readonly holdMs?: number
}

/** Passes a stream on and reports how it ends. @param first bytes to send before it, immediately */
export function watchedBody(
  source: ReadableStream<Uint8Array>,
  watch: Watch,
  first?: Uint8Array,
): ReadableStream<Uint8Array> {
  const { holdMs, signal } = watch
  const reader = source.getReader()
  const left = Promise.withResolvers<void>()
  let isOut = false
  let hasLeft = false
  let isOver = false
  const end = (report: () => void) => {
    if (isOver) return
    isOver = true
    signal.removeEventListener('abort', leave)
    report()
  }
  const leave = () => {
    hasLeft = true
    left.resolve()
    // All bytes are sent: the client may have read them.
    if (isOut) return
    end(() => watch.lost())
    reader.cancel().catch(() => {})
  }
  const reportWritten = async (bytes: number) => {
    await flushed(bytes)
    if (holdMs !== undefined) await Promise.race([sleep(holdMs), left.promise])
    end(() => (hasLeft && watch.leftAfter ? watch.leftAfter() : watch.written()))
  }
  async function* pieces(): AsyncGenerator<Uint8Array> {
    let bytes = 0
    if (first) yield first
    for (;;) {
      const { done, value } = await reader.read()
      if (done) break
      watch.saw?.(value)
      // Notice a client that disconnected before: the kernel would take the bytes anyway.
      if (watch.counts()) await turn()
      if (isOver) return
      bytes += value.length
      yield* piecesOf(value)
    }
    if (isOver) return
    isOut = true
    if (!watch.counts()) return end(() => watch.written())
    watch.out?.()
    // Bun writes the end of the body after this, and also the messages if the answer had to wait (strace).
    const reported = reportWritten(bytes)
    if (holdMs !== undefined) await reported
  }
  if (signal.aborted) leave()
  else signal.addEventListener('abort', leave, { once: true })
  return drained(pieces(), leave)
}

/**
 * Creates the body of a text answer and reports its delivery. If the server can report when it has written an
 * answer, the body is the plain text. The answer then has a length, so its reader knows the end with the last
 * byte.
 */
export async function settlingBody(
  text: string,
  { request, delivery }: { request: Request; delivery: Delivery },
): Promise<BodyInit> {
  const { signal } = request
  const reportLost = () => delivery.settle(false)
  await turn()
  const written = whenWritten(request)
  if (!written) {
    const watch: Watch = {
      signal,
      counts: () => true,
      written: () => delivery.settle(true),
      lost: reportLost,
      leftAfter: reportLost,
    }
    return watchedBody(new Blob([text]).stream(), watch)
  }
  void written.then(delivered => delivery.settle(delivered))
  if (signal.aborted) reportLost()
  else signal.addEventListener('abort', reportLost, { once: true })
  return text
}
