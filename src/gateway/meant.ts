/**
 * Resolves the session and user in a filter or a send. An unknown name is an error, because nothing would
 * ever match it.
 */
import type { Logins } from '../accounts/logins.ts'
import { normalizeSessionName, sessionKeyOf, sessionNotFoundError } from '../model/session.ts'
import type { SessionAndUser } from '../push/events.ts'
import { resolveUserId } from '../send/plan.ts'
import type { Storage } from '../storage/storage.ts'

/**
 * Creates a function that resolves the session's name as stored, and a user's name to an id. An id may
 * belong to a user who has not written yet.
 *
 * @throws SvcError `session_not_found`; `invalid_arguments` for a name of no user, or of several
 */
export function createTargetResolver(
  { state: { sessions }, store }: Pick<Storage, 'state' | 'store'>,
  logins: Logins,
) {
  return async ({ session: input, user }: SessionAndUser, field = 'user'): Promise<SessionAndUser> => {
    const name = input === undefined ? undefined : normalizeSessionName(input)
    const session = name === undefined ? undefined : ((await sessions.get(name))?.name ?? (await left(name)))
    const id =
      user === undefined ? undefined : await resolveUserId({ store, sessions }, { user, session }, field)
    return { ...(session !== undefined && { session }), ...(id !== undefined && { user: id }) }
  }

  /** Finds a session without files: one that is being logged in, or one that left messages or events. */
  async function left(session: string): Promise<string> {
    const { events, log } = store
    const isPending = [...(await logins.pendingNames())].some(
      name => sessionKeyOf(name) === sessionKeyOf(session),
    )
    if (isPending || (await log.search({ session, limit: 1, offset: 0 })).rows.length > 0) return session
    const page = await events.listAfter('', { session, types: ['session.status'], limit: 1 })
    if (page.events.length > 0) return session
    throw sessionNotFoundError(session)
  }
}
