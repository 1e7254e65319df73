/**
 * Whether the clock may decide that something is too old. A clock that was set ten years ahead, by mistake or by a
 * machine that starts without the time, would end every deadline at once, and what is removed does not come back when
 * it is set right.
 */
import type { Clock } from '../platform/clock.ts'

const dayMs = 24 * 60 * 60_000
/** A clock that has moved by so much more than time passed was set, or the machine slept long. */
const jumpMs = dayMs
/** Silence on disk that is longer than this may be a clock that was set while nobody ran. */
const silenceMs = 7 * dayMs
/** A clock that was doubted is believed after so long a time without another jump. */
const doubtMs = dayMs

export class ClockTrust {
  readonly #clock: Clock
  #now: number
  #monotonic: number
  /** Monotonic. */
  #doubtedUntil = Number.NEGATIVE_INFINITY

  /** @param lastSign Unix ms of the newest sign of life on disk, if there is any */
  constructor(clock: Clock, lastSign: number | undefined) {
    this.#clock = clock
    this.#now = clock.now()
    this.#monotonic = clock.monotonic()
    if (lastSign !== undefined && this.#now - lastSign > silenceMs) this.#doubt()
  }

  /** Looks once. @returns false within a day after the clock jumped */
  get trusted(): boolean {
    const now = this.#clock.now()
    const monotonic = this.#clock.monotonic()
    const jumped = Math.abs(now - this.#now - (monotonic - this.#monotonic)) > jumpMs
    this.#now = now
    this.#monotonic = monotonic
    if (jumped) this.#doubt()
    return monotonic >= this.#doubtedUntil
  }

  #doubt(): void {
    this.#doubtedUntil = this.#monotonic + doubtMs
  }
}
