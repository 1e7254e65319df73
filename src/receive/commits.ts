/** Batches that are being taken in. */
import type { Bus } from '../platform/runtime.ts'
import type { Ingested, PolledBatch, Storage } from '../storage/storage.ts'

export class Commits {
  readonly #storage: Pick<Storage, 'ingest'>
  readonly #bus: Bus
  readonly #underWay = new Set<Promise<unknown>>()

  constructor(storage: Pick<Storage, 'ingest'>, bus: Bus) {
    this.#storage = storage
    this.#bus = bus
  }

  /** As `Storage.ingest`; tells of those with messages. */
  async ingest(batch: PolledBatch): Promise<Ingested> {
    const ingesting = this.#storage.ingest(batch)
    this.#underWay.add(ingesting)
    try {
      const ingested = await ingesting
      if (batch.messages.length > 0) this.#bus.tell('committed', batch)
      for (const [nth, row] of ingested.rows.entries())
        if (row !== 'duplicate') this.#bus.tell('received', batch.messages[nth]!.msg_type)
      return ingested
    } finally {
      this.#underWay.delete(ingesting)
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
