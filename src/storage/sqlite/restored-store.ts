/** Prepares a store that comes from a backup: pauses webhooks, holds queued sends, clears every claim by a process. */
import { badArgument } from '../../model/error.ts'
import type { Clock } from '../../platform/clock.ts'
import { silentLog } from '../../platform/log.ts'
import { untouched } from '../../platform/sealing.ts'
import { type Database, openDatabase } from '../../platform/sqlite.ts'
import { storeErrorOf } from '../../platform/system-error.ts'
import { ClockTrust } from '../clock-trust.ts'
import { type StandingStill, standStill } from '../nouns/stand-still.ts'
import { storeTables } from '../table-list.ts'
import { ProcessOwner } from './engine-part.ts'
import { SqliteOutboxEntries } from './entries.ts'
import { SqliteOutboxLanes } from './lanes.ts'
import { SqliteMessages } from './messages.ts'
import { migrate } from './migrations.ts'
import { SqliteOutbox } from './outbox.ts'
import { SqliteOutboxPlans } from './outbox-plans.ts'
import { createNounContext, drive } from './routines.ts'

/**
 * Lets queued sends wait for a person's approval, pauses webhooks, revokes keys, and clears what belonged to
 * processes of the original. Sends that were under way get the status that they have after a crash.
 *
 * @param keepKeys whether keys stay valid
 */
export async function prepareRestoredStore(
  path: string,
  { clock, keepKeys }: { clock: Clock; keepKeys: boolean },
): Promise<StandingStill> {
  const db = await openDatabase(path)
  try {
    await rejectForeignParts(db)
    migrate(db)
    return db.transaction(() => {
      clearOwners(db)
      return letStandStill(db, clock, keepKeys)
    })
  } catch (error) {
    throw storeErrorOf(error, 'messages.db cannot be restored')
  } finally {
    db.close()
  }
}

/**
 * Rejects a store that svc did not make: a trigger in it would run with each change here, and could keep a key valid.
 *
 * @throws SvcError `invalid_arguments`
 */
async function rejectForeignParts(db: Database): Promise<void> {
  const expected = await openDatabase(':memory:')
  try {
    migrate(expected, { target: db.one<{ user_version: number }>`PRAGMA user_version`.user_version })
    if (partsOf(db) === partsOf(expected)) return
    throw badArgument('file', 'its messages.db has other tables or triggers than those of svc')
  } finally {
    expected.close()
  }
}

/** Returns the names of tables and indexes, and the triggers. SQLite adds tables of its own. */
const partsOf = (db: Database): string =>
  JSON.stringify(
    db.all`SELECT type, name, CASE type WHEN 'trigger' THEN sql END AS sql FROM sqlite_schema
      WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY type, name`,
  )

function clearOwners(db: Database): void {
  for (const { name, owners } of storeTables) {
    const values = Object.entries(owners ?? {}).map(([column, value]) => `${column} = ${value}`)
    if (values.length > 0) db.exec(`UPDATE ${name} SET ${values.join()}`)
  }
}

function letStandStill(db: Database, clock: Clock, keepKeys: boolean): StandingStill {
  const messages = new SqliteMessages(db, clock, silentLog, untouched)
  const ground = { db, clock, messages, owner: new ProcessOwner(), sealer: untouched }
  const lanes = new SqliteOutboxLanes(ground, () => new Map())
  const entries = new SqliteOutboxEntries(ground, lanes)
  const plans = new SqliteOutboxPlans(ground, entries)
  const outbox = new SqliteOutbox(ground, { lanes, entries, plans }, new ClockTrust(clock, {}))
  outbox.reap(outbox.listOrphans(Number.POSITIVE_INFINITY))
  const nouns = createNounContext(ground, plans)
  const still = drive(db, standStill(nouns, ['store_id', 'id'], keepKeys))
  return { ...still, sends: entries.list().length }
}
