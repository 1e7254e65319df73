/**
 * Lanes: what is known of sending to one user of one session. A row holds the counter of used answers, a hold after
 * refusals, and who sends what waits there: one process at a time, by a lease that lapses when it dies.
 */
import type { Hold } from '../../model/admission.ts'
import type { Counter } from '../../model/session.ts'
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
      .all<LaneRow>(`SELECT ${columns} WHERE l.id IN
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
    const row = this.db.get<LaneRow>(`SELECT ${columns} WHERE l.session = ? AND l.peer = ?`, session, user)
    return row && laneOf(row)
  }

  lane(id: number): Lane | undefined {
    const row = this.db.get<LaneRow>(`SELECT ${columns} WHERE l.id = ?`, id)
    return row && laneOf(row)
  }

  /** What is counted of the users of a session, or of one of them. */
  counters(session: string, user?: string): Map<string, Counter> {
    const key = this.messages.knownKey(session)
    if (key === undefined) return new Map()
    const one = user === undefined ? '' : ' AND peer = ?'
    const rows = this.db.all<Counter & { peer: string }>(
      `SELECT peer, received_at, used, last_sent_at FROM outbox_lane WHERE session = ?${one}`,
      ...(user === undefined ? [key] : [key, user]),
    )
    return new Map(rows.map(({ peer, ...counter }) => [peer, counter]))
  }

  count(id: number, { received_at, used, last_sent_at }: Counter): void {
    this.db.run`UPDATE outbox_lane SET received_at = ${received_at}, used = ${used},
      last_sent_at = ${last_sent_at} WHERE id = ${id}`
  }

  /** Takes a lane, or keeps it. @returns false while another process has it */
  claim(lane: number): boolean {
    const row = this.db.get<{ owner?: string; lease_until: number }>`SELECT owner, lease_until
      FROM outbox_lane WHERE id = ${lane}`
    if (!row) return false
    const now = this.clock.now()
    if (!this.owner.mayTake(row.owner, row.lease_until - now, laneLeaseMs)) return false
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
    this.db.run`UPDATE outbox_lane SET held_at = ${hold?.since},
      held_until = ${hold?.until}, holds = ${hold?.count ?? 0} WHERE id = ${lane}`
  }

  /** What waits is not tried before `notBefore` (Unix ms). */
  later(lane: number, notBefore: number, failures: number): void {
    this.db.run`UPDATE outbox_lane SET not_before = ${notBefore}, failures = ${failures} WHERE id = ${lane}`
  }
}

interface LaneRow extends Counter, Pick<Lane, 'id' | 'not_before' | 'failures'> {
  name: string
  peer: string
  held_at?: number
  held_until?: number
  holds: number
}

function laneOf(row: LaneRow): Lane {
  const { id, name, peer, received_at, used, last_sent_at, not_before, failures } = row
  return {
    ...{ id, session: name, user: peer, counter: { received_at, used, last_sent_at }, not_before, failures },
    ...(row.held_until !== undefined && {
      hold: { since: row.held_at ?? 0, until: row.held_until, count: row.holds },
    }),
  }
}
