/** Gathers messages that come shortly after each other: people write in bits, and photos come one by one. */
import type { OpenMessage } from '../index.ts'
import type { Clock } from '../platform/clock.ts'

/** A burst that goes on ends after this time, in milliseconds. */
const longestMs = 10_000

export class Burst {
  readonly #clock: Clock
  readonly #pauseMs: number
  readonly #onEnd: () => void
  #messages: OpenMessage[] = []
  #lastAt = 0
  #cancel = new AbortController()

  /**
   * @param pauseMs a pause of this length ends the burst
   * @param onEnd called after the pause, if `take` was not called before
   */
  constructor(clock: Clock, pauseMs: number, onEnd: () => void) {
    this.#clock = clock
    this.#pauseMs = pauseMs
    this.#onEnd = onEnd
  }

  get isEmpty(): boolean {
    return this.#messages.length === 0
  }

  add(open: OpenMessage): void {
    this.#messages.push(open)
    this.#lastAt = this.#clock.monotonic()
    if (this.#messages.length === 1) void this.#waitForEnd()
  }

  /** Ends the burst. @returns its messages, oldest first */
  take(): OpenMessage[] {
    this.#cancel.abort()
    return this.#messages.splice(0).sort((a, b) => a.message.id - b.message.id)
  }

  async #waitForEnd(): Promise<void> {
    this.#cancel = new AbortController()
    const { signal } = this.#cancel
    const latest = this.#clock.monotonic() + longestMs
    for (;;) {
      const leftMs = Math.min(this.#lastAt + this.#pauseMs, latest) - this.#clock.monotonic()
      if (leftMs <= 0) break
      await this.#clock.sleep(leftMs, signal)
      if (signal.aborted) return
    }
    this.#onEnd()
  }
}
