/**
 * How fast one may send: upstream refuses bursts, counts refused tries too, and stays angry for minutes
 * (protocol notes 5.2), so a send waits for its turn here instead of being refused there.
 */
import type { Pace } from '../config.ts'
import { SvcError } from '../model/error.ts'
import type { Clock } from '../platform/clock.ts'

/** A send waits at most this long for its turn. */
const longestWaitMs = 30_000

export class Turnstile {
  readonly #pace: Pace | 'off'
  readonly #clock: Clock
  /** Monotonic ms of the newest turn given to a session. */
  readonly #sessions = new Map<string, number>()
  /** Monotonic ms of the turns given to one user of a session, oldest first, inside the window. */
  readonly #users = new Map<string, number[]>()

  constructor(pace: Pace | 'off', clock: Clock) {
    this.#pace = pace
    this.#clock = clock
  }

  /**
   * Waits for a turn. Turns are given in the order of the calls.
   *
   * @throws SvcError `rate_limited` with `retry_after` when the turn is more than 30 s away; no turn is taken then
   */
  async turn(session: string, user: string, signal: AbortSignal): Promise<void> {
    if (this.#pace === 'off') return
    const { perSecond, perWindow, windowMs } = this.#pace
    const now = this.#clock.monotonic()
    const key = `${session}\n${user}`
    const turns = (this.#users.get(key) ?? []).filter(at => at > now - windowMs)
    let at = Math.max(now, (this.#sessions.get(session) ?? Number.NEGATIVE_INFINITY) + 1000 / perSecond)
    const blocking = turns.at(-perWindow)
    if (blocking !== undefined) at = Math.max(at, blocking + windowMs)
    const waitMs = at - now
    if (waitMs > longestWaitMs) {
      const seconds = Math.ceil(waitMs / 1000)
      throw new SvcError('rate_limited', `the pace allows the next send to this user in ${seconds} s`, {
        retryAfter: seconds,
      })
    }
    // Booked before waiting, so that calls that come meanwhile queue up behind.
    this.#sessions.set(session, at)
    this.#users.set(key, [...turns, at])
    this.#forget(now - windowMs)
    if (waitMs > 0) await this.#clock.sleep(waitMs, signal)
  }

  #forget(before: number): void {
    if (this.#users.size < 10_000) return
    for (const [key, turns] of this.#users) if ((turns.at(-1) ?? 0) < before) this.#users.delete(key)
  }
}
