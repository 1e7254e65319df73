/**
 * Paces the start of webhook deliveries. Hundreds of deliveries may be due at the same time. They start a few
 * per round of the event loop, so that other work of the process, above all storing messages, does not wait
 * until all have started. While a backlog comes in from WeChat, deliveries pause: its messages are stored
 * first.
 */
import type { Clock } from '../platform/clock.ts'

/** Deliveries that start in one round of the event loop. */
const startsPerRound = 4
/** Pause after a batch of a backlog. The next batch usually comes within this time. */
const pauseMs = 100
/** Longest pause. In a long backlog, deliveries pause and run in turn, two seconds each. */
const maxPauseMs = 2000

/** Queue in which deliveries wait for their start; one for all endpoints of a process. */
export class DeliveryPacer {
  readonly #clock: Clock
  readonly #waiting: (() => void)[] = []
  /** End of the pause (monotonic ms). */
  #pausedUntil = Number.NEGATIVE_INFINITY
  /** The pause is not extended beyond this time (monotonic ms). */
  #pauseLimit = Number.NEGATIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Resolves when a delivery may start, in the order of the calls. */
  waitForStart(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    if (this.#waiting.push(resolve) === 1) setImmediate(this.#startNext)
    return promise
  }

  /** Starts or extends the pause. Call it for each batch of a backlog. */
  pause(): void {
    const now = this.#clock.monotonic()
    if (now > this.#pauseLimit + maxPauseMs) this.#pauseLimit = now + maxPauseMs
    this.#pausedUntil = Math.min(now + pauseMs, this.#pauseLimit)
  }

  /** Resolves at the end of the pause, or when the signal aborts. */
  async waitForPauseEnd(signal?: AbortSignal): Promise<void> {
    for (let ms = this.#remainingPauseMs(); ms > 0 && !signal?.aborted; ms = this.#remainingPauseMs())
      await this.#clock.sleep(ms, signal)
  }

  #remainingPauseMs(): number {
    return this.#pausedUntil - this.#clock.monotonic()
  }

  readonly #startNext = async (): Promise<void> => {
    await this.waitForPauseEnd()
    for (const resolve of this.#waiting.splice(0, startsPerRound)) resolve()
    if (this.#waiting.length > 0) setImmediate(this.#startNext)
  }
}
