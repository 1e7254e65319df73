/** Prepares a store that comes from a backup: nothing in it goes on by itself, and no process has anything of it. */
import { badArgument } from '../../model/error.ts'
import type { Clock } from '../../platform/clock.ts'
import { silentLog } from '../../platform/log.ts'
import { untouched } from '../../platform/sealing.ts'
import { type Database, openDatabase } from '../../platform/sqlite.ts'
import { storeErrorOf } from '../../platform/system-error.ts'
import { ClockTrust } from '../clock-trust.ts'
import { createKeys } from '../nouns/keys.ts'
import { askLifeMs } from '../outbox-rules.ts'
import { askAgain } from '../rules/outbox-ends.ts'
import { cursorColumns, storeTables } from '../table-list.ts'
import { ProcessOwner } from './engine-part.ts'
import { SqliteOutboxEntries } from './entries.ts'
import { SqliteOutboxLanes } from './lanes.ts'
import { SqliteMessages } from './messages.ts'
import { migrate } from './migrations.ts'
import { SqliteOutbox } from './outbox.ts'
import { SqliteOutboxPlans } from './outbox-plans.ts'
import { createNounContext, drive } from './routines.ts'

/** What stands still in a restored store. */
export interface StandingStill {
  /** Sends that wait for a person's approval. */
  sends: number
  /** Webhooks that are paused. */
  webhooks: number
  /** Keys that were revoked by the restore. */
  keys: number
}

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
      renameStore(db)
      const sends = askForSends(db, clock)
      const webhooks = db.run`UPDATE webhook SET paused = 1 WHERE disabled IS NULL`.changes
      return { sends, webhooks, keys: keepKeys ? 0 : revokeKeys(db, clock) }
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
  db.exec(`
    UPDATE agent_turn SET state = 'interrupted', error = 'restored from a backup'
      WHERE state IN ('waiting', 'running', 'answering');
    DELETE FROM backup;
    DELETE FROM backup_failure;
  `)
}

/**
 * Gives the store an id of its own: the original may have gone on, and a cursor of later events there must not be taken
 * for a position here.
 */
function renameStore(db: Database): void {
  const read = () => db.one<{ id: string }>`SELECT id FROM store_id`.id
  const old = read()
  db.exec('UPDATE store_id SET id = lower(hex(randomblob(5)))')
  const id = read()
  for (const [table, column] of cursorColumns)
    db.run(
      `UPDATE ${table} SET ${column} = ? || substr(${column}, ?) WHERE ${column} LIKE ?`,
      ...[id, old.length + 1, `${old}-%`],
    )
}

function groundOf(db: Database, clock: Clock) {
  const messages = new SqliteMessages(db, clock, silentLog, untouched)
  const ground = { db, clock, messages, owner: new ProcessOwner(), sealer: untouched }
  const lanes = new SqliteOutboxLanes(ground, () => new Map())
  const entries = new SqliteOutboxEntries(ground, lanes)
  return { ground, lanes, entries, plans: new SqliteOutboxPlans(ground, entries) }
}

/** @returns how many sends wait for an approval */
function askForSends(db: Database, clock: Clock): number {
  const { ground, ...parts } = groundOf(db, clock)
  new SqliteOutbox(ground, parts, new ClockTrust(clock, clock.now())).reap(Number.POSITIVE_INFINITY)
  const waiting = db.all<{ id: number }>`SELECT id FROM outbox
    WHERE mode = 'queue' AND ended_at IS NULL AND asked IS NULL ORDER BY id`
  for (const { id } of waiting)
    parts.plans.change(id, (entry, plan) => askAgain(entry, clock.now() + askLifeMs, plan))
  return parts.entries.list().length
}

/** @returns how many keys it revoked */
function revokeKeys(db: Database, clock: Clock): number {
  const { ground, plans } = groundOf(db, clock)
  const { verbs } = createKeys(createNounContext(ground, plans))
  const valid = drive(db, verbs.list()).filter(({ revoked_at }) => revoked_at === undefined)
  return valid.reduce((count, { id }) => count + drive(db, verbs.revoke(id, clock.now())).length, 0)
}
