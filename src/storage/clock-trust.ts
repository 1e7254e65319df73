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

/** What is known of the clock from runs before. */
export interface KnownClock {
  /** Newest sign of life on disk, in Unix ms, if there is one. */
  lastSign?: number | undefined
  /** How long svc still has to run until the clock is trusted, in ms. */
  leftMs?: number | undefined
}

export class ClockTrust {
  readonly #clock: Clock
  #now: number
  #monotonic: number
  /** How long svc has to run until the clock is trusted. */
  #leftMs: number
  /** A doubt began since the last note. */
  #isNew = false

  /** @param known what is stored */
  constructor(clock: Clock, { lastSign, leftMs = 0 }: KnownClock) {
    this.#clock = clock
    this.#now = clock.now()
    this.#monotonic = clock.monotonic()
    this.#leftMs = leftMs
    if (lastSign !== undefined && this.#now - lastSign > silenceMs) this.#doubt()
  }

  /** Checks the clock once. False until svc has run for a day after the clock jumped, over all its starts. */
  get isTrusted(): boolean {
    const now = this.#clock.now()
    const monotonic = this.#clock.monotonic()
    const passedMs = monotonic - this.#monotonic
    const jumped = Math.abs(now - this.#now - passedMs) > jumpMs
    this.#now = now
    this.#monotonic = monotonic
    if (jumped) this.#doubt()
    else this.#leftMs = Math.max(0, this.#leftMs - passedMs)
    return this.#leftMs === 0
  }

  /** Checks the clock once, and returns what is to be stored. `isNew`: a doubt began since the last call. */
  note(): { seenAt: number; leftMs: number; isNew: boolean } {
    if (this.isTrusted) this.#isNew = false
    const isNew = this.#isNew
    this.#isNew = false
    return { seenAt: this.#now, leftMs: Math.ceil(this.#leftMs), isNew }
  }

  #doubt(): void {
    this.#leftMs = doubtMs
    this.#isNew = true
  }
}
