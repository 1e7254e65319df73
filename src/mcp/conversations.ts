/** Conversations as agents read them: the newest messages with one user, and whether the bot may still answer. */
import type { Gateway } from '../gateway/gateway-api.ts'
import { isSvcError } from '../model/error.ts'
import type { Message } from '../model/message.ts'
import type { SessionUser } from '../model/session.ts'
import { untrustedText } from '../operations/untrusted.ts'
import { localTime } from '../platform/format.ts'

export interface Conversation {
  session: string
  user: string
  /** The newest ones, oldest first. */
  messages: Message[]
  /** How many there are in all, at least. */
  total: number
  /** The right to answer; undefined when the user never wrote to the session as it is logged in now. */
  standing?: SessionUser
}

/**
 * The newest messages with one user; undefined when there are none and the user is not known to the session.
 *
 * @throws SvcError `session_not_found`, `invalid_arguments`, `store_unavailable`
 */
export async function conversationWith(
  gateway: Gateway,
  request: { session: string; user: string; limit: number; since?: number },
  signal: AbortSignal,
): Promise<Conversation | undefined> {
  const { session, user, limit, since } = request
  const [page, users] = await Promise.all([
    gateway.history.page({ session, user_id: user, limit, offset: 0, since }, signal),
    usersOf(gateway, session),
  ])
  const standing = users.known.find(({ user_id }) => user_id === user)
  if (page.messages.length === 0) {
    if (users.missing) throw users.missing
    if (!standing) return undefined
  }
  return {
    session: page.messages[0]?.session ?? session,
    user,
    messages: page.messages.toReversed(),
    total: page.total,
    standing,
  }
}

/** The users of a session; of one that is logged out nobody, since nobody there can be answered. */
async function usersOf(
  gateway: Gateway,
  session: string,
): Promise<{ known: SessionUser[]; missing?: unknown }> {
  try {
    return { known: await gateway.accounts.users(session) }
  } catch (error) {
    if (isSvcError(error, 'session_not_found')) return { known: [], missing: error }
    throw error
  }
}

/** A conversation as text in which the user's words stand marked as what they are. */
export function conversationText(conversation: Conversation, now: number, what = 'Conversation'): string {
  const { messages, total } = conversation
  const answer = answerText(conversation.standing, now)
  if (messages.length === 0) return `${what}: no messages. ${answer}`
  const shown = messages.length < total ? `the newest ${messages.length} of ${total}` : String(total)
  return untrustedText(messages, {
    heading: `${what}: ${shown} message${total === 1 ? '' : 's'}, oldest first. ${answer}`,
  })
}

/** Whether the bot may answer, how often and until when. */
export function answerText(standing: SessionUser | undefined, now: number): string {
  const until = standing?.window_expires_at
  if (!standing) return 'The bot cannot answer: this user never wrote to the session as it is logged in now.'
  if (until !== undefined && until <= now)
    return `The bot cannot answer: the window closed at ${localTime(until)}; the user has to write first.`
  if (standing.remaining === 0)
    return 'The bot cannot answer: its answers are used up; the user has to write first.'
  return `The bot may answer ${standing.remaining} more time${standing.remaining === 1 ? '' : 's'}${
    until === undefined ? '' : ` until ${localTime(until)}`
  }.`
}
