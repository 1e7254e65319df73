/** Leaves guests out where messages reach a program of the owner by themselves: only the agent of their invitation answers them. */
import type { Gateway } from '../gateway/gateway-api.ts'
import type { Message } from '../model/message.ts'

/** Returns the messages of accounts that are here and have an owner. */
export async function withoutGuests(
  messages: readonly Message[],
  { accounts }: Pick<Gateway, 'accounts'>,
): Promise<Message[]> {
  const all = messages.length === 0 ? [] : await accounts.list()
  const owned = new Set(all.flatMap(({ invitation, name }) => (invitation === undefined ? [name] : [])))
  return messages.filter(({ session }) => owned.has(session))
}
