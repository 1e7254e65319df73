/**
 * Whether the clock may decide that something is too old. A clock that is ten years ahead (set by mistake, or
 * a machine that starts without the time) would end every deadline, and what is removed does not come back
 * when the clock is corrected.
 */
import type { Clock } from '../platform/clock.ts'

const dayMs = 24 * 60 * 60_000
/** If the clock moved by this much more than the time that passed, it was set, or the machine slept long. */
const jumpMs = dayMs
/** If the last sign of life on disk is older than this, the clock may have been set while no process ran. */
const silenceMs = 7 * dayMs
/** A clock is trusted again after this time without another jump. */
const doubtMs = dayMs

export class ClockTrust {
  readonly #clock: Clock
  #now: number
  #monotonic: number
  /** Monotonic. */
  #doubtedUntil = Number.NEGATIVE_INFINITY

  /** @param lastSign newest sign of life on disk, in Unix ms, if there is one */
  constructor(clock: Clock, lastSign: number | undefined) {
    this.#clock = clock
    this.#now = clock.now()
    this.#monotonic = clock.monotonic()
    if (lastSign !== undefined && this.#now - lastSign > silenceMs) this.#doubt()
  }

  /** Checks the clock once. False for a day after the clock jumped. */
  get isTrusted(): boolean {
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
