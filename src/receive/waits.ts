/**
 * Who waits for received messages. One look at the store serves all who wait, and only those whom a change concerns are
 * woken: with thousands of waiting calls, each that looks for itself at every commit would hold up everybody.
 */
import { sessionKey } from '../model/session.ts'
import type { Store } from '../store/store.ts'

/** What is waited for. */
export interface Wanted {
  /** In whose name rows are claimed: of several calls that claim the same, one is enough for a change. */
  consumer?: string
  /** The only session that is read. */
  session?: string
}

interface Wait extends Wanted {
  /** Of the session: thousands of calls wait, and each change looks at all of them. */
  key: string | undefined
  end(): void
}

/** Without any sign the log is looked at after this. */
const lookEveryMs = 30_000
/** When more rows than this came at once, everybody is woken. */
const readRows = 200

export class Waits {
  readonly #store: Store
  readonly #waiting = new Set<Wait>()
  #watching = false
  /** Ends the look when nobody waits any more. */
  #over = new AbortController()

  constructor(store: Store) {
    this.#store = store
  }

  /**
   * Resolves when there may be something to read, `ms` have passed or the signal aborts. Whoever is woken and does not
   * look, or looks and finds something, calls `pass` afterwards.
   *
   * @param seen row id of the newest row when the caller looked
   */
  wait(signal: AbortSignal, ms: number, seen: number, wanted: Wanted): Promise<void> {
    if (signal.aborted || this.#store.lastId() > seen) return Promise.resolve()
    return new Promise(resolve => {
      const wait: Wait = {
        ...wanted,
        key: wanted.session === undefined ? undefined : sessionKey(wanted.session),
        end: () => {
          clearTimeout(timer)
          signal.removeEventListener('abort', wait.end)
          this.#waiting.delete(wait)
          if (this.#waiting.size === 0) this.#over.abort()
          resolve()
        },
      }
      const timer = setTimeout(wait.end, ms)
      signal.addEventListener('abort', wait.end, { once: true })
      this.#waiting.add(wait)
      if (!this.#watching) void this.#watch()
    })
  }

  /** Wakes the next of those who claim the same. */
  pass({ consumer, session }: Wanted): void {
    if (consumer === undefined) return
    for (const wait of this.#waiting) {
      if (wait.consumer !== consumer || wait.session !== session) continue
      wait.end()
      return
    }
  }

  end(): void {
    for (const { end } of [...this.#waiting]) end()
  }

  async #watch(): Promise<void> {
    this.#watching = true
    try {
      let seen = this.#store.lastId()
      while (this.#waiting.size > 0) {
        this.#over = new AbortController()
        await this.#store.waitForChange(this.#over.signal, lookEveryMs, seen)
        const last = this.#store.lastId()
        this.#tell(seen, last)
        seen = last
      }
    } catch {
      // Whoever waits looks, and is told of it.
      this.end()
    } finally {
      this.#watching = false
    }
  }

  #tell(seen: number, last: number): void {
    const rows = last > seen ? this.#store.after(seen, { limit: readRows, direction: 'received' }) : []
    const lapsed = this.#store.lapsedConsumers()
    if (rows.length === 0 && lapsed.size === 0) return
    const sessions = rows.length < readRows ? new Set(rows.map(row => sessionKey(row.session))) : undefined
    const concerns = ({ consumer, key }: Wait) =>
      (consumer !== undefined && lapsed.has(consumer)) ||
      (rows.length > 0 && (key === undefined || sessions === undefined || sessions.has(key)))
    const woken = new Set<string>()
    for (const wait of [...this.#waiting]) {
      if (!concerns(wait)) continue
      const claim = wait.consumer === undefined ? undefined : `${wait.consumer}\n${wait.session ?? ''}`
      if (claim !== undefined && woken.has(claim)) continue
      if (claim !== undefined) woken.add(claim)
      wait.end()
    }
  }
}
