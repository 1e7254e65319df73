/** Commits: what many callers write in one, and who hears of it. */
import type { Log } from '../../platform/log.ts'
import type { Database } from '../../platform/sqlite.ts'

/** Commits of other processes are noticed after this, while somebody waits. */
const lookEveryMs = 50

/** Tells of commits: `wake` of our own, a look at the commit counter of those of other processes. */
export class ChangeNotifier {
  readonly #db: Database
  readonly #log: Log
  readonly #lost: () => boolean
  readonly #waiting = new Set<() => void>()
  #timer: ReturnType<typeof setInterval> | undefined
  /** As of the last look, also of one long ago: who waits anew hears of what was committed since he looked at the rows. */
  #version: number

  /** `lost`: what is waited for can no longer come, which ends the waits; asked with every look. */
  constructor(db: Database, log: Log, lost: () => boolean) {
    this.#db = db
    this.#log = log
    this.#lost = lost
    this.#version = this.#look()
  }

  /** Resolves with the next commit, when `ms` have passed or the signal aborts. */
  wait(signal: AbortSignal, ms: number): Promise<void> {
    return new Promise(resolve => {
      const done = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', done)
        this.#waiting.delete(done)
        if (this.#waiting.size === 0) {
          clearInterval(this.#timer)
          this.#timer = undefined
        }
        resolve()
      }
      const timer = setTimeout(done, ms)
      signal.addEventListener('abort', done, { once: true })
      this.#waiting.add(done)
      this.#timer ??= this.#watch()
    })
  }

  /** Something was committed here. */
  wake(): void {
    for (const wake of [...this.#waiting]) wake()
  }

  /** One look at the commit counter serves all who wait. It counts the commits of others, not our own. */
  #watch(): ReturnType<typeof setInterval> {
    return setInterval(() => {
      try {
        const now = this.#look()
        if (now === this.#version && !this.#lost()) return
        this.#version = now
        this.wake()
      } catch (error) {
        this.#log.warn('store cannot be watched', { error })
      }
    }, lookEveryMs)
  }

  #look(): number {
    return Number(this.#db.get`PRAGMA data_version`?.data_version)
  }
}

interface Write {
  work(): unknown
  resolve(value: unknown): void
  reject(error: unknown): void
}

/**
 * Durable writes of many callers in one transaction: those that arrive in one turn of the event loop share one BEGIN …
 * COMMIT and one fsync. Each stands under a savepoint of its own, so one that fails fails alone. A single caller waits for
 * nobody.
 */
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
