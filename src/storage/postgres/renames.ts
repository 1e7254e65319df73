/** What a rename of a session changes besides its credentials. */
import { sessionKeyOf } from '../../model/session.ts'
import type { PgQueries } from '../../platform/postgres.ts'
import { type Sql, sql } from '../../platform/sql.ts'
import { joinSessions } from '../nouns/joined-sessions.ts'
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

/** Renames the keys of a session. New rows under the new name then get its newest key. */
export const renameKeys = ({ from, to }: Omit<Rename, 'spellings'>): Sql =>
  sql`UPDATE session SET name = ${to}, name_key = ${sessionKeyOf(to)},
    named = named + (SELECT max(named) + 1 FROM session) WHERE name_key = ${sessionKeyOf(from)}`

/**
 * Returns the statements that rename the rows of a session; `renameKeys` comes before them. Sessions that had the new name
 * and were logged out are joined.
 */
export function renameRows({ to, spellings }: Omit<Rename, 'from'>): Sql[] {
  // The keys of both.
  const [own, all] = [keyOfName(to), keysOfName(to)]
  const isOther = (key: Sql) => sql`${key} = ANY (${all}) AND ${key} <> ${own}`
  return [
    ...joinSessions(own, isOther),

    sql`UPDATE webhook SET epoch = epoch + 1,
      session = CASE WHEN session = ANY (${spellings}::text[]) THEN ${to} ELSE session END`,
    sql`WITH moved AS (DELETE FROM webhook_lane WHERE session = ANY (${spellings}::text[]) AND session <> ${to} RETURNING *)
      INSERT INTO webhook_lane (webhook, session, peer, position, event, tries, failed_at, retry_at)
      SELECT DISTINCT ON (webhook, peer) webhook, ${to}, peer, position, event, tries, failed_at, retry_at FROM moved
      ORDER BY webhook, peer ON CONFLICT (webhook, session, peer) DO UPDATE SET position = excluded.position,
        event = excluded.event, tries = excluded.tries, failed_at = excluded.failed_at, retry_at = excluded.retry_at`,
  ]
}
