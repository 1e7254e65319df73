/** Calls of send in this process that bear one `idempotency_key`: the work of the first one is that of all. */
import { SvcError } from '../model/error.ts'
import type { SendResult } from '../model/message.ts'

/** Work that is under way. It ends when the last one who waits for it leaves. */
interface Shared {
  /** Tells what it sends, as the caller named it. */
  names: string
  result: Promise<SendResult>
  /** Who waits. */
  callers: number
  /** Aborts when nobody does. */
  readonly left: AbortController
}

export class SharedCalls {
  readonly #running = new Map<string, Shared>()

  /**
   * The result of the work under way for `key`; `run` begins it when there is none, with the signal that it is to heed.
   * A call that names other things runs when that is over: only the bytes tell then whether it sends the same.
   */
  async once(
    key: string,
    names: string,
    signal: AbortSignal,
    run: (signal: AbortSignal) => Promise<SendResult>,
  ): Promise<SendResult> {
    for (;;) {
      const running = this.#running.get(key)
      const shared = running ?? this.#begin(key, names, run)
      const same = shared.names === names
      try {
        const result = await joined(shared, signal)
        if (same) return running ? { ...result, repeated: true } : result
      } catch (error) {
        // All who waited had left before anything was sent, whatever it broke on: now this is the first.
        if (signal.aborted || (same && !shared.left.signal.aborted)) throw error
      }
    }
  }

  #begin(key: string, names: string, run: (signal: AbortSignal) => Promise<SendResult>): Shared {
    const left = new AbortController()
    const over = () => this.#running.delete(key)
    const result = run(left.signal)
    result.then(over, over)
    const shared: Shared = { names, result, callers: 0, left }
    this.#running.set(key, shared)
    return shared
  }
}

/** The result of shared work, for one more caller. Who leaves while others wait hears so at once. */
async function joined(shared: Shared, signal: AbortSignal): Promise<SendResult> {
  const gone = Promise.withResolvers<never>()
  const leave = () => {
    shared.callers -= 1
    if (shared.callers === 0) shared.left.abort(signal.reason)
    // Those who leave in one moment, as when the service stops, all hear what became of it: so does the last one.
    queueMicrotask(() => {
      if (shared.callers > 0) gone.reject(left(signal))
    })
  }
  shared.callers += 1
  if (signal.aborted) leave()
  else signal.addEventListener('abort', leave, { once: true })
  try {
    return await Promise.race([shared.result, gone.promise])
  } finally {
    signal.removeEventListener('abort', leave)
  }
}

const left = ({ reason }: AbortSignal): SvcError =>
  reason instanceof SvcError
    ? reason
    : new SvcError('shutting_down', 'the caller left; another call with the same idempotency key goes on', {
        hint: 'Call again with the same key: it answers with the result of that call.',
      })
