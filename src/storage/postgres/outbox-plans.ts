/**
 * Writes plans of the outbox, with one script of few statements. It fails if a lane has changed since it was read, or the
 * slots of a session.
 */

import { toJsonb } from '../../platform/postgres-values.ts'
import { constantSql, joinSql, prepared, type Sql, sql } from '../../platform/sql.ts'
import type { EntryPart } from '../outbox.ts'
import type { NewEntryRow, OutboxPlan, PartChange, PartSender, SlotChange } from '../rules/outbox-plan.ts'
import type { Attempt } from './database.ts'
import { reindex } from './grams.ts'
import type { PgLane } from './lanes.ts'

export type PgPlan = OutboxPlan<PgLane>

/**
 * Runs the script. Parts know their new rows after it.
 *
 * @param guards statements that fail if the plan must not be written any more
 */
export async function writePlan(queries: Attempt, plan: PgPlan, guards: readonly Sql[] = []): Promise<void> {
  const statements = [...guards, ...statementsOf(plan)]
  const [write] = statements
  const results =
    write && statements.length === 1
      ? [[await queries.one(prepared(write))]]
      : await queries.script(statements)
  const count = plan.newRows.length
  if (count === 0) return
  const { last } = results.at(-1)![0] as { last: number }
  for (const [nth, { part }] of plan.newRows.entries()) part.message = last - count + 1 + nth
}

/** Returns the script. */
export function statementsOf(plan: PgPlan): Sql[] {
  const { ended, newParts, newRows, now, removed, rows } = plan
  const changed = plan.parts.filter(({ part }) => !removed.includes(part.entry))
  const places = new Map(newRows.map(({ part }, nth) => [part.id, nth + 1]))
  const isNew = new Set(newParts.map(({ part }) => part.id))
  const { lanes } = plan
  const sessions = new Map(
    plan.booked.map(({ sessionKey: key, sessionVersion: version }) => [key, { key, version }]),
  )
  const all = {
    sessions: [...sessions.values()],
    lanes: lanes.map(laneColumnsOf),
    slots: plan.slots.map(slotOf),
    entries: plan.newEntries.map(entryRowOf),
    new_parts: newParts.map(({ part, sender }) => ({
      ...newPartOf(part, sender),
      added: places.get(part.id),
    })),
    parts: changed.map(partRowOf),
    ended,
    removed,
    rows,
    added: newRows.map(({ lane, part: { id }, row }) => ({
      ...row,
      session: lane.sessionKey,
      part: isNew.has(id) ? undefined : id,
    })),
  }
  const used = Object.entries(all).filter(([, list]) => list.length > 0)
  const asked = toJsonb({ now, ...Object.fromEntries(used) })
  const write = sql`SELECT write_outbox(${asked}::jsonb) AS last`
  const changes = changesOf(plan)
  if (changes.length === 0) return used.length === 0 ? [] : [write]
  return [
    sql`SELECT FROM session WHERE key = ANY (${[...sessions.keys()]}::bigint[]) ORDER BY key FOR UPDATE`,
    sql`SELECT FROM outbox_lane WHERE id = ANY (${lanes.map(({ id }) => id)}::bigint[]) ORDER BY id FOR UPDATE`,
    ...changes,
    ...(used.length === 0 ? [] : [write]),
  ]
}

/** What is too rare for `write_outbox`. */
const changesOf = ({ entries, parts, rows }: PgPlan): Sql[] => [
  ...rows.flatMap(({ id, text, is_new_text }) => (is_new_text ? reindex(id, text!) : [])),
  ...parts.flatMap(({ part: { id, raw, text }, isRewritten }) =>
    isRewritten
      ? sql`UPDATE outbox_part SET text = ${JSON.stringify(text)}, raw = ${raw} WHERE id = ${id}`
      : [],
  ),
  ...entries.map(({ id, changed }) => {
    const columns = Object.entries(changed).map(([column, value]) => sql`${constantSql(column)} = ${value}`)
    return sql`UPDATE outbox SET ${joinSql(columns)} WHERE id = ${id}`
  }),
]

const laneColumnsOf = ({ id, version, counter, hold, owner, lease_until }: PgLane) => ({
  lane_id: id,
  lane_version: version,
  used: counter.used,
  last_sent_at: counter.last_sent_at,
  held_at: hold?.since,
  held_until: hold?.until,
  holds: hold?.count ?? 0,
  lane_owner: owner,
  lease_until,
})

const entryRowOf = ({ entry, lane, owner, key, origin }: NewEntryRow) => {
  const { id, mode, content, created_at, expires_at, asked, send_at, made_by } = entry
  return { id, lane, mode, owner, key, content, created_at, expires_at, asked, send_at, made_by, origin }
}

const slotOf = ({ lane: { sessionKey: session, user: peer }, ...change }: SlotChange<PgLane>) => ({
  session,
  peer,
  ...change,
})

/** Texts as JSON: a column has neither NUL nor lone surrogates. */
const newPartOf = ({ file, text, ...part }: EntryPart, sender: PartSender) => ({
  ...part,
  ...sender,
  text: JSON.stringify(text),
  file: file && JSON.stringify(file),
})

const partRowOf = ({ part, sender }: PartChange) => ({
  id: part.id,
  status: part.status,
  tries: part.tries,
  message_id: part.message_id,
  error: part.error && JSON.stringify(part.error),
  slot: part.slot,
  has_sender: sender !== undefined,
  ...sender,
})
