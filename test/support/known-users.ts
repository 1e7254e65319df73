/** Who has written to a session, as tests compare it. */
import type { UserContext } from '../../src/model/session.ts'
import type { ContextStore } from '../../src/storage/state.ts'

/** Reads the contexts of the users who have written to a session, by user id. */
export async function knownUsers(
  contexts: Pick<ContextStore, 'listUsers'>,
  session: string,
): Promise<Map<string, UserContext>> {
  const found = (await contexts.listUsers([session])).get(session) ?? []
  return new Map(found.map(({ context, user_id }) => [user_id, context]))
}
