/**
 * Named readers of the log. A position moves when rows are delivered; unconfirmed rows are stored in a lease.
 */
import { hasMessage, isWhole, type Scope } from '../../model/access.ts'
import { sql } from '../../platform/sql.ts'
import { erasedSession } from '../log-rows.ts'
import type { ReadFilter, StoredMessage } from '../messages.ts'
import { removeConsumers } from '../nouns/consumers.ts'
import { refuseRevoked } from '../nouns/keys.ts'
import {
  findIdle,
  maxBehind,
  maxLeases,
  missingAckError,
  mostLookedAt,
  neverSeen,
  ofProgram,
  programLeaseMs,
  rowLeaseMs,
  seenEveryMs,
  selectIdle,
} from '../nouns/readers.ts'
import { liveMs } from '../retention.ts'
import { isLeaseOver } from '../routine.ts'
import { createRowBudget, type RowBudget } from '../row-budget.ts'
import { type ConsumerClaim, type LeasedRow, startsAtFirst } from '../store.ts'
import { sqliteDialect } from './dialect.ts'
import { EnginePart } from './engine-part.ts'
import { sharesBounds } from './events.ts'
import { drive } from './routines.ts'
import { listIdsIn } from './scope.ts'

/** When a lease expires, and the process whose death ends it. */
interface Lease {
  owner: string
  expires_at: number
}

interface StoredLease {
  id: number
  ids: number[]
  owner: string
  wasSeen: boolean
  handOuts: number
}

/** Rows for a claim. handOuts: how often they were written to a reader and not confirmed. */
interface Claimed extends Pick<ConsumerClaim, 'rows' | 'redelivered'> {
  handOuts: number
}

/** The rows that a reader may get: of these sessions, and in this scope; undefined: of all. */
interface Narrowed {
  session: string | undefined
  keys: number[] | undefined
  scope: Scope | undefined
}

/** A received row, as far as it decides who may have it when. */
interface PersonRow {
  id: number
  session: number
  bot_id: string
  peer: string
}
const personOf = ({ session, peer }: PersonRow): string => `${session} ${peer}`

export class SqliteConsumers extends EnginePart {
  claim(consumer: string, options: Omit<ReadFilter, 'direction'>): ConsumerClaim | undefined {
    const { characters, limit } = options
    const fits = createRowBudget(characters)
    const narrowed = this.#narrow(options)
    // Most calls find nothing new. Such a call takes no write lock.
    const hasLapsed = () => this.#listLeases(consumer).lapsed.length > 0
    if (this.#isIdle(consumer, narrowed, hasLapsed)) return undefined
    return this.db.transaction(() => {
      const position = this.position(consumer)
      const again = this.#takeLapsed(consumer, narrowed, limit, fits)
      if (again.rows.length > 0) return this.#createClaim(consumer, again)
      const rows = this.#takeFresh(consumer, position, limit, fits, narrowed)
      return rows.length > 0
        ? this.#createClaim(consumer, { rows, redelivered: new Set(), handOuts: 0 })
        : undefined
    })
  }

  lease(
    consumer: string,
    { limit, ...wanted }: Omit<ReadFilter, 'direction' | 'characters'>,
  ): { rows: LeasedRow[]; expiresAt: number } {
    const narrowed = this.#narrow(wanted)
    const expiresAt = this.clock.now() + programLeaseMs
    const { isFull, isWorthIt } = this.#findWaiting(consumer, narrowed)
    const isIdle = this.#isIdle(consumer, narrowed, () => isWorthIt)
    if (isIdle || (isFull && !isWorthIt)) return { rows: [], expiresAt }
    const rows = this.db.transaction(() =>
      this.#takeOnePerPerson(consumer, limit, narrowed).map(row => ({
        ...row,
        lease: this.#insertLease(consumer, [row.id], expiresAt, 0, ofProgram),
      })),
    )
    return { rows, expiresAt }
  }

  /** Takes rows that wait, then new ones. A new one whose person has an open row waits from now on. */
  #takeOnePerPerson(consumer: string, limit: number, narrowed: Narrowed): Omit<LeasedRow, 'lease'>[] {
    const position = this.position(consumer)
    const { behind, busy, lapsed, room, stored, waiting } = this.#findWaiting(consumer, narrowed)
    const taken = new Set<number>()
    const take = (row: PersonRow): boolean => {
      if (taken.size >= Math.min(limit, room) || busy.has(personOf(row))) return false
      busy.add(personOf(row))
      taken.add(row.id)
      return true
    }
    for (const row of waiting) take(row)
    const later = behind?.ids.filter(id => stored.has(id) && !taken.has(id)) ?? []
    if (taken.size < limit) {
      const found = this.#listFresh(consumer, position, mostLookedAt, narrowed)
      const fresh = this.#readPersons(found.map(({ id }) => id))
      const passed: PersonRow[] = []
      for (const row of fresh) {
        if (taken.size >= limit || later.length >= maxBehind) break
        if (!take(row)) later.push(row.id)
        passed.push(row)
      }
      const isAll = passed.length === fresh.length && fresh.length < mostLookedAt
      if (narrowed.session !== undefined)
        this.#passIn(
          consumer,
          passed.map(({ id, session }) => ({ id, key: session })),
        )
      else this.#passAll(consumer, position, isAll ? this.messages.getHead() : passed.at(-1)?.id)
    }
    for (const { id, ids } of lapsed) {
      const left = id === behind?.id ? later : ids.filter(one => stored.has(one) && !taken.has(one))
      // In order, since the first one is looked up.
      if (left.join() !== ids.join())
        this.#setLeaseRows(
          id,
          left.sort((a, b) => a - b),
        )
    }
    if (!behind && later.length > 0) this.#insertLease(consumer, later, neverSeen, 0, ofProgram)
    const seen = new Set(lapsed.flatMap(({ ids, wasSeen }) => (wasSeen ? ids : [])))
    return [...taken].sort((a, b) => a - b).map(id => ({ id, redelivered: seen.has(id) }))
  }

  /**
   * Finds the rows of lapsed leases that a reader may get (`waiting`), the persons with an open row (`busy`), how
   * many more leases may be open (`room`), and the lease of rows that wait for others of their persons (`behind`).
   */
  #findWaiting(consumer: string, { keys, scope }: Narrowed) {
    const { lapsed, open } = this.#listLeases(consumer)
    const busy = new Set(this.#readPersons(open.flatMap(({ ids }) => ids)).map(personOf))
    const ids = lapsed.flatMap(one => one.ids)
    const kept = this.#readPersons(ids)
    const waiting = kept.filter(
      ({ bot_id, peer, session }) =>
        keys?.includes(session) !== false && (!scope || hasMessage(scope, bot_id, peer)),
    )
    const room = maxLeases - open.filter(({ owner }) => owner === ofProgram).length
    const behind = lapsed.find(({ owner, wasSeen }) => owner === ofProgram && !wasSeen)
    const isFree = room > 0 && waiting.some(row => !busy.has(personOf(row)))
    return {
      behind,
      busy,
      lapsed,
      room,
      waiting,
      stored: new Set(kept.map(({ id }) => id)),
      isFull: (behind?.ids.length ?? 0) >= maxBehind,
      // Rows that retention removed belong to no lease.
      isWorthIt: isFree || kept.length < ids.length,
    }
  }

  #readPersons(ids: readonly number[]): PersonRow[] {
    if (ids.length === 0) return []
    return this.db
      .all<PersonRow>`SELECT m.id, m.session, m.bot_id, m.peer FROM json_each(${JSON.stringify(ids)})
      CROSS JOIN message m ON m.id = value WHERE m.session <> ${erasedSession} ORDER BY m.id`
  }

  register(consumer: string, { atEnd = false, after }: { atEnd?: boolean; after?: number } = {}): void {
    if (this.#getRow(consumer)) return
    this.db.transaction(() => {
      const row = this.db.get`SELECT max(position) AS position FROM consumer`
      const reached = startsAtFirst(consumer) ? 0 : Number(row?.position ?? 0)
      this.position(consumer, after ?? (atEnd ? this.#firstPositionOf(consumer) : reached))
    })
  }

  #narrow({ session, scope }: Pick<ReadFilter, 'session' | 'scope'>): Narrowed {
    const narrows = scope && !isWhole(scope)
    return { session, keys: this.messages.listKeysIn(session, scope), scope: narrows ? scope : undefined }
  }

  countWaiting(from: string | number, wanted: Pick<ReadFilter, 'limit' | 'session' | 'scope'>): number {
    return typeof from === 'string'
      ? this.#countWaitingOf(from, wanted)
      : this.messages.listIdsAfter(from, { ...wanted, direction: 'received' }).length
  }

  #countWaitingOf(
    consumer: string,
    { limit, ...wanted }: Pick<ReadFilter, 'limit' | 'session' | 'scope'>,
  ): number {
    const narrowed = this.#narrow(wanted)
    const position = this.#getRow(consumer)?.position ?? this.#firstPositionOf(consumer)
    const again = this.#listLeases(consumer).lapsed.flatMap(({ ids }) =>
      // Retention may have removed some of them.
      ids.filter(id => this.#isOf(id, narrowed) && this.messages.getById(id) !== undefined),
    )
    const fresh = this.#listFresh(consumer, position, limit, narrowed)
    return Math.min(limit, again.length + fresh.length)
  }

  giveBack({ lease, redelivered }: Pick<ConsumerClaim, 'lease' | 'redelivered'>, from: number): void {
    this.db.transaction(() => {
      const row = this.db.get<{
        consumer: string
        ids: string
        hand_outs: number
      }>`SELECT consumer, ids, hand_outs
        FROM lease WHERE id = ${lease}`
      if (!row) return
      const ids: number[] = JSON.parse(row.ids)
      this.#setLeaseRows(
        lease,
        ids.filter(id => id < from),
      )
      for (const wasSeen of [true, false]) {
        const back = ids.filter(id => id >= from && redelivered.has(id) === wasSeen)
        if (back.length > 0) this.#insertLease(row.consumer, back, wasSeen ? 0 : neverSeen, row.hand_outs)
      }
    })
  }

  /** Whether any rows are delivered and not confirmed. */
  hasLease(): boolean {
    return this.db.get`SELECT 1 AS found FROM lease LIMIT 1` !== undefined
  }

  /** Returns the consumers with rows that must be delivered again. */
  findConsumersToRedeliver(): ReadonlySet<string> {
    const rows = this.db.all<Lease & { consumer: string }>`SELECT consumer, owner, expires_at FROM lease`
    return new Set(rows.filter(row => this.#hasLapsed(row)).map(({ consumer }) => consumer))
  }

  /** @param isWaiting whether rows of leases wait for it */
  #isIdle(consumer: string, narrowed: Narrowed, isWaiting: () => boolean): boolean {
    const row = this.#getRow(consumer)
    if (row?.acknowledges === 1) throw missingAckError(consumer)
    if (!row || this.#isSeenLongAgo(row.seen_at)) return false
    if (isWaiting()) return false
    const { position } = row
    if (position >= this.messages.getHead()) return true
    return narrowed.session !== undefined && this.#listFresh(consumer, position, 1, narrowed).length === 0
  }

  /** True also for a time in the future: the clock was set back since. */
  #isSeenLongAgo(seenAt: number): boolean {
    return Math.abs(this.clock.now() - seenAt) > seenEveryMs
  }

  /** Whether a consumer of that name was active lately: then `position` writes nothing. */
  isKnown(consumer: string): boolean {
    const row = this.#getRow(consumer)
    return row !== undefined && !this.#isSeenLongAgo(row.seen_at)
  }

  #getRow(consumer: string) {
    return this.db.get<{ position: number; seen_at: number; acknowledges: number }>`SELECT position, seen_at,
      EXISTS (SELECT 1 FROM acknowledged WHERE consumer = name) AS acknowledges
      FROM consumer WHERE name = ${consumer}`
  }

  #firstPositionOf(consumer: string): number {
    return startsAtFirst(consumer) ? 0 : this.messages.getHead()
  }

  /**
   * Returns the position of a consumer, and records that it is active now. Adds a new consumer at `first`.
   * Call it inside a transaction.
   */
  position(consumer: string, first = this.#firstPositionOf(consumer)): number {
    const now = this.clock.now()
    const row = this.#getRow(consumer)
    if (row) {
      if (this.#isSeenLongAgo(row.seen_at)) {
        this.db.run`UPDATE consumer SET seen_at = ${now} WHERE name = ${consumer}`
      }
      return row.position
    }
    const key = consumer.includes('/') ? `key:${consumer.split('/')[0]}` : undefined
    drive(this.db, refuseRevoked(sqliteDialect, key))
    const select = selectIdle(sql`consumer WHERE true`, sharesBounds(this.db, consumer))
    const idle = drive(this.db, findIdle(select, liveMs, now))
    if (idle !== undefined)
      for (const end of removeConsumers(sqliteDialect, name => sql`${name} = ${idle}`)) this.db.all(end)
    this.db.run`INSERT INTO consumer (name, position, seen_at) VALUES (${consumer}, ${first}, ${now})`
    return first
  }

  #listLeases(consumer: string): Record<'lapsed' | 'open', StoredLease[]> {
    const rows = this.db.all<Lease & { id: number; ids: string; hand_outs: number }>`SELECT id, ids, owner,
      expires_at, hand_outs FROM lease WHERE consumer = ${consumer} ORDER BY id`
    const toLease = ({ id, ids, expires_at, hand_outs, owner }: (typeof rows)[number]): StoredLease => ({
      id,
      ids: JSON.parse(ids),
      owner,
      wasSeen: expires_at !== neverSeen,
      handOuts: hand_outs,
    })
    const { lapsed = [], open = [] } = Object.groupBy(rows, row => (this.#hasLapsed(row) ? 'lapsed' : 'open'))
    return { lapsed: lapsed.map(toLease), open: open.map(toLease) }
  }

  #hasLapsed({ expires_at, owner }: Lease): boolean {
    return isLeaseOver(expires_at - this.clock.now(), rowLeaseMs) || this.owner.isDead(owner)
  }

  /**
   * Removes rows from expired leases and returns them: those that were handed out as often as the first one, since
   * they share a lease from now on.
   */
  #takeLapsed(consumer: string, { keys, scope }: Narrowed, limit: number, fits: RowBudget): Claimed {
    const rows: StoredMessage[] = []
    const redelivered = new Set<number>()
    let isFull = false
    let handOuts = 0
    for (const lease of this.#listLeases(consumer).lapsed) {
      if (isFull) break
      if (rows.length === 0) handOuts = lease.handOuts
      else if (lease.handOuts !== handOuts) continue
      const left: number[] = []
      for (const id of lease.ids) {
        const row = isFull ? undefined : this.messages.getById(id)
        const isVisible = row && (!scope || hasMessage(scope, row.bot_id, row.peer))
        const isWanted = isVisible && (keys === undefined || this.#isOf(id, { keys }))
        if (isWanted && fits(row)) {
          rows.push(row)
          if (lease.wasSeen) redelivered.add(id)
          isFull = rows.length >= limit
        } else {
          // A row that retention removed since belongs to no lease.
          if (row || isFull) left.push(id)
          if (isWanted) isFull = true
        }
      }
      if (left.length < lease.ids.length) this.#setLeaseRows(lease.id, left)
    }
    return { rows: rows.sort((a, b) => a.id - b.id), redelivered, handOuts }
  }

  /** Sets the remaining rows of a lease. */
  #setLeaseRows(lease: number, ids: readonly number[]): void {
    if (ids.length === 0) this.db.run`DELETE FROM lease WHERE id = ${lease}`
    else this.db.run`UPDATE lease SET ids = ${JSON.stringify(ids)} WHERE id = ${lease}`
  }

  #isOf(id: number, { keys, scope }: Partial<Narrowed>): boolean {
    if (!keys && !scope) return true
    const row = this.db.get<{ session: number }>(
      sql`SELECT session FROM message m WHERE id = ${id}${sqliteDialect.inScope(scope)}`,
    )
    return row !== undefined && keys?.includes(row.session) !== false
  }

  /** Returns the position of a consumer in a session that it read on its own. */
  #aheadOf(consumer: string, key: number): number {
    const row = this.db.get`SELECT position FROM consumer_ahead WHERE consumer = ${consumer}
      AND session = ${key}`
    return Number(row?.position ?? 0)
  }

  /** Returns rows that were never delivered, and moves the position past them; for a session, the position in it. */
  #takeFresh(
    consumer: string,
    position: number,
    limit: number,
    fits: RowBudget,
    narrowed: Narrowed,
  ): StoredMessage[] {
    const found = this.#listFresh(consumer, position, limit, narrowed)
    const rows = this.messages.read(
      found.map(({ id }) => id),
      fits,
    )
    const isAll = rows.length === found.length && found.length < limit
    const last = rows.at(-1)?.id
    if (narrowed.session === undefined)
      this.#passAll(consumer, position, isAll ? this.messages.getHead() : last)
    else
      this.#passIn(
        consumer,
        found.filter(({ id }) => id <= (last ?? 0)),
      )
    return rows
  }

  /** Moves the position, up to a row. */
  #passAll(consumer: string, position: number, next = position): void {
    if (next <= position) return
    this.db.run`UPDATE consumer SET position = ${next} WHERE name = ${consumer}`
    this.db.run`DELETE FROM consumer_ahead WHERE consumer = ${consumer} AND position <= ${next}`
  }

  /** Moves the positions in the sessions of these rows past them. */
  #passIn(consumer: string, rows: readonly { id: number; key: number }[]): void {
    for (const [key, id] of new Map(rows.map(({ id, key }) => [key, id]))) {
      this.db.run`INSERT INTO consumer_ahead (consumer, session, position)
        VALUES (${consumer}, ${key}, ${id})
        ON CONFLICT (consumer, session) DO UPDATE SET position = excluded.position`
    }
  }

  /** Lists rows that were never delivered, with the keys of their sessions. */
  #listFresh(
    consumer: string,
    position: number,
    limit: number,
    { keys, scope, session }: Narrowed,
  ): { id: number; key: number }[] {
    const place = { consumer, table: 'consumer_ahead' } as const
    if (scope) return listIdsIn(this.db, { scope, keys, after: position, place, limit })
    if (session === undefined)
      return this.db.all<{ id: number; key: number }>`SELECT m.id, m.session AS key FROM message m
        LEFT JOIN consumer_ahead a ON a.consumer = ${consumer} AND a.session = m.session
        WHERE m.id > ${position} AND m.sent = 0 AND m.id > coalesce(a.position, 0)
        ORDER BY m.id LIMIT ${limit}`
    const start = (key: number) => Math.max(position, this.#aheadOf(consumer, key))
    return this.messages.listIdsBySession(keys ?? [], start, limit)
  }

  #createClaim(consumer: string, { rows, redelivered, handOuts }: Claimed): ConsumerClaim {
    const ids = rows.map(row => row.id)
    return {
      lease: this.#insertLease(consumer, ids, this.clock.now() + rowLeaseMs, handOuts),
      rows,
      redelivered,
    }
  }

  #insertLease(
    consumer: string,
    ids: readonly number[],
    expiresAt: number,
    handOuts: number,
    owner: string = this.owner.name,
  ): number {
    return this.db.run`INSERT INTO lease (consumer, ids, owner, expires_at, hand_outs)
      VALUES (${consumer}, ${JSON.stringify(ids)}, ${owner}, ${expiresAt}, ${handOuts})`.lastInsertRowid
  }
}
