/**
 * Calls of send that bear a key: the first one's result is kept for a day and answers every later one.
 *
 * A call notes what it set out to send before it begins, and each message in the transaction that hands it over: so when
 * its process dies, the log tells what may have gone out, and a call that certainly sent nothing may be made again.
 */
import { SvcError } from '../model/error.ts'
import type { SentStatus } from '../model/message.ts'
import type { Clock } from '../platform/clock.ts'
import type { Database, Row } from '../platform/sqlite.ts'
import type { Calendar } from './calendar.ts'
import type { Owner } from './owner.ts'

/** What became of one message of a call. */
export interface Fate {
  message_id?: string
  status: SentStatus
}

/** How the call that first bore a key stands. */
export type KeyedCall =
  /** It is the caller's now: to be ended by `end` or `forget`. */
  | { state: 'ours' }
  /** The key was given with other content. */
  | { state: 'other' }
  | { state: 'running' }
  /** `result`: as it was given to `end`. */
  | { state: 'ended'; result: unknown }
  /** It died after it had begun to send, or to queue. */
  | { state: 'died'; plan: unknown; messages: Fate[]; outbox?: number }

/** A key is known for this long. */
export const keyLifeMs = 24 * 60 * 60_000
/** A call of a process that cannot be asked is taken for dead after this. */
const staleMs = 60 * 60_000
/** When a call that took a key over may have ended. */
const retryAfterS = 5

export class Idempotency {
  readonly #db: Database
  readonly #clock: Clock
  readonly #owner: Owner
  readonly #calendar: Calendar

  constructor(db: Database, clock: Clock, owner: Owner, calendar: Calendar) {
    this.#db = db
    this.#clock = clock
    this.#owner = owner
    this.#calendar = calendar
  }

  /** Takes the key for a call with that content, unless an earlier one has it. A call of ours that still runs must not ask. */
  begin(key: string, content: string): KeyedCall {
    return this.#db.transaction(() => {
      const now = this.#clock.now()
      const row = this.#db.prepare('SELECT * FROM idempotency WHERE key = ?').get(key)
      // A clock that was set ahead must not make a call that is repeated send twice.
      const ageMs = this.#calendar.trusted ? now - Number(row?.created_at) : 0
      if (!row || ageMs >= keyLifeMs) return this.#take(key, content, now)
      if (row.content !== content) return { state: 'other' }
      if (row.result !== null) return { state: 'ended', result: JSON.parse(String(row.result)) }
      const owner = String(row.owner)
      const dead = owner === this.#owner.name || this.#owner.isDead(owner)
      if (!dead && ageMs <= staleMs) return { state: 'running' }
      const messages = this.#fates(row)
      if (row.outbox === null && nothingSent(messages)) return this.#take(key, content, now)
      // It may only be slow: then it sends nothing more, since its fate is told now.
      if (!dead) this.#db.prepare('UPDATE idempotency SET owner = ? WHERE key = ?').run(this.#owner.name, key)
      return {
        state: 'died',
        plan: row.plan === null ? undefined : JSON.parse(String(row.plan)),
        messages,
        ...(row.outbox !== null && { outbox: Number(row.outbox) }),
      }
    })
  }

  /** What the call is going to send, for whoever must tell its fate. @throws SvcError as `handedOver` */
  plan(key: string, plan: unknown): void {
    this.#refuseOther(key)
    this.#db.prepare('UPDATE idempotency SET plan = ? WHERE key = ?').run(JSON.stringify(plan), key)
  }

  /**
   * A message is handed over. Inside the transaction that notes it in the log.
   *
   * @throws SvcError `rate_limited` when another process took this one for dead, and its call has the key now
   */
  handedOver(key: string, message: number): void {
    this.#refuseOther(key)
    this.#db
      .prepare(`UPDATE idempotency SET messages = json_insert(messages, '$[#]', ?) WHERE key = ?`)
      .run(message, key)
  }

  /** The call, or the rest of it, is queued. Inside the transaction that queues it. @throws SvcError as `handedOver` */
  queued(key: string, outbox: number): void {
    this.#refuseOther(key)
    this.#db.prepare('UPDATE idempotency SET outbox = ? WHERE key = ?').run(outbox, key)
  }

  end(key: string, result: unknown): void {
    this.#db.prepare('UPDATE idempotency SET result = ? WHERE key = ?').run(JSON.stringify(result), key)
  }

  /** The call failed: the key is free, unless the log says that something may have been sent. */
  forget(key: string): void {
    this.#db.transaction(() => {
      const row = this.#db.prepare('SELECT * FROM idempotency WHERE key = ?').get(key)
      if (row?.owner !== this.#owner.name || row.result !== null || row.outbox !== null) return
      if (!nothingSent(this.#fates(row))) return
      this.#db.prepare('DELETE FROM idempotency WHERE key = ?').run(key)
    })
  }

  /** Removes the keys whose day is over. */
  prune(): void {
    this.#db.prepare('DELETE FROM idempotency WHERE created_at <= ?').run(this.#clock.now() - keyLifeMs)
  }

  /** Two calls that both think the key theirs would both send. */
  #refuseOther(key: string): void {
    const row = this.#db.prepare('SELECT owner FROM idempotency WHERE key = ?').get(key)
    if (!row || row.owner === this.#owner.name) return
    throw new SvcError('rate_limited', 'this call took so long that another one with its key took over', {
      retryAfter: retryAfterS,
      hint: 'Call again with the same key: it answers with the result of that call and sends nothing.',
    })
  }

  #take(key: string, content: string, now: number): KeyedCall {
    this.#db
      .prepare('INSERT OR REPLACE INTO idempotency (key, content, owner, created_at) VALUES (?, ?, ?, ?)')
      .run(key, content, this.#owner.name, now)
    return { state: 'ours' }
  }

  #fates(row: Row): Fate[] {
    return (JSON.parse(String(row.messages)) as number[]).map(id => this.#fate(id))
  }

  /** A message that a dead process was handing over is unknown, settled or not; so is one that retention took. */
  #fate(id: number): Fate {
    const row = this.#db.prepare('SELECT message_id, status FROM message WHERE id = ?').get(id)
    if (!row || row.status === 'sending') return { status: 'unknown' }
    const local = String(row.message_id).startsWith('local:')
    return { status: row.status as SentStatus, ...(!local && { message_id: String(row.message_id) }) }
  }
}

const nothingSent = (messages: readonly Fate[]) => messages.every(({ status }) => status === 'refused')
