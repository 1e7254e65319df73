/** Consumers, in the public form. */
import { type Static, Type } from '@sinclair/typebox'
import { flag, integer, optional, text } from './shapes.ts'

export const ConsumerInfo = Type.Object(
  {
    name: text('Its name. Seen by the owner, a consumer of a key is <id of the key>/<name>.'),
    key_name: optional.text('Name of the key it belongs to, for the owner.'),
    unread: integer(
      'Number of received messages that it was not given, or has not acknowledged. For a key that may not see all messages, of those it may see, counted up to 10,000.',
    ),
    last_read_at: integer('Unix milliseconds, precise to an hour: when it last asked for messages.'),
    acknowledges: flag('Whether only `ack` moves it.'),
  },
  { description: 'A reader of messages with its own position.' },
)
export type ConsumerInfo = Static<typeof ConsumerInfo>
