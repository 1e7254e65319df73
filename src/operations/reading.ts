/** What readers of messages ask for besides `recv`: a place of their own, how receiving stands, and a stream. */
import { Type } from '@sinclair/typebox'
import type { Message } from '../model/message.ts'
import type { Receiving } from '../model/session.ts'
import { between, closed, flag, optional } from '../model/shapes.ts'
import { knownSession } from './history.ts'
import { operation } from './operation.ts'
import { Consumer, recv } from './recv.ts'

const { after, session } = recv.input.properties

export const beginReading = operation({
  name: 'begin_reading',
  title: 'Give a reader a place',
  effect: 'write',
  right: 'recv',
  description:
    'A new consumer begins after what any consumer was given; one that is known stays where it is.',
  input: closed({ consumer: Consumer() }),
  output: Type.Object({ success: flag('True.') }),
  errors: ['store_unavailable'],
  async run({ inbox }, { consumer }) {
    await inbox.begin(consumer)
    return { success: true }
  },
})

/** How receiving stands, and how many messages wait. */
export interface InboxState extends Receiving {
  readonly waiting: number
}

export const describeInbox = operation({
  name: 'describe_inbox',
  title: 'What a reader is told beside its messages',
  effect: 'read',
  right: 'recv',
  description:
    'Whether any session is connected, which sessions bring no messages, and how many messages wait for a consumer or after a row. Moves nothing.',
  input: closed({
    consumer: optional(Consumer()),
    after,
    session,
    count: optional(between(1, 1000, 'Where counting what waits ends; without it nothing is counted.')),
  }),
  output: Type.Unsafe<InboxState>({ type: 'object' }),
  errors: ['session_not_found', 'store_unavailable'],
  async run({ accounts, inbox }, { consumer = 'default', after, session, count }) {
    const waiting = count ? await inbox.waiting({ consumer, after, session }, count) : 0
    return { ...(await accounts.receiving(session)), waiting }
  },
})

/** Received messages one by one, until the signal aborts or the service stops. */
export interface FollowedMessages {
  /** The row after which they begin; absent for a consumer, which has a place of its own. */
  readonly from?: number
  /** As `Inbox.follow`. */
  follow(signal: AbortSignal): AsyncGenerator<Message, void, void>
}

export const followMessages = operation({
  name: 'follow_messages',
  title: 'Follow the received messages',
  effect: 'write',
  right: 'recv',
  description:
    'One by one, from the place of a consumer, after a row, or from now on. Asking for the next message says that the one before is dealt with.',
  input: closed({
    consumer: optional(Consumer()),
    after,
    session,
    known: optional(flag('Fail for a session that neither exists nor left messages.')),
  }),
  output: Type.Unsafe<FollowedMessages>({ type: 'object' }),
  errors: ['session_not_found', 'store_unavailable'],
  async run(gateway, { consumer, after, known = false, ...only }): Promise<FollowedMessages> {
    const { inbox } = gateway
    const session = only.session && known ? await knownSession(gateway, only.session) : only.session
    const from = consumer === undefined ? (after ?? (await inbox.end())) : undefined
    return { from, follow: signal => inbox.follow({ consumer, from, session }, signal) }
  },
})
