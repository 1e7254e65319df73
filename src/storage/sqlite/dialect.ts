/** What SQL of SQLite has its own names for. */
import { constantSql, noSql, sql } from '../../platform/sql.ts'
import { type Dialect, namedColumns } from '../routine.ts'

/** One writer at a time needs no locks. */
export const sqliteDialect: Dialect = {
  isOneOf: (value, list) => sql`${value} IN (SELECT value FROM json_each(${JSON.stringify(list)}))`,
  rowIds: column => sql`CROSS JOIN json_each(${column}) AS one`,
  expect: () => [],
  lock: () => [],
  holding: () => noSql,
  oneAtATime: () => [],
  by: index => constantSql(index === undefined ? ' NOT INDEXED' : ` INDEXED BY ${index}`),
  inScope: (scope, message = constantSql('m')) => {
    const { bots, users } = scope ?? {}
    if (!bots && !users) return noSql
    const isOf = (column: string, list: readonly string[] | undefined) =>
      list ? sql` AND ${sqliteDialect.isOneOf(sql`${message}.${constantSql(column)}`, list)}` : noSql
    return sql`${isOf('bot_id', bots)}${isOf('peer', users)}`
  },
  json: text => sql`json(${text})`,
  // The patch leaves NULLs out.
  jsonOf: columns => sql`json_patch('{}', json_object(${namedColumns(columns)}))`,
  least: constantSql('min'),
  greatest: constantSql('max'),
  inOrderJoin: constantSql('CROSS JOIN'),
  version: constantSql(`''`),
}
