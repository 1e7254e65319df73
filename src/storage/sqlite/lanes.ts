/**
 * Lanes: what is known of sending to one user of one session. A row holds the counter of used answers, a hold after
 * refusals, and who sends what waits there: one process at a time, by a lease that lapses when it dies.
 */
import type { Hold } from '../../model/admission.ts'
import type { Counter } from '../../model/session.ts'
import type { Row } from '../../platform/sqlite.ts'
import type { Lane } from '../outbox.ts'
import { EnginePart } from './engine-part.ts'

/** A lane is nobody's when its owner has not been heard of for this long; sooner when it is known to be dead. */
export const laneLeaseMs = 60_000

const columns = `l.id, s.name, l.peer, l.received_at, l.used, l.last_sent_at, l.held_at, l.held_until, l.holds,
  l.not_before, l.failures FROM outbox_lane l JOIN session s ON s.key = l.session`

export class Lanes extends EnginePart {
  /** Every lane in which a queued send waits. */
  lanes(): Lane[] {
    return this.db
      .all(`SELECT ${columns} WHERE l.id IN
           (SELECT lane FROM outbox_part WHERE status = 'queued' AND message IS NOT NULL) ORDER BY l.id`)
      .map(laneOf)
  }

  /** The lane of that user, made when there is none. Inside a transaction. */
  of(session: number, user: string): Lane {
    const found = this.find(session, user)
    if (found) return found
    this.db.run`INSERT INTO outbox_lane (session, peer) VALUES (${session}, ${user})`
    return this.find(session, user)!
  }

  find(session: number, user: string): Lane | undefined {
    const row = this.db.get(`SELECT ${columns} WHERE l.session = ? AND l.peer = ?`, session, user)
    return row && laneOf(row)
  }

  lane(id: number): Lane | undefined {
    const row = this.db.get(`SELECT ${columns} WHERE l.id = ?`, id)
    return row && laneOf(row)
  }

  /** What is counted of the users of a session, or of one of them. */
  counters(session: string, user?: string): Map<string, Counter> {
    const key = this.messages.knownKey(session)
    if (key === undefined) return new Map()
    const one = user === undefined ? '' : ' AND peer = ?'
    return new Map(
      this.db
        .all(
          `SELECT peer, received_at, used, last_sent_at FROM outbox_lane WHERE session = ?${one}`,
          key,
          ...(user === undefined ? [] : [user]),
        )
        .map(row => [String(row.peer), counterOf(row)]),
    )
  }

  count(id: number, { received_at, used, last_sent_at }: Counter): void {
    this.db.run`UPDATE outbox_lane SET received_at = ${received_at ?? null}, used = ${used},
      last_sent_at = ${last_sent_at ?? null} WHERE id = ${id}`
  }

  /** Takes a lane, or keeps it. @returns false while another process has it */
  claim(lane: number): boolean {
    const row = this.db.get`SELECT owner, lease_until FROM outbox_lane WHERE id = ${lane}`
    if (!row) return false
    const now = this.clock.now()
    const owner = row.owner === null ? undefined : String(row.owner)
    if (!this.owner.mayTake(owner, Number(row.lease_until) - now, laneLeaseMs)) return false
    this.db.run`UPDATE outbox_lane SET owner = ${this.owner.name}, lease_until = ${now + laneLeaseMs}
      WHERE id = ${lane}`
    return true
  }

  release(lane: number): void {
    this.db.run`UPDATE outbox_lane SET owner = NULL, lease_until = 0 WHERE id = ${lane}
      AND owner = ${this.owner.name}`
  }

  /** Nothing goes before the hold is over, or the user writes; undefined ends it. */
  hold(lane: number, hold: Hold | undefined): void {
    this.db.run`UPDATE outbox_lane SET held_at = ${hold?.since ?? null},
      held_until = ${hold?.until ?? null}, holds = ${hold?.count ?? 0} WHERE id = ${lane}`
  }

  /** What waits is not tried before `notBefore` (Unix ms). */
  later(lane: number, notBefore: number, failures: number): void {
    this.db.run`UPDATE outbox_lane SET not_before = ${notBefore}, failures = ${failures} WHERE id = ${lane}`
  }
}

function laneOf(row: Row): Lane {
  return {
    id: Number(row.id),
    session: String(row.name),
    user: String(row.peer),
    counter: counterOf(row),
    ...(row.held_until !== null && {
      hold: { since: Number(row.held_at), until: Number(row.held_until), count: Number(row.holds) },
    }),
    not_before: Number(row.not_before),
    failures: Number(row.failures),
  }
}

const counterOf = (row: Row): Counter => ({
  ...(row.received_at !== null && { received_at: Number(row.received_at) }),
  used: Number(row.used),
  ...(row.last_sent_at !== null && { last_sent_at: Number(row.last_sent_at) }),
})
