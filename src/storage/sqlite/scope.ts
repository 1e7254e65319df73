/** Scopes in SQL: the rows of `message` that a caller may see. */
import type { Scope } from '../../model/access.ts'
import type { Database, SqlValue } from '../../platform/sqlite.ts'

/** A condition with its value. */
export type ScopeClause = [clause: string, value: SqlValue]

/** Returns the conditions that a message is in a scope; none without a scope. `message`: its name in the SQL. */
export function scopeClausesOf({ bots, users }: Scope = {}, message = 'm'): ScopeClause[] {
  const clauses: ScopeClause[] = []
  const isOneOf = (column: string) => `${message}.${column} IN (SELECT value FROM json_each(?))`
  if (bots) clauses.push([isOneOf('bot_id'), JSON.stringify(bots)])
  if (users) clauses.push([isOneOf('peer'), JSON.stringify(users)])
  return clauses
}

/** Returns the same conditions as SQL that continues a WHERE; '' without a scope. */
export function scopeSqlOf(scope: Scope | undefined, message?: string): { sql: string; params: SqlValue[] } {
  const clauses = scopeClausesOf(scope, message)
  return {
    sql: clauses.map(([clause]) => ` AND ${clause}`).join(''),
    params: clauses.map(([, value]) => value),
  }
}

/** The position of a consumer, and its positions in single sessions, which are in `table`. */
export interface ConsumerPlace {
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
  narrowed?: string
  limit: number
}

/**
 * Lists the rows of a scope, oldest first, each with the key of its session: one index walk for each user,
 * or for each session, then merged. A scope with accounts needs the keys of their sessions.
 */
export function listIdsIn(
  db: Database,
  { scope, keys, after, place, narrowed = ' AND m.sent = 0', limit }: ScopedRows,
): { id: number; key: number }[] {
  const [index, column] = scope.users ? ['message_peer', 'peer'] : ['message_session', 'session']
  const inScope = scopeSqlOf(scope)
  const inSession = keys && scope.users ? ' AND m.session IN (SELECT value FROM json_each(?))' : ''
  const isAhead = place ? ' AND m.id > coalesce(a.position, 0)' : ''
  const sql = `SELECT m.id, m.session AS key FROM message m INDEXED BY ${index}
    ${place ? `LEFT JOIN ${place.table} a ON a.consumer = ? AND a.session = m.session` : ''}
    WHERE m.${column} = ? AND m.id > ?${narrowed}${isAhead}${inScope.sql}${inSession} ORDER BY m.id LIMIT ?`
  return (scope.users ?? keys ?? [])
    .flatMap(one =>
      db.all<{ id: number; key: number }>(
        sql,
        ...(place ? [place.consumer] : []),
        ...[one, after, ...inScope.params],
        ...(inSession ? [JSON.stringify(keys)] : []),
        limit,
      ),
    )
    .sort((a, b) => a.id - b.id)
    .slice(0, limit)
}
