/** Keeps the files of the store small: gives free pages back in small steps, and watches that changes are written back. */
import { SvcError } from '../../model/error.ts'
import { formatBytes } from '../../platform/format.ts'
import type { Database } from '../../platform/sqlite.ts'

/** Pages given back to the file system per transaction. */
const stepPages = 256
/** Free pages kept for the next rows. */
const sparePages = 256

/** Gives some free pages back to the file system. @returns whether there are more */
export function shrinkStep(db: Database): boolean {
  const free = Number(db.get`PRAGMA freelist_count`?.freelist_count ?? 0)
  if (free <= sparePages) return false
  db.exec(`PRAGMA incremental_vacuum(${Math.min(stepPages, free - sparePages)})`)
  return true
}

/** More than this in the -wal file that cannot be written back is too much. It is written back from 2,000 pages on. */
const pinnedPages = 4000

/**
 * Writes changes back from the -wal file into the database. A program that reads the store meanwhile delays that.
 *
 * @param wasPinned whether it was delayed at the last call
 * @returns whether it is now
 * @throws SvcError if it was delayed at the last call, and still is
 */
export function checkpoint(db: Database, wasPinned: boolean): boolean {
  const { checkpointed = 0, log = 0 } =
    db.get<{ log: number; checkpointed: number }>`PRAGMA wal_checkpoint(PASSIVE)` ?? {}
  if (log - checkpointed < pinnedPages) return false
  if (!wasPinned) return true
  const bytes = log * Number(db.get`PRAGMA page_size`?.page_size)
  throw new SvcError(
    'store_unavailable',
    `messages.db-wal has ${formatBytes(bytes)} and grows: a program that reads messages.db does not end its transaction`,
    {
      hint: 'Find the program, for instance with lsof or fuser on messages.db-wal, and end it. The file then shrinks by itself.',
    },
  )
}
