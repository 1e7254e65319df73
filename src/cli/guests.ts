/** Leaves guests out where messages reach a program of the owner by themselves: only the agent of their invitation answers them. */
import type { Message } from '../model/message.ts'
import type { Session } from '../model/session.ts'

/** Returns the messages of accounts that are here and have an owner. */
export function withoutGuests(messages: readonly Message[], sessions: readonly Session[]): Message[] {
  const owned = new Set(sessions.flatMap(({ invitation, name }) => (invitation === undefined ? [name] : [])))
  return messages.filter(({ session }) => owned.has(session))
}
