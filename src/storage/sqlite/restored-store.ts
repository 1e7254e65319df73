/** Prepares a store that comes from a backup: pauses webhooks, holds queued sends, clears every claim by a process. */
import { badArgument } from '../../model/error.ts'
import type { Clock } from '../../platform/clock.ts'
import { silentLog } from '../../platform/log.ts'
import { untouched } from '../../platform/sealing.ts'
import { type Database, openDatabase } from '../../platform/sqlite.ts'
import { storeErrorOf } from '../../platform/system-error.ts'
import type { NewAuditLine } from '../audit.ts'
import { ClockTrust } from '../clock-trust.ts'
import { describeStill, rejectForeignRows, type StandingStill, standStill } from '../nouns/stand-still.ts'
import { storeTables } from '../table-list.ts'
import { ProcessOwner } from './engine-part.ts'
import { SqliteOutboxEntries } from './entries.ts'
import { SqliteOutboxLanes } from './lanes.ts'
import { SqliteMessages } from './messages.ts'
import { migrate } from './migrations.ts'
import { SqliteOutbox } from './outbox.ts'
import { SqliteOutboxPlans } from './outbox-plans.ts'
import { addAuditLine, createNounContext, drive } from './routines.ts'

/**
 * Lets queued sends wait for a person's approval, pauses webhooks, revokes keys, and clears what belonged to
 * processes of the original. Sends that were under way get the status that they have after a crash.
 *
 * @param keepKeys whether keys stay valid
 * @param line of the audit log, without the rest of its subject
 */
export async function prepareRestoredStore(
  path: string,
  { clock, keepKeys, line }: { clock: Clock; keepKeys: boolean; line?: NewAuditLine | undefined },
): Promise<StandingStill> {
  using db = await openDatabase(path)
  try {
    await rejectForeignParts(db)
    // An index may hide rows from a change.
    const { integrity_check } = db.one<{ integrity_check: string }>`PRAGMA integrity_check(1)`
    if (integrity_check !== 'ok') throw badArgument('file', `its messages.db is damaged: ${integrity_check}`)
    migrate(db)
    return db.transaction(() => {
      const ground = groundOf(db, clock)
      drive(db, rejectForeignRows('sqlite'))
      clearOwners(db)
      const still = letStandStill(ground, keepKeys)
      if (line) addAuditLine(db, { ...line, subject: `${line.subject} ${describeStill(still)}` })
      return still
    })
  } catch (error) {
    throw storeErrorOf(error, 'messages.db cannot be restored')
  }
}

/**
 * Rejects a store that svc did not make: a trigger in it would run with each change here, and could keep a key valid.
 *
 * @throws SvcError `invalid_arguments`
 */
async function rejectForeignParts(db: Database): Promise<void> {
  using expected = await openDatabase(':memory:')
  migrate(expected, { target: db.one<{ user_version: number }>`PRAGMA user_version`.user_version })
  const different = differencesOf(db, expected)
  if (different.length === 0) return
  const named = different.slice(0, 5).join(', ')
  throw badArgument('file', `its messages.db is not as svc makes it: ${named}`)
}

/** Returns everything in the schema by its name. What SQLite has counted of the rows is left out. */
const partsOf = (db: Database): Set<string> =>
  new Set(
    db.all<{ type: string; name: string }>`SELECT type, name, tbl_name, sql FROM sqlite_schema
      WHERE NOT (type = 'table' AND name IN ('sqlite_stat1', 'sqlite_stat4'))`.map(part =>
      JSON.stringify(part),
    ),
  )

/** @returns the names of parts that only one has, or that differ */
function differencesOf(found: Database, expected: Database): string[] {
  const parts = [...partsOf(found).symmetricDifference(partsOf(expected))]
  return [...new Set(parts.map(text => JSON.parse(text)).map(({ name, type }) => `${type} ${name}`))].sort()
}

function clearOwners(db: Database): void {
  for (const { name, owners } of storeTables) {
    const values = Object.entries(owners ?? {}).map(([column, value]) => `${column} = ${value}`)
    if (values.length > 0) db.exec(`UPDATE ${name} SET ${values.join()}`)
  }
}

function groundOf(db: Database, clock: Clock) {
  const messages = new SqliteMessages({ db, clock, log: silentLog, sealer: untouched })
  const ground = { db, clock, messages, owner: new ProcessOwner(), sealer: untouched }
  const lanes = new SqliteOutboxLanes(ground, { fileContexts: () => new Map() })
  const entries = new SqliteOutboxEntries(ground, { lanes })
  const plans = new SqliteOutboxPlans(ground, { entries })
  const outbox = new SqliteOutbox(ground, { lanes, entries, plans, clockTrust: new ClockTrust(clock, {}) })
  return { db, entries, outbox, nouns: createNounContext(ground, plans) }
}

function letStandStill(
  { db, entries, nouns, outbox }: ReturnType<typeof groundOf>,
  keepKeys: boolean,
): StandingStill {
  outbox.reap(outbox.listOrphans(Number.POSITIVE_INFINITY))
  const still = drive(db, standStill(nouns, ['store_id', 'id'], keepKeys))
  return { ...still, sends: entries.list().length }
}
