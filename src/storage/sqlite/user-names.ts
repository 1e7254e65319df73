/** Names that people gave to users: per session, and kept when it is logged out. */
import { badArgument } from '../../model/error.ts'
import { nameKey } from '../../model/user-name.ts'
import { EnginePart } from './engine-part.ts'

export class UserNames extends EnginePart {
  of(session: string): ReadonlyMap<string, string> {
    // Asked for each session of a list: mostly nobody has a name.
    if (!this.db.get`SELECT 1 FROM user_name LIMIT 1`) return new Map()
    const rows = this.db.all<{ peer: string; name: string }>`SELECT peer, name FROM user_name
      WHERE session IN (SELECT value FROM json_each(${this.#keys(session)})) ORDER BY session`
    return new Map(rows.map(({ peer, name }) => [peer, name]))
  }

  called(name: string): { session: string; user_id: string }[] {
    return this.db.all`SELECT session.name AS session, peer AS user_id FROM user_name
      JOIN session ON session.key = user_name.session WHERE folded = ${nameKey(name)}`
  }

  sessionsOf(user: string): readonly string[] {
    const named = this.db.all<{ session: string }>`SELECT DISTINCT session.name AS session FROM user_name
      JOIN session ON session.key = user_name.session WHERE peer = ${user}`
    return [...new Set([...this.messages.writtenTo(user), ...named.map(({ session }) => session)])]
  }

  set(session: string, user: string, name: string | undefined): void {
    this.db.transaction(() => {
      const newest = this.messages.keyOf(session)
      const keys = this.#keys(session)
      this.db.run`DELETE FROM user_name WHERE peer = ${user}
        AND session IN (SELECT value FROM json_each(${keys}))`
      if (name === undefined) return
      const folded = nameKey(name)
      const other = this.db.get`SELECT 1 FROM user_name WHERE folded = ${folded}
        AND session IN (SELECT value FROM json_each(${keys}))`
      if (other)
        throw badArgument('name', 'another user of this session has this name', {
          hint: 'Choose another name, or take that one away first.',
        })
      for (const key of new Set([newest, ...this.messages.sessionKeys(session)]))
        this.db.run`INSERT INTO user_name (session, peer, name, folded)
          VALUES (${key}, ${user}, ${name}, ${folded})`
    })
  }

  /** A session that was logged out and in again may have several keys. */
  #keys(session: string): string {
    return JSON.stringify(this.messages.sessionKeys(session))
  }
}
