/** Users who were erased and have not written since: nothing about them is stored. */
import type { Database } from '../../platform/sqlite.ts'
import { erasedMark, erasedUserError } from '../people.ts'

/** Returns the mark of a user; undefined if no user is erased, which costs one short read. */
function findMark(db: Database, user: string): string | undefined {
  const row = db.get<{
    key: string
  }>`SELECT hash_key AS key FROM store_id WHERE EXISTS (SELECT 1 FROM erased)`
  return row && erasedMark(user, row.key)
}

/** Returns what stands for an erased user; undefined for any other user. */
export function findErased(db: Database, user: string): string | undefined {
  const mark = findMark(db, user)
  return mark && db.get<{ hash: string }>`SELECT hash FROM erased WHERE mark = ${mark}`?.hash
}

/** Call it in the transaction that would store something about the user. @throws SvcError `window_closed` */
export function rejectErased(db: Database, user: string): void {
  if (findErased(db, user) !== undefined) throw erasedUserError()
}

/** Call it when the user wrote. */
export function removeErased(db: Database, user: string): void {
  const mark = findMark(db, user)
  if (mark !== undefined) db.run`DELETE FROM erased WHERE mark = ${mark} AND ended = 1`
}

/** Puts the hash in place of each erased user in a subject of the audit log. */
export const withoutErased = (db: Database, subject: string | undefined): string | undefined =>
  subject
    ?.split(' ')
    .map(word => findErased(db, word) ?? word)
    .join(' ')
