/** Counts what waits for a consumer on PostgreSQL, and finds the consumers that must get something again. */
import { noSql, prepared, type Sql, sql } from '../../platform/sql.ts'
import type { ReadFilter } from '../messages.ts'
import { type Backlog, startsAtFirst } from '../store.ts'
import { isKept, ofDirection } from './message-rows.ts'
import { inScope, narrowedBy, PgPart } from './part.ts'
import { keysOfName } from './session-keys.ts'
import { horizon } from './tables.ts'

export class PgBacklog
  extends PgPart
  implements Pick<Backlog, 'countWaiting' | 'findConsumersToRedeliver' | 'listRecent'>
{
  async countWaiting(
    from: string | number,
    wanted: Pick<ReadFilter, 'limit' | 'session' | 'scope'>,
  ): Promise<number> {
    const { limit } = wanted
    const [consumer, after] =
      typeof from === 'number'
        ? [undefined, sql`${from}::bigint`]
        : [
            from,
            sql`coalesce((SELECT position FROM consumer WHERE name = ${from}),
            CASE WHEN ${startsAtFirst(from)} THEN 0 ELSE ${horizon} END)`,
          ]
    const { messages } = await this.db.one<{ messages: number }>(
      prepared(sql`SELECT
      (SELECT count(*) FROM unread_rows(${consumer}, ${after}, ${horizon}, ${limit}, ${narrowedBy(wanted)})) + (
        SELECT count(*) FROM lease l CROSS JOIN unnest(l.ids) AS one(id) JOIN message m ON m.id = one.id
        WHERE l.consumer = ${consumer} AND ${this.#hasLapsed} AND ${isKept}${ofSession(wanted.session)}
          ${inScope(wanted.scope)}) AS messages`),
    )
    return Math.min(limit, messages)
  }

  get #hasLapsed(): Sql {
    return sql`has_lapsed(l.expires_at, l.owner, ${this.clock.now()}, ${this.owner})`
  }

  async findConsumersToRedeliver(): Promise<ReadonlySet<string>> {
    const rows = await this.db.all<{ consumer: string }>(
      prepared(sql`SELECT DISTINCT consumer FROM lease l WHERE ${this.#hasLapsed}`),
    )
    return new Set(rows.map(({ consumer }) => consumer))
  }

  /** Reads the newest rows, and leaves out those that were stored before: a walk to that time could be long. */
  async listRecent(
    since: number,
    { limit, direction, session, scope }: Omit<ReadFilter, 'characters'>,
  ): Promise<number[]> {
    const wanted = sql`m.id <= ${horizon}${ofDirection(direction)}${inScope(scope)}`
    const select = sql`SELECT m.id, m.stored_at FROM message m WHERE`
    const newest = sql`ORDER BY m.id DESC LIMIT ${limit}`
    // One walk in an index for each user or session.
    const of = (
      values: Sql,
      column: Sql,
    ) => sql`SELECT one.* FROM (SELECT DISTINCT unnest(${values}) AS value) given
      CROSS JOIN LATERAL (${select} ${column} = given.value AND ${wanted}${ofSession(session)} ${newest}) one`
    const found = scope?.users
      ? of(sql`${scope.users}::text[]`, sql`m.peer`)
      : scope?.bots
        ? of(
            sql`ARRAY(SELECT session FROM session_bot WHERE bot_id = ANY (${scope.bots}::text[]))`,
            sql`m.session`,
          )
        : session !== undefined
          ? of(keysOfName(session), sql`m.session`)
          : sql`${select} ${wanted} ${newest}`
    const rows = await this.db.all<{ id: number }>(sql`SELECT id FROM (
        SELECT * FROM (${found}) m ORDER BY m.id DESC LIMIT ${limit}) newest
      WHERE stored_at >= ${since} ORDER BY id`)
    return rows.map(({ id }) => id)
  }
}

/** SQL that continues a WHERE: the message is of the session. */
const ofSession = (session: string | undefined): Sql =>
  session === undefined ? noSql : sql` AND m.session = ANY (${keysOfName(session)})`
