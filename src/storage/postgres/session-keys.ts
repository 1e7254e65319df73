/** The keys under which the rows of a session are stored. */
import { sessionKeyOf } from '../../model/session.ts'
import { type Sql, sql } from '../../platform/sql.ts'
import { type Routine, readAll, write } from '../routine.ts'
import { drive, type Statements } from './drive.ts'

/** The keys of the sessions that have, or had, a name, as an array for `= ANY (…)`. */
export const keysOfName = (name: string): Sql =>
  sql`ARRAY(SELECT key FROM session WHERE name_key = ${sessionKeyOf(name)})`

/** The key for new rows of a session; NULL if it has none. */
export const keyOfName = (name: string): Sql => keyOfNameIn(sql`${sessionKeyOf(name)}`)
export const keyOfNameIn = (nameKey: Sql): Sql => newestOf(nameKey, sql`key`)

/** The same for rows that are about to be stored; NULL also if the session was noted as unused, which `ensureSession` takes back. */
export const keyInUse = (nameKey: Sql): Sql =>
  newestOf(nameKey, sql`CASE WHEN unused_since IS NULL THEN key END`)

const newestOf = (nameKey: Sql, column: Sql): Sql =>
  sql`(SELECT ${column} FROM session WHERE name_key = ${nameKey} ORDER BY named DESC, key DESC LIMIT 1)`

/** Held while a session gets its first key, or one back that was noted as unused. Only svc takes this advisory lock. */
const namesLock = 0x737666

/** Returns the key for new rows of a session; adds one if there is none. */
export function* ensureSession(name: string): Routine<number> {
  return (yield* ensureSessions([name])).get(sessionKeyOf(name))!
}

/** Same for several sessions. @returns keys by `sessionKeyOf` */
function* ensureSessions(names: readonly string[]): Routine<ReadonlyMap<string, number>> {
  const select = sql`SELECT given.name_key, given.name, ${keyInUse(sql`given.name_key`)} AS key
    FROM unnest(${names.map(sessionKeyOf)}::text[], ${names}::text[]) AS given(name_key, name)`
  let rows = yield* readAll<{ name_key: string; key?: number }>(select)
  if (rows.some(({ key }) => key === undefined))
    rows = yield* write(
      // One process after another, so that a name gets one key.
      sql`SELECT pg_advisory_xact_lock(${namesLock})`,
      sql`UPDATE session SET unused_since = NULL
        WHERE unused_since IS NOT NULL AND name_key = ANY (${names.map(sessionKeyOf)}::text[])`,
      sql`INSERT INTO session (name, name_key, named) SELECT DISTINCT ON (name_key) name, name_key,
        coalesce((SELECT max(named) FROM session), 0) FROM (${select}) AS wanted WHERE key IS NULL`,
      select,
    )
  return new Map(rows.map(({ key, name_key }) => [name_key, key!]))
}

export const ensureKeys = (queries: Statements, names: readonly string[]) =>
  drive(queries, ensureSessions(names))

export const ensureKey = (queries: Statements, name: string) => drive(queries, ensureSession(name))
