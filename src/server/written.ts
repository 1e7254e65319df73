/**
 * Detects whether an answer was written, for all interfaces: the kernel took every byte while the reader was
 * still connected. What the kernel still holds for a reader that dies is lost. Over REST a written answer counts
 * as delivered all the same; a reader that must not lose a message uses `ack`. Over MCP a sign of life must
 * follow (`mcp/exchange.ts`).
 *
 * An answer counts only after it is written. If the process dies in between, messages come twice. The other
 * order would lose them.
 */
import type { Writable } from 'node:stream'
import type { Delivery } from '../model/call.ts'
import { flushMsOf, piecesOf, waitUntilWritten } from '../platform/flush.ts'
import { streamOnDemand } from '../platform/streams.ts'

/** Waits for one turn of the event loop, so that a disconnect that the kernel knows of is noticed. */
export const waitForTurn = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

const sleep = (ms: number) => new Promise<void>(resolve => setTimeout(resolve, ms))

/**
 * Resolves when the kernel has the bytes that were given to the runtime. Until then they are lost if this
 * process dies.
 */
export async function waitForFlush(bytes: number): Promise<void> {
  await sleep(flushMsOf(bytes))
  await waitForTurn()
}

/** Writes a text. @returns false if the reader has disconnected */
export const writeTo = (output: Writable, text: string): Promise<boolean> =>
  new Promise(resolve => output.write(text, error => resolve(!error)))

/**
 * Creates a body with back-pressure and without read-ahead. The generator continues after a `yield` when the
 * kernel has taken that piece (Bun 1.4.5; for Deno see `piecesOf`). The end of the generator ends the body.
 *
 * @param left called when the reader cancels, also while the generator waits
 */
export function createDrainedBody(
  pieces: AsyncIterator<Uint8Array>,
  left: () => void,
): ReadableStream<Uint8Array> {
  let isCancelled = false
  return streamOnDemand({
    async pull(controller) {
      const { done, value } = await pieces.next()
      if (!done) controller.enqueue(value)
      else if (!isCancelled) controller.close()
    },
    cancel() {
      isCancelled = true
      left()
    },
  })
}

/**
 * Callbacks for an answer that is being sent. Exactly one of `onWritten`, `onLost` and `onLeft` is called,
 * once.
 */
export interface DeliveryWatch {
  /** Aborts when the client's connection closes before the answer is complete. */
  readonly signal: AbortSignal
  /** Whether the delivery matters. Called for each chunk, and after the last one. */
  isCounted(): boolean
  /** Called for each chunk before it is sent. */
  onChunk?(chunk: Uint8Array): void
  /** Called when the kernel has every byte. */
  onWritten(): void
  /** Called if the client disconnected before the runtime had every byte. */
  onLost(): void
  /** If given, called instead of `onWritten` if the client disconnected after the runtime had every byte. */
  onLeft?(): void
}

/** Passes a stream on and reports how it ends. @param first bytes to send before it, immediately */
export function watchBody(
  source: ReadableStream<Uint8Array>,
  watch: DeliveryWatch,
  first?: Uint8Array,
): ReadableStream<Uint8Array> {
  const { signal } = watch
  const reader = source.getReader()
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
    // All bytes are sent: the client may have read them.
    if (isOut) return
    end(() => watch.onLost())
    reader.cancel().catch(() => {})
  }
  const reportWritten = async (bytes: number) => {
    await waitForFlush(bytes)
    end(() => (hasLeft && watch.onLeft ? watch.onLeft() : watch.onWritten()))
  }
  async function* pieces(): AsyncGenerator<Uint8Array> {
    let bytes = 0
    if (first) yield first
    for (;;) {
      const { done, value } = await reader.read()
      if (done) break
      watch.onChunk?.(value)
      // Notice a client that disconnected before: the kernel would take the bytes anyway.
      if (watch.isCounted()) await waitForTurn()
      if (isOver) return
      bytes += value.length
      yield* piecesOf(value)
    }
    if (isOver) return
    isOut = true
    if (!watch.isCounted()) return end(() => watch.onWritten())
    // Bun writes the end of the body only after this generator ends. If the answer had to wait (a waiting
    // `recv`), Bun writes its messages only then, too. strace shows both.
    void reportWritten(bytes)
  }
  if (signal.aborted) leave()
  else signal.addEventListener('abort', leave, { once: true })
  return createDrainedBody(pieces(), leave)
}

/**
 * Creates the body of a text answer and reports its delivery. If the server can report when it has written an
 * answer, the body is the plain text. The answer then has a length, so its reader knows the end with the last
 * byte.
 */
export async function createReportingBody(
  text: string,
  { request, delivery }: { request: Request; delivery: Delivery },
): Promise<BodyInit> {
  const { signal } = request
  const reportLost = () => delivery.report(false)
  await waitForTurn()
  const written = waitUntilWritten(request)
  if (!written) {
    const watch: DeliveryWatch = {
      signal,
      isCounted: () => true,
      onWritten: () => delivery.report(true),
      onLost: reportLost,
      onLeft: reportLost,
    }
    return watchBody(new Blob([text]).stream(), watch)
  }
  void written.then(delivered => delivery.report(delivered))
  if (signal.aborted) reportLost()
  else signal.addEventListener('abort', reportLost, { once: true })
  return text
}
