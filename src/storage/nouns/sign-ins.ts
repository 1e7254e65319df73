/** Sign-ins to the panel, which any process may serve. */
import { sql } from '../../platform/sql.ts'
import { changes, type Noun, type NounContext, readAll, write } from '../routine.ts'
import type { SignInStore } from '../state.ts'

/** If more sign-ins were ended, those that would have expired first are forgotten. Only a signed-in user can add one. */
const maxEnded = 1000

export function createSignIns({ dialect, sealer }: NounContext): Noun<SignInStore> {
  /** The store has no code that could be used, and a program that can only write to it makes none. */
  const hashOf = (code: string) => sealer.derive(`link to sign in ${code}`)
  const removeOver = (now: number) => sql`DELETE FROM sign_in_link WHERE until <= ${now}`
  return {
    verbs: {
      *addLink(code, until, now, isShared = false) {
        yield* write(
          removeOver(now),
          ...(isShared ? [sql`DELETE FROM sign_in_link WHERE shared = 1`] : []),
          sql`INSERT INTO sign_in_link (code, until, shared) VALUES (${hashOf(code)}, ${until}, ${Number(isShared)})
          ON CONFLICT (code) DO UPDATE SET until = excluded.until, shared = excluded.shared`,
        )
      },

      takeLink: (code, now) =>
        changes(removeOver(now), sql`DELETE FROM sign_in_link WHERE code = ${hashOf(code)} RETURNING code`),

      *filterEnded(names) {
        const rows = yield* readAll<{ name: string }>(
          sql`SELECT name FROM ended_sign_in WHERE ${dialect.isOneOf(sql`name`, names)}`,
        )
        return new Set(rows.map(({ name }) => name))
      },

      *end(names, until) {
        yield* write(
          ...names.map(
            name => sql`INSERT INTO ended_sign_in (name, until) VALUES (${name}, ${until})
            ON CONFLICT (name) DO UPDATE SET until = excluded.until`,
          ),
          // None is forgotten because of its time: a clock that is ahead may come back.
          sql`DELETE FROM ended_sign_in WHERE name IN (SELECT name FROM ended_sign_in
          ORDER BY until DESC LIMIT ${Number.MAX_SAFE_INTEGER} OFFSET ${maxEnded})`,
        )
      },
    },
    modes: { addLink: 'light', takeLink: 'light', filterEnded: 'plain', end: 'write' },
  }
}
