/**
 * Writes of the outbox of which this process does not know whether they were done, since the database did not answer. What
 * began so is never sent, though its process lives: it is ended when the write can no longer come. What was sent is settled.
 */
import type { Clock } from '../../platform/clock.ts'
import type { BegunMessage, Settlement } from '../outbox.ts'

/** After this the server has noticed that the client of a statement is gone, and undone what it had not committed. */
const settledAfterMs = 20_000

export interface UnsettledMessage {
  begun: BegunMessage
  settlement: Settlement
}

export class Doubts {
  readonly #clock: Clock
  /** Parts that may have begun, with the monotonic time of the failure. */
  readonly #begun = new Map<number, number>()
  readonly unsettled = new Set<UnsettledMessage>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  noteBegin(parts: readonly number[]): void {
    for (const part of parts) this.#begun.set(part, this.#clock.monotonic())
  }

  /** Takes these parts off the list. Returns those that were on it; the caller must end them. */
  take(parts: readonly number[]): number[] {
    return parts.filter(part => this.#begun.delete(part))
  }

  /** Returns parts that began, if they are in flight now. */
  listOver(): number[] {
    const before = this.#clock.monotonic() - settledAfterMs
    return [...this.#begun].flatMap(([part, at]) => (at <= before ? [part] : []))
  }
}
