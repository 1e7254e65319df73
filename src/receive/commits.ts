/** Commits of polled batches, and those that are under way. */
import type { Bus } from '../platform/runtime.ts'
import type { BatchCommit, State } from '../storage/state.ts'

export class Commits {
  readonly #state: Pick<State, 'commitBatch'>
  readonly #bus: Bus
  readonly #underWay = new Set<Promise<unknown>>()

  constructor(state: Pick<State, 'commitBatch'>, bus: Bus) {
    this.#state = state
    this.#bus = bus
  }

  /** As `State.commitBatch`; tells of those with messages. */
  async commit(batch: BatchCommit): Promise<'moved' | 'gone'> {
    const commit = this.#state.commitBatch(batch)
    this.#underWay.add(commit)
    try {
      const committed = await commit
      if (batch.inbound.length > 0) this.#bus.tell('committed')
      return committed
    } finally {
      this.#underWay.delete(commit)
    }
  }

  /**
   * Resolves when those that are under way now have ended, well or not. Their messages are stored, and may have reached
   * a reader and been answered, some milliseconds before the right to answer them is on the disk.
   */
  async ended(): Promise<void> {
    if (this.#underWay.size > 0) await Promise.allSettled(this.#underWay)
  }
}
