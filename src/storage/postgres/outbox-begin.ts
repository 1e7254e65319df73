/**
 * Begins messages: reads their parts and lane with one statement, decides, and writes with one script, which fails if the
 * lane has changed since.
 */
import type { SendRules } from '../../model/admission.ts'
import { constantSql, sql } from '../../platform/sql.ts'
import type { SentMessage } from '../messages.ts'
import type { BeginResult, SendMode } from '../outbox.ts'
import { sentByOf } from '../outbox-limits.ts'
import { type BeginFacts, begin } from '../rules/outbox.ts'
import { OutboxPlan } from '../rules/outbox-plan.ts'
import { type PartRow, partColumns, partOf } from '../rules/outbox-rows.ts'
import type { Attempt } from './database.ts'
import { joinSession, type LaneRow, type PgLane, type SlotRow, slotsOf } from './lanes.ts'
import type { PgOutboxParts } from './outbox-calls.ts'
import { type PgPlan, writePlan } from './outbox-plans.ts'
import { LinkedPgPart } from './part.ts'

/** SQL for the id of the key that made an entry `e`, itself or as its webhook. */
const makingKey = constantSql(`split_part(coalesce((SELECT w.made_by FROM webhook w
  WHERE w.id = substr(e.made_by, 9) AND e.made_by LIKE 'webhook:%'), e.made_by), ':', 2)`)

/** What is read of each part. */
type BeginRow = LaneRow &
  SlotRow &
  PartRow & {
    mode: SendMode
    call_owner?: string
    made_by?: string
    origin?: string
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

export class PgOutboxBegin extends LinkedPgPart<PgOutboxParts> {
  async begin(how: Begin): Promise<BeginResult> {
    const doubtful = this.ports.doubts.take(how.ids)
    try {
      const result = await this.durably(() => this.db.retry(queries => this.#try(queries, how)))
      if (result.go === 'gone') this.ports.doubts.noteBegin(doubtful)
      return result
    } catch (error) {
      this.ports.doubts.noteBegin(how.ids)
      throw error
    }
  }

  async #try(queries: Attempt, how: Begin): Promise<BeginResult> {
    await this.ports.lanes.lock(queries, sql`l.id = (SELECT lane FROM outbox_part WHERE id = ${how.ids[0]})`)
    const facts = await this.#load(queries, how)
    const plan: PgPlan = new OutboxPlan(this.clock.now())
    const result = begin(facts, { ...how, count: how.ids.length, owner: this.owner }, plan)
    if (!plan.isEmpty) await writePlan(queries, plan)
    return result()
  }

  async #load(queries: Attempt, { ids, botId, rules }: Begin): Promise<BeginFacts<PgLane> | undefined> {
    const found = await queries.all<BeginRow>(sql`SELECT ${this.ports.lanes.columns},
      ${this.ports.lanes.slotColumns(rules, ids.length)}, ${constantSql(partColumns)}, e.mode, e.owner AS call_owner, e.made_by,
      e.origin, m.id IS NOT NULL AS has_row, coalesce(e.mode = 'queue' AND e.approved_by IS NULL
        AND strpos(e.made_by, ':') > 0 AND (m.bot_id <> ${botId} OR k.revoked_at IS NOT NULL), false) AS is_unapproved
      FROM outbox_part p JOIN outbox e ON e.id = p.entry JOIN outbox_lane l ON l.id = p.lane ${joinSession}
      LEFT JOIN message m ON m.id = p.message
      LEFT JOIN access_key k ON k.id = ${makingKey}
      WHERE p.id = ANY (${ids}::bigint[])`)
    const byId = new Map(found.map(row => [row.id, row]))
    const rows = ids.flatMap(id => byId.get(id) ?? [])
    const [row] = rows
    if (!row) return undefined
    const lane = this.ports.lanes.laneOf(row)
    const asking = rows.filter(one => one.is_unapproved).map(({ entry }) => entry)
    const unapproved =
      asking.length === 0 ? [] : await this.ports.entries.load(queries, sql`e.id = ANY (${asking}::bigint[])`)
    return {
      lane,
      mode: row.mode,
      owner: row.call_owner,
      slots: slotsOf(row),
      parts: rows.map(one => ({ part: partOf(one), hasRow: one.has_row, sentBy: sentByOf(one) })),
      unapproved: unapproved.map(({ entry }) => ({ entry, lane })),
    }
  }
}
