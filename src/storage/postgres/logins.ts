/** The end of a QR login: it and the credentials are stored in one transaction. */
import type { BotInfo } from '../../model/session.ts'
import { type Sql, sql } from '../../platform/sql.ts'
import { joiningOf, toJoined } from '../joined-logins.ts'
import type { LoginStore, StoredLogin } from '../logins.ts'
import { planJoin } from '../nouns/invitations.ts'
import { loginKeyOf, planPut } from '../nouns/logins.ts'
import type { Attempt } from './database.ts'
import { drive } from './drive.ts'
import type { EngineContext } from './part.ts'
import { createNounContext } from './routines.ts'
import type { PgSessions } from './sessions.ts'

/** What becomes of a login. `session`: the one to save the credentials in, if they are saved. */
interface Ending {
  login: StoredLogin
  session?: string
  statements: readonly Sql[]
}

export function createFinish(context: EngineContext, sessions: PgSessions): LoginStore['finish'] {
  const { db } = context

  /** Decides about a login by invitation. */
  async function planEnding(
    queries: Attempt,
    login: StoredLogin,
    bot: BotInfo,
    now: number,
  ): Promise<Ending> {
    if (!login.invitation) return { login, session: login.session, statements: [] }
    const joining = joiningOf(login, bot, await sessions.readRecords(queries), now)
    const plan = await drive(queries, planJoin(createNounContext(context), joining))
    const joined = toJoined(login, plan.outcome, joining.session)
    const { session } = joined.joined ?? {}
    if (session === undefined) return { login: joined, statements: plan.statements }
    // Two logins of a person may end at the same time. Those that save credentials go one after another.
    const isOther = sql`info::jsonb ->> 'user_id' = ${bot.user_id} AND name_key <> ${loginKeyOf(joining.session)}`
    const alone = sql`SELECT expect(NOT EXISTS (SELECT 1 FROM account WHERE bot_id IS NOT NULL AND ${isOther}))`
    return { login: joined, session, statements: [alone, ...plan.statements] }
  }

  return async (login, bot, now) => {
    const done = await db.durably(() =>
      db.retry(async queries => {
        const ending = await planEnding(queries, login, bot, now)
        const { statement, stored } = planPut(context, ending.login, now)
        const own = { ...bot, ...(login.invitation && { invitation: login.invitation.id }) }
        const plan =
          ending.session === undefined ? undefined : await sessions.planSave(queries, ending.session, own)
        const saved = !plan || plan.token === bot.token ? [] : plan.statements
        const kept = await queries.get<{ version: string }>(
          sql`SELECT version FROM login_flow WHERE name_key = ${loginKeyOf(login.session)} AND until > ${now} ${queries.lock}`,
        )
        if ((kept?.version ?? '') !== login.version) return undefined
        await queries.script([
          sql`WITH put AS (${statement}) SELECT expect(EXISTS (SELECT 1 FROM put))`,
          ...saved,
          ...ending.statements,
        ])
        return stored
      }),
    )
    if (done) await db.touch()
    return done
  }
}
