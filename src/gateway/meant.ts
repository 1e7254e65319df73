/**
 * Resolves the session and user in a filter or a send. An unknown name is an error, because nothing would
 * ever match it.
 */
import type { Logins } from '../accounts/logins.ts'
import { isVisible } from '../accounts/visible.ts'
import type { Scope } from '../model/access.ts'
import { normalizeSessionName, sessionKeyOf, sessionNotFoundError } from '../model/session.ts'
import type { SessionAndUser } from '../push/events.ts'
import { resolveUserId } from '../send/plan.ts'
import type { Storage } from '../storage/storage.ts'

/**
 * Creates a function that resolves the session's name as stored, and a user's name to an id. An id may
 * belong to a user who has not written yet. What is outside the scope is unknown.
 *
 * @throws SvcError `session_not_found`; `invalid_arguments` for a name of no user, or of several
 */
export function createTargetResolver(
  { state: { contexts, sessions }, store }: Pick<Storage, 'state' | 'store'>,
  logins: Logins,
) {
  return async ({ session: input, user, scope }: SessionAndUser, field = 'user'): Promise<SessionAndUser> => {
    const session = input === undefined ? undefined : await find(normalizeSessionName(input), scope)
    const id =
      user === undefined
        ? undefined
        : await resolveUserId({ store, sessions, contexts }, { user, session, scope }, field)
    return { ...(session !== undefined && { session }), ...(id !== undefined && { user: id }) }
  }

  async function find(name: string, scope: Scope | undefined): Promise<string> {
    const record = await sessions.get(name)
    return record && isVisible(record, scope) ? record.name : left(name, scope)
  }

  /** Finds a session without files: one that is being logged in, or one that left messages or events. */
  async function left(session: string, scope: Scope | undefined): Promise<string> {
    const { events, log } = store
    // A login in progress has no account yet.
    const isPending = [...(scope?.bots ? [] : await logins.pendingNames())].some(
      name => sessionKeyOf(name) === sessionKeyOf(session),
    )
    if (isPending || (await log.search({ session, scope, limit: 1, offset: 0 })).rows.length > 0)
      return session
    const page = await events.listAfter('', { session, scope, types: ['session.status'], limit: 1 })
    if (page.events.length > 0) return session
    throw sessionNotFoundError(session)
  }
}
