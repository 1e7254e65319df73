/** Who has written to a session, as tests compare it. */
import type { UserContext } from '../../src/model/session.ts'
import type { ContextStore } from '../../src/storage/state.ts'

/** By user id, the contexts of those who have written to a session. */
export async function knownUsers(
  contexts: Pick<ContextStore, 'listUsers'>,
  session: string,
): Promise<Map<string, UserContext>> {
  const found = (await contexts.listUsers([session])).get(session) ?? []
  return new Map(found.map(({ context, user_id }) => [user_id, context]))
}
