/**
 * The right to answer: columns of `outbox_lane`. A lane is one of a user who is known if it has `first_seen`; the
 * other lanes only count answers.
 */
import { sessionKeyOf, type UserContext } from '../../model/session.ts'
import { prepared, sql } from '../../platform/sql.ts'
import { mapContextToken } from '../sealed-places.ts'
import type { Contact, ContextStore, KnowingSession } from '../state.ts'
import { type AccountRow, accountColumns, recordOf } from './accounts.ts'
import { LinkedPgPart } from './part.ts'
import { keyOfNameIn } from './session-keys.ts'
import type { PgSessions } from './sessions.ts'

interface ContextRow {
  peer: string
  received_at?: number
  first_seen: number
  used: number
  last_sent_at?: number
}

/** Sessions whose users are counted in one query. */
const countedAtOnce = 1000

/** The users that have written, in SQL (`hasWritten`). */
export const hasWrittenRow = sql`l.first_seen IS NOT NULL AND (l.received_at IS NOT NULL OR l.token IS NOT NULL)`

/** A session, and the key of its lanes. `a.changed` grows when they may have changed. */
const sessionsOf = (sessions: readonly string[]) =>
  sql`unnest(${sessions.map(sessionKeyOf)}::text[]) WITH ORDINALITY AS wanted (name_key, nth)
    JOIN account a ON a.name_key = wanted.name_key AND a.bot_id IS NOT NULL
    CROSS JOIN LATERAL (SELECT key FROM session s WHERE s.name_key = a.name_key
      ORDER BY named DESC, key DESC LIMIT 1) own`

export class PgContexts
  extends LinkedPgPart<{ sessions: Pick<PgSessions, 'readKnown'> }>
  implements ContextStore
{
  /** Counts by `name_key`, and the revision of the session that they belong to. */
  readonly #writers = new Map<string, { changed: number; count: number }>()

  async find(session: string, user: string): Promise<UserContext | undefined> {
    const key = sessionKeyOf(session)
    return (await this.findKnowing(user)).find(({ record }) => sessionKeyOf(record.name) === key)?.context
  }

  async listUsers(sessions: readonly string[]): Promise<ReadonlyMap<string, readonly Contact[]>> {
    const rows = await this.db.all<ContextRow & { nth: number; name?: string }>(sql`SELECT nth, l.peer,
        l.received_at, l.first_seen, l.used, l.last_sent_at, n.name
      FROM ${sessionsOf(sessions)} JOIN outbox_lane l ON l.session = own.key AND ${hasWrittenRow}
      LEFT JOIN user_name n ON n.session = l.session AND n.peer = l.peer`)
    const bySession = Map.groupBy(rows, ({ nth }) => nth)
    return new Map(sessions.map((session, at) => [session, (bySession.get(at + 1) ?? []).map(contactOf)]))
  }

  async countWriters(sessions: readonly string[]): Promise<ReadonlyMap<string, number>> {
    const known = await this.ports.sessions.readKnown()
    const keys = sessions.map(sessionKeyOf)
    const there = new Set(keys.filter(key => known.get(key)?.record))
    const stale = [...there].filter(key => this.#writers.get(key)?.changed !== known.get(key)?.changed)
    for (let nth = 0; nth < stale.length; nth += countedAtOnce)
      await this.#count(stale.slice(nth, nth + countedAtOnce))
    return new Map(
      sessions.map((session, nth) => {
        const key = keys[nth]!
        return [session, (there.has(key) && this.#writers.get(key)?.count) || 0]
      }),
    )
  }

  async #count(keys: readonly string[]): Promise<void> {
    const rows = await this.db.all<{
      name_key: string
      changed: number
      count: number
    }>(sql`SELECT a.name_key,
        a.changed, count(l.id) AS count
      FROM ${sessionsOf(keys)} LEFT JOIN outbox_lane l ON l.session = own.key AND ${hasWrittenRow} GROUP BY a.name_key`)
    for (const { name_key, changed, count } of rows) this.#writers.set(name_key, { changed, count })
  }

  async findKnowing(user: string): Promise<readonly KnowingSession[]> {
    const rows = await this.db.all<AccountRow & ContextRow & { answer_token?: string }>(
      prepared(sql`SELECT a.*, l.peer, l.token AS answer_token, l.received_at, l.first_seen, l.used, l.last_sent_at
        FROM outbox_lane l JOIN session s ON s.key = l.session
        JOIN (SELECT ${accountColumns} FROM account WHERE bot_id IS NOT NULL) a ON a.name_key = s.name_key
        WHERE l.peer = ${user} AND l.first_seen IS NOT NULL AND s.key = ${keyOfNameIn(sql`s.name_key`)}`),
    )
    return rows.flatMap(row => {
      const record = recordOf(row, this.sealer)
      const { answer_token: sealed } = row
      const token = sealed && mapContextToken(sealed, user, this.sealer.open)
      return record ? { record, context: { ...contextOf(row), ...(token !== undefined && { token }) } } : []
    })
  }
}

const contextOf = ({ received_at, first_seen, used, last_sent_at }: ContextRow): UserContext => ({
  ...(received_at !== undefined && { received_at }),
  used,
  ...(last_sent_at !== undefined && { last_sent_at }),
  first_seen,
})

const contactOf = ({ name, ...row }: ContextRow & { name?: string }): Contact => ({
  user_id: row.peer,
  context: contextOf(row),
  counter: { received_at: row.received_at, used: row.used, last_sent_at: row.last_sent_at },
  name,
})
