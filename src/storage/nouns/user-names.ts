/** The names that people gave to users. They are stored per session, and stay when it is logged out. */
import { nameKeyOf, sameUserNameError } from '../../model/user-name.ts'
import { noSql, type Sql, sql } from '../../platform/sql.ts'
import { type Noun, type NounContext, readAll, readFirst, write } from '../routine.ts'
import type { UserNameStore } from '../store.ts'

/** @param changed statements that tell those who keep the names of a session; none where triggers do that */
export const createUserNames = (
  { dialect, ensureSession, rejectErased, sessionKeys }: NounContext,
  changed: (session: string) => readonly Sql[] = () => [],
): Noun<UserNameStore> => ({
  verbs: {
    *list(session) {
      const rows = yield* readAll<{ peer: string; name: string }>(sql`SELECT peer, name FROM user_name
        WHERE session IN ${sessionKeys(session)} ORDER BY session`)
      return new Map(rows.map(({ peer, name }) => [peer, name]))
    },

    find: name =>
      readAll(sql`SELECT DISTINCT session.name AS session, peer AS user_id FROM user_name
        JOIN session ON session.key = user_name.session WHERE folded = ${nameKeyOf(name)}`),

    *set(session, user, name, seen) {
      if (name !== undefined) {
        yield* rejectErased(user)
        yield* ensureSession(session)
      }
      const folded = name === undefined ? undefined : nameKeyOf(name)
      const keys = sessionKeys(session)
      // A session that was logged out and in again may have several keys.
      const isNamesake = sql`folded = ${folded} AND peer <> ${user} AND session IN ${keys}
        ${seen === undefined ? noSql : sql`AND ${dialect.isOneOf(sql`peer`, seen)}`}`
      const namesake =
        folded === undefined
          ? undefined
          : yield* readFirst<{ peer: string }>(sql`SELECT peer FROM user_name WHERE ${isNamesake} LIMIT 1`)
      if (namesake) throw sameUserNameError(namesake.peer)
      yield* write(
        // One process at a time names users of the session.
        ...dialect.lock(sql`SELECT key FROM session WHERE key IN ${keys} ORDER BY key`),
        ...(folded === undefined
          ? []
          : dialect.expect(sql`NOT EXISTS (SELECT 1 FROM user_name WHERE ${isNamesake})`)),
        sql`DELETE FROM user_name WHERE peer = ${user} AND session IN ${keys}`,
        ...(name === undefined
          ? []
          : [
              sql`INSERT INTO user_name (session, peer, name, folded)
                SELECT key, ${user}, ${name}, ${folded} FROM session WHERE key IN ${keys}`,
            ]),
        ...changed(session),
      )
    },
  },
  modes: { list: 'plain', find: 'plain', set: 'write' },
})
