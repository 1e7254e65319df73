/** Operations for conversations: their list, pages of messages, read marks, and messages per hour. */
import { type Static, Type } from '@sinclair/typebox'
import { Conversation, Hour } from '../model/conversation.ts'
import { isSvcError, SvcError } from '../model/error.ts'
import { HistoryPage, Message, MessageKind } from '../model/message.ts'
import { SessionUser } from '../model/session.ts'
import { between, bounded, closed, flag, integer, optional, withDescription } from '../model/shapes.ts'
import { exampleUser } from './example-values.ts'
import { getPage, HistoryInput } from './history.ts'
import { defineOperation } from './operation.ts'
import { RowId, Time } from './schema.ts'

/** Length of the message text in the list of conversations, in characters. */
const shortText = 200
const lineParts = [
  'id',
  'direction',
  'status',
  'reason_code',
  'user_name',
  'text',
  'timestamp',
  'items',
] as const
const ConversationLine = Type.Object({
  ...Conversation.properties,
  last_message: Type.Pick(Message, lineParts, {
    description: `The newest message that is no draft, shortened: the first ${shortText} characters of its text, and its items except texts.`,
  }),
})

function lineOf({ last_message, ...rest }: Conversation): Static<typeof ConversationLine> {
  const { id, direction, status, reason_code, user_name, timestamp } = last_message
  const text = last_message.text.slice(0, shortText).toWellFormed()
  const items = last_message.items.filter(({ kind }) => kind !== 'TEXT')
  return { ...rest, last_message: { id, direction, status, reason_code, user_name, text, timestamp, items } }
}

export const listConversations = defineOperation({
  name: 'list_conversations',
  title: 'List conversations',
  effect: 'read',
  right: 'history',
  description:
    'Lists all conversations, newest first: the shortened newest message, the number of unread messages, and until when and how often the bot may answer.',
  input: closed({
    session: optional.bounded(200, 'Only conversations of this session.'),
    user: optional.bounded(512, 'Only conversations with this user, by id or name.'),
    limit: optional.between(1, 1000, 'Maximum number of conversations. Without it: all.'),
  }),
  output: Type.Array(ConversationLine),
  errors: ['session_not_found'],
  async run({ conversations, events }, { limit, ...names }) {
    const { session, user: user_id } = await events.resolveFilter(names)
    return (await conversations.list({ session, user_id, limit })).map(lineOf)
  },
})

/** Returns a conversation for agents: the messages, and whether the bot may answer. */
export const getConversation = defineOperation({
  name: 'get_conversation',
  title: 'Read a conversation',
  effect: 'read',
  right: 'history',
  description:
    'The newest messages of a session with one user, oldest first, and how many answers are left until when.',
  input: closed({
    session: Type.String({
      maxLength: 200,
      description: 'Name of the session; "" is the default one.',
      examples: ['default'],
    }),
    user: bounded(512, 'Id or name of the user.', { examples: [exampleUser] }),
    since: optional(Time('Only messages since this time (inclusive).')),
    limit: between(1, 200, 'Maximum number of messages.', { examples: [50] }),
  }),
  output: Type.Object({
    session: Type.String(),
    messages: Type.Array(Message, { description: 'Oldest first.' }),
    total: integer('Number of all matching messages; exact up to 10,000.'),
    standing: optional(SessionUser),
  }),
  errors: ['not_found', 'session_not_found'],
  async run({ accounts, events, history }, { session, limit, since, user: given }, { signal }) {
    const { user = given } = await events.resolveFilter({ session, user: given })
    const [page, users] = await Promise.all([
      history.page({ session, user_id: user, limit, offset: 0, since }, signal),
      // A session that is logged out has no users to answer, but may have messages.
      accounts.listUsers(session).catch(error => {
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

const ConversationInput = closed({
  session: bounded(200, 'Session of the conversation.', { examples: ['default'] }),
  user_id: bounded(512, 'User of the conversation.', { examples: [exampleUser] }),
})
const Done = Type.Object({ success: flag('True.') })

export const markRead = defineOperation({
  name: 'mark_read',
  title: 'Mark a conversation as read up to a message',
  effect: 'write',
  audited: false,
  right: 'conversations',
  description:
    'For people: moves no consumer of recv. A row before the last mark changes nothing. Every open panel is notified.',
  input: closed({
    ...ConversationInput.properties,
    up_to: RowId('Row id of the newest message that was read.', { examples: [43] }),
  }),
  output: Done,
  errors: ['session_not_found'],
  async run({ conversations, events }, { up_to, ...ends }) {
    const { session, user } = await events.resolveFilter(
      { session: ends.session, user: ends.user_id },
      'user_id',
    )
    await conversations.markRead(session, user, up_to)
    return { success: true }
  },
})

export const markUnread = defineOperation({
  name: 'mark_unread',
  title: 'Mark a conversation as unread',
  effect: 'write',
  audited: false,
  right: 'conversations',
  description:
    'Counts one message as unread, until the conversation is marked as read or WeChat takes another answer. A conversation with unread messages does not change. Every open panel is notified.',
  input: ConversationInput,
  output: Done,
  errors: ['session_not_found'],
  async run({ conversations, events }, ends) {
    const { session, user } = await events.resolveFilter(
      { session: ends.session, user: ends.user_id },
      'user_id',
    )
    await conversations.markUnread(session, user)
    return { success: true }
  },
})

const { bot_id: _, offset: __, ...filters } = HistoryInput.properties

/** For the panel. The tool `history` compares only the kind of the first item, and has an offset. */
export const listMessages = defineOperation({
  name: 'list_messages',
  title: 'Pages of messages, by any filter',
  effect: 'read',
  right: 'history',
  description: 'Newest first; pass next_before as before to get the next older page.',
  input: closed({
    ...filters,
    msg_type: optional(withDescription(MessageKind, 'Only messages with an item of this kind.')),
  }),
  output: Type.Omit(HistoryPage, ['limit', 'offset']),
  errors: ['session_not_found'],
  run: (gateway, { msg_type: has_kind, limit = 50, ...rest }, { signal }) =>
    getPage(gateway, { ...rest, has_kind, limit, offset: 0 }, signal),
})

export const countMessages = defineOperation({
  name: 'count_messages',
  title: 'Messages per hour',
  effect: 'read',
  right: 'history',
  description: 'Messages received and sent in each hour, including hours without messages.',
  input: closed({ hours: optional(Type.Integer({ minimum: 1, maximum: 168, default: 24 })) }),
  output: Type.Array(Hour, { description: 'Oldest first; the current hour last.' }),
  run: ({ conversations }, { hours = 24 }) => conversations.countPerHour(hours),
})
