/** MCP Events (SEP-3415): what a subscription asks for, and its events as the protocol writes them. */
import { type Static, Type } from '@sinclair/typebox'
import { MessageKind } from './message.ts'
import { bounded, closed, optional } from './shapes.ts'

const account = optional.bounded(200, 'Only events of this account: its session name.')

/** Arguments of a subscription to `message.*`. */
export const MessageArguments = closed({
  account,
  person: optional.bounded(
    512,
    'Only messages from and to this person: the id, or the name that people here gave.',
  ),
  kinds: optional(Type.Array(MessageKind, { description: 'Only messages of these kinds.', maxItems: 6 })),
  words: optional(
    Type.Array(bounded(100), {
      description: 'Only messages whose text has all of these words, in upper or lower case.',
      maxItems: 10,
    }),
  ),
})
export type SubscriptionArguments = Static<typeof MessageArguments>

/** The arguments that are not the session and the user of an endpoint. */
export type MessageFilter = Pick<SubscriptionArguments, 'kinds' | 'words'>

/** Arguments of a subscription to `session.*`. */
export const SessionArguments = closed({ account })

/** Whether the data of an event has the kinds and words that a subscription asks for. */
export function matchesArguments({ kinds, words }: MessageFilter, data: object): boolean {
  const { msg_type, text = '' } = data as { msg_type?: MessageKind; text?: string }
  const lower = text.toLowerCase()
  return (
    (kinds === undefined || (msg_type !== undefined && kinds.includes(msg_type))) &&
    (words ?? []).every(word => lower.includes(word.toLowerCase()))
  )
}

/** @param cursor left out where the answer carries it for all its events */
export const toOccurrence = (
  { id, type, timestamp, data }: { id: string; type: string; timestamp: string; data: object },
  cursor?: string,
) => ({ eventId: id, name: type, timestamp, data, ...(cursor !== undefined && { cursor }) })
