/**
 * When deliveries begin. Hundreds may be due at once, of many endpoints: they begin a few at a time, since each round of the event
 * loop would last until all are under way, and what else the process does, storing messages first of all, would wait for that.
 * While a backlog comes in from WeChat nothing begins for a moment: its messages are stored first.
 */
import type { Clock } from '../platform/clock.ts'

/** Begin in one round of the event loop. */
const atOnce = 4
/** The next batch of a backlog is there before that. */
const holdMs = 100
/** It may come in for long: then deliveries have every other two seconds. */
const mostMs = 2000

export class Turns {
  readonly #clock: Clock
  readonly #waiting: (() => void)[] = []
  /** By the monotonic clock, as the others. */
  #heldUntil = Number.NEGATIVE_INFINITY
  #holdEnds = Number.NEGATIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Resolves when it is its turn: in the order of the calls. */
  next(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    if (this.#waiting.push(resolve) === 1) setImmediate(this.#round)
    return promise
  }

  /** A batch of a backlog came in. */
  hold(): void {
    const now = this.#clock.monotonic()
    if (now > this.#holdEnds + mostMs) this.#holdEnds = now + mostMs
    this.#heldUntil = Math.min(now + holdMs, this.#holdEnds)
  }

  /** Resolves when no backlog comes in, or has for too long. */
  async calm(signal?: AbortSignal): Promise<void> {
    for (let ms = this.#leftMs(); ms > 0 && !signal?.aborted; ms = this.#leftMs())
      await this.#clock.sleep(ms, signal)
  }

  #leftMs(): number {
    return this.#heldUntil - this.#clock.monotonic()
  }

  readonly #round = async (): Promise<void> => {
    await this.calm()
    for (const begin of this.#waiting.splice(0, atOnce)) begin()
    if (this.#waiting.length > 0) setImmediate(this.#round)
  }
}
