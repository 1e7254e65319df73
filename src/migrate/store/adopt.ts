/**
 * Makes a copy of a database a store of its own: a dump that was restored, or a database with another name. The original
 * may have gone on, so that nothing goes on by itself, as after `svc restore`.
 */
import { SvcError } from '../../model/error.ts'
import type { Clock } from '../../platform/clock.ts'
import { silentLog } from '../../platform/log.ts'
import type { PgOptions } from '../../platform/postgres.ts'
import { createKeyRing } from '../../platform/sealing.ts'
import { sql } from '../../platform/sql.ts'
import type { NewAuditLine } from '../../storage/audit.ts'
import { ClockTrust } from '../../storage/clock-trust.ts'
import {
  describeStill,
  rejectForeignRows,
  type StandingStill,
  standStill,
} from '../../storage/nouns/stand-still.ts'
import { PgDatabase } from '../../storage/postgres/database.ts'
import { PgEntries } from '../../storage/postgres/entries.ts'
import { PgLanes } from '../../storage/postgres/lanes.ts'
import { migrate } from '../../storage/postgres/migrate.ts'
import { PgOutboxEnds } from '../../storage/postgres/outbox-ends.ts'
import { rejectForeignSchema } from '../../storage/postgres/own-schema.ts'
import type { EngineContext } from '../../storage/postgres/part.ts'
import { findCopyFault } from '../../storage/postgres/requirements.ts'
import { addAuditLine, createNounContext, createRunner } from '../../storage/postgres/routines.ts'

export interface AdoptOptions {
  url: PgOptions['url']
  secret: string
  newSecret?: string | undefined
  clock: Clock
  /** The original has not changed since: sends and webhooks go on, and keys stay valid. */
  goesOn: boolean
  keepKeys: boolean
  /** Line of the audit log, without a subject. */
  line?: NewAuditLine
}

/**
 * A call that was interrupted can be repeated.
 *
 * @throws SvcError `store_unavailable`; `invalid_arguments` for a database that is no copy
 */
export async function adoptStore({
  clock,
  goesOn,
  keepKeys,
  line,
  newSecret,
  secret,
  url,
}: AdoptOptions): Promise<StandingStill & { address: string }> {
  const log = silentLog
  await using db = new PgDatabase({ url, clock, log, node: crypto.randomUUID(), mayBeCopy: true })
  const sealer = createKeyRing(secret, newSecret)
  await migrate(db, { log, keys: undefined })
  if (!(await findCopyFault(db)))
    throw new SvcError('invalid_arguments', `${db.address} is no copy: svc runs on it as it is`)
  await rejectForeignSchema(db)
  const context = { db, clock, log, sealer, clockTrust: new ClockTrust(clock, {}) }
  await createRunner(db)('plain', () => rejectForeignRows('postgres'))
  await migrate(db, { log, keys: sealer })
  // The processes of the original own nothing here. The trigger on head notes the server.
  await db.script([
    sql`DELETE FROM node`,
    sql`DELETE FROM server_run`,
    sql`UPDATE head SET revision = revision + 1`,
  ])
  const still = goesOn
    ? { sends: 0, webhooks: 0, keys: 0, topics: 0 }
    : await letStandStill(context, keepKeys)
  if (line) await addAuditLine(db, { ...line, subject: `${db.address} ${describeStill(still)}` })
  await db.run(sql`UPDATE meta SET home = home()`)
  await db.barrier()
  return { ...still, address: db.address }
}

async function letStandStill(context: EngineContext, keepKeys: boolean): Promise<StandingStill> {
  const { db } = context
  const lanes = new PgLanes(context)
  const entries = new PgEntries(context, { lanes })
  await new PgOutboxEnds(context, { entries, lanes }).reap(Number.POSITIVE_INFINITY)
  const nouns = createNounContext(context)
  const still = await createRunner(db)('write', () => standStill(nouns, ['meta', 'store_id'], keepKeys))
  return { ...still, sends: (await entries.list()).length }
}
