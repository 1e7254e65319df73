/** Joins calls of send in this process that use one `idempotency_key`: they share the work of the first. */
import { SvcError } from '../model/error.ts'
import type { SendResult } from '../model/message.ts'

/** Work under way. It is aborted when the last caller leaves. */
interface SharedCall {
  /** Hash of the request (`hashNames`). */
  names: string
  result: Promise<SendResult>
  /** Number of callers that wait. */
  callers: number
  /** Aborts when no caller waits any more. */
  readonly left: AbortController
}

export class SharedCalls {
  readonly #running = new Map<string, SharedCall>()

  /**
   * Returns the result of the work under way for `key`. Starts it with `run` if there is none; `run` must
   * obey its signal. A call with other names runs after that work: only the bytes then show whether it
   * sends the same.
   */
  async run(
    key: string,
    names: string,
    signal: AbortSignal,
    run: (signal: AbortSignal) => Promise<SendResult>,
  ): Promise<SendResult> {
    for (;;) {
      const running = this.#running.get(key)
      const shared = running ?? this.#start(key, names, run)
      const same = shared.names === names
      try {
        const result = await joinCall(shared, signal)
        if (same) return running ? { ...result, repeated: true } : result
      } catch (error) {
        // All callers left before anything was sent, whatever the error is. This call is the first now.
        if (signal.aborted || (same && !shared.left.signal.aborted)) throw error
      }
    }
  }

  #start(key: string, names: string, run: (signal: AbortSignal) => Promise<SendResult>): SharedCall {
    const left = new AbortController()
    const remove = () => this.#running.delete(key)
    const result = run(left.signal)
    result.then(remove, remove)
    const shared: SharedCall = { names, result, callers: 0, left }
    this.#running.set(key, shared)
    return shared
  }
}

/** Waits for shared work as one more caller. A caller that leaves while others wait returns immediately. */
async function joinCall(shared: SharedCall, signal: AbortSignal): Promise<SendResult> {
  const departure = Promise.withResolvers<never>()
  const leave = () => {
    shared.callers -= 1
    if (shared.callers === 0) shared.left.abort(signal.reason)
    // If all leave in the same moment, as when the service stops, all of them get the result.
    queueMicrotask(() => {
      if (shared.callers > 0) departure.reject(leftError(signal))
    })
  }
  shared.callers += 1
  if (signal.aborted) leave()
  else signal.addEventListener('abort', leave, { once: true })
  try {
    return await Promise.race([shared.result, departure.promise])
  } finally {
    signal.removeEventListener('abort', leave)
  }
}

const leftError = ({ reason }: AbortSignal): SvcError =>
  reason instanceof SvcError
    ? reason
    : new SvcError('shutting_down', 'the caller left; another call with the same idempotency key goes on', {
        hint: 'Call again with the same key: it answers with the result of that call.',
      })
