/** Retention: what is too old or too many goes, oldest first, a little at a time. */

import type { Log } from '../platform/log.ts'
import type { Database } from '../platform/sqlite.ts'

/** Rows per transaction: a writer waits for tens of milliseconds at most. */
const stepRows = 300
const dayMs = 24 * 60 * 60_000
/** A consumer that has not read for this long no longer counts as a reader. */
const liveMs = 30 * dayMs

export interface PruneRules {
  now: number
  /** 0: no limit. */
  maxAgeDays: number
  /** 0: no limit. */
  maxCount: number
  log: Log
}

/** Removes up to one step's rows. @returns how many; 0 when retention is kept */
export function pruneStep(db: Database, rules: PruneRules): number {
  const { now, maxAgeDays, maxCount, log } = rules
  const last = Number(db.prepare('SELECT max(id) AS last FROM message').get()?.last ?? 0)
  // Rows are only ever removed at the low end, so ids count rows.
  const surplus = maxCount > 0 ? last - maxCount : 0
  const before = maxAgeDays > 0 ? now - maxAgeDays * dayMs : 0
  const doomed = db
    .prepare('SELECT id, stored_at FROM message ORDER BY id LIMIT ?')
    .all(stepRows)
    .map(row => ({ id: Number(row.id), storedAt: Number(row.stored_at) }))
  const kept = doomed.findIndex(({ id, storedAt }) => id > surplus && storedAt >= before)
  const end = kept === -1 ? doomed.at(-1) : doomed[kept - 1]
  const first = doomed[0]
  if (!first || !end || kept === 0) return 0
  const reader = db
    .prepare(
      'SELECT name, position FROM consumer WHERE seen_at > ? AND position < ? ORDER BY position LIMIT 1',
    )
    .get(now - liveMs, end.id)
  if (reader) {
    log.warn('retention removes messages that a consumer has not read', {
      consumer: String(reader.name),
      upTo: end.id,
      position: Number(reader.position),
    })
  }
  db.transaction(() => {
    db.prepare('DELETE FROM gram WHERE rowid BETWEEN ? AND ?').run(first.id, end.id)
    db.prepare('DELETE FROM message WHERE id <= ?').run(end.id)
  })
  return end.id - first.id + 1
}
