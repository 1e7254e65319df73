/** Which session and which user somebody means who wants to hear of them, or to send: a name that nobody has would be silence for ever. */
import type { Logins } from '../accounts/logins.ts'
import { sessionKey, sessionName, sessionNotFound } from '../model/session.ts'
import type { Who } from '../push/events.ts'
import { addressee } from '../send/plan.ts'
import type { Storage } from '../storage/storage.ts'

/**
 * Names as they are kept, users by id; an id may be of somebody who is yet to write.
 *
 * @throws SvcError `session_not_found`; `invalid_arguments` for a name that no user has, or several
 */
export function meantBy({ state: { sessions }, store }: Pick<Storage, 'state' | 'store'>, logins: Logins) {
  return async ({ session: given, user }: Who, field = 'user'): Promise<Who> => {
    const name = given === undefined ? undefined : sessionName(given)
    const session = name === undefined ? undefined : ((await sessions.get(name))?.name ?? (await left(name)))
    const id = user === undefined ? undefined : await addressee({ store, sessions }, { user, session }, field)
    return { ...(session !== undefined && { session }), ...(id !== undefined && { user: id }) }
  }

  /** One that is being logged in, or was: then it is known by what it left. */
  async function left(session: string): Promise<string> {
    const { events, log } = store
    const isPending = [...(await logins.pending())].some(one => sessionKey(one) === sessionKey(session))
    if (isPending || (await log.history({ session, limit: 1, offset: 0 })).rows.length > 0) return session
    const told = await events.after('', { session, types: ['session.status'], limit: 1 })
    if (told.events.length > 0) return session
    throw sessionNotFound(session)
  }
}
