/** Streams that detect a silent other side and missing bytes. */
import { badArgument, SvcError } from '../model/error.ts'
import { startAwakeTimer } from '../platform/clock.ts'
import { createByteCounter } from '../platform/memory.ts'
import { followSignal } from '../platform/signals.ts'
import { streamOnDemand } from '../platform/streams.ts'
import type { ByteSource } from './crypto.ts'
import { ILinkError, networkErrorOf } from './http.ts'

/**
 * Watches one exchange. Aborts its signal when the caller aborts, or when the other side is silent for too
 * long.
 */
export interface IdleWatch {
  readonly signal: AbortSignal
  /** Call it when the other side did something. `waiting`: whether svc now waits for the other side. */
  reportProgress(waiting: boolean): void
  /**
   * Converts a failure of the exchange: the caller's reason when the caller aborted, otherwise an ILinkError.
   */
  translate(error: unknown, what: string): unknown
  /** Ends the watch. Call it when the exchange has ended; a second call does nothing. */
  stop(): void
}

export function watchIdle(idleMs: number, caller?: AbortSignal): IdleWatch {
  const ended = new AbortController()
  const leave = caller && followSignal(caller, ended)
  let waiting = true
  const startTimer = () =>
    startAwakeTimer(idleMs, () => {
      if (waiting) ended.abort(new DOMException('The other side fell silent', 'TimeoutError'))
      else timer = startTimer()
    })
  let timer = startTimer()
  const stop = () => {
    timer.stop()
    leave?.()
  }
  return {
    signal: ended.signal,
    reportProgress(nowWaiting) {
      waiting = nowWaiting
      timer.restart()
    },
    translate(error, what) {
      if (caller?.aborted) return caller.reason
      if (error instanceof SvcError) return error
      if (ended.signal.aborted)
        return new ILinkError('timeout', `${what}: the other side fell silent`, { cause: error })
      return networkErrorOf(error, what)
    },
    stop,
  }
}

/**
 * Yields the source's bytes, which must be exactly `size`. The wait for the source does not count as silence
 * of the network. A failure in here, as opposed to one of the network, is stored in `source.failed`.
 * `progress` is called with the bytes taken so far.
 */
export async function* yieldExactly(
  chunks: AsyncIterable<Uint8Array>,
  size: number,
  watch: IdleWatch,
  { source, progress }: { source: { failed?: unknown }; progress?: (bytes: number) => void },
): AsyncGenerator<Uint8Array> {
  let sent = 0
  try {
    watch.reportProgress(false)
    progress?.(0)
    for await (const chunk of chunks) {
      sent += chunk.length
      if (sent > size) break
      watch.reportProgress(true)
      yield chunk
      watch.reportProgress(false)
      progress?.(sent)
    }
    watch.reportProgress(true)
    if (sent !== size) throw badArgument('media', 'the file changed while it was uploaded')
  } catch (error) {
    source.failed = error
    throw error
  }
}

/**
 * Yields the bytes of a response. Fails when the network fails or falls silent, and when the body ends before
 * `size`.
 */
export async function* yieldComplete(
  body: ByteSource,
  size: number | undefined,
  watch: IdleWatch,
): AsyncGenerator<Uint8Array> {
  const passed = createByteCounter()
  let received = 0
  try {
    watch.reportProgress(true)
    for await (const chunk of body) {
      // Counts half: decryption frees the ciphertext at once.
      passed(chunk.length / 2)
      received += chunk.length
      watch.reportProgress(false)
      yield chunk
      watch.reportProgress(true)
    }
  } catch (error) {
    throw watch.translate(error, 'CDN download')
  }
  if (size !== undefined && received !== size) {
    throw new SvcError('upstream_error', `The media ended early: ${received} of ${size} bytes arrived`)
  }
}

/** Makes a stream that reads ahead only `first`. Calls `done` once, whatever ends the stream. */
export function streamOf(
  chunks: AsyncGenerator<Uint8Array>,
  done: () => void,
  first?: IteratorResult<Uint8Array>,
): ReadableStream<Uint8Array> {
  let ahead = first
  return streamOnDemand({
    async pull(controller) {
      try {
        const { value, done: ended } = ahead ?? (await chunks.next())
        ahead = undefined
        if (!ended) return controller.enqueue(value)
        done()
        controller.close()
      } catch (error) {
        done()
        controller.error(error)
      }
    },
    async cancel() {
      done()
      await chunks.return(undefined)
    },
  })
}
