/**
 * Operations for readers of messages beside `recv`: a consumer's position, the state of receiving, and a
 * stream.
 */
import { Type } from '@sinclair/typebox'
import type { Message } from '../model/message.ts'
import type { Receiving } from '../model/session.ts'
import { closed, flag, optional } from '../model/shapes.ts'
import type { OpenMessage } from '../receive/inbox.ts'
import { resolveSessionName } from './history.ts'
import { defineOperation } from './operation.ts'
import { Consumer, recv } from './recv.ts'
import { RowId } from './schema.ts'

const { session } = recv.input.properties
const after = optional(RowId('Row id: the messages after it.'))
const known = optional.flag('Fail for a session that does not exist and has no messages.')

export const beginReading = defineOperation({
  name: 'begin_reading',
  title: 'Give a consumer its position',
  effect: 'write',
  audited: false,
  right: 'recv',
  partOf: recv.name,
  description:
    'A new consumer starts after that row, or after the newest message that any consumer got. A known consumer keeps its position.',
  input: closed({ consumer: Consumer(), after }),
  output: Type.Object({ success: flag('True.') }),
  async run({ inbox }, { consumer, after }) {
    await inbox.begin(consumer, { after })
    return { success: true }
  },
})

/** State of receiving, and the number of waiting messages. */
export interface InboxState extends Receiving {
  readonly waiting: number
  /** Same as `PeopleStore.countErasures`. */
  readonly erasures: number
}

export const describeInbox = defineOperation({
  name: 'describe_inbox',
  title: 'State of the inbox',
  effect: 'read',
  right: 'recv',
  partOf: recv.name,
  description:
    'Whether any session is connected, which sessions bring no messages, and how many messages wait for a consumer or after a row. Moves no consumer.',
  input: closed({
    consumer: optional(Consumer()),
    after,
    session,
    count: optional.between(1, 1000, 'Count waiting messages up to this number. Without it: do not count.'),
  }),
  output: Type.Unsafe<InboxState>({ type: 'object' }),
  errors: ['session_not_found'],
  async run({ accounts, inbox, people }, { consumer = 'default', after, session, count }) {
    const erasures = await people.countErasures()
    const waiting = count ? await inbox.countWaiting({ consumer, after, session }, count) : 0
    return { ...(await accounts.getReceiving(session)), waiting, erasures }
  },
})

/** Received messages one by one, until the signal aborts or the service stops. */
export interface FollowedMessages {
  /** Row after which the messages start. Absent with a consumer, which has its own position. */
  readonly from?: number
  /** Same as `Inbox.follow`. */
  follow(signal: AbortSignal): AsyncGenerator<Message, void, void>
}

export const followMessages = defineOperation({
  name: 'follow_messages',
  title: 'Follow the received messages',
  effect: 'write',
  audited: false,
  right: 'recv',
  description:
    'Messages one by one, from the position of a consumer, after a row, or from now on. Asking for the next message acknowledges the one before.',
  input: closed({
    consumer: optional(Consumer()),
    after,
    session,
    known,
  }),
  output: Type.Unsafe<FollowedMessages>({ type: 'object' }),
  errors: ['session_not_found'],
  async run(gateway, { consumer, after, known = false, session: name }): Promise<FollowedMessages> {
    const { inbox } = gateway
    const session = name && known ? await resolveSessionName(gateway, name) : name
    const from = consumer === undefined ? (after ?? (await inbox.getHead())) : undefined
    // A message that comes before the first claim is not skipped.
    if (consumer !== undefined) await inbox.begin(consumer, { atEnd: true })
    return { from, follow: signal => inbox.follow({ consumer, from, session }, signal) }
  },
})

/** Received messages, each of which stays open until it is settled. */
export interface OpenMessages {
  /** Same as `Inbox.open`. */
  follow(signal: AbortSignal): AsyncGenerator<OpenMessage, void, void>
}

export const openMessages = defineOperation({
  name: 'open_messages',
  title: 'Open the received messages',
  effect: 'write',
  audited: false,
  right: 'recv',
  description:
    'Messages one by one, from the position of a consumer. Each stays open until the caller settles it. Any number may be open.',
  input: closed({ consumer: Consumer(), session, known }),
  output: Type.Unsafe<OpenMessages>({ type: 'object' }),
  errors: ['session_not_found'],
  async run(gateway, { consumer, known = false, session: name }): Promise<OpenMessages> {
    const session = name && known ? await resolveSessionName(gateway, name) : name
    await gateway.inbox.begin(consumer, { atEnd: true })
    return { follow: signal => gateway.inbox.open({ consumer, session }, signal) }
  },
})
