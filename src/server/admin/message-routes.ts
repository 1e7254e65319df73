/** The panel's messages: conversations, pages of them, sending, media, what waits, and how much goes on. */
import type { Elysia } from 'elysia'
import type { Conversation } from '../../model/conversation.ts'
import { SendResult } from '../../model/message.ts'
import { invoke } from '../../operations/gate.ts'
import { getWaitingFile } from '../../operations/media.ts'
import { mediaOperations, messageOperations } from '../../operations/operations.ts'
import { verbs } from '../../operations/tools.ts'
import type { Log } from '../../platform/log.ts'
import { addOperations } from '../operation-routes.ts'
import { jsonRoutes } from '../route.ts'
import type { PanelContext } from './account-routes.ts'
import * as bodies from './bodies.ts'

interface MessageOptions {
  maxUploadBytes: number
  log: Log
  /** Tells the open panels. */
  onRead(mark: bodies.ReadBody): void
  onUnread(mark: bodies.UnreadBody): void
}

/** Adds /api/conversations, /api/messages, /api/media, /api/outbox, /api/users and /api/stats. */
export function addMessageRoutes(app: Elysia, context: PanelContext, options: MessageOptions): void {
  addConversationRoutes(app, context, options)
  addPageRoutes(app, context, options)
  addOperations(app, context, messageOperations, '/api')
  const { maxUploadBytes } = options
  addOperations(app, { ...context, maxUploadBytes }, [...mediaOperations, getWaitingFile], '/api')
}

function lineOf({ last_message, ...rest }: Conversation): bodies.ConversationLine {
  const { id, direction, status, user_name, timestamp } = last_message
  const text = last_message.text.slice(0, bodies.shortText).toWellFormed()
  const items = last_message.items.filter(({ kind }) => kind !== 'TEXT')
  return { ...rest, last_message: { id, direction, status, user_name, text, timestamp, items } }
}

/** Adds /api/conversations with all below it, and /api/stats. */
function addConversationRoutes(
  app: Elysia,
  context: PanelContext,
  { onRead, onUnread }: MessageOptions,
): void {
  const { conversations } = context.gateway
  const add = jsonRoutes(app, context, 'messages')
  add('GET /api/conversations', 'conversations', {
    summary: 'All conversations, the newest first',
    description:
      'Each with its newest message in short, what is unread, and until when and how often the bot may answer.',
    answer: bodies.Conversations,
    errors: ['store_unavailable'],
    run: async () => ({ conversations: (await conversations.list()).map(lineOf) }),
  })
  add('POST /api/conversations/read', 'mark_read', {
    summary: 'Mark a conversation as read up to a message',
    description:
      'For the panel alone: consumers of recv are not moved. A lower row than before changes nothing.',
    body: bodies.ReadBody,
    answer: bodies.Success,
    errors: ['store_unavailable'],
    run: async ({ body }) => {
      await conversations.markRead(body.session, body.user_id, body.up_to)
      onRead(body)
      return { success: true }
    },
  })
  add('POST /api/conversations/unread', 'mark_unread', {
    summary: 'Mark a conversation as unread',
    description:
      'One message more counts as unread, until the conversation is marked as read or WeChat takes another answer. One with unread messages stays as it is.',
    body: bodies.UnreadBody,
    answer: bodies.Success,
    errors: ['store_unavailable'],
    run: async ({ body }) => {
      await conversations.markUnread(body.session, body.user_id)
      onUnread(body)
      return { success: true }
    },
  })
  add('GET /api/stats', 'stats', {
    summary: 'Messages per hour',
    description: 'Received and sent, hours without any included.',
    query: bodies.StatsQuery,
    answer: bodies.Stats,
    errors: ['store_unavailable'],
    run: async ({ query }) => ({ hours: await conversations.hours(query.hours ?? 24) }),
  })
}

/** Adds /api/messages. */
function addPageRoutes(app: Elysia, context: PanelContext, { log }: MessageOptions): void {
  const { gateway } = context
  const add = jsonRoutes(app, context, 'messages')
  add('GET /api/messages', 'messages', {
    summary: 'Pages of messages, by any filter',
    description: 'Newest first; next_before leads to the next older page.',
    query: bodies.MessagesQuery,
    answer: bodies.Messages,
    errors: ['store_unavailable'],
    run: ({ query: { msg_type: has_kind, limit = 50, ...query }, signal }) =>
      gateway.history.page({ ...query, has_kind, limit, offset: 0 }, signal),
  })
  add('POST /api/messages', 'send', {
    summary: 'Send text and uploaded media to a user',
    description: 'As the tool send, with media by upload_id alone. Accepted by WeChat is not delivered.',
    body: bodies.SendBody,
    limit: {
      maxBytes: 1024 * 1024,
      hint: 'Send less text, or upload it as a file with POST /api/media and pass its upload_id.',
    },
    answer: SendResult,
    errors: verbs.send.errors,
    run: ({ body, signal }) =>
      invoke(verbs.send, gateway, body, { by: context.by, signal, local: false, onDelivered: () => {} }, log),
  })
}
