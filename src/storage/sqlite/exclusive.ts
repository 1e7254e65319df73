/** Opens a data directory that no other process uses, and keeps every other process out until it is closed. */
import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import { dataFiles } from '../../model/data-files.ts'
import { SvcError } from '../../model/error.ts'
import { createDurably, errorCodeOf, fileExists, removeQuietly } from '../../platform/files.ts'
import { openLock } from '../../platform/lock.ts'
import { type Database, findDatabaseError, openDatabase, readSchemaVersion } from '../../platform/sqlite.ts'
import { storeErrorOf } from '../../platform/system-error.ts'
import type { NewAuditLine } from '../audit.ts'
import { isUnreleased } from '../unreleased.ts'
import { rejectClosed } from './closed-mark.ts'
import { migrate, rejectOtherForm } from './migrations.ts'
import { addAuditLine } from './routines.ts'

/** How long to wait for a process that looks at the directory for a moment. */
const patienceMs = 1000

export interface ExclusiveDirectory extends AsyncDisposable {
  /** The store, in its newest form and without a WAL; undefined if there is none. */
  readonly db: Database | undefined
}

/**
 * Opens the directory for one process.
 *
 * @throws SvcError `store_unavailable` if another process has it open, or it cannot be used; nothing stays open
 */
export async function openExclusively(dir: string): Promise<ExclusiveDirectory> {
  await using stack = new AsyncDisposableStack()
  stack.use(await lockDirectory(dir))
  const path = join(dir, dataFiles.store)
  const isThere = await fileExists(path)
  if (isThere) await rejectOtherForm(path)
  const db = isThere ? await openStoreAlone(dir, path, migrate) : undefined
  if (db) stack.defer(() => closeAlone(db, path))
  return Object.assign(stack.move(), { db })
}

/**
 * Sets the messages.db of a version before the first release aside, and leaves an empty one. Logins and contexts stay.
 *
 * @param line of the audit log of the new store, without a subject
 * @returns where it is now
 * @throws SvcError `store_unavailable`; `not_found` without a store; `invalid_arguments` for any other one
 */
export async function setStoreAside(dir: string, line: NewAuditLine): Promise<string> {
  const path = join(dir, dataFiles.store)
  if (!(await fileExists(path))) throw new SvcError('not_found', `there is no ${dataFiles.store} in ${dir}`)
  await rejectClosed(dir)
  await using _locks = await lockDirectory(dir)
  if (!isUnreleased((await readSchemaVersion(path)) ?? 0))
    throw new SvcError('invalid_arguments', `no version of svc before the first release wrote ${path}`, {
      hint: 'It stays: this command is for such a store alone.',
    })
  const aside = `${path}.aside`
  if (await fileExists(aside))
    throw new SvcError('store_unavailable', `${aside} is there already`, { hint: 'Move it elsewhere.' })
  // What the -wal file has comes into the file itself.
  await closeAlone(await openStoreAlone(dir, path), path)
  await rename(path, aside)
  await createDurably(path, '')
  const db = await openStoreAlone(dir, path, migrate)
  addAuditLine(db, { ...line, subject: aside })
  await closeAlone(db, path)
  return aside
}

/** Keeps every other process out until it is released. */
async function lockDirectory(dir: string): Promise<AsyncDisposable> {
  await using stack = new AsyncDisposableStack()
  const pollLock = stack.use(await openLock(join(dir, dataFiles.pollLock)))
  if (!(await pollLock.tryLock())) throw inUseError(dir)
  const dataLock = stack.use(await openLock(join(dir, dataFiles.dataLock)))
  await dataLock.lock({ timeoutMs: patienceMs }).catch(cause => {
    throw inUseError(dir, cause)
  })
  return stack.move()
}

async function openStoreAlone(
  dir: string,
  path: string,
  prepare: (db: Database) => void = () => {},
): Promise<Database> {
  let db: Database | undefined
  try {
    db = await openDatabase(path)
    db.exec(`PRAGMA busy_timeout = ${patienceMs}`)
    db.exec('PRAGMA locking_mode = EXCLUSIVE')
    // Fails while another connection is open. A truncated journal keeps no page with a secret.
    db.exec('PRAGMA journal_mode = TRUNCATE')
    db.exec('BEGIN EXCLUSIVE; COMMIT')
    db.exec('PRAGMA synchronous = FULL')
    db.exec('PRAGMA temp_store = MEMORY')
    prepare(db)
    return db
  } catch (error) {
    db?.close()
    if (error instanceof SvcError) throw error
    const found = await findDatabaseError(path, error)
    if (/^SQLITE_(BUSY|LOCKED)/.test(errorCodeOf(found) ?? '')) throw inUseError(dir, found)
    throw storeErrorOf(found, 'messages.db cannot be opened')
  }
}

async function closeAlone(db: Database, path: string): Promise<void> {
  db.close()
  for (const suffix of ['-journal', '-shm']) await removeQuietly(`${path}${suffix}`)
}

const inUseError = (dir: string, cause?: unknown) =>
  new SvcError('store_unavailable', `another process uses ${dir}`, {
    hint: 'Stop every svc and every program with its library on this directory, then run the same command again. svc doctor says which process polls.',
    cause,
  })

/** @throws SvcError `store_unavailable` for a damaged store */
export function rejectDamaged(db: Database): void {
  const found = db.get`PRAGMA quick_check(1)`?.quick_check
  if (found === 'ok') return
  throw new SvcError('store_unavailable', `${dataFiles.store} is damaged: ${found}`, {
    hint: 'Move the file away together with its -wal and -shm files, or restore a backup. Then run the same command again.',
  })
}
