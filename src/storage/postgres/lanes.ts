/**
 * The lanes: state of sending to each user of a session. The row of a lane has the counter of used answers, a hold
 * after refusals, and the process that sends what waits there.
 *
 * A lane's row stands for everything of its user: each write to an entry or part of a lane updates that row. So who has
 * read a lane can tell by its version (`xmin`) whether anything of it has changed since. The row of a session stands for
 * the slots of its pace in the same way.
 */
import { admit, type Hold, isFull, type SendFacts, type SendRules } from '../../model/admission.ts'
import type { Counter } from '../../model/session.ts'
import {
  constantSql,
  noSql,
  prepared,
  rowsAsJson,
  rowsOfJson,
  type Sql,
  sql,
} from '../../platform/postgres.ts'
import type { ClaimedLane, LaneFilter, OutboxLane, WaitingLane } from '../outbox.ts'
import { laneLeaseMs, lookahead } from '../outbox-rules.ts'
import { mapContextToken } from '../sealed-places.ts'
import type { Attempt } from './database.ts'
import { type LaneRow, type PartRow, partColumns, partOf } from './entry-rows.ts'
import { keyOfName, keysOfName, PgPart } from './part.ts'
import { placeHorizon } from './tables.ts'

/** What admission looks at, besides the lane. */
export interface SlotRow {
  /** The newest slots of the session and of the user, newest first. */
  session_slots: number[]
  user_slots: number[]
}

/** For each message of mode `fail` that waits to be sent, whether it has no slot. */
export type AheadRow = { ahead: boolean[] }

/** What follows `outbox_lane l`: its session under its current name. */
export const joinSession: Sql = constantSql(`LEFT JOIN session own ON own.key = l.session
  LEFT JOIN LATERAL (SELECT key, name, xmin::text AS version FROM session WHERE name_key = own.name_key
    ORDER BY named DESC, key DESC LIMIT 1) s ON true`)

/** A user without a lane. */
const unused = { lane_id: 0, lane_version: '', used: 0, holds: 0, not_before: 0, failures: 0, lease_until: 0 }

export class PgLanes extends PgPart {
  /** Columns of a `LaneRow`, of the tables `l` and `s`. */
  get columns(): Sql {
    return sql`l.id AS lane_id, l.xmin::text AS lane_version, s.key AS session_key, s.version AS session_version,
      s.name AS session_name, l.peer, l.token, l.received_at, l.used, l.last_sent_at, l.held_at, l.held_until, l.holds,
      l.not_before, l.failures, l.owner AS lane_owner, l.lease_until,
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
  async lock(queries: Attempt, condition: Sql): Promise<void> {
    if (queries.lock === noSql) return
    await queries.run(sql`SELECT key FROM session WHERE name_key IN (SELECT own.name_key FROM outbox_lane l
      JOIN session own ON own.key = l.session WHERE ${condition}) ORDER BY key${queries.lock}`)
    await queries.run(sql`SELECT id FROM outbox_lane l WHERE ${condition} ORDER BY id${queries.lock}`)
  }

  /** What admission says now. @param last the newest slot of the session, if the caller knows of one that is not taken yet */
  judge(
    { received_at: receivedAt, used, ...lane }: LaneRow,
    slots: SlotRow,
    count: number,
    rules: SendRules,
    { ahead, slot, last }: Pick<SendFacts, 'ahead' | 'slot'> & { last?: number | undefined },
  ): Pick<WaitingLane, 'verdict' | 'crowded'> {
    const now = this.clock.now()
    const perWindow = rules.pace === 'off' ? 0 : rules.pace.perWindow
    const taken = {
      user: slots.user_slots.slice(0, perWindow).reverse(),
      last: last ?? slots.session_slots[0],
    }
    const verdict = admit(
      { now, receivedAt, used, ahead, hold: holdOf(lane), slots: taken, slot },
      count,
      rules,
    )
    const isLate = verdict.go === 'no' && verdict.why === 'pace'
    return { verdict, crowded: isLate && isFull(taken.last, now, rules) }
  }

  laneOf(row: LaneRow): OutboxLane {
    const hold = holdOf(row)
    return {
      id: row.lane_id,
      session: row.session_name,
      user: row.peer,
      counter: counterOf(row),
      token: row.token === undefined ? undefined : mapContextToken(row.token, row.peer, this.sealer.open),
      not_before: row.not_before,
      failures: row.failures,
      busy: row.lane_owner === this.owner || !this.mayTake(row),
      ...(hold && { hold }),
    }
  }

  mayTake({ lane_owner, lease_until, is_owned }: LaneRow): boolean {
    const left = lease_until - this.clock.now()
    // Far more than a whole lease is left if the clock was set back.
    return lane_owner === undefined || !is_owned || left <= 0 || left > 2 * laneLeaseMs
  }

  async checkAdmission(session: string, user: string, count: number, rules: SendRules) {
    const found = await this.db.get<LaneRow & SlotRow & AheadRow>(
      sql`SELECT ${this.columns}, ${this.slotColumns(rules, 0, sql`${user}`)}, ${this.aheadColumn}
        FROM ${this.tablesOf(session, user)}`,
    )
    const slots = found ?? { session_slots: [], user_slots: [] }
    const row = found?.lane_id === undefined ? unusedLane(session, user) : found
    return this.judge(row, slots, count, rules, { ahead: aheadOf(found) }).verdict
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
    /** Newest slot of each session, including the slots that this call assigns. */
    const newest = new Map<number, number>()
    const lanes = rows.map((row): WaitingLane => {
      const { session_key: key, slot } = row
      const ahead = { messages: 0, unslotted: 0 }
      const admission = this.judge(row, row, 1, rules, { ahead, slot, last: newest.get(key) })
      const lane = this.laneOf(row)
      const { verdict } = admission
      if (verdict.go !== 'no' && verdict.slot !== undefined && slot === undefined && !lane.busy)
        newest.set(key, verdict.slot)
      return { ...lane, ...admission }
    })
    return { lanes, revision: found.revision }
  }

  async claim(id: number): Promise<ClaimedLane | undefined> {
    const now = this.clock.now()
    const rows = await this.db.all<LaneRow & PartRow>(sql`WITH l AS (UPDATE outbox_lane
        SET owner = ${this.owner}, lease_until = ${now + laneLeaseMs} WHERE id = ${id}
        AND (owner IS NULL OR owner = ${this.owner} OR lease_until <= ${now}
          OR lease_until > ${now + 2 * laneLeaseMs} OR NOT lives(owner))
        RETURNING id, session, peer, token, received_at, used, last_sent_at, held_at, held_until, holds, not_before,
          failures, owner, lease_until)
      SELECT l.id AS lane_id, s.name AS session_name, l.peer, l.token, l.received_at, l.used, l.last_sent_at, l.held_at,
        l.held_until, l.holds, l.not_before, l.failures, l.owner AS lane_owner, l.lease_until, ${partColumns}
      FROM l JOIN session s ON s.key = l.session LEFT JOIN LATERAL (SELECT * FROM outbox_part WHERE lane = l.id
        AND status = 'queued' AND message IS NOT NULL ORDER BY id LIMIT ${lookahead}) p ON true ORDER BY p.id`)
    const [first] = rows
    return first && { ...this.laneOf(first), parts: rows.filter(hasPart).map(partOf) }
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

export const counterOf = ({ received_at, used, last_sent_at }: Counter): Counter => ({
  received_at,
  used,
  last_sent_at,
})

const holdOf = ({ held_at, held_until, holds }: Omit<LaneRow, keyof Counter>): Hold | undefined =>
  held_until === undefined ? undefined : { since: held_at ?? 0, until: held_until, count: holds }

export function aheadOf(row: AheadRow | undefined): SendFacts['ahead'] {
  const { ahead = [] } = row ?? {}
  return { messages: ahead.length, unslotted: ahead.filter(Boolean).length }
}

const unusedLane = (session: string, user: string): LaneRow => ({
  ...unused,
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
