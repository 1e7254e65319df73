/**
 * The event log in messages.db. A trigger writes the events for the status of sent messages, whichever version of svc
 * changes the status.
 */
import { constantSql, type Sql, sql } from '../../platform/sql.ts'
import type { Database } from '../../platform/sqlite.ts'
import type { EventType } from '../events.ts'
import { familyOf } from '../keys.ts'
import { placesPerMessage } from '../log-rows.ts'
import { type LogSql, perMessage, placesKept } from '../nouns/events.ts'
import type { SqliteContext } from './engine-part.ts'
import { newestRow, nextPlace } from './tables.ts'

/** Returns the statement that adds an event, if there is a place for it. `data`: of the one row of `from`. */
export function insertEvent(
  { type, at, session }: { type: EventType; at: number; session?: string | undefined },
  data: Sql,
  from: Sql,
): Sql {
  const most = placesPerMessage - (type === 'audit.line' ? placesKept : 0)
  return sql`INSERT INTO event (place, type, at, session, data)
    SELECT place, ${type}, ${at}, ${session}, data
    FROM (SELECT ${constantSql(nextPlace(newestRow))} AS place, ${data} AS data FROM ${from})
    WHERE place - ${constantSql(`coalesce(${newestRow}, 0) * ${placesPerMessage}`)} < ${most}`
}

const lastRow = constantSql(`coalesce(${newestRow}, 0)`)

export const createLogSql = ({ db, messages }: Pick<SqliteContext, 'db' | 'messages'>): LogSql => ({
  storeId: constantSql('SELECT id FROM store_id'),
  lastRow,
  lastPlace: sql`max(coalesce((SELECT max(place) FROM event), 0), ${lastRow} * ${perMessage})`,
  removedPlace: constantSql('(SELECT events_removed FROM store_id)'),
  endOfGap: () => constantSql('NULL'),
  messageOf: constantSql('LEFT JOIN message m ON m.id = e.message'),
  isOfSession: name =>
    sql`m.session IN (SELECT value FROM json_each(${JSON.stringify(messages.listSessionKeys(name))}))`,
  // All messages, whose ids have no gaps, minus the sent and the imported ones, which have indexes.
  countReceived: (
    after,
    upTo,
  ) => sql`(SELECT max(0, upto - max(after, coalesce((SELECT min(id) FROM message), upto + 1) - 1)
      - (SELECT count(*) FROM message WHERE sent = 1 AND id > after AND id <= upto)
      - (SELECT count(*) FROM message WHERE sent = 2 AND id > after AND id <= upto))
    FROM (SELECT ${after} AS after, ${upTo} AS upto))`,
  sharesBounds: reader => sharesBounds(db, reader),
})

/** Same as `LogSql.sharesBounds`. */
export function sharesBounds(db: Database, reader: string): Sql {
  const key = reader.slice(0, Math.max(0, reader.indexOf('/')))
  const made = key === '' ? [] : db.all<{ id: string; made_by: string }>`SELECT id, made_by FROM access_key`
  return sql`substr(name, 1, instr(name, '/') - 1)
    IN (SELECT value FROM json_each(${JSON.stringify([...familyOf(made, key)])}))`
}
