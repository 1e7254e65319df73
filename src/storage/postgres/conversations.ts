/** The log grouped by user: newest message and unread count. */
import type { Scope } from '../../model/access.ts'
import { sessionKeyOf } from '../../model/session.ts'
import { toJsonb } from '../../platform/postgres-values.ts'
import { noSql, sql } from '../../platform/sql.ts'
import { readSuspects } from '../nouns/inspection.ts'
import type { ConversationStore, MessageLog, Thread, ThreadQuery } from '../store.ts'
import { drive } from './drive.ts'
import { inScope, LinkedPgPart } from './part.ts'
import { postgresDialect } from './routines.ts'
import { keysOfName } from './session-keys.ts'
import { horizon } from './tables.ts'

/** Unread messages are counted up to this number. */
const countedUnread = 100
/** Number of a user's newest messages that are read to find the sessions in which the user writes. */
const newestOfUser = 30
/** Messages that another process sent count after this time. */
const suspectsKeptMs = 1000

interface FoundThread extends Pick<Thread, 'unread' | 'refused'> {
  /** Row id of the newest message. */
  id: number
  peer: string
}

export class PgConversations
  extends LinkedPgPart<{ log: Pick<MessageLog, 'getByIds'> }>
  implements ConversationStore
{
  #suspects: { since: number; place: number; found: ReadonlyMap<string, number> } | undefined

  async listThreads(page: ThreadQuery): Promise<{ threads: Thread[]; before?: number | undefined }> {
    const { before, limit, reader, scope, sessions, session, user } = page
    const users =
      user === undefined
        ? await this.db.all<{ peer: string; newest: number }>(
            sql`SELECT * FROM newest_users(${before}, ${limit}, ${scope?.users})`,
          )
        : []
    const isVisible = (peer: string) => scope?.users?.includes(peer) !== false
    const peers = user === undefined ? users.map(({ peer }) => peer) : [user].filter(isVisible)
    const asked = peers.flatMap(peer =>
      (sessions?.get(peer) ?? [session]).map(name => ({
        peer,
        ...(name !== undefined && { name_key: sessionKeyOf(name) }),
      })),
    )
    const found =
      await this.db.all<FoundThread>(sql`SELECT * FROM find_threads(${toJsonb(asked)}, ${scope?.bots},
      ${reader}, ${countedUnread})`)
    const rows = await this.ports.log.getByIds(found.map(({ id }) => id))
    const byId = new Map(rows.map(row => [row.id, row]))
    const threads = found.flatMap(({ id, peer, unread, refused }) => {
      const last = byId.get(id)
      return last ? [{ user: peer, last, unread, refused }] : []
    })
    return { threads, before: users.length === limit ? users.at(-1)?.newest : undefined }
  }

  async sessionsOf(user: string): Promise<readonly string[]> {
    const rows = await this.db.all<{ name: string }>(sql`SELECT DISTINCT name FROM session WHERE key IN (
        SELECT session FROM (SELECT session, sent FROM message WHERE peer = ${user} AND id <= ${horizon}
          ORDER BY peer DESC, id DESC LIMIT ${newestOfUser}) newest WHERE sent = 0
        UNION SELECT session FROM user_name WHERE peer = ${user})`)
    return rows.map(({ name }) => name)
  }

  async listAlike(user: string): Promise<readonly string[]> {
    const rows = await this.db.all<{ peer: string }>(sql`WITH RECURSIVE peers (peer) AS (
        (SELECT min(peer) FROM message WHERE peer > '') UNION ALL
        SELECT (SELECT min(m.peer) FROM message m WHERE m.peer > peers.peer) FROM peers WHERE peers.peer IS NOT NULL)
      SELECT peer FROM peers WHERE lower(peer) = lower(${user}::text)
        AND EXISTS (SELECT FROM message m WHERE m.peer = peers.peer AND m.sent = 0)`)
    return rows.map(({ peer }) => peer)
  }

  async markRead(session: string, peer: string, upTo?: number, reader?: string): Promise<void> {
    // Negative: marked as unread when that row was the newest.
    const position = upTo === undefined ? sql`-(${horizon})` : sql`least(${upTo}::bigint, ${horizon})`
    const [table, columns, first] =
      reader === undefined
        ? [sql`read_mark`, sql`session`, noSql]
        : [sql`person_mark`, sql`reader, session`, sql`${reader}, `]
    await this.db.run(sql`INSERT INTO ${table} AS known (${columns}, peer, position)
      SELECT ${first}key, ${peer}, ${position} FROM unnest(${keysOfName(session)}) k(key)
        WHERE EXISTS (SELECT 1 FROM message m WHERE m.peer = ${peer} AND m.session = k.key AND m.id <= ${horizon})
      ON CONFLICT (${columns}, peer) DO UPDATE SET position = CASE WHEN excluded.position < 0 THEN excluded.position
        ELSE greatest(excluded.position, abs(known.position)) END`)
  }

  /** `id + 0`: a walk along the ids would read the whole log. */
  countMessages(
    since: number,
    spanMs: number,
    scope?: Scope,
  ): Promise<{ span: number; received: number; sent: number }[]> {
    return this.db.all(sql`SELECT (timestamp - ${since}) / ${spanMs} AS span, count(*) FILTER (WHERE sent <> 1) AS received,
        count(*) FILTER (WHERE sent = 1 AND (status IS NULL OR status NOT IN ('refused', 'queued', 'sending'))) AS sent
      FROM message m WHERE timestamp >= ${since} AND id + 0 <= ${horizon}${inScope(scope)} GROUP BY 1`)
  }

  /** Small calls ask for it, so it is kept for a moment. What this process sends moves the horizon of events. */
  async countSuspects(since: number): Promise<ReadonlyMap<string, number>> {
    const kept = this.#suspects
    const { place } = this.db.horizon
    const age = kept ? since - kept.since : -1
    if (kept?.place === place && age >= 0 && age < suspectsKeptMs) return kept.found
    const isDurable = sql` AND m.id + 0 <= ${horizon}`
    const found = await drive(this.db, readSuspects(postgresDialect, since, isDurable))
    this.#suspects = { since, place, found }
    return found
  }
}
