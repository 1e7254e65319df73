/** Which process delivers to the endpoints, in SQLite; and renames of the sessions that they are limited to. */
import { sessionKeyOf } from '../../model/session.ts'
import { sql } from '../../platform/sql.ts'
import type { Database } from '../../platform/sqlite.ts'
import { dropLane, putLane } from '../nouns/webhook-progress.ts'
import { listLanes } from '../nouns/webhooks.ts'
import { drive } from './routines.ts'

/** One process delivers for all endpoints, so there is nothing to do after its start. @param me this process */
export function takeOver(db: Database, me: string, held?: ReadonlySet<string>): ReadonlySet<string> {
  const all = db.all<{ id: string; deliverer?: string }>`SELECT id, deliverer FROM webhook`
  // A new one is taken along. Another process, if one delivers by now, took over from this one.
  if (held === undefined || all.some(({ deliverer }) => deliverer === undefined))
    db.run`UPDATE webhook SET epoch = epoch + (deliverer IS NOT ${me}), deliverer = ${me},
      next_try_at = NULL WHERE ${Number(held === undefined)} OR deliverer IS NULL`
  return new Set(all.map(({ id }) => id))
}

/** Renames a session in the endpoints that are limited to it, and in their lanes. */
export function renameInWebhooks(db: Database, oldName: string, newName: string): void {
  const isIt = (row: { session?: string }) =>
    row.session !== undefined && sessionKeyOf(row.session) === sessionKeyOf(oldName)
  const webhooks = db.all<{ id: string; session?: string }>`SELECT id, session FROM webhook`
  for (const webhook of webhooks) {
    const { id } = webhook
    if (isIt(webhook)) db.run`UPDATE webhook SET session = ${newName} WHERE id = ${id}`
    for (const lane of drive(db, listLanes(id)).filter(isIt)) {
      db.run(dropLane(id, lane))
      db.run(putLane(id, { ...lane, session: newName }, sql`FROM webhook WHERE id = ${id}`))
    }
    db.run`UPDATE webhook SET epoch = epoch + 1 WHERE id = ${id}`
  }
}
