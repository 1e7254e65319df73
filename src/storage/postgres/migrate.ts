/** Creates and updates the tables. One process at a time does it; the others wait for it. */
import { SvcError } from '../../model/error.ts'
import type { Log } from '../../platform/log.ts'
import { type PgConnection, sqlStateOf } from '../../platform/postgres.ts'
import type { KeyRing } from '../../platform/sealing.ts'
import { constantSql, sql } from '../../platform/sql.ts'
import { rejectUnreleased, wayFromDatabase } from '../unreleased.ts'
import type { PgDatabase } from './database.ts'
import { findFaults, rejectFaults } from './requirements.ts'
import { formAfter, steps as ownSteps } from './schema.ts'

/** Only svc takes this advisory lock. */
const migrationLock = 0x737663
/** Longest wait for the tables to be updated, by this process or another one. */
const withinMs = 15 * 60_000
/** A step waits so long for a table that is in use, since all who use the table wait behind it. Then it is tried again. */
const lockTimeout = '2s'
const mostTries = 30
const lockNotAvailable = '55P03'

/** Columns of `meta` about secret keys. */
export interface KeyState {
  secret_key?: string
  old_key?: string
}

interface Found extends KeyState {
  form: number
  min_reader: number
  moved_to?: string
  copying?: string
}

/** @throws SvcError `store_unavailable` if programs of a form may not use the tables, as `min_reader` says */
export function checkReader(form: number, minReader: number): void {
  if (minReader > form)
    throw new SvcError('store_unavailable', 'the store was updated by a newer version of svc', {
      hint: 'Use that version or a newer one.',
    })
}

/**
 * Seals with the key of the store from now on.
 *
 * @throws SvcError `store_unavailable` if a key is not given with which values are sealed
 */
export function followKeys({ secret_key, old_key }: KeyState, keys: KeyRing): void {
  if (secret_key !== undefined && !keys.sealWith(secret_key))
    throw new SvcError('store_unavailable', 'the store was encrypted with another secret key', {
      hint: 'All nodes need the same key: --secret-key-file or SVC_SECRET_KEY.',
      details: { secret_key_id: secret_key },
    })
  if (old_key !== undefined && !keys.keyIds.includes(old_key))
    throw new SvcError('store_unavailable', `some secrets are still encrypted with the key ${old_key}`, {
      hint: 'Give that key too, with --secret-key-file, and the other one with --new-secret-key-file, until svc secrets rotate has said that nothing is left.',
      details: { secret_key_id: old_key },
    })
}

/**
 * Checks the server, and brings the tables to the form of this program. A program may use tables of a newer form, until a
 * step raises `min_reader`.
 *
 * @param options.closed whether the store may be one that was moved, or into which a copy has not finished
 * @throws SvcError `store_unavailable` for a server or tables that this program must not use
 */
export async function migrate(
  db: PgDatabase,
  {
    closed = false,
    keys,
    log,
    steps = ownSteps,
  }: { log: Log; keys: KeyRing | undefined; closed?: boolean; steps?: readonly string[] | undefined },
): Promise<void> {
  rejectFaults(await findFaults(db))
  const newest = formAfter(steps.length)
  let found = await readForm(db)
  if (found) rejectUnreleased('the store', found.form, wayFromDatabase)
  if (found === undefined || found.form < newest) {
    const isOurs = await db.guarded(() => runSteps(db, steps))
    found = await readForm(db)
    if (isOurs) log.info('the tables of the store were updated', { form: newest })
  }
  if (found === undefined) throw new SvcError('store_unavailable', 'the store has no tables')
  checkReader(newest, found.min_reader)
  if (found.copying !== undefined && !closed)
    throw new SvcError('store_unavailable', 'a copy into this store has not finished', {
      hint: 'Wait if it is running. Otherwise run the same svc store copy again: it carries on.',
    })
  if (found.moved_to !== undefined && !closed)
    throw new SvcError('store_unavailable', `the store was moved to ${found.moved_to}`, {
      hint: 'Use the store there. This one no longer changes.',
    })
  if (keys === undefined) return
  if (found.secret_key === undefined)
    await db.run(sql`UPDATE meta SET secret_key = ${keys.keyId} WHERE secret_key IS NULL`)
  followKeys((await readForm(db)) ?? {}, keys)
}

async function readForm(db: PgDatabase): Promise<Found | undefined> {
  const { there } = await db.one<{ there: boolean }>(sql`SELECT to_regclass('svc.meta') IS NOT NULL AS there`)
  return there
    ? db.get<Found>(sql`SELECT form, min_reader, secret_key, old_key, moved_to, copying FROM svc.meta`)
    : undefined
}

/** Each step is a transaction of its own. @returns whether this process did one */
async function runSteps(db: PgDatabase, steps: readonly string[]): Promise<boolean> {
  using connection = await db.connect(withinMs)
  // A role may own the schema, and not be allowed to make one.
  await runStep(
    connection,
    `DO $$ BEGIN IF to_regnamespace('svc') IS NULL THEN CREATE SCHEMA svc; END IF; END $$`,
  )
  let isOurs = false
  for (const [nth, step] of steps.entries())
    isOurs = (await runStep(connection, guardedStep(step, nth))) || isOurs
  return isOurs
}

async function runStep(connection: PgConnection, step: string): Promise<boolean> {
  for (let tries = 1; ; tries++)
    try {
      const results = await connection.script([
        sql`SELECT set_config('lock_timeout', ${`${withinMs} ms`}, true)`,
        sql`SELECT pg_advisory_xact_lock(${migrationLock})`,
        sql`SELECT set_config('lock_timeout', ${lockTimeout}, true)`,
        constantSql(step),
        sql`SELECT current_setting('svc.stepped', true) AS stepped`,
      ])
      return results.at(-1)?.[0]?.stepped === 'yes'
    } catch (error) {
      if (sqlStateOf(error) !== lockNotAvailable || tries === mostTries) throw error
    }
}

/** Runs a step unless another process has done it while this one waited for the lock. */
const guardedStep = (step: string, nth: number): string => `DO $migration$ BEGIN
  IF to_regclass('svc.meta') IS NULL AND ${nth} > 0 THEN RAISE EXCEPTION 'a step is missing'; END IF;
  IF ${nth === 0 ? `to_regclass('svc.meta') IS NULL` : `(SELECT form FROM svc.meta) = ${formAfter(nth)}`} THEN
    EXECUTE $step$${step}$step$;
    UPDATE svc.meta SET form = ${formAfter(nth + 1)};
    PERFORM set_config('svc.stepped', 'yes', true);
  END IF;
END $migration$`
