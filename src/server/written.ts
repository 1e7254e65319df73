/**
 * Whether an answer was written, for all doors: the kernel has taken every byte, and the reader was still there.
 * Nobody can tell what the kernel holds for a reader that dies; such a reader uses `after`.
 *
 * An answer counts a moment after it is written. A process that dies before it counts gives the messages twice; the other
 * order would lose them.
 */
import type { Writable } from 'node:stream'
import type { Delivery } from '../model/call.ts'
import { flushMsOf, piecesOf, whenWritten } from '../platform/serve.ts'

/** One turn of the event loop: a hang-up that the kernel knows of is heard. */
export const turn = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

const sleep = (ms: number) => new Promise<void>(resolve => setTimeout(resolve, ms))

/** Resolves when the kernel has the bytes that were handed to the runtime: until then they are lost if this process dies. */
export async function flushed(bytes: number): Promise<void> {
  await sleep(flushMsOf(bytes))
  await turn()
}

/** Writes the text. @returns false when the reader is gone */
export const writtenTo = (output: Writable, text: string): Promise<boolean> =>
  new Promise(resolve => output.write(text, error => resolve(!error)))

/**
 * A body with back-pressure and without read-ahead. The generator continues after a `yield` when that piece has drained into
 * the kernel (Bun 1.4.5; on Deno see `piecesOf`). The end of the generator ends the body.
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

/** What a door does as an answer goes out: one of `written`, `lost` and `leftAfter` is called, once. */
export interface Watch {
  /** Aborts when the client's connection closes before the answer is complete. */
  readonly signal: AbortSignal
  /** Whether it matters what becomes of it; asked for each chunk, and when all is out. */
  counts(): boolean
  /** Each chunk on its way out. */
  saw?(chunk: Uint8Array): void
  /** The runtime has every byte; only if it counts. */
  out?(): void
  /** The kernel has every byte. */
  written(): void
  /** The client hung up before the runtime had every byte. */
  lost(): void
  /** The client hung up after `out`, in place of `written`. */
  leftAfter?(): void
  /** The body ends only when the kernel has every byte, and this much later: until then a hang-up is heard. */
  readonly holdMs?: number
}

/** The same bytes, watched to their end. @param first goes before them, at once */
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
  const end = (tell: () => void) => {
    if (isOver) return
    isOver = true
    signal.removeEventListener('abort', leave)
    tell()
  }
  const leave = () => {
    hasLeft = true
    left.resolve()
    // After that the client may have read it.
    if (isOut) return
    end(() => watch.lost())
    reader.cancel().catch(() => {})
  }
  const settled = async (bytes: number) => {
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
      // A client that hung up before is heard now; the kernel would take the bytes all the same.
      if (watch.counts()) await turn()
      if (isOver) return
      bytes += value.length
      yield* piecesOf(value)
    }
    if (isOver) return
    isOut = true
    if (!watch.counts()) return end(() => watch.written())
    watch.out?.()
    // Bun writes the end after this, and the messages too if the answer had to wait (strace).
    const told = settled(bytes)
    if (holdMs !== undefined) await told
  }
  if (signal.aborted) leave()
  else signal.addEventListener('abort', leave, { once: true })
  return drained(pieces(), leave)
}

/**
 * The body of an answer of text, which settles its delivery. Where the server tells when it has written an answer, the body
 * is the plain text, so that the answer has a length and its reader knows the end with the last byte.
 */
export async function settlingBody(
  text: string,
  { request, delivery }: { request: Request; delivery: Delivery },
): Promise<BodyInit> {
  const { signal } = request
  const lost = () => delivery.settle(false)
  await turn()
  const written = whenWritten(request)
  if (!written) {
    const watch = { signal, counts: () => true, written: () => delivery.settle(true), lost, leftAfter: lost }
    return watchedBody(new Blob([text]).stream(), watch)
  }
  void written.then(delivered => delivery.settle(delivered))
  if (signal.aborted) lost()
  else signal.addEventListener('abort', lost, { once: true })
  return text
}
