/**
 * The lanes: state of sending to each user of a session. The row of a lane has the counter of used answers, a hold
 * after refusals, and the process that sends what waits there.
 *
 * A lane's row stands for everything of its user: each write to an entry or part of a lane updates that row. So who has
 * read a lane can tell by its version (`xmin`) whether anything of it has changed since. The row of a session stands for
 * the slots of its pace in the same way.
 */
import type { SendRules } from '../../model/admission.ts'
import type { Counter } from '../../model/session.ts'
import type { PgQueries } from '../../platform/postgres.ts'
import { rowsAsJson, rowsOfJson } from '../../platform/postgres-values.ts'
import { constantSql, noSql, prepared, type Sql, sql } from '../../platform/sql.ts'
import type { ClaimedLane, LaneFilter, WaitingLane } from '../outbox.ts'
import { laneLeaseMs, lookahead } from '../outbox-limits.ts'
import { isLeaseOver, type Routine } from '../routine.ts'
import { type AheadFacts, checkAdmission, judgeWaiting, shownLaneOf } from '../rules/admission.ts'
import type { LaneFacts, SlotFacts } from '../rules/outbox-plan.ts'
import {
  counterOf,
  holdOf,
  type LaneColumns,
  laneColumns,
  type PartRow,
  partColumns,
  partOf,
  unusedLane,
} from '../rules/outbox-rows.ts'
import { mapContextToken } from '../sealed-places.ts'
import type { Attempt } from './database.ts'
import { drive } from './drive.ts'
import { PgPart } from './part.ts'
import { keyOfName, keysOfName } from './session-keys.ts'
import { placeHorizon } from './tables.ts'

/** What a statement reads of a lane. The columns of parts and entries can stand beside these. */
export interface LaneRow extends LaneColumns {
  lane_version: string
  /** Key for new rows of the session, by which its slots are stored; and the version of that row. */
  session_key: number
  session_version: string
  /** Another process has the lane, and runs. */
  is_owned: boolean
}

/** A lane that decisions change, with what tells whether it has changed in the database since. */
export interface PgLane extends LaneFacts {
  readonly version: string
  readonly sessionKey: number
  readonly sessionVersion: string
}

/** What admission looks at, besides the lane: `SlotFacts`, and `AheadFacts`. */
export interface SlotRow {
  session_slots: number[]
  user_slots: number[]
}
export type AheadRow = { ahead: AheadFacts }

export const slotsOf = ({ session_slots: session, user_slots: user }: SlotRow): SlotFacts => ({
  session,
  user,
})

/** What follows `outbox_lane l`: its session under its current name. */
export const joinSession: Sql = constantSql(`LEFT JOIN session own ON own.key = l.session
  LEFT JOIN LATERAL (SELECT key, name, xmin::text AS version FROM session WHERE name_key = own.name_key
    ORDER BY named DESC, key DESC LIMIT 1) s ON true`)

export class PgLanes extends PgPart {
  /** Columns of a `LaneRow`, of the tables `l` and `s`. */
  get columns(): Sql {
    return sql`${constantSql(laneColumns)}, l.xmin::text AS lane_version, s.key AS session_key,
      s.version AS session_version, s.name AS session_name,
      (l.owner IS NOT NULL AND l.owner <> ${this.owner} AND lives(l.owner)) AS is_owned`
  }

  /** Columns of a `SlotRow`. @param given number of slots that may be given back before admission is checked */
  slotColumns({ pace, patienceMs }: SendRules, given = 0, peer: Sql = sql`l.peer`): Sql {
    if (pace === 'off') return sql`'{}'::float8[] AS session_slots, '{}'::float8[] AS user_slots`
    const now = this.clock.now()
    // A slot later than anyone would wait was taken by a clock that was set back since.
    const latest = now + patienceMs
    const isLimited = Number.isFinite(pace.perWindow)
    return sql`ARRAY(SELECT at FROM turn WHERE session = s.key AND at <= ${latest}
        ORDER BY at DESC LIMIT ${1 + given}) AS session_slots,
      ARRAY(SELECT at FROM turn WHERE session = s.key AND peer = ${peer} AND at > ${now - pace.windowMs}
        AND at <= ${latest} ORDER BY at DESC LIMIT ${isLimited ? pace.perWindow + given : 0}) AS user_slots`
  }

  /** Column of an `AheadRow`. Messages of dead processes do not count, because they are never sent. */
  get aheadColumn(): Sql {
    return sql`ARRAY(SELECT p.slot IS NULL FROM outbox_part p JOIN outbox o ON o.id = p.entry
      WHERE p.lane = l.id AND p.status = 'queued' AND p.message IS NULL
      AND (o.owner IS NULL OR o.owner = ${this.owner} OR lives(o.owner))) AS ahead`
  }

  /** Tables `l` and `s` for a user of a session; without a row if the session has no key. */
  tablesOf(session: string, user: string): Sql {
    return sql`(SELECT key, name, xmin::text AS version FROM session WHERE key = ${keyOfName(session)}) s
      LEFT JOIN outbox_lane l ON l.session = s.key AND l.peer = ${user}`
  }

  /** After lost attempts: locks a lane, and its session. @param condition of the lane `l` */
  lock(queries: Attempt, condition: Sql): Promise<void> {
    return drive(queries, this.hold(condition))
  }

  *hold(condition: Sql): Routine<void> {
    yield {
      hold: sql`SELECT key FROM session WHERE name_key IN (SELECT own.name_key FROM outbox_lane l
        JOIN session own ON own.key = l.session WHERE ${condition}) ORDER BY key`,
    }
    yield { hold: sql`SELECT id FROM outbox_lane l WHERE ${condition} ORDER BY id` }
  }

  laneOf(row: LaneRow): PgLane {
    const { sealer } = this
    const { lane_id: id, peer: user, token, lane_owner: owner, lease_until, not_before, failures } = row
    const isTaken = row.is_owned && !isLeaseOver(lease_until - this.clock.now(), laneLeaseMs)
    return {
      id,
      session: row.session_name,
      user,
      counter: counterOf(row),
      get token() {
        return token === undefined ? undefined : mapContextToken(token, user, sealer.open)
      },
      not_before,
      failures,
      busy: isTaken || owner === this.owner,
      hold: holdOf(row),
      owner,
      lease_until,
      isTaken,
      version: row.lane_version,
      sessionKey: row.session_key,
      sessionVersion: row.session_version,
    }
  }

  /** What admission looks at for a lane that was read. */
  async readForAdmission(queries: PgQueries, { id }: PgLane, rules: SendRules) {
    const row = await queries.one<
      SlotRow & AheadRow
    >(sql`SELECT ${this.slotColumns(rules)}, ${this.aheadColumn}
      FROM outbox_lane l ${joinSession} WHERE l.id = ${id}`)
    return { slots: slotsOf(row), ahead: row.ahead }
  }

  async checkAdmission(session: string, user: string, count: number, rules: SendRules) {
    const found = await this.db.get<LaneRow & SlotRow & AheadRow>(
      sql`SELECT ${this.columns}, ${this.slotColumns(rules, 0, sql`${user}`)}, ${this.aheadColumn}
        FROM ${this.tablesOf(session, user)}`,
    )
    const { ahead = [] } = found ?? {}
    const slots = found ? slotsOf(found) : { session: [], user: [] }
    const row = found?.lane_id === undefined ? unusedOf(session, user) : found
    return checkAdmission(this.laneOf(row), { slots, ahead, now: this.clock.now() }, count, rules)
  }

  /**
   * Same as `OutboxLanes.listWaiting`. The events of sent messages show in which lanes messages started to wait.
   */
  async listWaiting(
    rules: SendRules,
    some?: LaneFilter,
  ): Promise<{ lanes: WaitingLane[]; revision: number }> {
    const lanesWithFirst = sql`WITH wanted AS (${wantedLanes(some)})
      SELECT ${this.columns}, ${this.slotColumns(rules)}, first.slot
      FROM wanted JOIN outbox_lane l ON l.id = wanted.id ${joinSession}
      JOIN LATERAL (SELECT id, slot FROM outbox_part WHERE lane = l.id AND status = 'queued' AND message IS NOT NULL
        ORDER BY id LIMIT 1) first ON true ORDER BY first.id`
    // One statement: what is written while the lanes are read comes after this revision, and is read again.
    const found = await this.db.one<{ revision: number; lanes: unknown }>(
      prepared(sql`SELECT ${placeHorizon} AS revision, ${rowsAsJson(lanesWithFirst)} AS lanes`),
    )
    const rows = rowsOfJson<LaneRow & SlotRow & { slot?: number }>(found.lanes)
    const waiting = rows.map(row => ({ lane: this.laneOf(row), slot: row.slot, slots: slotsOf(row) }))
    return { lanes: judgeWaiting(waiting, rules, this.clock.now()), revision: found.revision }
  }

  async claim(id: number): Promise<ClaimedLane | undefined> {
    const now = this.clock.now()
    const rows = await this.db.all<LaneRow & PartRow>(sql`WITH l AS (UPDATE outbox_lane
        SET owner = ${this.owner}, lease_until = ${now + laneLeaseMs} WHERE id = ${id}
        AND (owner IS NULL OR owner = ${this.owner} OR lease_until <= ${now}
          OR lease_until > ${now + 2 * laneLeaseMs} OR NOT lives(owner))
        RETURNING id, session, peer, token, received_at, used, last_sent_at, held_at, held_until, holds, not_before,
          failures, owner, lease_until)
      SELECT ${constantSql(laneColumns)}, s.name AS session_name, ${constantSql(partColumns)}
      FROM l JOIN session s ON s.key = l.session LEFT JOIN LATERAL (SELECT * FROM outbox_part WHERE lane = l.id
        AND status = 'queued' AND message IS NOT NULL ORDER BY id LIMIT ${lookahead}) p ON true ORDER BY p.id`)
    const [first] = rows
    return first && { ...shownLaneOf(this.laneOf(first)), parts: rows.filter(hasPart).map(partOf) }
  }

  async release(lane: number): Promise<void> {
    await this.db.run(sql`UPDATE outbox_lane SET owner = NULL, lease_until = 0
      WHERE id = ${lane} AND owner = ${this.owner}`)
  }

  /** Returns the current counters of all users that a session knows, or of one user; by user. */
  async getCounters(session: string, user?: string): Promise<ReadonlyMap<string, Counter>> {
    const only = user === undefined ? noSql : sql` AND peer = ${user}`
    const rows = await this.db.all<
      Counter & { peer: string }
    >(sql`SELECT peer, received_at, used, last_sent_at
      FROM outbox_lane WHERE session = ${keyOfName(session)}${only}`)
    const found = new Map(rows.map(row => [row.peer, counterOf(row)]))
    if (user !== undefined && !found.has(user)) found.set(user, { used: 0 })
    return found
  }
}

const hasPart = (row: PartRow): boolean => row.id !== undefined

const unusedOf = (session: string, user: string): LaneRow => ({
  ...unusedLane,
  lane_version: '',
  session_key: 0,
  session_version: '',
  session_name: session,
  peer: user,
  is_owned: false,
})

/** Ids of the lanes of a filter, or of all in which something waits. */
function wantedLanes(some: LaneFilter | undefined): Sql {
  if (!some)
    return sql`SELECT DISTINCT lane AS id FROM outbox_part WHERE status = 'queued' AND message IS NOT NULL`
  const { ids = [], of, since } = some
  const ofUsers = of
    ? sql` UNION SELECT id FROM outbox_lane WHERE session = ANY (${keysOfName(of.session)})
        AND peer = ANY (${of.users}::text[])`
    : noSql
  // A lane that joined a session by a rename has another key of the same name than its messages.
  const withNews =
    since === undefined
      ? noSql
      : sql` UNION SELECT l.id FROM event e JOIN message m ON m.id = e.message JOIN session own ON own.key = m.session
          JOIN session s ON s.name_key = own.name_key JOIN outbox_lane l ON l.session = s.key AND l.peer = m.peer
          WHERE e.place > ${since} AND e.status IN ('queued', 'refused')`
  return sql`SELECT unnest(${ids}::bigint[]) AS id${ofUsers}${withNews}`
}
