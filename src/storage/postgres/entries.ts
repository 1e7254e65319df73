/** Reads entries of the outbox. */

import { sessionKeyOf } from '../../model/session.ts'
import type { PgQueries } from '../../platform/postgres.ts'
import { constantSql, joinSql, noSql, type Sql, sql } from '../../platform/sql.ts'
import { type EntrySight, isInSight, type KeptFile, type OutboxEntries, type StoredEntry } from '../outbox.ts'
import type { EntryFacts } from '../rules/outbox-plan.ts'
import {
  entryColumns as columns,
  type EntryRow,
  entryOf,
  type PartRow,
  partColumns,
} from '../rules/outbox-rows.ts'
import { joinSession, type LaneRow, type PgLane, type PgLanes } from './lanes.ts'
import { keyNameOf } from './message-rows.ts'
import { LinkedPgPart } from './part.ts'

/** A part with its entry and lane. */
export type LoadedRow = EntryRow & LaneRow & PartRow & { bot?: string }

const entryColumns = sql`${constantSql(columns)}, ${keyNameOf(constantSql('e.made_by'))} AS made_by_name`

export class PgEntries
  extends LinkedPgPart<{ lanes: PgLanes }>
  implements Omit<OutboxEntries, 'getCounters' | 'getDepth'>
{
  /** Reads entries with all their parts and their lanes, oldest first. @param condition of the entry `e` */
  async load(queries: PgQueries, condition: Sql, sight?: EntrySight): Promise<EntryFacts<PgLane>[]> {
    const rows = await queries.all<LoadedRow>(this.select(condition, sight))
    return this.loadedOf(rows, new Map(), sight)
  }

  /** @param lanes those that were read already, by id: each lane is one object */
  loadedOf(rows: readonly LoadedRow[], lanes: Map<number, PgLane>, sight?: EntrySight): EntryFacts<PgLane>[] {
    return [...Map.groupBy(rows, row => row.entry_id).values()]
      .filter(
        ([row]) => !sight || isInSight(sight, { made_by: row!.made_by, user: row!.peer, bot: row!.bot }),
      )
      .map(own => {
        const { lane_id: id } = own[0]!
        const lane = id === undefined ? undefined : (lanes.get(id) ?? this.ports.lanes.laneOf(own[0]!))
        if (lane) lanes.set(lane.id, lane)
        return { entry: entryOf(own), ...(lane && { lane }) }
      })
  }

  /** @returns a statement for `LoadedRow`s */
  select(condition: Sql, sight?: EntrySight): Sql {
    // The account of its messages, if it matters.
    const bot =
      sight?.scope?.bots === undefined
        ? noSql
        : sql`, (SELECT m.bot_id FROM outbox_part q JOIN message m ON m.id = q.message WHERE q.entry = e.id LIMIT 1) AS bot`
    return sql`SELECT ${entryColumns}, ${this.ports.lanes.columns}, ${constantSql(partColumns)}${bot}
      FROM outbox e LEFT JOIN outbox_lane l ON l.id = e.lane ${joinSession} LEFT JOIN outbox_part p ON p.entry = e.id
      WHERE ${condition} ORDER BY e.id, p.id`
  }

  async getEntry(id: number, sight?: EntrySight): Promise<StoredEntry | undefined> {
    return (await this.load(this.db, sql`e.id = ${id}`, sight))[0]?.entry
  }

  async list(
    filter: { user_id?: string; session?: string; sight?: EntrySight } = {},
  ): Promise<StoredEntry[]> {
    const { session, sight, user_id } = filter
    const conditions = [
      sql`e.mode = 'queue' AND e.ended_at IS NULL AND (e.asked IS NULL OR e.expires_at > ${this.clock.now()})`,
      sql`l.id IS NOT NULL`,
      ...(user_id === undefined ? [] : [sql`l.peer = ${user_id}`]),
      ...(session === undefined ? [] : [sql`own.name_key = ${sessionKeyOf(session)}`]),
    ]
    return (await this.load(this.db, joinSql(conditions, ' AND '), sight)).map(({ entry }) => entry)
  }

  async fileOf(message: number, sight: EntrySight = {}): Promise<KeptFile | undefined> {
    const row = await this.db.get<{ file?: string; made_by?: string; bot?: string; user?: string }>(sql`SELECT
      p.file, e.made_by, m.bot_id AS bot, l.peer AS user FROM outbox_part p LEFT JOIN outbox e ON e.id = p.entry
      LEFT JOIN outbox_lane l ON l.id = e.lane LEFT JOIN message m ON m.id = p.message
      WHERE p.message = ${message} AND p.status IN ('asked', 'queued')`)
    return row?.file === undefined || !isInSight(sight, row) ? undefined : JSON.parse(row.file)
  }

  async listFiles(): Promise<string[]> {
    // The parts of each of these have an index.
    const open = [
      "'asked'",
      "'sending'",
      "'queued' AND message IS NOT NULL",
      "'queued' AND message IS NULL",
    ].map(status => constantSql(`SELECT file FROM outbox_part WHERE status = ${status} AND file IS NOT NULL`))
    const rows = await this.db.all<{ file: string }>(joinSql(open, ' UNION ALL '))
    return rows.map(({ file }) => (JSON.parse(file) as KeptFile).name)
  }
}
