/** Rows of messages.db, as a copy reads them. */
import type { Database, SqlValue } from '../../platform/sqlite.ts'
import type { StoreRow, StoreTable } from '../../storage/table-list.ts'
import { pageCharacters, pageRows } from './side.ts'

/** Returns the name of a column in SQL. */
export const quoted = (column: string): string => `"${column}"`

/** Columns of a lane in messages.db that stand for others. */
const ownLaneColumns: ReadonlyMap<string, string> = new Map([['first_seen', 'context, token_at']])

/** Reads the rows behind the last one, as many as make a page. */
export function readPage(
  db: Database,
  { columns, key, name, owners }: StoreTable,
  last: StoreRow | undefined,
): StoreRow[] {
  const isLane = name === 'outbox_lane'
  const selected = columns.map(
    column =>
      (isLane && ownLaneColumns.get(column)) || `${owners?.[column] ?? quoted(column)} AS "${column}"`,
  )
  const order = key.length === 0 ? ['rowid'] : key.map(quoted)
  const values: SqlValue[] =
    last === undefined ? [] : key.length === 0 ? [last.rowid] : key.map(one => last[one])
  const behind = last === undefined ? '' : `WHERE (${order.join()}) > (${order.map(() => '?').join()})`
  const rows: StoreRow[] = []
  let characters = 0
  db.each<StoreRow>(
    `SELECT ${selected.join()}${key.length === 0 ? ', rowid AS rowid' : ''} FROM ${name} ${behind} ORDER BY ${order.join()}`,
    values,
    row => {
      rows.push(row)
      for (const value of Object.values(row)) if (typeof value === 'string') characters += value.length
      return rows.length < pageRows && characters < pageCharacters
    },
  )
  return rows
}

/** Returns the key for new rows of a session. */
export const keyOf = (db: Database, name: string): number | undefined =>
  db.get<{ key: number }>`SELECT key FROM session WHERE name = ${name} ORDER BY named DESC, key DESC LIMIT 1`
    ?.key

/** Adds a session, and returns its key. */
export const addKey = (db: Database, name: string): number =>
  db.run`INSERT INTO session (name, named) SELECT ${name}, coalesce(max(named), 0) FROM session`
    .lastInsertRowid
