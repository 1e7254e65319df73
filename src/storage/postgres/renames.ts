/** What a rename of a session changes besides its credentials. */
import { sessionKeyOf } from '../../model/session.ts'
import type { PgQueries } from '../../platform/postgres.ts'
import { type Sql, sql } from '../../platform/sql.ts'
import { keyOfName, keysOfName } from './session-keys.ts'

export interface Rename {
  from: string
  to: string
  /** How endpoints and their lanes spell the old name. */
  spellings: readonly string[]
}

/** Returns how endpoints and their lanes spell a name. */
export async function listSpellings(queries: PgQueries, name: string): Promise<string[]> {
  const found = await queries.all<{ session: string }>(
    sql`SELECT session FROM webhook WHERE session IS NOT NULL UNION SELECT session FROM webhook_lane`,
  )
  return found.map(({ session }) => session).filter(one => sessionKeyOf(one) === sessionKeyOf(name))
}

/** Renames the keys of a session. The key for new rows is then that of the renamed session. */
export const renameKeys = ({ from, to }: Omit<Rename, 'spellings'>): Sql =>
  sql`UPDATE session SET name = ${to}, name_key = ${sessionKeyOf(to)},
    named = named + (SELECT max(named) + 1 FROM session) WHERE name_key = ${sessionKeyOf(from)}`

/**
 * Returns the statements that rename the rows of a session; `renameKeys` comes before them. Sessions that had the new name and were logged out are
 * joined: what waits there, conversations with agents, and the names of users belong to the renamed session now.
 */
export function renameRows({ to, spellings }: Omit<Rename, 'from'>): Sql[] {
  // The keys of both.
  const [own, all] = [keyOfName(to), keysOfName(to)]
  const isOther = (session: Sql) => sql`${session} = ANY (${all}) AND ${session} <> ${own}`
  const ownLane = sql`own.id FROM outbox_lane other
    JOIN outbox_lane own ON own.session = ${own} AND own.peer = other.peer
    WHERE ${isOther(sql`other.session`)}`
  return [
    sql`UPDATE outbox_lane SET session = ${own} WHERE id IN (
      SELECT DISTINCT ON (other.peer) other.id FROM outbox_lane other WHERE ${isOther(sql`other.session`)}
        AND NOT EXISTS (SELECT 1 FROM outbox_lane l WHERE l.session = ${own} AND l.peer = other.peer)
        ORDER BY other.peer, other.id DESC)`,
    sql`UPDATE outbox o SET lane = ${ownLane} AND o.lane = other.id`,
    sql`UPDATE outbox_part o SET lane = ${ownLane} AND o.lane = other.id`,

    sql`UPDATE agent_conversation SET session = ${own} WHERE id IN (
      SELECT DISTINCT ON (other.agent, other.peer) other.id FROM agent_conversation other WHERE ${isOther(sql`other.session`)}
        AND NOT EXISTS (SELECT 1 FROM agent_conversation c
          WHERE c.agent = other.agent AND c.session = ${own} AND c.peer = other.peer)
        ORDER BY other.agent, other.peer, other.id DESC)`,
    sql`UPDATE agent_turn t SET conversation = own.id FROM agent_conversation other
      JOIN agent_conversation own ON own.agent = other.agent AND own.session = ${own} AND own.peer = other.peer
      WHERE ${isOther(sql`other.session`)} AND t.conversation = other.id`,
    sql`DELETE FROM agent_conversation WHERE ${isOther(sql`session`)}`,

    sql`DELETE FROM user_name WHERE ${isOther(sql`session`)}
      AND folded IN (SELECT folded FROM user_name WHERE session = ${own})`,
    sql`INSERT INTO user_name (session, peer, name, folded) SELECT key, n.peer, n.name, n.folded
      FROM user_name n, unnest(${all}) AS key WHERE n.session = ${own} AND key <> ${own}
      ON CONFLICT (session, peer) DO UPDATE SET name = excluded.name, folded = excluded.folded`,
    sql`INSERT INTO user_name (session, peer, name, folded)
      SELECT DISTINCT ON (peer) ${own}, peer, name, folded FROM user_name WHERE ${isOther(sql`session`)}
      ORDER BY peer, session DESC ON CONFLICT DO NOTHING`,

    sql`UPDATE webhook SET epoch = epoch + 1,
      session = CASE WHEN session = ANY (${spellings}::text[]) THEN ${to} ELSE session END`,
    sql`WITH moved AS (DELETE FROM webhook_lane WHERE session = ANY (${spellings}::text[]) AND session <> ${to} RETURNING *)
      INSERT INTO webhook_lane (webhook, session, peer, position, event, tries, failed_at, retry_at)
      SELECT DISTINCT ON (webhook, peer) webhook, ${to}, peer, position, event, tries, failed_at, retry_at FROM moved
      ORDER BY webhook, peer ON CONFLICT (webhook, session, peer) DO UPDATE SET position = excluded.position,
        event = excluded.event, tries = excluded.tries, failed_at = excluded.failed_at, retry_at = excluded.retry_at`,
  ]
}
