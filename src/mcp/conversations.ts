/** Formats a conversation for agents: its newest messages, and whether the bot may still answer. */
import type { Static } from '@sinclair/typebox'
import type { SessionUser } from '../model/session.ts'
import type { getConversation } from '../operations/conversations.ts'
import { formatUntrusted } from '../operations/untrusted.ts'
import { formatLocalTime } from '../platform/format.ts'

type Conversation = Static<(typeof getConversation)['output']>

/** Formats a conversation as text. The user's words are marked as untrusted, see `formatUntrusted`. */
export function formatConversation(conversation: Conversation, now: number, what = 'Conversation'): string {
  const { messages, total } = conversation
  const answer = formatAnswerState(conversation.standing, now)
  if (messages.length === 0) return `${what}: no messages. ${answer}`
  const shown = messages.length < total ? `the newest ${messages.length} of ${total}` : String(total)
  return formatUntrusted(messages, {
    heading: `${what}: ${shown} message${total === 1 ? '' : 's'}, oldest first. ${answer}`,
  })
}

/** Formats whether the bot may answer a user, how often and until when. */
export function formatAnswerState(standing: SessionUser | undefined, now: number): string {
  const until = standing?.window_expires_at
  if (!standing) return 'The bot cannot answer: this user never wrote to the session as it is logged in now.'
  if (until !== undefined && until <= now)
    return `The bot cannot answer: the window closed at ${formatLocalTime(until)}; the user has to write first.`
  if (standing.remaining === 0)
    return 'The bot cannot answer: its answers are used up; the user has to write first.'
  return `The bot may answer ${standing.remaining} more time${standing.remaining === 1 ? '' : 's'}${
    until === undefined ? '' : ` until ${formatLocalTime(until)}`
  }.`
}
