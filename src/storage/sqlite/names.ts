/** Renames of sessions, and the names of users of several sessions, as the files of the sessions need them. */
import { constantSql, type Sql } from '../../platform/sql.ts'
import { joinSessions } from '../nouns/joined-sessions.ts'
import { sqliteDialect } from './dialect.ts'
import { EnginePart } from './engine-part.ts'
import { renameInWebhooks } from './webhook-progress.ts'

export class SqliteRenames extends EnginePart {
  /** Records that the folder of a session will be renamed; undefined: it keeps its name. */
  intendRename(session: string, newName: string | undefined): void {
    this.db.transaction(() => {
      const key = this.messages.ensureKey(session)
      this.db.run`UPDATE session SET renaming = ${newName} WHERE key = ${key}`
    })
  }

  /** Returns the recorded renames that were neither completed nor taken back. */
  listIntendedRenames(): { from: string; to: string }[] {
    return this.db.all`SELECT name AS "from", renaming AS "to" FROM session WHERE renaming IS NOT NULL`
  }

  /** Renames the rows of a session. */
  renameSession(oldName: string, newName: string): void {
    this.db.transaction(() => {
      const messages = this.messages
      const key = messages.ensureKey(oldName)
      const own = messages.listSessionKeys(oldName)
      const others = [...own, ...messages.listSessionKeys(newName)].filter(other => other !== key)
      messages.renameSession(own, newName)
      const isOther = (column: Sql) => sqliteDialect.isOneOf(column, others)
      const joins = others.length > 0 ? joinSessions(constantSql(String(key)), isOther) : []
      for (const join of joins) this.db.run(join)
      renameInWebhooks(this.db, oldName, newName)
    })
  }

  /** Gives a session that logs in again as "work" the rows that it had as "Work". */
  respellSession(name: string): void {
    const spellings = this.db.all<{ name: string }>`SELECT name FROM session
      WHERE key IN (SELECT value FROM json_each(${JSON.stringify(this.messages.listSessionKeys(name))}))`
    if (spellings.some(one => one.name !== name)) this.renameSession(name, name)
  }
}

export class SqliteUserNames extends EnginePart {
  /** Returns the sessions with a changed user name since that revision, each with its own revision. */
  listChangedSince(revision: number): { name: string; revision: number }[] {
    return this.db.all`SELECT name, users_named AS revision FROM session WHERE users_named > ${revision}`
  }

  /** Returns the names of these sessions' users, by session and user. */
  listAll(sessions: readonly string[]): ReadonlyMap<string, ReadonlyMap<string, string>> {
    if (!this.db.get`SELECT 1 FROM user_name LIMIT 1`) return new Map()
    const keys = this.messages.keysOf(sessions)
    const rows = this.db.all<{ session: number; peer: string; name: string }>`SELECT session, peer, name
      FROM user_name WHERE session IN (SELECT value FROM json_each(${JSON.stringify(keys.flat())}))`
    const byKey = Map.groupBy(rows, row => row.session)
    return new Map(
      sessions.map((session, nth) => {
        const named = keys[nth]!.flatMap(key => byKey.get(key) ?? [])
        return [session, new Map(named.map(({ peer, name }) => [peer, name]))]
      }),
    )
  }

  sessionsOf(user: string): readonly string[] {
    const named = this.db.all<{ session: string }>`SELECT DISTINCT session.name AS session FROM user_name
      JOIN session ON session.key = user_name.session WHERE peer = ${user}`
    return [...new Set([...this.messages.findWrittenSessions(user), ...named.map(({ session }) => session)])]
  }

  /** Tries the two forms of each letter, as long as an id begins like that: with many users, all of them take long. */
  listAlike(user: string): readonly string[] {
    const forms = [...user].map(letter => [...new Set([letter.toLowerCase(), letter.toUpperCase()])])
    const rows = this.db.all<{ peer: string }>`WITH RECURSIVE alike (peer, length) AS (
        SELECT '', 0 UNION ALL SELECT alike.peer || form.value, length + 1
        FROM alike JOIN json_each(${JSON.stringify(forms)}, '$[' || length || ']') form
        WHERE EXISTS (SELECT 1 FROM message m INDEXED BY message_peer WHERE m.peer >= alike.peer || form.value
          AND m.peer < alike.peer || form.value || char(1114111)))
      SELECT peer FROM alike WHERE length = ${forms.length}
        AND EXISTS (SELECT 1 FROM message m INDEXED BY message_peer WHERE m.peer = alike.peer AND m.sent = 0)`
    return rows.map(({ peer }) => peer)
  }
}
