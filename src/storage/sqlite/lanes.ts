/**
 * The lanes: state of sending to each user of a session, shared by all processes of this directory. The row of
 * a lane has the counter of used answers, a hold after refusals, and the process that sends what waits there.
 * Only one process at a time has a lane, by a lease that ends when it dies.
 */
import type { SendRules, Verdict } from '../../model/admission.ts'
import { type Counter, currentCounterOf, newestContext, type UserContext } from '../../model/session.ts'
import type { HoldBack, LaneFilter, NewEntry, OutboxLane, WaitingLane } from '../outbox.ts'
import { laneLeaseMs } from '../outbox-limits.ts'
import { isLeaseOver } from '../routine.ts'
import { type AheadFacts, checkAdmission, judgeWaiting, shownLaneOf } from '../rules/admission.ts'
import type { LaneFacts, SlotFacts } from '../rules/outbox-plan.ts'
import { counterOf, holdOf, type LaneColumns, laneColumns, unusedLane } from '../rules/outbox-rows.ts'
import { mapContextToken } from '../sealed-places.ts'
import { contextOfRow, type HeardRow } from './context-archive.ts'
import { LinkedPart } from './engine-part.ts'
import { rejectErased } from './erased-users.ts'

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

/** Columns of a `SqliteLaneRow`, of the tables `l` and `s`. */
export const laneRowColumns = `${laneColumns}, s.name AS session_name, l.context, l.token_at`

const selectByUser = `SELECT s.key AS session_key, ${laneRowColumns} FROM session s
  LEFT JOIN outbox_lane l ON l.session = s.key AND l.peer = ?
  WHERE s.name = ? ORDER BY s.named DESC, s.key DESC LIMIT 1`
const selectById = `SELECT ${laneRowColumns} FROM outbox_lane l JOIN session s ON s.key = l.session WHERE l.id = ?`

/** `known`: what the file has of the user, if it was just read. */
export type SqliteLaneRow = LaneColumns & HeardRow & Pick<NewEntry, 'known'> & { session_key?: number }

/** A lane that decisions change. */
export interface SqliteLane extends LaneFacts {
  /** Key for new rows of the session, by which its slots are stored. */
  readonly sessionKey: number
}

/** Contexts in the contexts.json of a session, by user. */
export type FileContexts = (session: string) => ReadonlyMap<string, UserContext>

export class SqliteOutboxLanes extends LinkedPart<{ fileContexts: FileContexts }> {
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
    const rows = this.db.all<SqliteLaneRow & { slot?: number }>(
      `SELECT (SELECT slot ${waits} AND lane = l.id ORDER BY id LIMIT 1) AS slot, ${laneRowColumns}
       FROM outbox_lane l JOIN session s ON s.key = l.session
       WHERE ${condition} ORDER BY (SELECT min(id) ${waits} AND lane = l.id)`,
      ...(some
        ? [JSON.stringify({ ...some, keys: some.of && this.messages.listSessionKeys(some.of.session) })]
        : []),
    )
    const found = rows.map(row => {
      const lane = this.laneOf(row)
      return { lane, slot: row.slot, slots: this.slotsOf(lane, rules) }
    })
    return { lanes: judgeWaiting(found, rules, this.clock.now()), revision }
  }

  /** Whether a message to that user may be sent now. Takes and writes nothing. */
  checkAdmission(session: string, user: string, count: number, rules: SendRules): Verdict {
    const row = this.#find(session, user)
    const lane = this.laneOf(row?.lane_id === undefined ? unusedOf(session, user, row) : row)
    const slots = row ? this.slotsOf(lane, rules) : noSlots()
    return checkAdmission(
      lane,
      { slots, ahead: this.listAhead(lane.id), now: this.clock.now() },
      count,
      rules,
    )
  }

  /** Returns the lane of a new entry; creates it if there is none. Call it inside a transaction. */
  of({ known, session, user }: Pick<NewEntry, 'known' | 'session' | 'user'>): SqliteLane {
    const found = this.#find(session, user)
    if (found?.lane_id !== undefined) return this.laneOf({ ...found, known })
    rejectErased(this.db, user)
    const key = found?.session_key ?? this.messages.ensureKey(session)
    this.db.run`INSERT INTO outbox_lane (session, peer) VALUES (${key}, ${user})`
    return this.laneOf({ ...this.#find(session, user)!, known })
  }

  /** @returns a row without a lane if there is only the session */
  #find(session: string, user: string): SqliteLaneRow | undefined {
    return this.db.get<SqliteLaneRow>(selectByUser, user, session)
  }

  /** @param isStored the counter as it is in the row: after a message has begun, it is the current one */
  load(id: number, isStored = false): SqliteLane | undefined {
    const row = this.db.get<SqliteLaneRow>(selectById, id)
    return row && this.laneOf(row, isStored)
  }

  /** Returns the current counters of all users that a session knows, or of one user; by user. */
  getCounters(session: string, user?: string): Map<string, Counter> {
    const of = (peer: string): Counter => {
      const row = this.#find(session, peer)
      return this.laneOf(row?.lane_id === undefined ? unusedOf(session, peer, row) : row).counter
    }
    if (user !== undefined) return new Map([[user, of(user)]])
    const key = this.messages.findKey(session)
    const rows =
      key === undefined
        ? []
        : this.db.all<SqliteLaneRow>(
            `SELECT ${laneRowColumns} FROM outbox_lane l JOIN session s ON s.key = l.session WHERE l.session = ?`,
            key,
          )
    const found = new Map(rows.map(row => [row.peer, this.laneOf(row).counter]))
    for (const peer of this.ports.fileContexts(session).keys())
      if (!found.has(peer)) found.set(peer, of(peer))
    return found
  }

  /** Same as `OutboxLanes.claim`, without the parts. */
  claim(id: number): OutboxLane | undefined {
    const lane = this.load(id)
    if (!lane || lane.isTaken) return undefined
    this.db
      .run`UPDATE outbox_lane SET owner = ${this.owner.name}, lease_until = ${this.clock.now() + laneLeaseMs}
      WHERE id = ${id}`
    return { ...shownLaneOf(lane), busy: true }
  }

  release(lane: number): void {
    this.db.run`UPDATE outbox_lane SET owner = NULL, lease_until = 0 WHERE id = ${lane}
      AND owner = ${this.owner.name}`
  }

  /** Counts refusals of waiting parts before they began, or delays their tries. */
  holdBack(lane: number, { refused = [], hold, pause }: HoldBack): void {
    for (const id of refused) this.db.run`UPDATE outbox_part SET tries = tries + 1 WHERE id = ${id}`
    if (hold)
      this.db
        .run`UPDATE outbox_lane SET held_at = ${hold.since}, held_until = ${hold.until}, holds = ${hold.count}
        WHERE id = ${lane}`
    if (pause)
      this.db.run`UPDATE outbox_lane SET not_before = ${pause.not_before}, failures = ${pause.failures}
        WHERE id = ${lane}`
  }

  /** Returns the slots that count for a message to a lane's user now. @param given how many may be given back first */
  slotsOf({ sessionKey, user }: SqliteLane, { pace, patienceMs }: SendRules, given = 0): SlotFacts {
    if (pace === 'off') return noSlots()
    const now = this.clock.now()
    // A slot later than anyone would wait was taken by a clock that was set back since.
    const latest = now + patienceMs
    const session = this.db.all<{ at: number }>`SELECT at FROM turn WHERE session = ${sessionKey}
      AND at <= ${latest} ORDER BY at DESC LIMIT 0 + ${1 + given}`
    // SQLite recompiles a statement for each LIMIT value that it can see.
    const own = Number.isFinite(pace.perWindow)
      ? this.db.all<{ at: number }>`SELECT at FROM turn WHERE session = ${sessionKey} AND peer = ${user}
        AND at > ${now - pace.windowMs} AND at <= ${latest} ORDER BY at DESC LIMIT 0 + ${pace.perWindow + given}`
      : []
    return { session: session.map(({ at }) => at), user: own.map(({ at }) => at) }
  }

  /**
   * Returns the messages of mode `fail` that wait to be sent. Those of dead processes do not count, because
   * they are never sent.
   */
  listAhead(lane: number): AheadFacts {
    return this.db.all<{
      owner: string
      slot?: number
    }>`SELECT o.owner, p.slot FROM outbox_part p JOIN outbox o ON o.id = p.entry
      WHERE p.lane = ${lane} AND p.status = 'queued' AND p.message IS NULL`
      .filter(({ owner }) => !this.owner.isDead(owner))
      .map(({ slot }) => slot === undefined)
  }

  /** @param isStored the counter as it is in the row */
  laneOf(row: SqliteLaneRow, isStored = false): SqliteLane {
    const { messages, sealer } = this
    const { lane_id: id, session_name: session, peer: user, lane_owner: owner } = row
    let key = row.session_key
    const { failures, lease_until, not_before } = row
    const now = this.clock.now()
    const context = isStored
      ? undefined
      : newestContext(row.known ?? this.ports.fileContexts(session).get(user), contextOfRow(row), now)
    const isOther = owner !== undefined && owner !== this.owner.name
    const isTaken = isOther && !isLeaseOver(lease_until - now, laneLeaseMs) && !this.owner.isDead(owner)
    return {
      id,
      session,
      user,
      counter: isStored ? counterOf(row) : currentCounterOf(context ?? { used: 0 }, row, now),
      get token() {
        return context?.token && mapContextToken(context.token, user, sealer.open)
      },
      not_before,
      failures,
      busy: isTaken || owner === this.owner.name,
      hold: holdOf(row),
      owner,
      lease_until,
      isTaken,
      get sessionKey() {
        key ??= messages.ensureKey(session)
        return key
      },
    }
  }
}

export const noSlots = (): SlotFacts => ({ session: [], user: [] })

const unusedOf = (session: string, user: string, row?: SqliteLaneRow): SqliteLaneRow => ({
  ...unusedLane,
  session_name: session,
  peer: user,
  session_key: row?.session_key,
})
