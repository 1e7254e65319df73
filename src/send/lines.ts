/** Who sends to a user next: in this process one at a time, in the order of their coming. */
import type { Clock } from '../platform/clock.ts'
import { following } from '../platform/signals.ts'
import { behind, stopped } from './problems.ts'

/** Those ahead may hang beyond what the pace foresees; one request that gets no answer takes 15 s. */
const hangMs = 15_000

export interface Line {
  /** Nobody was there. */
  readonly isFirst: boolean
  /** Resolves when everybody before is done. */
  readonly ahead: Promise<void>
}

export class Lines {
  readonly #clock: Clock
  /** By session and user: when whoever sends there now is done. */
  readonly #lines = new Map<string, Promise<void>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** A place in the line of those who send to a user. Disposing of it lets the next one go. */
  line(session: string, user: string): Line & Disposable {
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
   * Waits for those ahead in a line.
   *
   * @throws SvcError `rate_limited` (`why: 'busy'`) when they take longer than `patienceMs` and one request; the signal's reason
   */
  async turn(ahead: Promise<void>, patienceMs: number, signal: AbortSignal): Promise<void> {
    const over = new AbortController()
    const leave = following(signal, over)
    const sleeping = this.#clock.sleep(patienceMs + hangMs, over.signal)
    const first = await Promise.race([ahead.then(() => true), sleeping.then(() => false)])
    over.abort()
    leave()
    if (signal.aborted) throw stopped(signal)
    if (!first) throw behind()
  }
}
