/**
 * Durable writes of many callers in one transaction: those that arrive in one turn of the event loop share one BEGIN …
 * COMMIT and one fsync. Each stands under a savepoint of its own, so one that fails fails alone. A single caller waits for
 * nobody.
 */
import type { Database } from '../../platform/sqlite.ts'

interface Write {
  work(): unknown
  resolve(value: unknown): void
  reject(error: unknown): void
}

export class CommitQueue {
  readonly #db: Database
  #writes: Write[] = []

  constructor(db: Database) {
    this.#db = db
  }

  /** Does `work`, synchronously, in the next transaction; resolves once that is on the disk. */
  write<T>(work: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#writes.length === 0) setImmediate(() => this.flush())
      this.#writes.push({ work, resolve: value => resolve(value as T), reject })
    })
  }

  /** Commits what waits, at once. */
  flush(): void {
    const writes = this.#writes
    this.#writes = []
    if (writes.length === 0) return
    const ends: (() => void)[] = []
    try {
      this.#db.transaction(() => {
        for (const write of writes) ends.push(writes.length === 1 ? done(write) : this.#alone(write))
      })
    } catch (error) {
      for (const { reject } of writes) reject(error)
      return
    }
    for (const end of ends) end()
  }

  #alone(write: Write): () => void {
    this.#db.exec('SAVEPOINT one')
    try {
      const end = done(write)
      this.#db.exec('RELEASE one')
      return end
    } catch (error) {
      // A full disk has ended the whole transaction already; then this throws, and everybody hears of it.
      this.#db.exec('ROLLBACK TO one')
      this.#db.exec('RELEASE one')
      return () => write.reject(error)
    }
  }
}

function done({ work, resolve }: Write): () => void {
  const value = work()
  return () => resolve(value)
}
