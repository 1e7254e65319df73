/** Conversations as a person reads them: their list, pages of messages, marks, and how much is going on. */
import { type Static, Type } from '@sinclair/typebox'
import { Conversation, Hour } from '../model/conversation.ts'
import { isSvcError, SvcError } from '../model/error.ts'
import { HistoryPage, Message, MessageKind } from '../model/message.ts'
import { SessionUser } from '../model/session.ts'
import { between, bounded, closed, flag, integer, optional, told } from '../model/shapes.ts'
import { exampleUser } from './example-values.ts'
import { HistoryInput, pageOf } from './history.ts'
import { operation } from './operation.ts'
import { RowId, Time } from './schema.ts'

/** So much of the text of a message stands in a line of the list. */
const shortText = 200
const lineParts = ['id', 'direction', 'status', 'user_name', 'text', 'timestamp', 'items'] as const
const ConversationLine = Type.Object({
  ...Conversation.properties,
  last_message: Type.Pick(Message, lineParts, {
    description: `The newest message in short: the first ${shortText} characters of its text, and of its items those that are no text.`,
  }),
})

function lineOf({ last_message, ...rest }: Conversation): Static<typeof ConversationLine> {
  const { id, direction, status, user_name, timestamp } = last_message
  const text = last_message.text.slice(0, shortText).toWellFormed()
  const items = last_message.items.filter(({ kind }) => kind !== 'TEXT')
  return { ...rest, last_message: { id, direction, status, user_name, text, timestamp, items } }
}

export const listConversations = operation({
  name: 'list_conversations',
  title: 'List conversations',
  effect: 'read',
  right: 'history',
  description:
    'All conversations, the newest first: each with its newest message in short, what is unread, and until when and how often the bot may answer.',
  input: closed({
    session: optional(bounded(200, 'Only those of this session.')),
    user: optional(bounded(512, 'Only those with this user, by id or name.')),
    limit: optional(between(1, 1000, 'Most of them; all without it.')),
  }),
  output: Type.Array(ConversationLine),
  errors: ['session_not_found', 'store_unavailable'],
  async run({ conversations, events }, { limit, ...named }) {
    const { session, user: user_id } = await events.wanted(named)
    return (await conversations.list({ session, user_id, limit })).map(lineOf)
  },
})

/** For agents, who are told with the messages whether they may answer. */
export const getConversation = operation({
  name: 'get_conversation',
  title: 'Read a conversation',
  effect: 'read',
  right: 'history',
  description:
    'The newest messages of a session with one user, oldest first, and what is left of the right to answer.',
  input: closed({
    session: Type.String({
      maxLength: 200,
      description: 'Name of the session; "" is the default one.',
      examples: ['default'],
    }),
    user: bounded(512, 'Id or name of the user.', { examples: [exampleUser] }),
    since: optional(Time('Only messages not older than this.')),
    limit: between(1, 200, 'Most messages.', { examples: [50] }),
  }),
  output: Type.Object({
    session: Type.String(),
    messages: Type.Array(Message, { description: 'Oldest first.' }),
    total: integer('How many there are in all, at least.'),
    standing: optional(SessionUser),
  }),
  errors: ['not_found', 'session_not_found', 'store_unavailable'],
  async run({ accounts, events, history }, { session, limit, since, ...named }, { signal }) {
    const { user = named.user } = await events.wanted({ session, user: named.user })
    const [page, users] = await Promise.all([
      history.page({ session, user_id: user, limit, offset: 0, since }, signal),
      // Of one that is logged out nobody can be answered.
      accounts.users(session).catch(error => {
        if (isSvcError(error, 'session_not_found')) return error
        throw error
      }),
    ])
    const standing = Array.isArray(users) ? users.find(({ user_id }) => user_id === user) : undefined
    if (page.messages.length === 0 && !standing)
      throw Array.isArray(users)
        ? new SvcError('not_found', 'this session has no conversation with this user')
        : users
    const messages = page.messages.toReversed()
    return { session: messages[0]?.session ?? session, messages, total: page.total, standing }
  },
})

const Ends = closed({
  session: bounded(200, 'Of this session.', { examples: ['default'] }),
  user_id: bounded(512, 'With this user.', { examples: [exampleUser] }),
})
const Done = Type.Object({ success: flag('True.') })

export const markRead = operation({
  name: 'mark_read',
  title: 'Mark a conversation as read up to a message',
  effect: 'write',
  right: 'conversations',
  description:
    'For people: consumers of recv are not moved. A lower row than before changes nothing. Every open panel is told.',
  input: closed({
    ...Ends.properties,
    up_to: RowId('Row id of the newest message that was looked at.', { examples: [43] }),
  }),
  output: Done,
  errors: ['session_not_found', 'store_unavailable'],
  async run({ conversations, events }, { up_to, ...ends }) {
    const { session, user } = await events.wanted({ session: ends.session, user: ends.user_id }, 'user_id')
    await conversations.markRead(session, user, up_to)
    return { success: true }
  },
})

export const markUnread = operation({
  name: 'mark_unread',
  title: 'Mark a conversation as unread',
  effect: 'write',
  right: 'conversations',
  description:
    'One message more counts as unread, until the conversation is marked as read or WeChat takes another answer. One with unread messages stays as it is. Every open panel is told.',
  input: Ends,
  output: Done,
  errors: ['session_not_found', 'store_unavailable'],
  async run({ conversations, events }, ends) {
    const { session, user } = await events.wanted({ session: ends.session, user: ends.user_id }, 'user_id')
    await conversations.markUnread(session, user)
    return { success: true }
  },
})

const { bot_id: _, offset: __, ...filters } = HistoryInput.properties

/** Beside the tool `history`, which finds kinds by the first item and skips by an offset. */
export const listMessages = operation({
  name: 'list_messages',
  title: 'Pages of messages, by any filter',
  effect: 'read',
  right: 'history',
  description: 'Newest first; next_before leads to the next older page.',
  input: closed({ ...filters, msg_type: optional(told(MessageKind, 'With an item of this kind.')) }),
  output: Type.Omit(HistoryPage, ['limit', 'offset']),
  errors: ['session_not_found', 'store_unavailable'],
  run: (gateway, { msg_type: has_kind, limit = 50, ...rest }, { signal }) =>
    pageOf(gateway, { ...rest, has_kind, limit, offset: 0 }, signal),
})

export const countMessages = operation({
  name: 'count_messages',
  title: 'Messages per hour',
  effect: 'read',
  right: 'history',
  description: 'Received and sent, hours without any included.',
  input: closed({ hours: optional(Type.Integer({ minimum: 1, maximum: 168, default: 24 })) }),
  output: Type.Array(Hour, { description: 'Oldest first; the running one last.' }),
  errors: ['store_unavailable'],
  run: ({ conversations }, { hours = 24 }) => conversations.hours(hours),
})
