/**
 * Rewrites messages.db, so that nothing that was erased is left in free pages, in the full-text index, or in
 * the -wal file.
 */
import { dirname, join } from 'node:path'
import { dataFiles } from '../../model/data-files.ts'
import { SvcError } from '../../model/error.ts'
import { type Clock, systemClock } from '../../platform/clock.ts'
import { freeBytes } from '../../platform/free-space.ts'
import { openLock } from '../../platform/lock.ts'
import { type Database, findDatabaseError, openDatabase } from '../../platform/sqlite.ts'
import { storeErrorOf } from '../../platform/system-error.ts'
import { sweepCopies } from './store-copy.ts'

/** Pages of the full-text index that are merged in one step, and the pause for other writers after a step. */
const [mergedPages, pauseMs] = [500, 5]
/** How long another program may keep reading what is in the -wal file. */
const walPatienceMs = 60_000
const walPauseMs = 250
/** How long a backup may take that began before. */
const backupPatienceMs = 30 * 60_000
/** How long this waits for other writers. They wait at most two seconds for it, and try again later. */
const busyMs = 60_000

/**
 * Scrubs the file at that path in a connection of its own. It holds the event loop for seconds.
 *
 * @throws SvcError `store_unavailable`
 */
export async function scrubFile(path: string): Promise<void> {
  let db: Database | undefined
  try {
    db = await openDatabase(path)
    db.exec(`PRAGMA busy_timeout = ${busyMs}`)
    await scrub(db, path, systemClock)
    await removeCopies(dirname(path))
  } catch (error) {
    if (error instanceof SvcError) throw error
    throw storeErrorOf(await findDatabaseError(path, error), 'messages.db cannot be rewritten')
  } finally {
    db?.close()
  }
}

async function scrub(db: Database, path: string, clock: Clock): Promise<void> {
  for (let isFirst = true; mergeIndex(db, isFirst); isFirst = false) await clock.sleep(pauseMs)
  const folder = dirname(path)
  const { bytes } = db.one<{ bytes: number }>`SELECT page_count * page_size AS bytes
    FROM pragma_page_count, pragma_page_size`
  // The copy, and the -wal file that gets it.
  if ((await freeBytes(folder)) < 2 * bytes) throw noRoomError(2 * bytes)
  // A temporary file in memory would be as large as the store. Other users may have access to /tmp.
  db.exec('PRAGMA temp_store = FILE')
  db.exec(`PRAGMA temp_store_directory = '${folder.replaceAll("'", "''")}'`)
  db.exec('VACUUM')
  const until = clock.monotonic() + walPatienceMs
  while (!emptyWal(db)) {
    if (clock.monotonic() > until) throw walInUseError()
    await clock.sleep(walPauseMs)
  }
}

/** Waits for the end of a backup, and removes the copies that killed ones left. */
async function removeCopies(dir: string): Promise<void> {
  await using lock = await openLock(join(dir, dataFiles.backupLock))
  await lock.lock({ timeoutMs: backupPatienceMs })
  await sweepCopies(dir)
}

/**
 * Merges some pages of the full-text index, which keeps words of removed rows until then.
 *
 * @param isFirst begins a merge of all segments
 * @returns whether there may be more
 */
function mergeIndex(db: Database, isFirst: boolean): boolean {
  const count = () => db.one<{ changes: number }>`SELECT total_changes() AS changes`.changes
  const before = count()
  db.run`INSERT INTO gram (gram, rank) VALUES ('merge', ${isFirst ? -mergedPages : mergedPages})`
  // `total_changes()` also counts the merge command.
  return count() - before > 1
}

/** Empties the -wal file. @returns false while another process reads what is in it */
function emptyWal(db: Database): boolean {
  // Copies most of it without delaying writers.
  db.exec('PRAGMA wal_checkpoint(PASSIVE)')
  db.exec('PRAGMA busy_timeout = 1000')
  return db.one<{ busy: number }>`PRAGMA wal_checkpoint(TRUNCATE)`.busy === 0
}

const noRoomError = (bytes: number) =>
  new SvcError('store_unavailable', 'the disk has no room to rewrite messages.db', {
    hint: `The data is erased, but free pages of the file may still have it. Free ${Math.ceil(bytes / 2 ** 20)} MiB and call again.`,
  })

const walInUseError = () =>
  new SvcError('store_unavailable', 'another program keeps reading messages.db', {
    hint: 'The data is erased, but messages.db-wal may still have it. Close programs that read messages.db, and call again.',
  })
