/**
 * Begins messages: reads their parts and lane with one statement, decides, and writes with one script, which fails if the
 * lane has changed since.
 */
import { isDue, noneAhead, type SendRules, type Verdict } from '../../model/admission.ts'
import { sql } from '../../platform/postgres.ts'
import type { SentMessage } from '../messages.ts'
import type { BeginResult, BegunMessage, EntryPart, SendMode } from '../outbox.ts'
import { askLifeMs, begunOf, laneLeaseMs, sentByOf } from '../outbox-rules.ts'
import type { Attempt } from './database.ts'
import type { Doubts } from './doubts.ts'
import type { PgEntries } from './entries.ts'
import { type LaneRow, type PartRow, partColumns, partOf } from './entry-rows.ts'
import { makingKey } from './keys.ts'
import { joinSession, type PgLanes, type SlotRow } from './lanes.ts'
import { OutboxWrites } from './outbox-writes.ts'
import { type EngineContext, PgPart } from './part.ts'

/** What is read of each part. */
type BeginRow = LaneRow &
  SlotRow &
  PartRow & {
    mode: SendMode
    call_owner?: string
    made_by?: string
    address?: string
    /** Retention has not removed its row. */
    has_row: boolean
    /** It was queued by a key for another account, or the key has ended, and nobody has approved it. */
    is_unapproved: boolean
  }

/** How a message begins. */
interface Begin {
  ids: readonly number[]
  botId: string
  rules: SendRules
  message: SentMessage
}

export class PgOutboxBegin extends PgPart {
  readonly #lanes: PgLanes
  readonly #entries: PgEntries
  readonly #doubts: Doubts

  constructor(context: EngineContext, lanes: PgLanes, entries: PgEntries, doubts: Doubts) {
    super(context)
    this.#lanes = lanes
    this.#entries = entries
    this.#doubts = doubts
  }

  async begin(how: Begin): Promise<BeginResult> {
    const doubtful = this.#doubts.take(how.ids)
    try {
      const result = await this.durably(() => this.db.retry(queries => this.#try(queries, how)))
      if (result.go === 'gone') this.#doubts.noteBegin(doubtful)
      return result
    } catch (error) {
      this.#doubts.noteBegin(how.ids)
      throw error
    }
  }

  async #try(queries: Attempt, how: Begin): Promise<BeginResult> {
    const { ids, rules } = how
    await this.#lanes.lock(queries, sql`l.id = (SELECT lane FROM outbox_part WHERE id = ${ids[0]})`)
    const rows = await this.#read(queries, how)
    const [row] = rows
    const wait = rows.length === ids.length && rows.every(({ status }) => status === 'queued')
    if (!row || !wait) return { go: 'gone' }
    const isOurs = row.mode === 'fail' ? row.call_owner === this.owner : this.#lanes.mayTake(row)
    if (!isOurs) return { go: 'gone' }
    const writes = new OutboxWrites(this.clock.now())
    if (row.mode === 'queue')
      writes.changeLane(row, { lane_owner: this.owner, lease_until: writes.now + laneLeaseMs })
    const unapproved = rows.filter(one => one.is_unapproved).map(({ entry }) => entry)
    if (unapproved.length > 0) {
      const entries = await this.#entries.load(queries, sql`e.id = ANY (${unapproved}::bigint[])`)
      for (const entry of entries) writes.askAgain({ ...entry, lane: row }, writes.now + askLifeMs)
      await writes.run(queries)
      return { go: 'gone' }
    }
    const parts = rows.map(partOf)
    const verdict = this.#judge(row, parts, rules, writes)
    const finish =
      verdict.go === 'now' ? this.#begin(rows, parts, { ...how, slot: verdict.slot }, writes) : undefined
    if (!writes.isEmpty) {
      writes.changeLane(row)
      await writes.run(queries)
    }
    return verdict.go === 'now' ? { go: 'begun', begun: finish!() } : verdict
  }

  async #read(queries: Attempt, { ids, botId, rules }: Begin): Promise<BeginRow[]> {
    const rows = await queries.all<BeginRow>(sql`SELECT ${this.#lanes.columns},
      ${this.#lanes.slotColumns(rules, ids.length)}, ${partColumns}, e.mode, e.owner AS call_owner, e.made_by, e.address,
      m.id IS NOT NULL AS has_row, coalesce(e.mode = 'queue' AND e.approved_by IS NULL AND strpos(e.made_by, ':') > 0
        AND (m.bot_id <> ${botId} OR k.revoked_at IS NOT NULL), false) AS is_unapproved
      FROM outbox_part p JOIN outbox e ON e.id = p.entry JOIN outbox_lane l ON l.id = p.lane ${joinSession}
      LEFT JOIN message m ON m.id = p.message
      LEFT JOIN access_key k ON k.id = ${makingKey}
      WHERE p.id = ANY (${ids}::bigint[])`)
    const byId = new Map(rows.map(row => [row.id, row]))
    return ids.flatMap(id => byId.get(id) ?? [])
  }

  /** Checks admission with the slots that the parts have, and takes and gives back slots as needed. */
  #judge(row: BeginRow, parts: readonly EntryPart[], rules: SendRules, writes: OutboxWrites): Verdict {
    const [first, ...joined] = parts as [EntryPart, ...EntryPart[]]
    const taken = { session_slots: [...row.session_slots], user_slots: [...row.user_slots] }
    const giveBack = (slot: number) => {
      writes.giveBack(row, slot)
      for (const slots of [taken.session_slots, taken.user_slots]) {
        const at = slots.indexOf(slot)
        if (at >= 0) slots.splice(at, 1)
      }
    }
    for (const part of joined) {
      if (part.slot === undefined) continue
      giveBack(part.slot)
      writes.changePart(part, { slot: undefined })
    }
    const { slot } = first
    const due = slot !== undefined && isDue(slot, writes.now)
    // Frees a slot that was missed.
    if (slot !== undefined && !due) giveBack(slot)
    const { verdict } = this.#lanes.judge(row, taken, 1, rules, { ahead: noneAhead, slot })
    const keepsSlot = due && verdict.go === 'now'
    if (due && !keepsSlot) giveBack(slot)
    if (verdict.go !== 'no' && verdict.slot !== undefined && !keepsSlot)
      writes.takeSlot(row, verdict.slot, rules)
    // A part that kept a slot after giving it back would be sent in a slot of another message.
    const newSlot = verdict.go === 'later' ? verdict.slot : undefined
    if (verdict.go !== 'now' && newSlot !== slot) writes.changePart(first, { slot: newSlot })
    return verdict
  }

  /** @returns what gives the begun message, once the writes are done */
  #begin(
    rows: readonly BeginRow[],
    parts: readonly EntryPart[],
    { botId, message, slot }: Begin & { slot?: number | undefined },
    writes: OutboxWrites,
  ): () => BegunMessage {
    const row = rows[0]!
    const counter = writes.countAnswer(row)
    const sender = { owner: this.owner, began_at: writes.now }
    for (const [nth, part] of parts.entries()) {
      // The row of the first part gets the message as it is sent; the rows of the others name that message.
      const own: SentMessage =
        nth === 0
          ? message
          : { ...message, client_id: `${message.client_id}+${nth}`, text: part.text, raw: part.raw }
      const sentWith = nth === 0 ? undefined : `local:${message.client_id}`
      const rest = { status: 'sending', botId, sentWith } as const
      writes.changePart(part, { status: 'sending', slot: nth === 0 ? slot : undefined }, sender)
      const { address, has_row, made_by } = rows[nth]!
      const sentBy = sentByOf({
        ...(made_by !== undefined && { made_by }),
        ...(address !== undefined && { address }),
      })
      if (has_row) writes.rewriteRow(part.message!, own, { ...rest, isNewText: own.text !== part.text })
      else writes.addRow({ ...rest, session: row.session_key, message: own, sentBy }, part)
    }
    const lane = this.#lanes.laneOf(row)
    return () =>
      begunOf(lane, parts, { row: parts[0]!.message!, counter, ...(slot !== undefined && { slot }) })
  }
}
