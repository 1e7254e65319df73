/** Which session sends to a user: the one that got the newest context token for them, else the first connected one. */
import { SvcError } from '../model/error.ts'
import { sessionName, type UserContext } from '../model/session.ts'
import { expired } from '../receive/judge.ts'
import type { Contexts } from '../storage/state.ts'
import type { Accounts, ConnectedSession } from './accounts.ts'
import { newestFirst } from './users.ts'

export interface Route {
  session: ConnectedSession
  context: UserContext | undefined
}

/**
 * The session asked for; else the one that most recently got a context token for that user; else the first connected one
 * (the default, else the oldest).
 *
 * @throws SvcError `not_connected`, `session_not_found`, `session_expired`
 */
export async function routeTo(
  { accounts, contexts }: { accounts: Accounts; contexts: Contexts },
  to: string,
  wanted: string | undefined,
): Promise<Route> {
  if (wanted !== undefined) {
    const record = await accounts.named(sessionName(wanted))
    if (!record.bot) throw new SvcError('not_connected', `session "${record.name}" is not connected`)
    if (record.bot.expired_at !== undefined) throw expired(record.name)
    return {
      session: { name: record.name, bot: record.bot },
      context: await contexts.find(record.name, to),
    }
  }
  const known = await accounts.knowing(to)
  const newest = newestFirst(known.filter(({ bot }) => bot.expired_at === undefined))[0]
  if (newest) return { session: { name: newest.name, bot: newest.bot }, context: newest.context }
  if (known[0]) throw expired(known[0].name)
  const session = await accounts.first()
  if (!session) {
    throw new SvcError('not_connected', 'no session is connected, and none has a context token for this user')
  }
  return { session, context: await contexts.find(session.name, to) }
}
