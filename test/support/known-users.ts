/** Who has written to a session, as tests compare it. */
import type { UserContext } from '../../src/model/session.ts'
import type { ContextStore } from '../../src/storage/state.ts'

/** Reads the contexts of the users who have written to a session, by user id. */
export async function knownUsers(
  contexts: Pick<ContextStore, 'find' | 'listUsers'>,
  session: string,
): Promise<Map<string, UserContext>> {
  const found = (await contexts.listUsers([session])).get(session) ?? []
  const known = found.map(async ({ user_id }) => [user_id, (await contexts.find(session, user_id))!] as const)
  return new Map(await Promise.all(known))
}
