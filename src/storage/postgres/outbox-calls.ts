/**
 * Stores calls of send, and settles their messages. Calls that wait are done together, one group at a time: the group reads
 * with one statement, decides for one call after another, and writes with one script, which fails if a lane has changed
 * since. So a process does not lose against itself, and locks the head of the log rarely.
 *
 * It decides all enqueues of a group first, because a settlement ends entries that an enqueue has to count.
 */
import type { SendRules } from '../../model/admission.ts'
import { isSvcError } from '../../model/error.ts'
import { sessionKeyOf } from '../../model/session.ts'
import { sqlStateOf } from '../../platform/postgres.ts'
import { rowsAsJson, rowsOfJson, toJsonb } from '../../platform/postgres-values.ts'
import { constantSql, noSql, prepared, type Sql, sql } from '../../platform/sql.ts'
import type { MadeKey } from '../keys.ts'
import type { SentMessage } from '../messages.ts'
import { makerOf, selectMakers } from '../nouns/keys.ts'
import type { BegunMessage, EnqueueResult, NewEntry, Settlement, SettleResult } from '../outbox.ts'
import { areKeysNeeded, isHeldBack, partId, partsPerEntry, type WaitingFacts } from '../outbox-limits.ts'
import { type EnqueueFacts, enqueue, type SettleFacts, settle } from '../rules/outbox.ts'
import { type EntryFacts, OutboxPlan } from '../rules/outbox-plan.ts'
import type { Attempt } from './database.ts'
import type { Doubts } from './doubts.ts'
import type { LoadedRow, PgEntries } from './entries.ts'
import {
  type AheadRow,
  joinSession,
  type LaneRow,
  type PgLane,
  type PgLanes,
  type SlotRow,
  slotsOf,
} from './lanes.ts'
import { type PgPlan, writePlan } from './outbox-plans.ts'
import { LinkedPgPart } from './part.ts'
import { ensureKey } from './session-keys.ts'

/** `known`: another entry has the key. */
type Enqueued = EnqueueResult | 'known'

interface Enqueue {
  entry: NewEntry
  rules: SendRules
  first: SentMessage | undefined
  done: PromiseWithResolvers<Enqueued>
  /** Id of the entry that was written last for it. */
  written?: number
}

interface Settle {
  begun: BegunMessage
  settlement: Settlement
  /** It may have been done before. */
  again: boolean
  done: PromiseWithResolvers<SettleResult>
}

interface Group {
  enqueues: Enqueue[]
  settles: Settle[]
}

/** What is read for an enqueue. */
interface EnqueueRow extends LaneRow, SlotRow, AheadRow, Omit<WaitingFacts, 'keys'> {
  /** Place in the group. */
  nth: number
  /** Id of the new entry. */
  new_entry: number
  /** Who stands behind it. */
  maker: string
  is_known: boolean
}

/** What is read for an enqueue; calls of one lane share the facts. */
interface LoadedCall {
  facts: EnqueueFacts<PgLane>
  /** Id of the new entry, and who stands behind it. */
  id: number
  maker: string
  isKnown: boolean
}

const mostInGroup = 100

const maker = makerOf(constantSql('o.made_by'))

/** Parts that the outbox uses. */
export interface PgOutboxParts {
  lanes: PgLanes
  entries: PgEntries
  doubts: Doubts
}

export class PgOutboxCalls extends LinkedPgPart<PgOutboxParts> {
  readonly #enqueues: Enqueue[] = []
  readonly #settles: Settle[] = []
  #isRunning = false

  enqueue(entry: NewEntry, rules: SendRules, first: SentMessage | undefined): Promise<Enqueued> {
    const done = Promise.withResolvers<Enqueued>()
    const call: Enqueue = { entry, rules, first, done }
    this.#enqueues.push(call)
    return this.durably(() => this.#started(done)).catch(error => {
      if (call.written !== undefined) this.ports.doubts.noteBegin([partId(call.written, 0)])
      throw error
    })
  }

  async settle(begun: BegunMessage, settlement: Settlement): Promise<SettleResult> {
    try {
      return await this.#settle(begun, settlement)
    } catch (error) {
      this.ports.doubts.unsettled.add({ begun, settlement })
      throw error
    }
  }

  /** Settles what could not be settled, if it is still in flight. */
  async settleAgain(): Promise<void> {
    for (const unsettled of this.ports.doubts.unsettled) {
      await this.#settle(unsettled.begun, unsettled.settlement, true)
      this.ports.doubts.unsettled.delete(unsettled)
    }
  }

  #settle(begun: BegunMessage, settlement: Settlement, again = false): Promise<SettleResult> {
    const done = Promise.withResolvers<SettleResult>()
    this.#settles.push({ begun, settlement, again, done })
    return this.durably(() => this.#started(done))
  }

  #started<T>({ promise }: PromiseWithResolvers<T>): Promise<T> {
    if (!this.#isRunning) void this.#run()
    return promise
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    // What comes in the same turn of the event loop belongs to the first group.
    await undefined
    while (this.#enqueues.length + this.#settles.length > 0) await this.#decideGroup(this.#takeGroup())
    this.#isRunning = false
  }

  /** Takes calls that do not depend on each other but by counts: with a pace, or an approval, one of each session. */
  #takeGroup(): Group {
    const settles = this.#settles.splice(0, mostInGroup)
    const taken = new Set<string>()
    const enqueues: Enqueue[] = []
    const rest: Enqueue[] = []
    const rules = JSON.stringify(this.#enqueues[0]?.rules)
    for (const one of this.#enqueues.splice(0)) {
      const session = sessionKeyOf(one.entry.session)
      const isAlone = one.rules.pace !== 'off' || isHeldBack(one.entry)
      const fits = enqueues.length < mostInGroup && JSON.stringify(one.rules) === rules
      if (fits && !(isAlone && taken.has(session))) enqueues.push(one)
      else rest.push(one)
      if (isAlone) taken.add(session)
    }
    this.#enqueues.push(...rest)
    return { enqueues, settles }
  }

  async #decideGroup(group: Group): Promise<void> {
    try {
      const finish = await this.db.retry(queries => this.#decide(queries, group))
      finish()
    } catch (error) {
      const single = [
        ...group.enqueues.map(one => ({ enqueues: [one], settles: [] })),
        ...group.settles.map(one => ({ enqueues: [], settles: [one] })),
      ]
      // One of them may be at fault, such as by an id that another message has.
      if (single.length > 1 && (sqlStateOf(error) !== undefined || isSvcError(error, 'window_closed')))
        for (const one of single) await this.#decideGroup(one)
      else for (const { done } of [...group.enqueues, ...group.settles]) done.reject(error)
    }
  }

  /** @returns what tells the callers the results */
  async #decide(queries: Attempt, group: Group): Promise<() => void> {
    let found = await this.#read(queries, group)
    if (queries.lock !== noSql) {
      const ids = [...found.lanes.keys()]
      await this.ports.lanes.lock(queries, sql`l.id = ANY (${ids}::bigint[])`)
      found = await this.#read(queries, group)
    }
    const plan: PgPlan = new OutboxPlan(this.clock.now())
    const finishes: (() => void)[] = []
    const keys = new Set<string>()
    for (const [nth, one] of group.enqueues.entries()) {
      try {
        const { key } = one.entry
        const result =
          key !== undefined && keys.has(key)
            ? () => 'known' as const
            : this.#enqueue(one, found.calls[nth]!, plan)
        if (key !== undefined) keys.add(key)
        finishes.push(() => one.done.resolve(result()))
      } catch (error) {
        finishes.push(() => one.done.reject(error))
      }
    }
    for (const [nth, { begun, done, settlement }] of group.settles.entries()) {
      const result = settle(found.settles[nth]!, begun, settlement, plan)
      finishes.push(() => done.resolve(result))
    }
    await writePlan(queries, plan)
    return () => {
      for (const finish of finishes) finish()
    }
  }

  /** @returns the result, once the plan is written */
  #enqueue(call: Enqueue, { facts, id, isKnown, maker }: LoadedCall, plan: PgPlan): () => Enqueued {
    if (isKnown) return () => 'known'
    const before = plan.newEntries.length
    const result = enqueue(facts, { ...call, id, maker, owner: this.owner }, plan)
    if (plan.newEntries.length > before) call.written = id
    return result
  }

  /** Reads what the group needs. Each lane is one object, as it was when it was read first. */
  async #read(queries: Attempt, group: Group) {
    const lanes = new Map<number, PgLane>()
    const ids = [...new Set(group.settles.flatMap(({ begun }) => begun.parts.map(entryOfPart)))]
    const [rows, parts] = await this.#readAtOnce(queries, group.enqueues, ids)
    const more = group.enqueues.reduce((sum, { entry }) => sum + entry.parts.length, 0)
    const needsKeys = rows.some(row => areKeysNeeded(row, more))
    const keys = needsKeys ? await queries.all<MadeKey>(selectMakers) : []
    const byLane = new Map<number, EnqueueFacts<PgLane>>()
    const calls = rows.map((row): LoadedCall => {
      const { ahead, asked, maker, unsent } = row
      const known = byLane.get(row.lane_id) ?? {
        lane: this.ports.lanes.laneOf(row),
        slots: slotsOf(row),
        ahead,
        asked: [],
        unsent: [],
        keys,
      }
      // Only a call that needs a count has it.
      const facts = Object.assign(known, {
        ...(asked.length > 0 && { asked }),
        ...(unsent.length > 0 && { unsent }),
      })
      byLane.set(row.lane_id, facts)
      lanes.set(row.lane_id, facts.lane)
      return { facts, id: row.new_entry, maker, isKnown: row.is_known }
    })
    const loaded = new Map(this.ports.entries.loadedOf(parts, lanes).map(one => [one.entry.id, one]))
    // The entries of these ended and were removed, or moved to another lane with their session.
    const missing = group.settles.map(({ begun }) => begun.lane).filter(id => !lanes.has(id))
    if (missing.length > 0) {
      const others =
        await queries.all<LaneRow>(sql`SELECT ${this.ports.lanes.columns} FROM outbox_lane l ${joinSession}
        WHERE l.id = ANY (${missing}::bigint[])`)
      for (const row of others) lanes.set(row.lane_id, this.ports.lanes.laneOf(row))
    }
    const settles = group.settles.map(({ again, begun }): SettleFacts<PgLane> => {
      const entries = [...new Set(begun.parts.map(entryOfPart))].flatMap((id): EntryFacts<PgLane>[] => {
        const one = loaded.get(id)
        return one ? [one] : []
      })
      return { lane: lanes.get(begun.lane), entries, again }
    })
    return { lanes, calls, settles }
  }

  /** Reads with one statement, so that all is of the same moment. */
  async #readAtOnce(
    queries: Attempt,
    enqueues: readonly Enqueue[],
    entries: readonly number[],
  ): Promise<[EnqueueRow[], LoadedRow[]]> {
    const calls = enqueues.length > 0 ? rowsAsJson(this.#selectForEnqueue(enqueues)) : sql`NULL`
    const parts =
      entries.length > 0
        ? // The planner expects the same number of ids in JSON each time, and keeps its plan.
          rowsAsJson(
            this.ports.entries.select(
              sql`e.id IN (SELECT jsonb_array_elements_text(${toJsonb(entries)}::jsonb)::bigint)`,
            ),
          )
        : sql`NULL`
    const found = await queries.one(prepared(sql`SELECT ${calls} AS calls, ${parts} AS parts`))
    const rows = rowsOfJson<EnqueueRow>(found.calls)
    if (rows.length === enqueues.length) return [rows, rowsOfJson(found.parts)]
    const known = new Set(rows.map(({ nth }) => nth))
    for (const { entry } of enqueues.filter((_call, nth) => !known.has(nth))) {
      const key = await ensureKey(queries, entry.session)
      await queries.run(
        sql`INSERT INTO outbox_lane (session, peer) VALUES (${key}, ${entry.user}) ON CONFLICT DO NOTHING`,
      )
    }
    return await this.#readAtOnce(queries, enqueues, entries)
  }

  #selectForEnqueue(calls: readonly Enqueue[]): Sql {
    const { columns, aheadColumn } = this.ports.lanes
    const wanted = calls.map(({ entry }, nth) => ({
      nth,
      name_key: sessionKeyOf(entry.session),
      peer: entry.user,
      made_by: entry.made_by,
      mode: entry.mode,
      is_asked: isHeldBack(entry),
      key: entry.key,
    }))
    return sql`SELECT w.nth, nextval('outbox_id_seq') AS new_entry, ${columns},
      ${this.ports.lanes.slotColumns(calls[0]!.rules)}, ${aheadColumn},
      ${makerOf(constantSql('w.made_by'))} AS maker,
      CASE WHEN w.mode = 'queue' THEN coalesce(${rowsAsJson(sql`SELECT ${maker} AS made_by, count(*) AS count
        FROM outbox o JOIN outbox_part p ON p.entry = o.id
        WHERE o.lane = l.id AND o.mode = 'queue' AND o.ended_at IS NULL AND p.status IN ('queued', 'sending') GROUP BY 1`)}, '[]') ELSE '[]' END AS unsent,
      CASE WHEN w.is_asked THEN coalesce(${rowsAsJson(sql`SELECT ${maker} AS made_by, count(DISTINCT p.entry) AS count FROM outbox_part p
        JOIN outbox o ON o.id = p.entry
        JOIN outbox_lane other ON other.id = p.lane WHERE p.status = 'asked' AND other.session = s.key GROUP BY 1`)}, '[]') ELSE '[]' END AS asked,
      w.key IS NOT NULL AND EXISTS (SELECT 1 FROM outbox WHERE key = w.key) AS is_known
      FROM jsonb_to_recordset(${toJsonb(wanted)}::jsonb)
        AS w(nth bigint, name_key text, peer text, made_by text, mode text, is_asked boolean, key text)
      JOIN LATERAL (SELECT key, name, xmin::text AS version FROM session WHERE name_key = w.name_key
        ORDER BY named DESC, key DESC LIMIT 1) s ON true
      JOIN outbox_lane l ON l.session = s.key AND l.peer = w.peer ORDER BY w.nth`
  }
}

const entryOfPart = (part: number): number => Math.floor(part / partsPerEntry)
