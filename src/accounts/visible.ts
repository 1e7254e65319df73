/** The sessions that a caller may see, by its scope. */
import { isInScope, type Scope } from '../model/access.ts'
import type { Session, SessionWithUsers } from '../model/session.ts'
import type { SessionRecord } from '../storage/state.ts'

/** Whether a caller may see a session. Without credentials it has no account, so only unlimited callers may. */
export const isVisible = ({ bot }: Pick<SessionRecord, 'bot'>, scope: Scope = {}): boolean =>
  isInScope(scope, bot?.bot_id)

/**
 * Returns the sessions of the accounts in a scope. The first one with a login is the default: the session that
 * a call without a name is about.
 *
 * @param sessions in the order of `Accounts.list`
 */
export function limitToAccounts<S extends Session>(sessions: readonly S[], scope: Scope): S[] {
  return sessions
    .filter(({ bot_id }) => isInScope(scope, bot_id))
    .map((session, nth) => ({ ...session, is_default: nth === 0 && session.status !== 'logging_in' }))
}

/** Returns the sessions in a scope, as `limitToAccounts` does, and of each only what concerns its users. */
export const limitSessions = (sessions: readonly SessionWithUsers[], scope: Scope): SessionWithUsers[] =>
  limitToAccounts(sessions, scope).map(session => limitToUsers(session, scope))

function limitToUsers(session: SessionWithUsers, { users: ids }: Scope): SessionWithUsers {
  if (ids === undefined) return session
  const { suspect_count: _, user_id, ...rest } = session
  const users = session.users.filter(user => ids.includes(user.user_id))
  const isKnown = user_id !== undefined && ids.includes(user_id)
  return { ...rest, ...(isKnown && { user_id }), users, user_count: users.length }
}
