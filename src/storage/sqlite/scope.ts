/** Rows of `message` that a caller may see. */
import type { Scope } from '../../model/access.ts'
import { constantSql, noSql, type Sql, sql } from '../../platform/sql.ts'
import type { Database, SqlValue } from '../../platform/sqlite.ts'
import { sqliteDialect } from './dialect.ts'

/** The position of a consumer, and its positions in single sessions, which are in `table`. */
interface ConsumerPlace {
  consumer: string
  table: 'consumer_ahead' | 'acknowledged'
}

interface ScopedRows {
  scope: Scope
  /** Only rows of these sessions; undefined: of any. */
  keys: readonly number[] | undefined
  /** Row id: only rows after it. */
  after: number
  /** Only rows after the positions of this consumer in single sessions. */
  place?: ConsumerPlace
  /** Further conditions. */
  narrowed?: Sql
  limit: number
}

/**
 * Lists the rows of a scope, oldest first, each with the key of its session: one index walk for each user,
 * or for each session, then merged. A scope with accounts needs the keys of their sessions.
 */
export function listIdsIn(
  db: Database,
  { scope, keys, after, place, narrowed = isReceived, limit }: ScopedRows,
): { id: number; key: number }[] {
  const [index, column] = scope.users ? ['message_peer', 'peer'] : ['message_session', 'session']
  const from = sql`message m${sqliteDialect.by(index)}`
  const inSession = keys && scope.users ? sql` AND ${sqliteDialect.isOneOf(sql`m.session`, keys)}` : noSql
  const ahead = place
    ? sql` LEFT JOIN ${constantSql(place.table)} a ON a.consumer = ${place.consumer} AND a.session = m.session`
    : noSql
  const isAhead = place ? sql` AND m.id > coalesce(a.position, 0)` : noSql
  const rest = sql`AND m.id > ${after}${narrowed}${isAhead}${sqliteDialect.inScope(scope)}${inSession} ORDER BY m.id LIMIT ${limit}`
  return (scope.users ?? keys ?? [])
    .flatMap(one =>
      db.all<{ id: number; key: number }>(
        sql`SELECT m.id, m.session AS key FROM ${from}${ahead} WHERE m.${constantSql(column!)} = ${one} ${rest}`,
      ),
    )
    .sort((a, b) => a.id - b.id)
    .slice(0, limit)
}

/** Returns the conditions that a message is in a scope, as SQL that continues a WHERE; '' without a scope. */
export function scopeSqlOf(scope: Scope | undefined): { sql: string; params: SqlValue[] } {
  const { texts, values } = sqliteDialect.inScope(scope)
  return { sql: texts.join('?'), params: values as SqlValue[] }
}

/** Continues a WHERE: consumers may get the message. */
export const isReceived: Sql = constantSql(' AND m.sent = 0')
