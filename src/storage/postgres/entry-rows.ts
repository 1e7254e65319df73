/** Rows of the outbox as statements read them: a call of send is an entry with one part for each message. */

import type { Counter } from '../../model/session.ts'
import { constantSql, type Sql, sql } from '../../platform/postgres.ts'
import type { EntryPart, SendMode, StoredEntry } from '../outbox.ts'
import { keyNameOf } from './message-rows.ts'

/** Columns of a `PartRow`, of the table `p`. */
export const partColumns: Sql =
  constantSql(`p.id, p.entry, p.lane, p.kind, p.msg_type, p.status, p.tries, p.message,
  p.message_id, p.error, p.slot, p.file, p.text, p.raw`)

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

/** Columns of an `EntryRow`, of the table `e`. */
export const entryColumns: Sql = sql`e.id AS entry_id, e.mode, e.asked, e.content, e.created_at, e.expires_at,
  e.ended_at, e.used AS ended_used, e.received_at AS ended_received_at, e.answer, e.key, e.made_by, e.approved_by,
  e.ended_by, e.owner AS call_owner,
  ${keyNameOf(constantSql('e.made_by'))} AS made_by_name`

export interface EntryRow
  extends Pick<
    StoredEntry,
    'asked' | 'created_at' | 'expires_at' | 'answer' | 'made_by' | 'made_by_name' | 'approved_by' | 'ended_by'
  > {
  entry_id: number
  mode: SendMode
  content?: string
  ended_at?: number
  ended_used?: number
  ended_received_at?: number
  key?: string
  /** The process in which the caller waits; only in mode `fail`. */
  call_owner?: string
}

/** An entry with the lane that it is in; without one for a call of version 0.1. */
export interface LoadedEntry {
  entry: StoredEntry
  row: EntryRow
  lane?: LaneRow
}

/** @param rows of one entry: all its parts */
export function loadedEntryOf(
  rows: readonly (EntryRow & Partial<LaneRow> & Partial<PartRow>)[],
): LoadedEntry {
  const row = rows[0]!
  const { mode, asked, content = '', created_at, expires_at, answer } = row
  const { made_by, made_by_name, approved_by, ended_by } = row
  const ended = row.ended_at !== undefined
  const counter = { used: row.ended_used ?? 0, received_at: row.ended_received_at }
  const entry: StoredEntry = {
    id: row.entry_id,
    session: row.session_name ?? '',
    user: row.peer ?? '',
    mode,
    content,
    created_at,
    expires_at,
    ended,
    answer,
    parts: rows.filter(one => one.id !== undefined).map(one => partOf(one as PartRow)),
    ...(row.key !== undefined && { keyed: true }),
    made_by,
    made_by_name,
    approved_by,
    ended_by,
    ...(ended ? { counter } : { asked }),
  }
  return { entry, row, ...(row.lane_id !== undefined && { lane: row as LaneRow }) }
}

/** What a statement reads of a lane. The columns of parts and entries can stand beside these. */
export interface LaneRow extends Counter {
  lane_id: number
  lane_version: string
  /** Key for new rows of the session, by which its slots are stored; and the version of that row. */
  session_key: number
  session_version: string
  session_name: string
  peer: string
  token?: string
  held_at?: number
  held_until?: number
  holds: number
  not_before: number
  failures: number
  lane_owner?: string
  lease_until: number
  /** Another process has the lane, and runs. */
  is_owned: boolean
}
