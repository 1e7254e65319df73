/**
 * Makes a copy of a database a store of its own: a dump that was restored, or a database with another name. The original
 * may have gone on, so that nothing goes on by itself, as after `svc restore`.
 */
import { SvcError } from '../../model/error.ts'
import type { Clock } from '../../platform/clock.ts'
import { silentLog } from '../../platform/log.ts'
import type { PgOptions } from '../../platform/postgres.ts'
import { createKeyRing } from '../../platform/sealing.ts'
import { constantSql, sql } from '../../platform/sql.ts'
import { ClockTrust } from '../../storage/clock-trust.ts'
import { openKeys } from '../../storage/nouns/keys.ts'
import { askLifeMs } from '../../storage/outbox-rules.ts'
import { PgDatabase } from '../../storage/postgres/database.ts'
import { PgEntries } from '../../storage/postgres/entries.ts'
import { PgLanes } from '../../storage/postgres/lanes.ts'
import { migrate } from '../../storage/postgres/migrate.ts'
import { PgOutboxEnds } from '../../storage/postgres/outbox-ends.ts'
import type { EngineContext } from '../../storage/postgres/part.ts'
import { findCopyFault } from '../../storage/postgres/requirements.ts'
import { createNounContext, createRunner } from '../../storage/postgres/routines.ts'
import { askAgain } from '../../storage/rules/outbox-ends.ts'
import type { StandingStill } from '../../storage/sqlite/restored-store.ts'
import { cursorColumns } from '../../storage/table-list.ts'

export interface AdoptOptions {
  url: PgOptions['url']
  secret: string
  newSecret?: string | undefined
  clock: Clock
  /** The original has not changed since: sends and webhooks go on, and keys stay valid. */
  goesOn: boolean
  keepKeys: boolean
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
  newSecret,
  secret,
  url,
}: AdoptOptions): Promise<StandingStill & { address: string }> {
  const log = silentLog
  const db = new PgDatabase({ url, clock, log, node: crypto.randomUUID(), mayBeCopy: true })
  const sealer = createKeyRing(secret, newSecret)
  try {
    await migrate(db, { log, keys: sealer })
    if (!(await findCopyFault(db)))
      throw new SvcError('invalid_arguments', `${db.address} is no copy: svc runs on it as it is`)
    // The processes of the original own nothing here. The trigger on head notes the server.
    await db.script([
      sql`DELETE FROM node`,
      sql`DELETE FROM server_run`,
      sql`UPDATE head SET revision = revision + 1`,
    ])
    const context = { db, clock, log, sealer, clockTrust: new ClockTrust(clock, clock.now()) }
    const still = goesOn ? { sends: 0, webhooks: 0, keys: 0 } : await standStill(context, keepKeys)
    await db.run(sql`UPDATE meta SET home = home()`)
    await db.barrier()
    return { ...still, address: db.address }
  } finally {
    await db.close()
  }
}

async function standStill(context: EngineContext, keepKeys: boolean): Promise<StandingStill> {
  const { clock, db } = context
  await db.script([
    sql`UPDATE agent_turn SET state = 'interrupted', error = 'restored from a backup'
      WHERE state IN ('waiting', 'running', 'answering')`,
    // A cursor of later events of the original must not be taken for a position here.
    sql`UPDATE meta SET store_id = substr(md5(gen_random_uuid()::text), 1, 10)`,
    ...cursorColumns.map(([table, column]) => {
      const [from, cursor] = [constantSql(table), constantSql(column)]
      return sql`UPDATE ${from} SET ${cursor} = (SELECT store_id FROM meta) || substr(${cursor}, strpos(${cursor}, '-'))
        WHERE ${cursor} LIKE '%-%'`
    }),
  ])
  const entries = new PgEntries(context, new PgLanes(context))
  const ends = new PgOutboxEnds(context, entries, new PgLanes(context))
  await ends.reap(Number.POSITIVE_INFINITY)
  const waiting = await db.all<{ id: number }>(sql`SELECT id FROM outbox
    WHERE mode = 'queue' AND ended_at IS NULL AND asked IS NULL ORDER BY id`)
  for (const { id } of waiting)
    await ends.change(id, (loaded, plan) => askAgain(loaded, clock.now() + askLifeMs, plan))
  const webhooks = await db.run(sql`UPDATE webhook SET paused = 1, deliverer = NULL WHERE disabled IS NULL`)
  let revoked = 0
  const keys = openKeys(createNounContext(context), createRunner(db))
  if (!keepKeys)
    for (const { id, revoked_at } of await keys.list())
      if (revoked_at === undefined) revoked += (await keys.revoke(id, clock.now())).length
  return { sends: (await entries.list()).length, webhooks, keys: revoked }
}
