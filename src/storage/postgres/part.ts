/** What the parts of the PostgreSQL engine share. */
import type { Scope } from '../../model/access.ts'
import { sessionKeyOf } from '../../model/session.ts'
import type { Clock } from '../../platform/clock.ts'
import type { Log } from '../../platform/log.ts'
import { noSql, type PgQueries, type Sql, sql } from '../../platform/postgres.ts'
import type { Sealer } from '../../platform/sealing.ts'
import type { ClockTrust } from '../clock-trust.ts'
import { endedKeyError, keyOfMaker } from '../keys.ts'
import type { Attempt, PgDatabase } from './database.ts'

export interface EngineContext {
  readonly db: PgDatabase
  readonly clock: Clock
  readonly log: Log
  readonly sealer: Sealer
  readonly clockTrust: ClockTrust
}

export abstract class PgPart implements EngineContext {
  readonly db: PgDatabase
  readonly clock: Clock
  readonly log: Log
  readonly sealer: Sealer
  readonly clockTrust: ClockTrust

  constructor({ db, clock, log, sealer, clockTrust }: EngineContext) {
    this.db = db
    this.clock = clock
    this.log = log
    this.sealer = sealer
    this.clockTrust = clockTrust
  }

  /** This process, as an owner of claims. It counts as dead as soon as its lease in `node` is over. */
  get owner(): string {
    return this.db.node
  }

  /** Runs a write, then a barrier: what it committed is durable when this resolves, and readers may see it. */
  async durably<T>(work: () => Promise<T>): Promise<T> {
    const since = this.db.serverRun
    const result = await work()
    await this.db.barrier(since)
    return result
  }
}

/** The keys of the sessions that have, or had, a name, as an array for `= ANY (…)`. */
export const keysOfName = (name: string): Sql =>
  sql`ARRAY(SELECT key FROM session WHERE name_key = ${sessionKeyOf(name)})`

/** The key for new rows of a session; NULL if it has none. */
export const keyOfName = (name: string): Sql => keyOfNameIn(sql`${sessionKeyOf(name)}`)
const keyOfNameIn = (nameKey: Sql): Sql =>
  sql`(SELECT key FROM session WHERE name_key = ${nameKey} ORDER BY named DESC, key DESC LIMIT 1)`

/** Held while a session gets its first key. Only svc takes this advisory lock. */
const namesLock = 0x737666

/** Returns the key for new rows of a session; adds one if there is none. */
export const ensureKey = async (queries: PgQueries, name: string): Promise<number> =>
  (await ensureKeys(queries, [name])).get(sessionKeyOf(name))!

/** Same for several sessions. @returns keys by `sessionKeyOf` */
export async function ensureKeys(
  queries: PgQueries,
  names: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const folded = names.map(sessionKeyOf)
  const select = sql`SELECT given.name_key, given.name, ${keyOfNameIn(sql`given.name_key`)} AS key
    FROM unnest(${folded}::text[], ${names}::text[]) AS given(name_key, name)`
  const read = (rows: Record<string, unknown>[]) =>
    new Map(rows.map(row => [row.name_key as string, row.key as number]))
  const known = await queries.all(select)
  if (known.every(({ key }) => key !== undefined)) return read(known)
  // One process after another, so that a name gets one key.
  const [, , found] = await queries.script([
    sql`SELECT pg_advisory_xact_lock(${namesLock})`,
    sql`INSERT INTO session (name, name_key, named) SELECT DISTINCT ON (name_key) name, name_key,
      coalesce((SELECT max(named) FROM session), 0) FROM (${select}) AS wanted WHERE key IS NULL`,
    select,
  ])
  return read(found!)
}

/** SQL that continues a WHERE: the message is in a scope. `message`: its name in the statement. */
export function inScope({ bots, users }: Scope = {}, message: Sql = sql`m`): Sql {
  const ofBots = bots ? sql` AND ${message}.bot_id = ANY (${bots}::text[])` : noSql
  const ofUsers = users ? sql` AND ${message}.peer = ANY (${users}::text[])` : noSql
  return sql`${ofBots}${ofUsers}`
}

/** The last three arguments of the SQL functions that read rows: keys of sessions, bots and users; NULL: all. */
export const narrowedBy = ({ session, scope }: { session?: string; scope?: Scope }): Sql =>
  sql`${session === undefined ? sql`NULL` : keysOfName(session)}, ${scope?.bots}, ${scope?.users}`

/** A guard of a script: fails unless `row` (a SELECT of `true`) finds its row, which it locks. */
export const guard = (row: Sql): Sql => sql`SELECT expect((${row} FOR UPDATE))`

/**
 * Refuses what a revoked key writes.
 *
 * @returns statements for the script of the write: the key is not revoked before that is committed
 * @throws SvcError `forbidden`
 */
export async function refuseRevoked(attempt: Attempt, made_by: string | undefined): Promise<Sql[]> {
  const id = keyOfMaker(made_by)
  if (id === undefined) return []
  const living = sql`SELECT revoked_at IS NULL AS lives FROM access_key WHERE id = ${id}`
  if ((await attempt.get<{ lives: boolean }>(living))?.lives === false) throw endedKeyError()
  return [sql`SELECT expect((${living} FOR SHARE) IS NOT FALSE)`]
}
