/** The names that people gave to users. They are stored per session, and stay when it is logged out. */
import { sessionKeyOf } from '../../model/session.ts'
import { nameKeyOf, sameUserNameError } from '../../model/user-name.ts'
import { sql } from '../../platform/sql.ts'
import type { UserNameStore } from '../store.ts'
import { PgPart } from './part.ts'
import { ensureKey, keysOfName } from './session-keys.ts'

export class PgUserNames extends PgPart implements UserNameStore {
  async list(session: string): Promise<ReadonlyMap<string, string>> {
    const rows = await this.db.all<{ peer: string; name: string }>(sql`SELECT peer, name FROM user_name
      WHERE session = ANY (${keysOfName(session)}) ORDER BY session`)
    return new Map(rows.map(({ peer, name }) => [peer, name]))
  }

  find(name: string): Promise<{ session: string; user_id: string }[]> {
    return this.db.all(sql`SELECT DISTINCT session.name AS session, peer AS user_id FROM user_name
      JOIN session ON session.key = user_name.session WHERE folded = ${nameKeyOf(name)}`)
  }

  async set(
    session: string,
    user: string,
    name: string | undefined,
    seen?: readonly string[],
  ): Promise<void> {
    const folded = name === undefined ? undefined : nameKeyOf(name)
    const other = await this.durably(async () => {
      if (name !== undefined) await ensureKey(this.db, session)
      const named = await this.db.one<{
        other?: string
      }>(sql`SELECT name_user(${sessionKeyOf(session)}, ${user},
        ${name}, ${folded}, ${seen}::text[]) AS other`)
      return named.other
    })
    if (other !== undefined) throw sameUserNameError(other)
  }
}
