/** What the parts of the PostgreSQL engine share. */
import type { Scope } from '../../model/access.ts'
import type { Clock } from '../../platform/clock.ts'
import type { Log } from '../../platform/log.ts'

import type { Sealer } from '../../platform/sealing.ts'
import { noSql, type Sql, sql } from '../../platform/sql.ts'
import type { ClockTrust } from '../clock-trust.ts'
import type { PgDatabase } from './database.ts'
import { keysOfName } from './session-keys.ts'

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
  durably<T>(work: () => Promise<T>): Promise<T> {
    return this.db.durably(work)
  }
}

/** A part that also uses other parts. */
export abstract class LinkedPgPart<Ports> extends PgPart {
  protected readonly ports: Ports

  constructor(context: EngineContext, ports: Ports) {
    super(context)
    this.ports = ports
  }
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
