/** Who waits for the store to change, and how they hear of it. */
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
