/**
 * Selects the session that sends to a user: the one with the newest context token for the user, else the
 * first connected one; the one that this user logged in comes before all others.
 */
import type { Scope } from '../model/access.ts'
import { SvcError } from '../model/error.ts'
import { normalizeSessionName, notConnectedError, type UserContext } from '../model/session.ts'
import { sessionExpiredError } from '../receive/token-check.ts'
import type { Accounts, ConnectedSession, WrittenSession } from './accounts.ts'
import { sortNewestFirst } from './users.ts'

/**
 * Returns the requested session. Default: the session that most recently got a context token for the user,
 * else the first connected one (the one that this user logged in, else the default, else the oldest).
 *
 * @param scope only sessions of these accounts
 * @returns `context`: what the session knows of the user; `before`: the session that the user wrote to, if
 * no current login got a message since
 * @throws SvcError `not_connected`, `session_not_found`, `session_expired`
 */
export async function findRoute(
  accounts: Accounts,
  to: string,
  requested: string | undefined,
  scope?: Scope,
): Promise<ConnectedSession & { context?: UserContext | undefined; before?: WrittenSession | undefined }> {
  if (requested !== undefined) {
    const { name, bot, unreadable } = await accounts.getRecord(normalizeSessionName(requested), scope)
    if (!bot) throw unreadable ?? notConnectedError(name)
    if (bot.expired_at !== undefined) throw sessionExpiredError(name)
    const context = await accounts.context(name, to)
    if (context?.token !== undefined) return { name, bot, context }
    const before = (await accounts.listWrittenBy(to, scope)).find(({ session }) => session === name)
    return { name, bot, context, before }
  }
  const known = await accounts.listKnowing(to, scope)
  const [newest] = sortNewestFirst(known.filter(({ bot }) => bot.expired_at === undefined))
  if (newest) return newest
  if (known[0]) throw sessionExpiredError(known[0].name)
  const written = await accounts.listWrittenBy(to, scope)
  const loggedOut = written.find(({ isLoggedIn }) => !isLoggedIn)
  const session = await accounts.first(to, scope)
  if (session) {
    const own = written.find(entry => entry.session === session.name)
    // A user can always receive from the session that they logged in, whichever session they wrote to
    // before.
    const elsewhere = session.bot.user_id === to ? undefined : (loggedOut ?? written[0])
    const context = await accounts.context(session.name, to)
    return { ...session, context, before: own ?? elsewhere }
  }
  const unreadable = await accounts.unreadable(scope)
  if (unreadable) throw unreadable
  if (loggedOut) throw notConnectedError(loggedOut.session)
  throw new SvcError('not_connected', 'no session is connected, and this user has not written to any session')
}
