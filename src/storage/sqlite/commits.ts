/** Commits: joins the writes of many callers, and notifies those that wait for changes. */
import type { Log } from '../../platform/log.ts'
import { RoomPart } from '../../platform/runtime.ts'
import type { Database } from '../../platform/sqlite.ts'
import type { Tasks } from '../../platform/tasks.ts'

interface NotifierPorts {
  db: Database
  log: Log
  tasks: Tasks
  /** Whether the awaited changes can no longer come, which ends the waits; checked each time. */
  isLost(): boolean
}

/** Commits of other processes are noticed within this time, while a caller waits. */
const checkEveryMs = 50

/**
 * Resolves waits after commits: this process calls `notify`; commits of other processes show in SQLite's
 * commit counter. A waiting `recv` wakes up through it (`MessageLog.wait`).
 */
export class ChangeNotifier extends RoomPart<NotifierPorts> {
  readonly #waiting = new Set<() => void>()
  #stopWatching: (() => void) | undefined
  /**
   * Counter at the last read, which may be long ago: a new wait ends for everything that was committed since
   * its caller read the rows.
   */
  #version = this.#readVersion()

  /** Resolves with the next commit, when `ms` have passed or the signal aborts. */
  wait(signal: AbortSignal, ms: number): Promise<void> {
    return new Promise(resolve => {
      const done = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', done)
        this.#waiting.delete(done)
        if (this.#waiting.size === 0) {
          this.#stopWatching?.()
          this.#stopWatching = undefined
        }
        resolve()
      }
      const timer = setTimeout(done, ms)
      signal.addEventListener('abort', done, { once: true })
      this.#waiting.add(done)
      this.#stopWatching ??= this.#watch()
    })
  }

  /** Call it after each commit of this process. */
  notify(): void {
    for (const wake of [...this.#waiting]) wake()
  }

  /** Reads the commit counter for all waits. It counts only the commits of other processes. */
  #watch(): () => void {
    const { log, tasks } = this.ports
    const failure = 'store cannot be watched'
    const task = tasks.register({ name: 'store_watch', everyMs: checkEveryMs, failure, log })
    const look = () => {
      const now = this.#readVersion()
      if (now === this.#version && !this.ports.isLost()) return
      this.#version = now
      this.notify()
    }
    const timer = setInterval(() => void task.run(look), checkEveryMs)
    return () => {
      clearInterval(timer)
      task[Symbol.dispose]()
    }
  }

  #readVersion(): number {
    return Number(this.ports.db.get`PRAGMA data_version`?.data_version)
  }
}

interface Write {
  work(): unknown
  resolve(value: unknown): void
  reject(error: unknown): void
}

/**
 * Joins durable writes of many callers in one transaction: writes that arrive in one turn of the event loop
 * share one BEGIN … COMMIT and one fsync. Each has its own savepoint, so a failed write does not affect the
 * others. A single caller is not delayed.
 */
interface QueuePorts {
  db: Database
  /** Throws if nothing can be written now; called before each transaction. */
  check(): void
}

export class CommitQueue extends RoomPart<QueuePorts> {
  #writes: Write[] = []

  /** Runs `work` (synchronous) in the next transaction; resolves when it is on the disk. */
  write<T>(work: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#writes.length === 0) setImmediate(() => this.flush())
      this.#writes.push({ work, resolve: value => resolve(value as T), reject })
    })
  }

  /** Commits the waiting writes now. */
  flush(): void {
    const writes = this.#writes
    this.#writes = []
    if (writes.length === 0) return
    const ends: (() => void)[] = []
    try {
      this.ports.check()
      this.ports.db.transaction(() => {
        for (const write of writes)
          ends.push(writes.length === 1 ? runWrite(write) : this.#runInSavepoint(write))
      })
    } catch (error) {
      for (const { reject } of writes) reject(error)
      return
    }
    for (const end of ends) end()
  }

  #runInSavepoint(write: Write): () => void {
    this.ports.db.run('SAVEPOINT one')
    try {
      const end = runWrite(write)
      this.ports.db.run('RELEASE one')
      return end
    } catch (error) {
      // A full disk has ended the whole transaction already. Then this throws, and all writes are rejected.
      this.ports.db.exec('ROLLBACK TO one')
      this.ports.db.exec('RELEASE one')
      return () => write.reject(error)
    }
  }
}

function runWrite({ work, resolve }: Write): () => void {
  const value = work()
  return () => resolve(value)
}
