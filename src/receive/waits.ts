/**
 * Lets calls wait for received messages. One read of the store serves all waiting calls, and only calls
 * that a change concerns are woken. With thousands of waiting calls, a read per call at every commit would
 * delay all.
 */
import { sessionKeyOf } from '../model/session.ts'
import type { Backlog, MessageLog } from '../storage/store.ts'

/** What a call waits for. */
export interface WaitTarget {
  /** The consumer that claims the rows. A change wakes one of several calls with the same consumer. */
  consumer?: string
  /** The only session that is read; undefined for all. */
  session?: string
}

interface Waiter {
  consumer: string | undefined
  end(): void
}

/** Interval of reads of the log when no change is reported. */
const checkEveryMs = 30_000
/** If more rows than this come at once, all calls are woken. */
const readRows = 200

export class Waiters {
  readonly #log: MessageLog
  readonly #backlog: Backlog
  /**
   * By the key of the session that is read, undefined for all sessions. Thousands may wait, and a message
   * concerns few of them.
   */
  readonly #waiting = new Map<string | undefined, Set<Waiter>>()
  #watching = false
  /** Ends the watching when no call waits any more. */
  #over = new AbortController()

  constructor(log: MessageLog, backlog: Backlog) {
    this.#log = log
    this.#backlog = backlog
  }

  /**
   * Resolves when there may be something to read, after `ms`, or when the signal aborts. A woken caller
   * that does not read, or that reads and finds something, must call `notifyNext` afterwards.
   *
   * @param seen row id of the newest row when the caller last read
   */
  wait(signal: AbortSignal, ms: number, seen: number, wanted: WaitTarget): Promise<void> {
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
      // Checked after registering: a message that was stored and reported before that is noticed here.
      this.#log.getHead().then(head => head > seen && end(), end)
    })
  }

  /** Wakes the next call that claims for the same consumer. */
  notifyNext(wanted: WaitTarget): void {
    if (wanted.consumer === undefined) return
    const waits = [...(this.#waiting.get(keyOf(wanted)) ?? [])]
    waits.find(({ consumer }) => consumer === wanted.consumer)?.end()
  }

  end(): void {
    for (const waits of this.#waiting.values()) for (const { end } of waits) end()
  }

  /** @param seen the `seen` of the first waiting call: later messages are reported too */
  async #watch(seen: number): Promise<void> {
    this.#watching = true
    try {
      while (this.#waiting.size > 0) {
        this.#over = new AbortController()
        await this.#log.wait(seen, checkEveryMs, this.#over.signal)
        const last = await this.#log.getHead()
        await this.#notify(seen, last)
        seen = last
      }
    } catch {
      // The waiting calls read the store themselves, and get its error.
      this.end()
    } finally {
      this.#watching = false
    }
  }

  async #notify(seen: number, last: number): Promise<void> {
    if (last > seen)
      for (const key of await this.#affectedKeys(seen)) notifyWaiters(this.#waiting.get(key) ?? [])
    const consumers = await this.#backlog.findConsumersToRedeliver()
    if (consumers.size > 0) for (const waits of this.#waiting.values()) notifyWaiters(waits, consumers)
  }

  /** Returns the keys of `#waiting` that the received rows after `seen` concern. */
  async #affectedKeys(seen: number): Promise<Iterable<string | undefined>> {
    const isForAll = this.#waiting.size === 1 && this.#waiting.has(undefined)
    // If every call waits for all sessions, it is enough to know whether there is a new row.
    if (isForAll) return (await this.#backlog.countWaiting(seen, { limit: 1 })) > 0 ? [undefined] : []
    const rows = await this.#log.listAfter(seen, { limit: readRows, direction: 'received' })
    if (rows.length === readRows) return this.#waiting.keys()
    return rows.length > 0 ? new Set<string | undefined>(rows.map(keyOf)).add(undefined) : []
  }
}

const keyOf = ({ session }: Pick<WaitTarget, 'session'>) =>
  session === undefined ? undefined : sessionKeyOf(session)

/** Wakes one call per consumer, and all calls without one. With `among`, only calls of these consumers. */
function notifyWaiters(waits: Iterable<Waiter>, among?: ReadonlySet<string>): void {
  const woken = new Set<string>()
  for (const { consumer, end } of waits) {
    if (among && (consumer === undefined || !among.has(consumer))) continue
    if (consumer !== undefined && woken.has(consumer)) continue
    if (consumer !== undefined) woken.add(consumer)
    end()
  }
}
