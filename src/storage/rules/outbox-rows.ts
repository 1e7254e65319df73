/** Rows of the outbox as the statements of both engines read them: columns of entries, parts and lanes can stand side by side. */
import type { Hold } from '../../model/admission.ts'
import type { Counter } from '../../model/session.ts'
import type { EntryPart, OutboxLane, SendMode, StoredEntry } from '../outbox.ts'

/** Columns of a `PartRow`, of the table `p`. */
export const partColumns = `p.id, p.entry, p.lane, p.kind, p.msg_type, p.status, p.tries, p.message, p.message_id,
  p.error, p.slot, p.file, p.text, p.raw`

/** `text`, `error` and `file` are JSON. */
export type PartRow = Omit<EntryPart, 'error' | 'file'> & { error?: string; file?: string }

export const partOf = (row: PartRow): EntryPart => ({
  id: row.id,
  entry: row.entry,
  lane: row.lane,
  kind: row.kind,
  msg_type: row.msg_type,
  status: row.status,
  tries: row.tries,
  ...(row.message !== undefined && { message: row.message }),
  ...(row.message_id !== undefined && { message_id: row.message_id }),
  ...(row.error !== undefined && { error: JSON.parse(row.error) }),
  ...(row.slot !== undefined && { slot: row.slot }),
  text: JSON.parse(row.text),
  ...(row.file !== undefined && { file: JSON.parse(row.file) }),
  raw: row.raw,
})

/** Columns of an `EntryRow`, of the table `e`, but for the name of the key. */
export const entryColumns = `e.id AS entry_id, e.mode, e.asked, e.send_at, e.content, e.created_at, e.expires_at, e.ended_at,
  e.used AS ended_used, e.received_at AS ended_received_at, e.key, e.made_by, e.approved_by, e.ended_by`

export interface EntryRow
  extends Pick<
    StoredEntry,
    | 'asked'
    | 'send_at'
    | 'created_at'
    | 'expires_at'
    | 'made_by'
    | 'made_by_name'
    | 'approved_by'
    | 'ended_by'
  > {
  entry_id: number
  mode: SendMode
  content?: string
  ended_at?: number
  ended_used?: number
  ended_received_at?: number
  key?: string
}

/** @param rows of one entry: all its parts */
export function entryOf(rows: readonly (EntryRow & Partial<LaneColumns> & Partial<PartRow>)[]): StoredEntry {
  const row = rows[0]!
  const { mode, asked, content = '', created_at, expires_at, send_at } = row
  const { made_by, made_by_name, approved_by, ended_by } = row
  const ended = row.ended_at !== undefined
  const counter = { used: row.ended_used ?? 0, received_at: row.ended_received_at }
  return {
    id: row.entry_id,
    session: row.session_name ?? '',
    user: row.peer ?? '',
    mode,
    content,
    created_at,
    expires_at,
    ended,
    parts: rows.filter(one => one.id !== undefined).map(one => partOf(one as PartRow)),
    ...(row.key !== undefined && { keyed: true }),
    made_by,
    made_by_name,
    approved_by,
    ended_by,
    ...(ended ? { counter } : { asked, send_at }),
  }
}

/** Columns of a lane that both engines have, of the table `l`. */
export const laneColumns = `l.id AS lane_id, l.peer, l.token, l.received_at, l.used, l.last_sent_at, l.held_at, l.held_until,
  l.holds, l.not_before, l.failures, l.owner AS lane_owner, l.lease_until`

export interface LaneColumns extends Counter, Pick<OutboxLane, 'not_before' | 'failures'> {
  lane_id: number
  session_name: string
  peer: string
  token?: string
  held_at?: number
  held_until?: number
  holds: number
  lane_owner?: string
  lease_until: number
}

/** What `LaneColumns` has for a user without a lane. */
export const unusedLane = { lane_id: 0, used: 0, holds: 0, not_before: 0, failures: 0, lease_until: 0 }

export const counterOf = ({ received_at, used, last_sent_at }: Counter): Counter => ({
  received_at,
  used,
  last_sent_at,
})

export const holdOf = ({ held_at, held_until, holds }: LaneColumns): Hold | undefined =>
  held_until === undefined ? undefined : { since: held_at ?? 0, until: held_until, count: holds }
