/** Copies databases that are in use, for backups, and notes the backups in the store. */
import { chmod, open, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { dataFiles } from '../../model/data-files.ts'
import { SvcError } from '../../model/error.ts'
import { sweep } from '../../platform/files.ts'
import { randomBytes } from '../../platform/lazy-crypto.ts'
import { openDatabase } from '../../platform/sqlite.ts'
import { storeErrorOf } from '../../platform/system-error.ts'
import type { NewAuditLine } from '../audit.ts'
import type { KnownBackup } from '../backups.ts'
import { createBackups } from '../nouns/backups.ts'
import { newestSchemaVersion } from './migrations.ts'
import { addAuditLine, drive, sqliteDialect } from './routines.ts'

/** Names of copies and of their journals. */
const storeCopyName = /^messages\.db\.[0-9a-f]{12}\.tmp(-journal)?$/
/** How long this waits for a process that rewrites the database. */
const busyMs = 60_000

/** Returns a path for a copy in the data directory. */
export const newCopyPath = (dir: string): string =>
  join(dir, `${dataFiles.store}.${randomBytes(6).toString('hex')}.tmp`)

/** Removes the copies of processes that died. Call it while no other process makes one. */
export const sweepCopies = (dir: string): Promise<number> =>
  sweep(dir, storeCopyName, Number.POSITIVE_INFINITY)

/**
 * Copies a database as it is at one moment, while others write to it, and checks the copy. The copy is on the disk when
 * this resolves. It holds the event loop meanwhile: about two seconds for a gigabyte.
 *
 * @returns the schema version of the copy
 * @throws SvcError `store_unavailable`
 */
export async function copyDatabase(path: string, copy: string): Promise<number> {
  try {
    await writeFile(copy, '', { flag: 'wx', mode: 0o600 })
    await chmod(copy, 0o600)
    {
      using db = await openDatabase(path)
      db.exec(`PRAGMA busy_timeout = ${busyMs}`)
      db.run('VACUUM INTO ?', copy)
    }
    const version = await checkDatabase(copy)
    await using file = await open(copy, 'r+')
    await file.sync()
    return version
  } catch (error) {
    throw storeErrorOf(error, 'the messages cannot be copied')
  }
}

/** @returns the schema version @throws SvcError `store_unavailable` for a damaged database */
async function checkDatabase(path: string): Promise<number> {
  using db = await openDatabase(path, { immutable: true })
  const found = db.one<{ quick_check: string }>`PRAGMA quick_check(1)`.quick_check
  if (found !== 'ok')
    throw new SvcError('store_unavailable', `messages.db is damaged: ${found}`, {
      hint: 'Restore the last backup, or start svc with another data directory.',
    })
  return db.one<{ user_version: number }>`PRAGMA user_version`.user_version
}

/** Returns the names of the files of sends that wait in a copy. */
export async function listKeptFiles(copy: string): Promise<string[]> {
  using db = await openDatabase(copy, { immutable: true })
  const rows = db.all<{ name: string }>`SELECT DISTINCT file ->> 'name' AS name FROM outbox_part
    WHERE file IS NOT NULL AND status IN ('asked', 'queued', 'sending')`
  return rows.map(({ name }) => name)
}

/**
 * Notes a backup in the store. A store of an earlier version stays as it is: it has no place for that.
 *
 * @param line of the audit log
 */
export async function noteBackup(dir: string, backup: KnownBackup, line?: NewAuditLine): Promise<void> {
  using db = await openDatabase(join(dir, dataFiles.store))
  db.exec(`PRAGMA busy_timeout = ${busyMs}`)
  if (db.one<{ user_version: number }>`PRAGMA user_version`.user_version !== newestSchemaVersion) return
  drive(db, createBackups({ dialect: sqliteDialect }).verbs.add(backup))
  if (line) addAuditLine(db, line)
}
