/** Conversations as a person sees them, and counts of messages per hour. */

import { type Static, Type } from '@sinclair/typebox'
import { Message } from './message.ts'
import { integer, optional } from './shapes.ts'

/** The messages between one session and one user. */
export const Conversation = Type.Object({
  session: Type.String(),
  user_id: Type.String(),
  last_message: Message,
  unread: integer(
    'Messages received since the last answer that WeChat accepted, and not marked as read. Counted up to 100.',
  ),
  window_expires_at: optional.integer('Unix milliseconds until when the bot may answer.'),
  remaining: optional.integer('Answers left until the user writes again.'),
})
export type Conversation = Static<typeof Conversation>

/** A person marked a conversation: as read up to a message, or as unread if `up_to` is absent. */
export interface ConversationMark {
  session: string
  user_id: string
  /** Row id of the message. */
  up_to?: number
}

/** The number of messages in one hour. */
export const Hour = Type.Object({
  from: integer('Unix milliseconds: start of the hour.'),
  received: Type.Integer(),
  sent: integer('Messages that went out, without refused and waiting ones.'),
})
export type Hour = Static<typeof Hour>
