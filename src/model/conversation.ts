/** Conversations as a person looks at them, and how much is going on. */
import { type Static, Type } from '@sinclair/typebox'
import { Message } from './message.ts'

/** What one session and one user wrote to each other. */
export const Conversation = Type.Object({
  session: Type.String(),
  user_id: Type.String(),
  last_message: Message,
  unread: Type.Integer({
    description: 'Received since the last answer, and not marked as read; counted up to 100.',
  }),
  window_expires_at: Type.Optional(
    Type.Integer({ description: 'Unix milliseconds until when the bot may answer.' }),
  ),
  remaining: Type.Optional(Type.Integer({ description: 'Answers left until the user writes again.' })),
})
export type Conversation = Static<typeof Conversation>

/** Messages of one hour. */
export const Hour = Type.Object({
  from: Type.Integer({ description: 'Unix milliseconds of its beginning.' }),
  received: Type.Integer(),
  sent: Type.Integer({ description: 'Those that went out: none that was refused or waits.' }),
})
export type Hour = Static<typeof Hour>
