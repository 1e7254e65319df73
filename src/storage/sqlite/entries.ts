/** Reads entries of the outbox: a call of send is an entry with one part for each message. */
import { constantSql, sql } from '../../platform/sql.ts'
import { makerOf } from '../nouns/keys.ts'
import type { EntryPart, EntrySight, KeptFile, NewEntry, StoredEntry } from '../outbox.ts'
import { isInSight } from '../outbox.ts'
import { type Counted, partId, partsPerEntry } from '../outbox-limits.ts'
import type { EntryFacts } from '../rules/outbox-plan.ts'
import {
  type EntryRow,
  entryColumns,
  entryOf,
  type PartRow,
  partColumns,
  partOf,
} from '../rules/outbox-rows.ts'
import { LinkedPart } from './engine-part.ts'
import { laneRowColumns, type SqliteLane, type SqliteLaneRow, type SqliteOutboxLanes } from './lanes.ts'
import { keyNameOf } from './messages.ts'

/** A part with its entry and lane. */
type LoadedRow = EntryRow & SqliteLaneRow & PartRow

const select = `SELECT ${entryColumns}, ${keyNameOf('e.made_by')} AS made_by_name, ${laneRowColumns}, ${partColumns} FROM outbox e
  LEFT JOIN outbox_lane l ON l.id = e.lane LEFT JOIN session s ON s.key = l.session
  LEFT JOIN outbox_part p ON p.id >= e.id * ${partsPerEntry} AND p.id < (e.id + 1) * ${partsPerEntry}`
const maker = makerOf(constantSql('o.made_by'))
const selectOne = `${select} WHERE e.id = ? ORDER BY p.id`
const selectSome = `${select} WHERE e.id IN (SELECT value FROM json_each(?)) ORDER BY e.id, p.id`

export class SqliteOutboxEntries extends LinkedPart<{ lanes: SqliteOutboxLanes }> {
  /** Reads entries for decisions; each lane is one object. @param isStored the counters as they are in the rows */
  load(ids: readonly number[], isStored = true): EntryFacts<SqliteLane>[] {
    const lanes = new Map<number, SqliteLane>()
    return this.#read(ids).map(rows => {
      const { lane_id: id } = rows[0]!
      const lane =
        id === undefined ? undefined : (lanes.get(id) ?? this.ports.lanes.laneOf(rows[0]!, isStored))
      if (lane) lanes.set(lane.id, lane)
      return { entry: entryOf(rows), ...(lane && { lane }) }
    })
  }

  /** @returns the rows of each entry that there is, oldest first */
  #read(ids: readonly number[]): LoadedRow[][] {
    if (ids.length === 0) return []
    if (ids.length > 1) {
      const rows = this.db.all<LoadedRow>(selectSome, JSON.stringify(ids))
      return [...Map.groupBy(rows, row => row.entry_id).values()]
    }
    const rows = this.db.all<LoadedRow>(selectOne, ids[0])
    return rows.length > 0 ? [rows] : []
  }

  getEntry(id: number, sight?: EntrySight): StoredEntry | undefined {
    const [rows] = this.#read([id])
    const { made_by, peer: user } = rows?.[0] ?? {}
    if (sight && !isInSight(sight, { made_by, user, bot: this.#botOf(id, sight) })) return undefined
    return rows && entryOf(rows)
  }

  /** Returns the account of an entry's messages, if it matters. */
  #botOf(entry: number, { scope }: EntrySight): string | undefined {
    if (scope?.bots === undefined) return undefined
    return this.db.get<{
      bot_id: string
    }>`SELECT m.bot_id FROM outbox_part p JOIN message m ON m.id = p.message
      WHERE p.id >= ${partId(entry, 0)} AND p.id < ${partId(entry + 1, 0)} LIMIT 1`?.bot_id
  }

  fileOf(message: number, sight: EntrySight = {}): KeptFile | undefined {
    // Uses the indexes of waiting parts, of which there are few.
    const row = this.db.get<{ file?: string; made_by?: string; bot?: string; user?: string }>`
      SELECT file, o.made_by, m.bot_id AS bot, l.peer AS user FROM (
      SELECT entry, message, file FROM outbox_part WHERE status = 'asked' UNION ALL
      SELECT entry, message, file FROM outbox_part WHERE status = 'queued' AND message IS NOT NULL) w
      LEFT JOIN outbox o ON o.id = w.entry LEFT JOIN outbox_lane l ON l.id = o.lane
      LEFT JOIN message m ON m.id = w.message
      WHERE w.message = ${message}`
    return row?.file === undefined || !isInSight(sight, row) ? undefined : JSON.parse(row.file)
  }

  /** Returns who stands behind a new entry. */
  makerOf({ made_by }: NewEntry): string {
    return this.db.one<Counted>(sql`SELECT ${makerOf(sql`${made_by}`)} AS made_by`).made_by
  }

  /** Counts the sends of a session that wait for approval, by who stands behind them. */
  countAsked(session: number): Counted[] {
    return this.db.all(sql`SELECT ${maker} AS made_by, count(DISTINCT o.id) AS count
      FROM outbox_part p JOIN outbox o ON o.id = p.entry WHERE p.status = 'asked'
      AND p.lane IN (SELECT id FROM outbox_lane WHERE session = ${session}) GROUP BY 1`)
  }

  /** Returns the entries that wait for users or for an approval, oldest first, until they expire. */
  list(filter: { user_id?: string; session?: string; sight?: EntrySight } = {}): StoredEntry[] {
    const keys = filter.session === undefined ? undefined : this.messages.listSessionKeys(filter.session)
    const isForAccounts = filter.sight?.scope?.bots !== undefined
    const bot = `(SELECT m.bot_id FROM outbox_part p JOIN message m ON m.id = p.message
      WHERE p.id >= o.id * ${partsPerEntry} AND p.id < (o.id + 1) * ${partsPerEntry} LIMIT 1)`
    const waiting = this.db.all<WaitingRow>(
      `SELECT o.id, l.session, l.peer, o.made_by, ${isForAccounts ? bot : 'NULL'} AS bot
        FROM outbox o JOIN outbox_lane l ON l.id = o.lane
        WHERE o.mode = 'queue' AND o.ended_at IS NULL AND (o.asked IS NULL OR o.expires_at > ?) ORDER BY o.id`,
      this.clock.now(),
    )
    const seen = waiting
      .filter(({ peer }) => filter.user_id === undefined || peer === filter.user_id)
      .filter(({ session }) => keys === undefined || keys.includes(session))
      .filter(row => !filter.sight || isInSight(filter.sight, { ...row, user: row.peer }))
    return this.#read(seen.map(({ id }) => id)).map(entryOf)
  }

  /** Returns the first `limit` parts that wait in a lane, in order. */
  waiting(lane: number, limit: number): EntryPart[] {
    const found = `SELECT ${partColumns} FROM outbox_part p WHERE p.lane = ? AND p.status = 'queued'
      AND p.message IS NOT NULL ORDER BY p.id LIMIT ?`
    return this.db.all<PartRow>(found, lane, limit).map(partOf)
  }

  /** Counts the messages in a lane that wait or are being sent, by who stands behind them. */
  countUnsent(lane: number): Counted[] {
    return this.db.all(sql`SELECT ${maker} AS made_by, count(*) AS count FROM outbox o
      JOIN outbox_part p ON p.id >= o.id * ${constantSql(`${partsPerEntry}`)} AND p.id < (o.id + 1) * ${constantSql(`${partsPerEntry}`)}
      WHERE o.lane = ${lane} AND o.mode = 'queue' AND o.ended_at IS NULL
      AND p.status IN ('queued', 'sending') GROUP BY 1`)
  }

  /** Returns the names of the stored files that are still needed. */
  listFiles(): string[] {
    const rows = this.db.all<{ name: string }>`SELECT file ->> 'name' AS name FROM outbox_part
      WHERE file IS NOT NULL AND status IN ('asked', 'queued', 'sending')`
    return rows.map(({ name }) => name)
  }
}

interface WaitingRow {
  id: number
  session: number
  peer: string
  made_by?: string
  /** The account of its messages. */
  bot?: string
}
