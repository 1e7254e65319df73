/** Queues the sends of this process to one user: one at a time, in order of arrival. */
import type { Clock } from '../platform/clock.ts'
import { followSignal } from '../platform/signals.ts'
import { busyError, stoppedError } from './problems.ts'

/**
 * Extra time for the sends ahead, beyond what the pace predicts. A request without an answer takes 15 s.
 */
const maxHangMs = 15_000

/** A send in the line of its user. */
export interface QueuedSend {
  /** Whether nobody was ahead. */
  readonly isFirst: boolean
  /** Resolves when all sends ahead are done. */
  readonly ahead: Promise<void>
}

export class SendLines {
  readonly #clock: Clock
  /** Promises that resolve when the last send in a line is done, by session and user. */
  readonly #lines = new Map<string, Promise<void>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Takes a place in the line of sends to a user. Dispose it to let the next one go. */
  join(session: string, user: string): QueuedSend & Disposable {
    const key = `${session}\n${user}`
    const before = this.#lines.get(key)
    const ahead = before ?? Promise.resolve()
    const { promise, resolve } = Promise.withResolvers<void>()
    const end = ahead.then(() => promise)
    this.#lines.set(key, end)
    const leave = () => {
      resolve()
      if (this.#lines.get(key) === end) this.#lines.delete(key)
    }
    return { isFirst: before === undefined, ahead, [Symbol.dispose]: leave }
  }

  /**
   * Waits for the sends ahead in a line.
   *
   * @throws SvcError `rate_limited` (`why: 'busy'`) if they take longer than `patienceMs` plus one
   *   request; the signal's reason
   */
  async waitInLine(ahead: Promise<void>, patienceMs: number, signal: AbortSignal): Promise<void> {
    const ended = new AbortController()
    const leave = followSignal(signal, ended)
    const sleeping = this.#clock.sleep(patienceMs + maxHangMs, ended.signal)
    const isFree = await Promise.race([ahead.then(() => true), sleeping.then(() => false)])
    ended.abort()
    leave()
    if (signal.aborted) throw stoppedError(signal)
    if (!isFree) throw busyError()
  }
}
