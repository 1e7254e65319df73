/**
 * Lanes of the outbox: what waits for one user of one session, in order. One process at a time works on a lane; it holds
 * the lane by a lease that lapses when the process dies.
 */
import type { Clock } from '../platform/clock.ts'
import type { Database } from '../platform/sqlite.ts'
import type { Messages } from './messages.ts'
import type { Owner } from './owner.ts'

/** What waits for one user of one session. */
export interface Lane {
  id: number
  session: string
  user: string
  /** When the user had last written as upstream refused: nothing goes before they write later than that. */
  held_at?: number
  /** Unix ms. */
  not_before: number
  failures: number
}

/** A lane is nobody's when its owner has not been heard of for this long; sooner when it is known to be dead. */
export const laneLeaseMs = 60_000

export class Lanes {
  readonly #db: Database
  readonly #messages: Messages
  readonly #clock: Clock
  readonly #owner: Owner

  constructor(db: Database, messages: Messages, clock: Clock, owner: Owner) {
    this.#db = db
    this.#messages = messages
    this.#clock = clock
    this.#owner = owner
  }

  /** Whether anything waits for that user, or is being sent to them out of here. */
  waits(session: string, user: string): boolean {
    return this.#messages
      .sessionKeys(session)
      .some(
        key =>
          this.#db
            .prepare('SELECT 1 AS found FROM outbox_lane WHERE session = ? AND peer = ?')
            .get(key, user) !== undefined,
      )
  }

  /** Every lane with something in it. */
  list(): Lane[] {
    return this.#db
      .prepare(
        `SELECT l.id, s.name, l.peer, l.held_at, l.not_before, l.failures
         FROM outbox_lane l JOIN session s ON s.key = l.session ORDER BY l.id`,
      )
      .all()
      .map(row => ({
        id: Number(row.id),
        session: String(row.name),
        user: String(row.peer),
        ...(row.held_at !== null && { held_at: Number(row.held_at) }),
        not_before: Number(row.not_before),
        failures: Number(row.failures),
      }))
  }

  /** Takes a lane, or keeps it. @returns false while another process has it */
  claim(lane: number): boolean {
    return this.#db.transaction(() => {
      const row = this.#db.prepare('SELECT owner, lease_until FROM outbox_lane WHERE id = ?').get(lane)
      if (!row) return false
      const now = this.#clock.now()
      const leftMs = Number(row.lease_until) - now
      const free =
        row.owner === null ||
        row.owner === this.#owner.name ||
        leftMs <= 0 ||
        // Far more than a whole lease is left when the clock was set back.
        leftMs > 2 * laneLeaseMs ||
        this.#owner.isDead(String(row.owner))
      if (!free) return false
      this.#db
        .prepare('UPDATE outbox_lane SET owner = ?, lease_until = ? WHERE id = ?')
        .run(this.#owner.name, now + laneLeaseMs, lane)
      return true
    })
  }

  release(lane: number): void {
    this.#db
      .prepare('UPDATE outbox_lane SET owner = NULL, lease_until = 0 WHERE id = ? AND owner = ?')
      .run(lane, this.#owner.name)
  }

  /** Nothing of the lane goes out for now; without arguments it may again. */
  hold(lane: number, until: { heldAt?: number; notBefore?: number; failures?: number } = {}): void {
    this.#db
      .prepare('UPDATE outbox_lane SET held_at = ?, not_before = ?, failures = ? WHERE id = ?')
      .run(until.heldAt ?? null, until.notBefore ?? 0, until.failures ?? 0, lane)
  }

  /** The lane of that user, made when there is none. Inside a transaction. */
  of(session: number, user: string): number {
    const found = this.#db
      .prepare('SELECT id FROM outbox_lane WHERE session = ? AND peer = ?')
      .get(session, user)
    if (found) return Number(found.id)
    return this.#db.prepare('INSERT INTO outbox_lane (session, peer) VALUES (?, ?)').run(session, user)
      .lastInsertRowid
  }

  /** The session's key of a lane that is ours; undefined for any other. */
  sessionOfOwn(lane: number): number | undefined {
    const row = this.#db.prepare('SELECT session, owner FROM outbox_lane WHERE id = ?').get(lane)
    return row?.owner === this.#owner.name ? Number(row.session) : undefined
  }

  /** A lane in which nothing waits goes. */
  closeIfEmpty(lane: number): void {
    this.#db
      .prepare('DELETE FROM outbox_lane WHERE id = ? AND NOT EXISTS (SELECT 1 FROM outbox WHERE lane = ?)')
      .run(lane, lane)
  }
}
