/** Shrinks the file after retention, in small steps. */
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
