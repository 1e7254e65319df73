/**
 * Stores calls of send, and settles their messages. Calls that wait are done together, one group at a time: the group reads
 * with one statement, decides for one call after another, and writes with one script, which fails if a lane has changed
 * since. So a process does not lose against itself, and locks the head of the log rarely.
 *
 * In a group, enqueues are decided before settlements: these end what those count.
 */
import type { SendRules, Verdict } from '../../model/admission.ts'
import { isSvcError } from '../../model/error.ts'
import type { Counter } from '../../model/session.ts'
import { sessionKeyOf } from '../../model/session.ts'
import {
  noSql,
  prepared,
  rowsAsJson,
  rowsOfJson,
  type Sql,
  sql,
  sqlStateOf,
  toJsonb,
} from '../../platform/postgres.ts'
import type { SentMessage } from '../messages.ts'
import {
  approvalReasonOf,
  type BegunMessage,
  type EnqueueResult,
  type EntryPart,
  type NewEntry,
  type Settlement,
  type SettleResult,
  type StoredEntry,
} from '../outbox.ts'
import {
  begunOf,
  expiryOf,
  filesOf,
  partId,
  partsPerEntry,
  rejectTooMany,
  rejectTooManyAsked,
  sentByOf,
} from '../outbox-rules.ts'
import type { Attempt } from './database.ts'
import type { Doubts } from './doubts.ts'
import { type LoadedRow, loadedOf, type PgEntries } from './entries.ts'
import type { LaneRow, LoadedEntry } from './entry-rows.ts'
import { type AheadRow, aheadOf, counterOf, joinSession, type PgLanes, type SlotRow } from './lanes.ts'
import { OutboxWrites } from './outbox-writes.ts'
import { type EngineContext, ensureKey, PgPart } from './part.ts'

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
interface EnqueueRow extends LaneRow, SlotRow, AheadRow {
  /** Place in the group. */
  nth: number
  /** Id of the new entry. */
  new_entry: number
  /** Messages of mode `queue` that wait or are being sent. */
  unsent: number
  /** Sends of the session that wait for an approval. */
  asked: number
  is_known: boolean
}

/** What is read for a settlement. */
interface Settled {
  lane: LaneRow | undefined
  /** In the order of the parts. */
  entries: LoadedEntry[]
}

const mostInGroup = 100

export class PgOutboxCalls extends PgPart {
  readonly #lanes: PgLanes
  readonly #entries: PgEntries
  readonly #doubts: Doubts
  readonly #enqueues: Enqueue[] = []
  readonly #settles: Settle[] = []
  #isRunning = false

  constructor(context: EngineContext, lanes: PgLanes, entries: PgEntries, doubts: Doubts) {
    super(context)
    this.#lanes = lanes
    this.#entries = entries
    this.#doubts = doubts
  }

  enqueue(entry: NewEntry, rules: SendRules, first: SentMessage | undefined): Promise<Enqueued> {
    const done = Promise.withResolvers<Enqueued>()
    const call: Enqueue = { entry, rules, first, done }
    this.#enqueues.push(call)
    return this.durably(() => this.#started(done)).catch(error => {
      if (call.written !== undefined) this.#doubts.noteBegin([partId(call.written, 0)])
      throw error
    })
  }

  async settle(begun: BegunMessage, settlement: Settlement): Promise<SettleResult> {
    try {
      return await this.#settle(begun, settlement)
    } catch (error) {
      this.#doubts.unsettled.add({ begun, settlement })
      throw error
    }
  }

  /** Settles what could not be settled, if it is still in flight. */
  async settleAgain(): Promise<void> {
    for (const unsettled of this.#doubts.unsettled) {
      await this.#settle(unsettled.begun, unsettled.settlement, true)
      this.#doubts.unsettled.delete(unsettled)
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
      const isAlone = one.rules.pace !== 'off' || one.entry.asked !== undefined
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
      await this.#lanes.lock(queries, sql`l.id = ANY (${ids}::bigint[])`)
      found = await this.#read(queries, group)
    }
    const writes = new OutboxWrites(this.clock.now())
    const finishes: (() => void)[] = []
    const keys = new Set<string>()
    for (const [nth, one] of group.enqueues.entries()) {
      try {
        const { key } = one.entry
        const result =
          key !== undefined && keys.has(key)
            ? () => 'known' as const
            : this.#enqueue(one, found.enqueues[nth]!, writes)
        if (key !== undefined) keys.add(key)
        finishes.push(() => one.done.resolve(result()))
      } catch (error) {
        finishes.push(() => one.done.reject(error))
      }
    }
    for (const [nth, one] of group.settles.entries()) {
      const result = settle(one, found.settles[nth]!, writes)
      finishes.push(() => one.done.resolve(result))
    }
    await writes.run(queries)
    return () => {
      for (const finish of finishes) finish()
    }
  }

  /** Reads what the group needs. Each lane is one object, as it was when it was read first. */
  async #read(queries: Attempt, group: Group) {
    const lanes = new Map<number, LaneRow>()
    const share = <T extends LaneRow>(row: T): T => {
      const known = lanes.get(row.lane_id)
      if (!known) lanes.set(row.lane_id, row)
      return (known ?? row) as T
    }
    const ids = [...new Set(group.settles.flatMap(({ begun }) => begun.parts.map(entryOfPart)))]
    const [calls, parts] = await this.#readAtOnce(queries, group.enqueues, ids)
    const enqueues = calls.map(call => {
      const row = share(call)
      // Each call counts only what it asks about.
      row.unsent = Math.max(row.unsent, call.unsent)
      row.asked = Math.max(row.asked, call.asked)
      return { row, entry: call.new_entry, isKnown: call.is_known }
    })
    const loaded = new Map<number, LoadedEntry>()
    for (const one of loadedOf(parts)) {
      if (one.lane) one.lane = share(one.lane)
      loaded.set(one.entry.id, one)
    }
    // The entries of these ended and were removed, or moved to another lane with their session.
    const missing = group.settles.map(({ begun }) => begun.lane).filter(id => !lanes.has(id))
    if (missing.length > 0) {
      const others =
        await queries.all<LaneRow>(sql`SELECT ${this.#lanes.columns} FROM outbox_lane l ${joinSession}
        WHERE l.id = ANY (${missing}::bigint[])`)
      for (const row of others) share(row)
    }
    const settles = group.settles.map(({ begun }): Settled => {
      const ids = [...new Set(begun.parts.map(entryOfPart))]
      return { lane: lanes.get(begun.lane), entries: ids.flatMap(id => loaded.get(id) ?? []) }
    })
    return { lanes, enqueues, settles }
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
            this.#entries.select(
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
    const { columns, aheadColumn } = this.#lanes
    const wanted = calls.map(({ entry: { asked, key, mode, session, user } }, nth) => ({
      nth,
      name_key: sessionKeyOf(session),
      peer: user,
      mode,
      is_asked: asked !== undefined,
      key,
    }))
    return sql`SELECT w.nth, nextval('outbox_id_seq') AS new_entry, ${columns},
      ${this.#lanes.slotColumns(calls[0]!.rules)}, ${aheadColumn},
      CASE WHEN w.mode = 'queue' THEN (SELECT count(*) FROM outbox o JOIN outbox_part p ON p.entry = o.id
        WHERE o.lane = l.id AND o.mode = 'queue' AND o.ended_at IS NULL AND p.status IN ('queued', 'sending'))
        ELSE 0 END AS unsent,
      CASE WHEN w.is_asked THEN (SELECT count(DISTINCT p.entry) FROM outbox_part p
        JOIN outbox_lane other ON other.id = p.lane WHERE p.status = 'asked' AND other.session = s.key)
        ELSE 0 END AS asked,
      w.key IS NOT NULL AND EXISTS (SELECT 1 FROM outbox WHERE key = w.key) AS is_known
      FROM jsonb_to_recordset(${toJsonb(wanted)}::jsonb)
        AS w(nth integer, name_key text, peer text, mode text, is_asked boolean, key text)
      JOIN LATERAL (SELECT key, name, xmin::text AS version FROM session WHERE name_key = w.name_key
        ORDER BY named DESC, key DESC LIMIT 1) s ON true
      JOIN outbox_lane l ON l.session = s.key AND l.peer = w.peer ORDER BY w.nth`
  }

  /**
   * @returns the result, once the writes are done
   * @throws SvcError `quota_exhausted` if too many messages wait for that user already, or too many sends for an approval
   */
  #enqueue(
    call: Enqueue,
    { row, entry: id, isKnown }: { row: EnqueueRow; entry: number; isKnown: boolean },
    writes: OutboxWrites,
  ): () => Enqueued {
    const { entry, first, rules } = call
    if (isKnown) return () => 'known'
    const { mode, parts } = entry
    const behind = mode === 'queue' ? row.unsent : 0
    rejectTooMany(behind, parts.length)
    if (entry.asked) rejectTooManyAsked(row.asked)
    const verdict: Verdict | 'behind' =
      behind > 0
        ? 'behind'
        : this.#lanes.judge(row, row, parts.length, rules, { ahead: aheadOf(row) }).verdict
    if (mode === 'fail' && verdict !== 'behind' && verdict.go === 'no')
      return () => ({ state: 'closed', verdict })
    writes.changeLane(row)
    // Others must not add a send that waits for an approval at the same time.
    if (entry.asked) writes.book(row)
    const begins = first !== undefined && verdict !== 'behind' && verdict.go === 'now'
    const begun = begins ? { message: first, slot: verdict.slot } : undefined
    if (begun?.slot !== undefined) writes.takeSlot(row, begun.slot, rules)
    const counter = begun && writes.countAnswer(row)
    call.written = id
    const stored = this.#insert(entry, id, row, writes, begun)
    // For the calls of the same lane that come next in the group.
    const waiting = stored.parts.filter(({ status }) => status === 'queued').length
    if (mode === 'queue') row.unsent += waiting
    else row.ahead.push(...Array.from({ length: waiting }, () => true))
    const result = { state: 'new' as const, entry: stored, lane: row.lane_id, verdict }
    if (!begun || !counter) return () => result
    const lane = this.#lanes.laneOf(row)
    return () => {
      const own = stored.parts.slice(0, 1)
      return {
        ...result,
        begun: begunOf(lane, own, {
          row: own[0]!.message!,
          counter,
          ...(begun.slot !== undefined && { slot: begun.slot }),
        }),
      }
    }
  }

  /** Stores a call. @param begun its first message, if that begins in the same write, and the slot of it */
  #insert(
    entry: NewEntry,
    id: number,
    row: LaneRow,
    writes: OutboxWrites,
    begun: { message: SentMessage; slot?: number | undefined } | undefined,
  ): StoredEntry {
    const { address, asked, bot_id: botId, content = '', key, made_by, mode } = entry
    const { lane_id: lane, peer: user, session_key, session_name: session } = row
    const created_at = this.clock.now()
    const expires_at = expiryOf(entry, created_at)
    const owner = mode === 'fail' ? this.owner : undefined
    writes.addEntry({ id, lane, mode, owner, key, content, created_at, expires_at, asked, made_by, address })
    const parts = entry.parts.map(({ kind, waiting }, nth): EntryPart => {
      const first = nth === 0 ? begun : undefined
      const { msg_type = 'TEXT', raw = '', text = '' } = waiting?.message ?? {}
      const status = first ? 'sending' : asked ? 'asked' : 'queued'
      const part: EntryPart = {
        id: partId(id, nth),
        entry: id,
        lane,
        kind,
        msg_type,
        tries: 0,
        text,
        raw,
        status,
        ...(first?.slot !== undefined && { slot: first.slot }),
        ...(waiting?.file && { file: waiting.file }),
      }
      writes.addPart(part, first && { owner: this.owner, began_at: created_at })
      const message = first?.message ?? waiting?.message
      const error = asked && !first ? approvalReasonOf(waiting?.file) : undefined
      const sent = { session: session_key, botId, error, sentBy: sentByOf(entry) }
      if (message) writes.addRow({ ...sent, message, status: first ? 'sending' : 'queued' }, part)
      return part
    })
    return {
      id,
      session,
      user,
      mode,
      content,
      created_at,
      expires_at,
      ended: false,
      made_by,
      parts,
      ...(asked && { asked }),
    }
  }
}

const entryOfPart = (part: number): number => Math.floor(part / partsPerEntry)

function settle(
  { again, begun, settlement }: Settle,
  { lane, entries }: Settled,
  writes: OutboxWrites,
): SettleResult {
  const { status, message_id, error, rest, hold } = settlement
  const all = new Map(entries.flatMap(({ entry }) => entry.parts).map(part => [part.id, part]))
  const ownParts = begun.parts.flatMap(id => all.get(id) ?? [])
  // The other parts were reaped as abandoned since, and their caller was notified.
  const parts = ownParts.filter(part => part.status === 'sending')
  if (status !== 'queued') {
    writes.settleRow(begun.row, { status, error, messageId: message_id })
    for (const part of parts.slice(1)) writes.settleRow(part.message!, { status, error, carrier: begun.row })
  }
  // It was done before, or another process took the message for lost: the counter stays.
  if (again && parts.length === 0) return { entries: [], files: [] }
  const files = status === 'queued' ? [] : filesOf(parts)
  for (const part of parts) {
    const loaded = entries.find(({ entry }) => entry.id === part.entry)!
    if (status === 'queued') requeue(part, loaded, settlement, writes)
    else writes.endPart(part, status, error, message_id)
  }
  const counter = lane && settleLane(lane, begun, settlement, writes)
  if (lane && hold !== undefined)
    writes.changeLane(lane, { held_at: hold?.since, held_until: hold?.until, holds: hold?.count ?? 0 })
  const first = entries.find(({ entry }) => entry.id === ownParts[0]?.entry)
  if (rest && first) files.push(...filesOf(writes.endWaiting(first, rest)))
  return { entries: entries.map(loaded => writes.close(loaded, counter)), files }
}

/** Takes back what a message that used no answer counted. @returns the counter as it is then */
function settleLane(
  lane: LaneRow,
  begun: BegunMessage,
  { spent, unseen }: Settlement,
  writes: OutboxWrites,
): Counter {
  writes.changeLane(lane)
  if (spent) return counterOf(lane)
  if (unseen && begun.slot !== undefined) writes.giveBack(lane, begun.slot)
  // If the user wrote since, that started a new count.
  if (lane.received_at === begun.counter.received_at)
    writes.changeLane(lane, { used: Math.max(0, lane.used - 1), last_sent_at: begun.counter.last_sent_at })
  return counterOf(lane)
}

function requeue(
  part: EntryPart,
  { row: entry }: LoadedEntry,
  { error, spent }: Settlement,
  writes: OutboxWrites,
): void {
  // Its key ended while it was being sent.
  const isAsked = entry.asked !== undefined
  const { id, raw, text } = part
  const again = { client_id: `queued-${id}`, text, timestamp: writes.now, raw }
  writes.rewriteRow(part.message!, again, {
    status: 'queued',
    isNewText: true,
    ...(isAsked && { error: approvalReasonOf(part.file) }),
  })
  const tries = part.tries + (spent ? 1 : 0)
  writes.changePart(part, { status: isAsked ? 'asked' : 'queued', tries, error, slot: undefined }, {})
}
