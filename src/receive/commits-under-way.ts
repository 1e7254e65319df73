/**
 * Batches whose messages are stored, and may have reached a reader, while the right to answer them is still on its way
 * to the disk: some milliseconds, in which a program may have answered.
 */
export class CommitsUnderWay {
  readonly #commits = new Set<Promise<unknown>>()

  async add<T>(commit: Promise<T>): Promise<T> {
    this.#commits.add(commit)
    try {
      return await commit
    } finally {
      this.#commits.delete(commit)
    }
  }

  /** Resolves when those that are under way now have ended, well or not. */
  async ended(): Promise<void> {
    if (this.#commits.size > 0) await Promise.allSettled(this.#commits)
  }
}
