/**
 * Who waits for received messages. One look at the store serves all who wait, and only those whom a change concerns are
 * woken: with thousands of waiting calls, each that looks for itself at every commit would hold up everybody.
 */
import { sessionKey } from '../model/session.ts'
import type { Backlog, MessageLog } from '../storage/store.ts'

/** What is waited for. */
export interface Wanted {
  /** In whose name rows are claimed: of several calls that claim the same, one is enough for a change. */
  consumer?: string
  /** The only session that is read. */
  session?: string
}

interface Wait {
  consumer: string | undefined
  end(): void
}

/** Without any sign the log is looked at after this. */
const lookEveryMs = 30_000
/** When more rows than this came at once, everybody is woken. */
const readRows = 200

export class Waits {
  readonly #log: MessageLog
  readonly #backlog: Backlog
  /** By the key of the session that is read, undefined for all: thousands may wait, and a message concerns few of them. */
  readonly #waiting = new Map<string | undefined, Set<Wait>>()
  #watching = false
  /** Ends the look when nobody waits any more. */
  #over = new AbortController()

  constructor(log: MessageLog, backlog: Backlog) {
    this.#log = log
    this.#backlog = backlog
  }

  /**
   * Resolves when there may be something to read, `ms` have passed or the signal aborts. Whoever is woken and does not
   * look, or looks and finds something, calls `pass` afterwards.
   *
   * @param seen row id of the newest row when the caller looked
   */
  wait(signal: AbortSignal, ms: number, seen: number, wanted: Wanted): Promise<void> {
    if (signal.aborted) return Promise.resolve()
    const key = keyOf(wanted)
    return new Promise(resolve => {
      const waits = this.#waiting.get(key) ?? new Set()
      const end = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', end)
        waits.delete(wait)
        if (waits.size === 0) this.#waiting.delete(key)
        if (this.#waiting.size === 0) this.#over.abort()
        resolve()
      }
      const wait = { consumer: wanted.consumer, end }
      const timer = setTimeout(end, ms)
      signal.addEventListener('abort', end, { once: true })
      this.#waiting.set(key, waits.add(wait))
      if (!this.#watching) void this.#watch(seen)
      // Only now: what came since the caller looked, and was told of before this one waited, shows here.
      this.#log.head().then(head => head > seen && end(), end)
    })
  }

  /** Wakes the next of those who claim the same. */
  pass(wanted: Wanted): void {
    if (wanted.consumer === undefined) return
    const waits = [...(this.#waiting.get(keyOf(wanted)) ?? [])]
    waits.find(({ consumer }) => consumer === wanted.consumer)?.end()
  }

  end(): void {
    for (const waits of this.#waiting.values()) for (const { end } of waits) end()
  }

  /** @param seen by the first who waits: what came since is told too */
  async #watch(seen: number): Promise<void> {
    this.#watching = true
    try {
      while (this.#waiting.size > 0) {
        this.#over = new AbortController()
        await this.#log.wait(seen, lookEveryMs, this.#over.signal)
        const last = await this.#log.head()
        await this.#tell(seen, last)
        seen = last
      }
    } catch {
      // Whoever waits looks, and is told of it.
      this.end()
    } finally {
      this.#watching = false
    }
  }

  async #tell(seen: number, last: number): Promise<void> {
    if (last > seen) for (const key of await this.#concerned(seen)) wake(this.#waiting.get(key) ?? [])
    const lapsed = await this.#backlog.lapsed()
    if (lapsed.size > 0) for (const waits of this.#waiting.values()) wake(waits, lapsed)
  }

  /** Keys of those whom the received rows after `seen` concern. */
  async #concerned(seen: number): Promise<Iterable<string | undefined>> {
    const isForAll = this.#waiting.size === 1 && this.#waiting.has(undefined)
    // Whom they are from matters only where somebody waits for one session alone.
    if (isForAll) return (await this.#backlog.waiting(seen, { limit: 1 })) > 0 ? [undefined] : []
    const rows = await this.#log.after(seen, { limit: readRows, direction: 'received' })
    if (rows.length === readRows) return this.#waiting.keys()
    return rows.length > 0 ? new Set<string | undefined>(rows.map(keyOf)).add(undefined) : []
  }
}

const keyOf = ({ session }: Pick<Wanted, 'session'>) =>
  session === undefined ? undefined : sessionKey(session)

/** Of several that claim the same, one; `among`: of these consumers only. */
function wake(waits: Iterable<Wait>, among?: ReadonlySet<string>): void {
  const woken = new Set<string>()
  for (const { consumer, end } of waits) {
    if (among && (consumer === undefined || !among.has(consumer))) continue
    if (consumer !== undefined && woken.has(consumer)) continue
    if (consumer !== undefined) woken.add(consumer)
    end()
  }
}
