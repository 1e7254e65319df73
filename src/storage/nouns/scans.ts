/**
 * Who logged a session in, with which account. WeChat gives a new account to each login, also of the same person: what has
 * an account of a person in a session in its grant gets the next one of that person there. Nobody else's is added.
 */
import type { BotInfo } from '../../model/session.ts'
import { type Sql, sql } from '../../platform/sql.ts'
import { type Noun, type NounContext, type Routine, readAll, write } from '../routine.ts'

interface Scan {
  session: string
  /** The login that is replaced. */
  before: BotInfo | undefined
  bot: BotInfo
}

/**
 * Plans what a login changes. The key for rows of the session exists by then.
 *
 * @returns statements: of accounts and endpoints, and of keys, which lock more
 */
export function* planScan(
  { keyChanges, sessionKey, sessionKeys }: NounContext,
  { before, bot, session }: Scan,
): Routine<Record<'first' | 'last', readonly Sql[]>> {
  const { bot_id, user_id } = bot
  const note = (one: BotInfo) => sql`INSERT INTO session_bot (bot_id, session, person)
    VALUES (${one.bot_id}, ${sessionKey(session)}, ${one.user_id})
    ON CONFLICT (bot_id, session) DO UPDATE SET person = excluded.person`
  const rows = yield* readAll<Pick<BotInfo, 'bot_id'>>(
    sql`SELECT bot_id FROM session_bot WHERE person = ${user_id} AND session IN ${sessionKeys(session)}`,
  )
  const isSame = before && user_id !== undefined && before.user_id === user_id
  const earlier = isSame ? [...rows, before] : rows
  // In JSON, an id of an account is like nothing else of a grant.
  const has = (id: string) => sql`replace("grant", ${JSON.stringify(id)}, '') <> "grant"`
  const follow = (table: Sql, change: Sql) =>
    earlier.map(({ bot_id: last }) => {
      const both = JSON.stringify([last, bot_id]).slice(1, -1)
      return sql`UPDATE ${table} SET "grant" = replace("grant", ${JSON.stringify(last)}, ${both}), ${change}
        WHERE ${has(last)} AND NOT (${has(bot_id)})`
    })
  const endpoints = follow(sql`webhook`, sql`epoch = epoch + 1`)
  const keys = follow(sql`access_key`, sql`revision = ${keyChanges.revision}`)
  return {
    first: [...(before ? [note(before)] : []), note(bot), ...endpoints],
    last: keys.length > 0 ? [...keyChanges.begin, ...keys] : [],
  }
}

/** For an engine that stores credentials elsewhere, right after this. */
export interface Scans {
  note(scan: Scan): Promise<void>
}
export const createScans = (context: NounContext): Noun<Scans> => ({
  verbs: {
    *note(scan) {
      yield* context.ensureSession(scan.session)
      const { first, last } = yield* planScan(context, scan)
      yield* write(...first, ...last)
    },
  },
  modes: { note: 'intake' },
})
