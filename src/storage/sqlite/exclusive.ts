/** Opens a data directory that no other process uses, and keeps every other process out until it is closed. */
import { join } from 'node:path'
import { dataFiles } from '../../model/data-files.ts'
import { SvcError } from '../../model/error.ts'
import { errorCodeOf, fileExists, removeQuietly } from '../../platform/files.ts'
import { openLock } from '../../platform/lock.ts'
import { type Database, findDatabaseError, openDatabase } from '../../platform/sqlite.ts'
import { storeErrorOf } from '../../platform/system-error.ts'
import { migrate, rejectNewer } from './migrations.ts'

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
  const pollLock = stack.use(await openLock(join(dir, dataFiles.pollLock)))
  if (!(await pollLock.tryLock())) throw inUseError(dir)
  const dataLock = stack.use(await openLock(join(dir, dataFiles.dataLock)))
  await dataLock.lock({ timeoutMs: patienceMs }).catch(cause => {
    throw inUseError(dir, cause)
  })
  const path = join(dir, dataFiles.store)
  const db = (await fileExists(path)) ? await openStoreAlone(dir, path) : undefined
  if (db) {
    stack.defer(async () => {
      db.close()
      for (const suffix of ['-journal', '-shm']) await removeQuietly(`${path}${suffix}`)
    })
  }
  return Object.assign(stack.move(), { db })
}

async function openStoreAlone(dir: string, path: string): Promise<Database> {
  await rejectNewer(path)
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
    migrate(db)
    return db
  } catch (error) {
    db?.close()
    if (error instanceof SvcError) throw error
    const found = await findDatabaseError(path, error)
    if (/^SQLITE_(BUSY|LOCKED)/.test(errorCodeOf(found) ?? '')) throw inUseError(dir, found)
    throw storeErrorOf(found, 'messages.db cannot be opened')
  }
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
