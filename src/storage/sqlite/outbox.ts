/**
 * Calls of send: reads what is known of them, lets the rules decide, and writes that. Same rules as in `../outbox.ts`.
 *
 * Call every method that writes inside a transaction.
 */
import type { SendRules } from '../../model/admission.ts'
import type { ClockTrust } from '../clock-trust.ts'
import type { MadeKey } from '../keys.ts'
import type { SentMessage } from '../messages.ts'
import { refuseRevoked, selectMakers } from '../nouns/keys.ts'
import type {
  ApproveResult,
  BeginResult,
  BegunMessage,
  ClaimedLane,
  EditedText,
  EndedEntry,
  EndReason,
  EnqueueResult,
  ExpiryReasons,
  NewEntry,
  SendMode,
  Settlement,
  SettleResult,
  StoredEntry,
} from '../outbox.ts'
import {
  areKeysNeeded,
  callLifeMs,
  isHeldBack,
  lookahead,
  partsPerEntry,
  sentByOf,
} from '../outbox-limits.ts'
import {
  type BeginFacts,
  begin,
  type EnqueueFacts,
  enqueue,
  type SettleFacts,
  settle,
} from '../rules/outbox.ts'
import {
  approve,
  end,
  endOrphan,
  expire,
  isAsked,
  isCallOver,
  isKeyFree,
  type KeyFacts,
} from '../rules/outbox-ends.ts'
import { type PartRow, partColumns, partOf } from '../rules/outbox-rows.ts'
import { LinkedPart } from './engine-part.ts'
import type { SqliteOutboxEntries } from './entries.ts'
import {
  laneRowColumns,
  noSlots,
  type SqliteLane,
  type SqliteLaneRow,
  type SqliteOutboxLanes,
} from './lanes.ts'
import type { SqliteOutboxPlans } from './outbox-plans.ts'
import { drive, sqliteDialect } from './routines.ts'

type BeginRow = PartRow &
  SqliteLaneRow & {
    mode: SendMode
    /** The process in which the caller waits; only in mode `fail`. */
    call_owner?: string
    made_by?: string
    origin?: string
    has_row: number
    is_unapproved?: number
  }

const selectForBegin = `SELECT ${partColumns}, ${laneRowColumns}, e.mode, e.owner AS call_owner, e.made_by, e.origin,
  m.id IS NOT NULL AS has_row, e.mode = 'queue' AND e.approved_by IS NULL AND instr(e.made_by, ':') > 0
    AND (m.bot_id <> ? OR k.revoked_at IS NOT NULL) AS is_unapproved
  FROM outbox_part p JOIN outbox e ON e.id = p.entry JOIN outbox_lane l ON l.id = p.lane
  JOIN session s ON s.key = l.session LEFT JOIN message m ON m.id = p.message
  LEFT JOIN webhook w ON w.id = substr(e.made_by, 9) AND e.made_by LIKE 'webhook:%'
  LEFT JOIN access_key k
    ON k.id = substr(coalesce(w.made_by, e.made_by), instr(coalesce(w.made_by, e.made_by), ':') + 1) WHERE p.id = ?`

type CallRow = Omit<KeyFacts, 'isDead'> & { id: number; owner?: string }

/** An entry that nobody ends. `lost`: ids of parts that will not be settled. */
export interface Orphan {
  readonly id: number
  readonly lost: readonly number[]
  readonly isOver: boolean
}

/** Parts that the outbox uses. */
export interface SqliteOutboxParts {
  lanes: SqliteOutboxLanes
  entries: SqliteOutboxEntries
  plans: SqliteOutboxPlans
  clockTrust: ClockTrust
}

export class SqliteOutbox extends LinkedPart<SqliteOutboxParts> {
  enqueue(entry: NewEntry, rules: SendRules, first?: SentMessage): EnqueueResult {
    const earlier = entry.key === undefined ? undefined : this.findByKey(entry.key)
    if (earlier) return { state: 'known', entry: earlier }
    const { facts, maker } = this.#loadForEnqueue(entry, rules)
    const call = { entry, maker, id: 0, rules, first, owner: this.owner.name }
    return this.ports.plans.decide(plan => enqueue(facts, call, plan))()
  }

  #loadForEnqueue(entry: NewEntry, rules: SendRules): { facts: EnqueueFacts<SqliteLane>; maker: string } {
    const { entries, lanes } = this.ports
    const lane = lanes.of(entry)
    const unsent = entry.mode === 'queue' ? entries.countUnsent(lane.id) : []
    const asked = isHeldBack(entry) ? entries.countAsked(lane.sessionKey) : []
    const needsKeys = areKeysNeeded({ unsent, asked }, entry.parts.length)
    const keys = needsKeys ? this.db.all<MadeKey>(selectMakers) : []
    const maker = needsKeys ? entries.makerOf(entry) : entry.made_by
    // Behind others admission is not asked.
    const admission =
      unsent.length > 0 ? { slots: noSlots(), ahead: [] } : this.#readForAdmission(lane, rules)
    return { facts: { lane, unsent, asked, keys, ...admission }, maker }
  }

  #readForAdmission(lane: SqliteLane, rules: SendRules) {
    const { lanes } = this.ports
    return { slots: lanes.slotsOf(lane, rules), ahead: lanes.listAhead(lane.id) }
  }

  approve(id: number, rules: SendRules, by: string, edited?: EditedText): ApproveResult | undefined {
    const [found] = this.ports.entries.load([id], false)
    if (!found?.lane || !isAsked(found.entry, this.clock.now())) return undefined
    drive(this.db, refuseRevoked(sqliteDialect, by))
    const facts = { ...found, ...this.#readForAdmission(found.lane, rules) }
    return this.ports.plans.decide(plan => approve(facts, { rules, by, edited }, plan))
  }

  begin(ids: readonly number[], botId: string, rules: SendRules, message: SentMessage): BeginResult {
    const facts = this.#loadForBegin(ids, botId, rules)
    const how = { count: ids.length, botId, rules, message, owner: this.owner.name }
    return this.ports.plans.decide(plan => begin(facts, how, plan))()
  }

  #loadForBegin(ids: readonly number[], botId: string, rules: SendRules): BeginFacts<SqliteLane> | undefined {
    const { entries, lanes } = this.ports
    const rows = ids.flatMap(id => this.db.get<BeginRow>(selectForBegin, botId, id) ?? [])
    const [row] = rows
    if (!row) return undefined
    const lane = lanes.laneOf(row)
    const unapproved = new Set(rows.filter(one => one.is_unapproved).map(({ entry }) => entry))
    return {
      lane,
      mode: row.mode,
      owner: row.call_owner,
      slots: lanes.slotsOf(lane, rules, ids.length),
      parts: rows.map(one => ({ part: partOf(one), hasRow: one.has_row === 1, sentBy: sentByOf(one) })),
      unapproved: entries.load([...unapproved]).map(({ entry }) => ({ entry, lane })),
    }
  }

  settle(begun: BegunMessage, settlement: Settlement): SettleResult {
    const facts = this.#loadForSettle(begun)
    return this.ports.plans.decide(plan => settle(facts, begun, settlement, plan))
  }

  #loadForSettle(begun: BegunMessage): SettleFacts<SqliteLane> {
    const { entries, lanes } = this.ports
    const ids = [...new Set(begun.parts.map(id => Math.floor(id / partsPerEntry)))]
    const found = entries.load(ids)
    const inOrder = ids.flatMap(id => found.find(({ entry }) => entry.id === id) ?? [])
    // The entries of the parts ended and were removed, or moved to another lane with their session.
    const lane = found.find(one => one.lane?.id === begun.lane)?.lane ?? lanes.load(begun.lane, true)
    return { lane, entries: inOrder }
  }

  /**
   * Takes a lane, or renews it.
   *
   * @returns the lane with the parts that wait in it; undefined while another process has the lane
   */
  claim(id: number): ClaimedLane | undefined {
    const { entries, lanes } = this.ports
    const lane = lanes.claim(id)
    return lane && { ...lane, parts: entries.waiting(id, lookahead) }
  }

  end(id: number, reason: EndReason, options: { only?: SendMode; by?: string } = {}): EndedEntry | undefined {
    return this.ports.plans.change(id, (found, plan) => end(found, reason, options, plan))
  }

  /** Returns ids of the queued entries whose time has come. */
  listDue(): number[] {
    return this.#listIds`SELECT id FROM outbox
      WHERE expires_at <= ${this.clock.now()} AND mode = 'queue' AND ended_at IS NULL ORDER BY id`
  }

  #listIds(statement: TemplateStringsArray, ...values: number[]): number[] {
    return this.db.all<{ id: number }>(statement, ...values).map(({ id }) => id)
  }

  expire(due: readonly number[], reasons?: ExpiryReasons): EndedEntry[] {
    return due
      .flatMap(id => this.ports.plans.change(id, (entry, plan) => expire(entry, reasons, plan)) ?? [])
      .filter(({ ended, isLetGo }) => ended > 0 || isLetGo)
  }

  /** Records that the call still makes progress. */
  renew(id: number): void {
    this.db.run`UPDATE outbox SET expires_at = ${this.clock.now() + callLifeMs} WHERE id = ${id}
      AND mode = 'fail'`
  }

  hasKey(key: string): boolean {
    return this.db.get`SELECT 1 AS found FROM outbox WHERE key = ${key}` !== undefined
  }

  /**
   * Finds the entry that answers for a key. A call that died is ended first; a key older than a day is free.
   */
  findByKey(key: string): StoredEntry | undefined {
    const { entries, plans } = this.ports
    const find = () => {
      const row = this.db.get<CallRow>`SELECT id, mode, owner, created_at, expires_at, ended_at FROM outbox
        WHERE key = ${key}`
      return row && { ...row, isDead: row.owner !== undefined && this.owner.isDead(row.owner) }
    }
    // A clock that was set ahead must not make a repeated call send twice.
    const now = this.ports.clockTrust.isTrusted ? this.clock.now() : Number.NEGATIVE_INFINITY
    let row = find()
    if (row && isCallOver(row, now)) {
      plans.change(row.id, (found, plan) => endOrphan(found, { lost: [], isOver: true }, plan))
      row = find()
    }
    if (!row) return undefined
    if (!isKeyFree(row, now)) return entries.getEntry(row.id)
    if (row.mode === 'queue') this.db.run`UPDATE outbox SET key = NULL WHERE id = ${row.id}`
    else plans.remove(row.id)
    return undefined
  }

  /** Returns ids of the queued entries whose keys answer for nothing any more. */
  /** Ends these. @returns how many messages became unknown */
  reap(orphans: readonly Orphan[]): number {
    let unknown = 0
    for (const orphan of orphans)
      unknown += this.ports.plans.change(orphan.id, (found, plan) => endOrphan(found, orphan, plan)) ?? 0
    return unknown
  }

  /**
   * Returns entries with messages in flight that began before `before` (Unix ms) or whose process died, and calls that
   * are over for these reasons.
   */
  listOrphans(before: number): Orphan[] {
    const isDead = (owner: string | undefined) => this.owner.isDead(owner ?? '')
    const parts = this.db.all<{ id: number; entry: number; owner?: string; began_at?: number }>`
      SELECT id, entry, owner, began_at FROM outbox_part WHERE status = 'sending'`.filter(
      ({ began_at, owner }) => (began_at ?? 0) < before || isDead(owner),
    )
    // A call that is not over has a part in flight, or a part that waits and has no message yet.
    const calls = this.db.all<{ id: number; owner?: string; expires_at: number }>`SELECT id, owner, expires_at
      FROM outbox WHERE mode = 'fail' AND ended_at IS NULL
      AND id IN (SELECT entry FROM outbox_part WHERE status = 'sending'
        UNION SELECT entry FROM outbox_part WHERE status = 'queued' AND message IS NULL)`
      // A call whose process hangs would block its user's answers: past its deadline it is over, if the
      // clock is trusted.
      .filter(({ owner, expires_at }) => isDead(owner) || (before > 0 && expires_at <= this.clock.now()))
    const isOver = new Set(calls.map(({ id }) => id))
    return [...new Set([...parts.map(({ entry }) => entry), ...isOver])].map(id => ({
      id,
      lost: parts.filter(({ entry }) => entry === id).map(part => part.id),
      isOver: isOver.has(id),
    }))
  }
}
