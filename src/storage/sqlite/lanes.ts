/**
 * The lanes: state of sending to each user of a session, shared by all processes of this directory. The row of
 * a lane has the counter of used answers, a hold after refusals, and the process that sends what waits there.
 * Only one process at a time has a lane, by a lease that ends when it dies.
 */
import { admit, type Hold, isFull, noneAhead, type SendFacts, type SendRules } from '../../model/admission.ts'
import { type Counter, currentCounterOf, newestContext, type UserContext } from '../../model/session.ts'
import type { LaneFilter, LanePause, OutboxLane, WaitingLane } from '../outbox.ts'
import { laneLeaseMs } from '../outbox-rules.ts'
import { mapContextToken } from '../sealed-places.ts'
import { contextOfRow, type HeardRow } from './context-archive.ts'
import { EnginePart, type SqliteContext } from './engine-part.ts'
import { rejectErased } from './erased-users.ts'
import type { SqlitePaceSlots } from './pace-slots.ts'

/**
 * SQL for the ids of the lanes of a `LaneFilter`, passed as JSON; `$.keys` are the keys of the session in `of`.
 * A lane that joined a session by a rename has another key of the same name than its messages.
 */
const filteredLanes = `SELECT value FROM json_each(?1, '$.ids')
  UNION SELECT id FROM outbox_lane WHERE session IN (SELECT value FROM json_each(?1, '$.keys'))
    AND peer IN (SELECT value FROM json_each(?1, '$.of.users'))
  UNION SELECT l.id FROM event e CROSS JOIN message m ON m.id = e.message CROSS JOIN session own ON own.key = m.session
    CROSS JOIN session s ON s.name = own.name CROSS JOIN outbox_lane l ON l.session = s.key AND l.peer = m.peer
    WHERE e.place > ?1 ->> '$.since' AND e.status IN ('queued', 'refused')`

/** What follows SELECT for a `LaneRow`: its columns and the tables. */
const laneColumnsAndTables = `l.id, s.name, l.peer, l.received_at, l.used, l.last_sent_at, l.held_at, l.held_until, l.holds,
  l.not_before, l.failures, l.owner, l.lease_until, l.context, l.token, l.token_at FROM outbox_lane l JOIN session s ON s.key = l.session`

/** Contexts in the contexts.json of a session, by user. */
export type FileContexts = (session: string) => ReadonlyMap<string, UserContext>

export class SqliteOutboxLanes extends EnginePart {
  readonly #slots: SqlitePaceSlots
  readonly #fileContexts: FileContexts

  constructor(ground: SqliteContext, slots: SqlitePaceSlots, fileContexts: FileContexts) {
    super(ground)
    this.#slots = slots
    this.#fileContexts = fileContexts
  }

  /**
   * Same as `OutboxLanes.listWaiting`. The events of sent messages show in which lanes messages started to
   * wait.
   */
  listWaiting(rules: SendRules, some?: LaneFilter): { lanes: WaitingLane[]; revision: number } {
    // Read first: what is written while the lanes are read comes after this revision, and is read again.
    const { revision } = this.db.one<{
      revision: number
    }>`SELECT coalesce(max(place), 0) AS revision FROM event`
    const waits = `FROM outbox_part WHERE status = 'queued' AND message IS NOT NULL`
    const condition = some
      ? `l.id IN (${filteredLanes}) AND EXISTS (SELECT 1 ${waits} AND lane = l.id)`
      : `l.id IN (SELECT lane ${waits})`
    const rows = this.db.all<LaneRow & { session: number; slot?: number }>(
      `SELECT (SELECT slot ${waits} AND lane = l.id ORDER BY id LIMIT 1) AS slot, l.session, ${laneColumnsAndTables}
       WHERE ${condition} ORDER BY (SELECT min(id) ${waits} AND lane = l.id)`,
      ...(some
        ? [JSON.stringify({ ...some, keys: some.of && this.messages.listSessionKeys(some.of.session) })]
        : []),
    )
    /** Newest slot of each session, including the slots that this call assigns. */
    const newestSlots = new Map<number, number>()
    const lanes = rows.map((row): WaitingLane => {
      const lane = this.#laneOf(row)
      const { session: key, slot } = row
      const admission = this.judge(lane, 1, rules, { ahead: noneAhead, slot, last: newestSlots.get(key) })
      const { verdict } = admission
      if (verdict.go !== 'no' && verdict.slot !== undefined && slot === undefined && !lane.busy)
        newestSlots.set(key, verdict.slot)
      return { ...lane, ...admission }
    })
    return { lanes, revision }
  }

  /** @param last the newest slot of the session, if the caller knows of one that is not taken yet */
  judge(
    { counter, hold, session, user }: OutboxLane,
    count: number,
    rules: SendRules,
    { ahead, slot, last }: Pick<SendFacts, 'ahead' | 'slot'> & { last?: number | undefined },
  ): Pick<WaitingLane, 'verdict' | 'crowded'> {
    const now = this.clock.now()
    const { received_at: receivedAt, used } = counter
    const taken = this.#slots.listTaken(this.messages.findKey(session), user, rules)
    const slots = { user: taken.user, last: last ?? taken.last }
    const verdict = admit({ now, receivedAt, used, ahead, hold, slots, slot }, count, rules)
    const isLate = verdict.go === 'no' && verdict.why === 'pace'
    return { verdict, crowded: isLate && isFull(slots.last, now, rules) }
  }

  /** Returns the lane of a user; creates it if there is none. Call it inside a transaction. */
  of(session: number, user: string): OutboxLane {
    const found = this.find(session, user)
    if (found) return found
    rejectErased(this.db, user)
    this.db.run`INSERT INTO outbox_lane (session, peer) VALUES (${session}, ${user})`
    return this.find(session, user)!
  }

  find(session: number, user: string): OutboxLane | undefined {
    const row = this.db.get<LaneRow>(
      `SELECT ${laneColumnsAndTables} WHERE l.session = ? AND l.peer = ?`,
      session,
      user,
    )
    return row && this.#laneOf(row)
  }

  /** Returns the lane of a user, or an unused one if there is none. Creates nothing. */
  getLane(session: string, user: string): OutboxLane {
    const key = this.messages.findKey(session)
    const found = key === undefined ? undefined : this.find(key, user)
    return found ?? this.#laneOf({ ...unused, name: session, peer: user })
  }

  lane(id: number): OutboxLane | undefined {
    const row = this.db.get<LaneRow>(`SELECT ${laneColumnsAndTables} WHERE l.id = ?`, id)
    return row && this.#laneOf(row)
  }

  /**
   * Returns session, user, and the counter as stored in the row. After a message has begun, the stored
   * counter is the current one.
   */
  getStored(id: number): Pick<OutboxLane, 'id' | 'session' | 'user' | 'counter'> | undefined {
    const row = this.db.get<LaneRow>(`SELECT ${laneColumnsAndTables} WHERE l.id = ?`, id)
    if (!row) return undefined
    const { name: session, peer: user, received_at, used, last_sent_at } = row
    return { id, session, user, counter: { received_at, used, last_sent_at } }
  }

  /** Returns the current counters of all users that a session knows, or of one user; by user. */
  getCounters(session: string, user?: string): Map<string, Counter> {
    if (user !== undefined) return new Map([[user, this.getLane(session, user).counter]])
    const key = this.messages.findKey(session)
    const rows =
      key === undefined ? [] : this.db.all<LaneRow>(`SELECT ${laneColumnsAndTables} WHERE l.session = ?`, key)
    const found = new Map(rows.map(row => [row.peer, this.#laneOf(row).counter]))
    for (const peer of this.#fileContexts(session).keys())
      if (!found.has(peer)) found.set(peer, this.getLane(session, peer).counter)
    return found
  }

  setCounter(id: number, { received_at, used, last_sent_at }: Counter): void {
    this.db.run`UPDATE outbox_lane SET received_at = ${received_at}, used = ${used},
      last_sent_at = ${last_sent_at} WHERE id = ${id}`
  }

  /** Same as `OutboxLanes.claim`, without the parts. */
  claim(lane: number): boolean {
    const row = this.db.get<Lease>`SELECT owner, lease_until FROM outbox_lane WHERE id = ${lane}`
    if (!row || !this.#mayTake(row)) return false
    const now = this.clock.now()
    this.db.run`UPDATE outbox_lane SET owner = ${this.owner.name}, lease_until = ${now + laneLeaseMs}
      WHERE id = ${lane}`
    return true
  }

  release(lane: number): void {
    this.db.run`UPDATE outbox_lane SET owner = NULL, lease_until = 0 WHERE id = ${lane}
      AND owner = ${this.owner.name}`
  }

  /** Stores a hold: nothing is sent before it ends or the user writes. Undefined removes the hold. */
  hold(lane: number, hold: Hold | undefined): void {
    this.db.run`UPDATE outbox_lane SET held_at = ${hold?.since},
      held_until = ${hold?.until}, holds = ${hold?.count ?? 0} WHERE id = ${lane}`
  }

  /** Stores a pause: waiting parts are not tried before `not_before` (Unix ms). */
  setPause(lane: number, { not_before, failures }: LanePause): void {
    this.db.run`UPDATE outbox_lane SET not_before = ${not_before}, failures = ${failures} WHERE id = ${lane}`
  }

  #mayTake({ owner, lease_until }: Lease): boolean {
    return this.owner.mayTake(owner, lease_until - this.clock.now(), laneLeaseMs)
  }

  #laneOf(row: LaneRow): OutboxLane {
    const { id, name, peer, not_before, failures, owner } = row
    const context = newestContext(this.#fileContexts(name).get(peer), contextOfRow(row), this.clock.now())
    return {
      id,
      session: name,
      user: peer,
      counter: currentCounterOf(context ?? { used: 0 }, row, this.clock.now()),
      token: context?.token && mapContextToken(context.token, peer, this.sealer.open),
      not_before,
      failures,
      busy: owner === this.owner.name || !this.#mayTake(row),
      ...(row.held_until !== undefined && {
        hold: { since: row.held_at ?? 0, until: row.held_until, count: row.holds },
      }),
    }
  }
}

const unused = { id: 0, used: 0, lease_until: 0, holds: 0, not_before: 0, failures: 0 }

/** The process that sends what waits in a lane, and until when (Unix ms). */
interface Lease {
  owner?: string
  lease_until: number
}

interface LaneRow extends Counter, HeardRow, Pick<OutboxLane, 'id' | 'not_before' | 'failures'>, Lease {
  name: string
  peer: string
  held_at?: number
  held_until?: number
  holds: number
}
