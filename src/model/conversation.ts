/** Conversations as a person looks at them, and how much is going on. */

import { type Static, Type } from '@sinclair/typebox'
import { Message } from './message.ts'
import { integer, optional } from './shapes.ts'

/** What one session and one user wrote to each other. */
export const Conversation = Type.Object({
  session: Type.String(),
  user_id: Type.String(),
  last_message: Message,
  unread: integer(
    'Received since the last answer that WeChat took, and not marked as read; counted up to 100.',
  ),
  window_expires_at: optional(integer('Unix milliseconds until when the bot may answer.')),
  remaining: optional(integer('Answers left until the user writes again.')),
})
export type Conversation = Static<typeof Conversation>

/** A person marked a conversation: as read up to a message, or without one as unread. */
export interface ConversationMark {
  session: string
  user_id: string
  /** Row id of the message. */
  up_to?: number
}

/** Messages of one hour. */
export const Hour = Type.Object({
  from: integer('Unix milliseconds of its beginning.'),
  received: Type.Integer(),
  sent: integer('Those that went out: none that was refused or waits.'),
})
export type Hour = Static<typeof Hour>
