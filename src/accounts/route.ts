/** Which session sends to a user: the one that got the newest context token for them, else the first connected one. */
import { SvcError } from '../model/error.ts'
import { sessionName } from '../model/session.ts'
import { expired } from '../receive/judge.ts'
import type { Accounts, ConnectedSession } from './accounts.ts'
import { newestFirst } from './users.ts'

/**
 * The session asked for; else the one that most recently got a context token for that user; else the first connected one
 * (the default, else the oldest).
 *
 * @throws SvcError `not_connected`, `session_not_found`, `session_expired`
 */
export async function routeTo(
  accounts: Accounts,
  to: string,
  wanted: string | undefined,
): Promise<ConnectedSession> {
  if (wanted !== undefined) {
    const { name, bot } = await accounts.named(sessionName(wanted))
    if (!bot) throw new SvcError('not_connected', `session "${name}" is not connected`)
    if (bot.expired_at !== undefined) throw expired(name)
    return { name, bot }
  }
  const known = await accounts.knowing(to)
  const [newest] = newestFirst(known.filter(({ bot }) => bot.expired_at === undefined))
  if (newest) return newest
  if (known[0]) throw expired(known[0].name)
  const session = await accounts.first()
  if (session) return session
  throw new SvcError('not_connected', 'no session is connected, and none has a context token for this user')
}
