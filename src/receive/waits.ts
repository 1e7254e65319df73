/**
 * Lets calls wait for received messages. One read of the store serves all waiting calls, and only calls
 * that a change concerns are woken. With thousands of waiting calls, a read per call at every commit would
 * delay all.
 */
import { hasMessage, type Scope } from '../model/access.ts'
import { sessionKeyOf } from '../model/session.ts'
import { RoomPart } from '../platform/runtime.ts'
import type { StoredMessage } from '../storage/messages.ts'
import type { Store } from '../storage/store.ts'

/** What a call waits for. */
export interface WaitTarget {
  /** The consumer that claims the rows. A change wakes one of several calls with the same consumer. */
  consumer?: string
  /** The only session that is read; undefined for all. */
  session?: string | undefined
  /** The account of the session: its messages wake the call also after the session got another name. */
  bot?: string | undefined
  /** Only messages of these accounts and users. */
  scope?: Scope
}

interface Waiter extends Pick<WaitTarget, 'consumer' | 'scope'> {
  /** Its key in `#waiting`. */
  key: string | undefined
  end(): void
}

/** Interval of reads of the log when no change is reported. */
const checkEveryMs = 30_000
/** If more rows than this come at once, all calls are woken. */
const readRows = 200

export class Waiters extends RoomPart<Pick<Store, 'log' | 'backlog'>> {
  /**
   * By the key of the session that is read, undefined for all sessions. Thousands may wait, and a message
   * concerns few of them.
   */
  readonly #waiting = new Map<string | undefined, Set<Waiter>>()
  /** The calls of `#waiting` that wait for a session with an account, by the account. */
  readonly #ofAccount = new Map<string, Set<Waiter>>()
  #watching = false
  /** Ends the watching when no call waits any more. */
  #over = new AbortController()

  /**
   * Resolves when there may be something to read, after `ms`, or when the signal aborts. A woken caller
   * that does not read, or that reads and finds something, must call `notifyNext` afterwards.
   *
   * @param seen row id of the newest row when the caller last read
   */
  wait(signal: AbortSignal, ms: number, seen: number, wanted: WaitTarget): Promise<void> {
    if (signal.aborted) return Promise.resolve()
    const key = keyOf(wanted)
    const { bot, consumer, scope } = wanted
    return new Promise(resolve => {
      const end = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', end)
        remove(this.#waiting, key, wait)
        if (bot !== undefined) remove(this.#ofAccount, bot, wait)
        if (this.#waiting.size === 0) this.#over.abort()
        resolve()
      }
      const wait = { consumer, scope, key, end }
      const timer = setTimeout(end, ms)
      signal.addEventListener('abort', end, { once: true })
      add(this.#waiting, key, wait)
      if (bot !== undefined) add(this.#ofAccount, bot, wait)
      if (!this.#watching) void this.#watch(seen)
      // Checked after registering: a message that was stored and reported before that is noticed here.
      this.ports.log.getHead().then(head => head > seen && end(), end)
    })
  }

  /** Wakes the next call that claims for the same consumer. */
  notifyNext(wanted: WaitTarget): void {
    if (wanted.consumer === undefined) return
    const waits = [
      ...(this.#waiting.get(keyOf(wanted)) ?? []),
      ...(this.#ofAccount.get(wanted.bot ?? '') ?? []),
    ]
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
        await this.ports.log.wait(seen, checkEveryMs, this.#over.signal)
        const last = await this.ports.log.getHead()
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
    if (last > seen) await this.#notifyOfRows(seen)
    const consumers = await this.ports.backlog.findConsumersToRedeliver()
    const isTold = ({ consumer }: Waiter) => consumer !== undefined && consumers.has(consumer)
    if (consumers.size > 0) for (const waits of this.#waiting.values()) notifyWaiters(waits, isTold)
  }

  /** Wakes the calls that the received rows after `seen` concern. */
  async #notifyOfRows(seen: number): Promise<void> {
    const forAll = this.#waiting.size === 1 ? this.#waiting.get(undefined) : undefined
    // If every call waits for everything, it is enough to know whether there is a new row.
    if (forAll && !forAll.values().some(({ scope }) => scope)) {
      if ((await this.ports.backlog.countWaiting(seen, { limit: 1 })) > 0) notifyWaiters(forAll)
      return
    }
    const rows = await this.ports.log.listAfter(seen, { limit: readRows, direction: 'received' })
    if (rows.length === readRows) {
      for (const waits of this.#waiting.values()) notifyWaiters(waits)
      return
    }
    if (rows.length === 0) return
    for (const [key, own] of Map.groupBy(rows, keyOf)) {
      notifyOf(own, this.#waiting.get(key))
      for (const [bot, its] of Map.groupBy(own, ({ bot_id }) => bot_id))
        notifyOf(
          its,
          this.#ofAccount
            .get(bot)
            ?.values()
            .filter(wait => wait.key !== key),
        )
    }
    notifyOf(rows, this.#waiting.get(undefined))
  }
}

const keyOf = ({ session }: Pick<WaitTarget, 'session'>) =>
  session === undefined ? undefined : sessionKeyOf(session)

function add<K>(waiting: Map<K, Set<Waiter>>, key: K, wait: Waiter): void {
  waiting.set(key, (waiting.get(key) ?? new Set()).add(wait))
}

function remove<K>(waiting: Map<K, Set<Waiter>>, key: K, wait: Waiter): void {
  const waits = waiting.get(key)
  if (waits?.delete(wait) && waits.size === 0) waiting.delete(key)
}

/** Wakes those of the calls that these rows concern. */
const notifyOf = (rows: readonly StoredMessage[], waits: Iterable<Waiter> = []) =>
  notifyWaiters(
    waits,
    ({ scope }) => !scope || rows.some(({ bot_id, peer }) => hasMessage(scope, bot_id, peer)),
  )

/** Wakes one call per consumer, and all calls without one; only those that are concerned. */
function notifyWaiters(waits: Iterable<Waiter>, isConcerned: (wait: Waiter) => boolean = () => true): void {
  const woken = new Set<string>()
  for (const wait of waits) {
    const { consumer, end } = wait
    if ((consumer !== undefined && woken.has(consumer)) || !isConcerned(wait)) continue
    if (consumer !== undefined) woken.add(consumer)
    end()
  }
}
