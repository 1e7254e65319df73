/** Read-only inspection of a data directory. */

import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { dataFiles } from '../../model/data-files.ts'
import { SvcError } from '../../model/error.ts'
import { hasWritten, sessionStatusOf } from '../../model/session.ts'
import { AwakeTime, type Clock } from '../../platform/clock.ts'
import { errorCodeOf, readText, statOf } from '../../platform/files.ts'
import { JsonFiles } from '../../platform/json-file.ts'
import type { FileLock } from '../../platform/lock.ts'
import { inspectLock } from '../../platform/lock-look.ts'
import { silentLog } from '../../platform/log.ts'
import { processState } from '../../platform/other-process.ts'
import { type Sealer, untouched } from '../../platform/sealing.ts'
import { sql } from '../../platform/sql.ts'
import { type Database, openDatabase } from '../../platform/sqlite.ts'
import type { InspectedSession, InspectedSessions, Inspection, Polling, StoreStats } from '../inspection.ts'
import { noContents, noNames, readContents, readNames } from '../nouns/inspection.ts'
import { isUnreleased } from '../unreleased.ts'
import { sessionFolders } from './directory-claim.ts'
import { beatEveryMs, stalledMs } from './leases.ts'
import { erasedSession } from './messages.ts'
import { newestSchemaVersion } from './migrations.ts'
import { drive, sqliteDialect } from './routines.ts'
import { readSecretState } from './secret-state.ts'
import { openState } from './state/state.ts'

/** @param sealer opens the tokens; without it a sealed token stays sealed */
export const createInspection = (dir: string, sealer: Sealer = untouched): Inspection => ({
  listSessions: () => inspectSessions(dir, sealer),
  readSecrets: () => readSecretState(dir),
  readStoreStats: options => readStoreStats(dir, options),
  readNames: async () =>
    (await inspectStore(dir, db => (hasOurTables(db) ? drive(db, readNames()) : noNames)))?.result ?? noNames,
  checkPolling: clock => inspectPolling(dir, clock),
  readCluster: async () => undefined,
})

/** An inspection has no lock, so it repairs nothing. */
const readOnlyLock: Pick<FileLock, 'run'> = {
  run: () => Promise.reject(new SvcError('store_unavailable', 'nothing is changed here')),
}

/** Inspects every session. */
async function inspectSessions(dir: string, sealer: Sealer): Promise<InspectedSessions> {
  const { sessions, contexts } = openState({ dir, lock: readOnlyLock, log: silentLog, sealer })
  const plain = new JsonFiles(fields => fields)
  const found: InspectedSession[] = []
  const defaultName = await sessions.getDefaultName().catch(() => undefined)
  const archived = await listArchived(dir)
  for (const name of await listFolders(dir)) {
    const session = {
      name,
      isDefault: name === defaultName,
      contexts: 'absent',
      users: new Set<string>(),
    } as const
    try {
      const record = await sessions.get(name)
      if (record?.name === name) {
        const { kind } = record.unreadable
          ? { kind: 'absent' as const }
          : plain.read(sessions.contextsPath(name))
        found.push({
          ...session,
          status: sessionStatusOf(record.bot),
          ...(record.bot && { bot: record.bot }),
          ...(record.damaged && { trouble: { kind: 'damaged' } }),
          ...(record.unreadable && { trouble: { kind: 'unreadable', error: record.unreadable } }),
          contexts: kind,
          users: new Set([
            ...(kind === 'read' ? [...contexts.read(name)] : []).flatMap(([user, context]) =>
              hasWritten(context) ? user : [],
            ),
            ...(archived.get(name) ?? []).map(({ peer }) => peer),
          ]),
        })
      }
    } catch (error) {
      found.push({ ...session, status: 'disconnected', trouble: { kind: 'unreadable', error } })
    }
  }
  const age = ({ bot }: InspectedSession) => bot?.created_at ?? Number.MAX_SAFE_INTEGER
  found.sort(
    (a, b) => Number(b.isDefault) - Number(a.isDefault) || age(a) - age(b) || (a.name < b.name ? -1 : 1),
  )
  const lostDefault = defaultName === undefined ? await readDefault(dir) : undefined
  return { sessions: found, ...(lostDefault && { lostDefault }) }
}

/** Returns the users whom only the store knows, since contexts.json has no room for them, by session. */
async function listArchived(dir: string) {
  const found = await inspectStore(dir, db =>
    hasOurTables(db)
      ? db.all<{
          name: string
          peer: string
        }>`SELECT s.name, l.peer FROM outbox_lane l JOIN session s ON s.key = l.session
          WHERE l.context IS NOT NULL
            AND s.key = (SELECT key FROM session WHERE name = s.name ORDER BY named DESC, key DESC LIMIT 1)`
      : [],
  ).catch(() => undefined)
  return Map.groupBy(found?.result ?? [], ({ name }) => name)
}

/** Empty if there is no directory, or if it cannot be read. */
async function listFolders(dir: string): Promise<string[]> {
  return sessionFolders({ entries: await readdir(dir, { withFileTypes: true }).catch(() => []) })
}

async function readDefault(dir: string): Promise<string | undefined> {
  return (await readText(join(dir, dataFiles.defaultSession)).catch(() => undefined))?.trim()
}

const busyMs = 2000
const lines = 5

/** Same as `Inspection.readStoreStats`. */
async function readStoreStats(
  dir: string,
  options: { check?: boolean } = {},
): Promise<StoreStats | undefined> {
  const inspected = await inspectStore(dir, db => readStats(db, options.check))
  return inspected && { sizeBytes: inspected.sizeBytes, walBytes: inspected.walBytes, ...inspected.result }
}

/** Returns what `work` reads from the store, and the file sizes; undefined if there is no store. */
async function inspectStore<T>(
  dir: string,
  work: (db: Database) => T,
): Promise<{ sizeBytes: number; walBytes: number; result: T } | undefined> {
  const path = join(dir, dataFiles.store)
  const file = await statOf(path)
  if (!file) return undefined
  const wal = () => statOf(`${path}-wal`)
  // Without a -wal file no process has the store open. A normal reader would create one.
  const isOpen = await wal()
  const reads = () => readDatabase(path, { readonly: true }, work)
  const result = isOpen
    ? await reads()
    : await readDatabase(path, { immutable: true }, work).catch(async error => {
        if (await wal()) return reads()
        throw error
      })
  // Another process has opened it since: the result may be inconsistent, so read again.
  const sure = !isOpen && (await wal()) ? await reads() : result
  return { sizeBytes: file.size, walBytes: (await wal())?.size ?? 0, result: sure }
}

async function readDatabase<T>(
  path: string,
  how: { readonly?: boolean; immutable?: boolean },
  work: (db: Database) => T,
): Promise<T> {
  using db = await openDatabase(path, how)
  db.exec(`PRAGMA busy_timeout = ${busyMs}`)
  return work(db)
}

const schemaVersionOf = (db: Database) => db.one<{ user_version: number }>`PRAGMA user_version`.user_version
/** Whether there are tables, and this version can interpret them. */
const hasOurTables = (db: Database) => {
  const form = schemaVersionOf(db)
  return form > 0 && form <= newestSchemaVersion && !isUnreleased(form)
}

function readStats(db: Database, check = false): Omit<StoreStats, 'sizeBytes' | 'walBytes'> {
  const stats = { form: schemaVersionOf(db), newest: newestSchemaVersion, ...noContents }
  const damage = check ? findDamage(db) : undefined
  const isReadable = hasOurTables(db) && !damage?.length
  return {
    ...stats,
    ...(damage && { damage }),
    ...(isReadable && { ...drive(db, readContents(sqliteDialect, countedMessages)), ...readRestored(db) }),
  }
}

/** The time of a restore, if nothing has added to the audit log since. */
function readRestored(db: Database): Pick<StoreStats, 'restored'> {
  const row = db.get<{ at: number }>`SELECT at FROM audit
    WHERE id = (SELECT max(id) FROM audit) AND operation = 'restore'`
  return row ? { restored: row.at } : {}
}

const countedMessages = sql`(SELECT count(*) FROM message WHERE session > ${erasedSession})`

function findDamage(db: Database): string[] {
  try {
    const found = db.all(`PRAGMA quick_check(${lines})`)
    const messages = found.flatMap(row => String(Object.values(row)[0]).split('\n'))
    return messages.filter(line => line !== 'ok' && line.trim() !== '').slice(0, lines)
  } catch (error) {
    // Pages so damaged that the check itself fails.
    if (/^SQLITE_(CORRUPT|NOTADB)/.test(errorCodeOf(error) ?? ''))
      return [error instanceof Error ? error.message : String(error)]
    throw error
  }
}

/** A live poller shows a sign of life within this time. */
const beatWithinMs = beatEveryMs + 1500
const checkEveryMs = 100
/** The most time that one check adds to the watch: the machine may have stopped, and the holder with it. */
const longestCheckMs = 500

/** Same as `Inspection.checkPolling`. */
export async function inspectPolling(dir: string, clock: Clock): Promise<Polling> {
  const path = join(dir, dataFiles.pollLock)
  const lock = await inspectLock(path)
  if (!lock) return { held: false, stalled: false }
  const { held, pid, takenAt, touchedAt } = lock
  const taken = { pid, since: takenAt }
  if (!held || pid === undefined) return { held, ...taken, stalled: false }
  const process = await processState(pid)
  const ageMs = clock.now() - touchedAt
  const fresh = ageMs <= stalledMs && ageMs >= -1000
  const stalled = process === 'stopped' || (!fresh && !(await waitForBeat(path, touchedAt, clock)))
  return { held, ...taken, process, stalled, seenAt: touchedAt }
}

async function waitForBeat(path: string, before: number, clock: Clock): Promise<boolean> {
  const awake = new AwakeTime(clock, longestCheckMs)
  for (let leftMs = beatWithinMs; leftMs > 0; leftMs -= awake.measure()) {
    await clock.sleep(checkEveryMs)
    if ((await statOf(path))?.mtimeMs !== before) return true
  }
  return false
}
