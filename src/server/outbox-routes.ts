/** What waits for users to write, over HTTP: listed, and cancelled one by one. */

import { Type } from '@sinclair/typebox'
import type { Elysia } from 'elysia'
import { Cancelled, OutboxEntry, OutboxFilter } from '../model/message.ts'
import { bounded, closed } from '../model/shapes.ts'
import { jsonRoutes, type RouteContext } from './route.ts'

/** Path of /outbox/{id}. */
const EntryPath = closed({
  id: bounded(64, 'The outbox_id that send answered with.', { examples: ['12'] }),
})

const exampleEntry = {
  outbox_id: '12',
  session: 'default',
  to_user: 'o9cq80wXy3kQ@im.wechat',
  created_at: 1767225600000,
  expires_at: 1767830400000,
  waits_for: 'user',
  parts: [{ id: 43, kind: 'text', sent_as: 'text', status: 'queued', text: 'Your order has been shipped.' }],
}

const { waits_for: _, ...ended } = exampleEntry
const exampleEnded = {
  ...ended,
  ended: true,
  parts: [{ id: 43, kind: 'text', sent_as: 'text', status: 'accepted', message_id: '7412365478965412366' }],
}

/** Adds POST /outbox/{id}/approve, below `prefix`: for people, so never beside MCP alone. */
export function addApprovalRoute(app: Elysia, context: RouteContext, prefix = ''): void {
  const add = jsonRoutes(app, context, 'messages', prefix)
  add('POST /outbox/:id/approve', 'approve_outbox', {
    summary: 'Say yes to a send that waits for approval',
    description:
      'For a person, never for an agent. With --confirm-send a send from an MCP client that cannot ask anybody waits up to 24 hours with waits_for "approval" in GET /outbox. This sends it, and answers with what became of it. When it may not go now, the call fails and it goes on waiting for a yes; with when_closed "queue" it waits for the user instead. DELETE /outbox/{id} declines it.',
    params: EntryPath,
    answer: OutboxEntry,
    errors: [
      'not_found',
      'not_connected',
      'window_closed',
      'quota_exhausted',
      'text_too_long',
      'rate_limited',
      'store_unavailable',
    ],
    examples: [{ summary: 'It went out', output: exampleEnded }],
    run: ({ params }) => context.gateway.outbox.approve(params.id),
  })
}

/** Adds GET /outbox, GET and DELETE /outbox/{id}, below `prefix`. */
export function addOutboxRoutes(app: Elysia, context: RouteContext, prefix = ''): void {
  const { outbox } = context.gateway
  const add = jsonRoutes(app, context, 'messages', prefix)
  add('GET /outbox', 'list_outbox', {
    summary: 'List what waits to be sent',
    description:
      'Messages sent with when_closed "queue" that wait until they may go, in the order in which they go out, and those that a person has to say yes to first. What has been sent, has expired or was cancelled is not here any more: GET /outbox/{id} tells what became of it.',
    query: OutboxFilter,
    answer: Type.Array(OutboxEntry, { description: 'Oldest first.' }),
    errors: ['session_not_found', 'store_unavailable'],
    examples: [{ summary: 'One message waits', output: [exampleEntry] }],
    run: ({ query }) => outbox.list(query),
  })
  add('GET /outbox/:id', 'get_outbox', {
    summary: 'What became of a queued send',
    description:
      'By the outbox_id that send answered with, also after it left, until a week after the call. ended says that nothing of it waits any more; the parts tell what became of each.',
    params: EntryPath,
    answer: OutboxEntry,
    errors: ['not_found', 'store_unavailable'],
    examples: [{ summary: 'It went out', output: exampleEnded }],
    run: ({ params }) => outbox.get(params.id),
  })
  add('DELETE /outbox/:id', 'cancel_outbox', {
    summary: 'Cancel a queued send',
    description:
      'What waits of it will not be sent; in history it is refused, with the reason_code cancelled, or declined where a person had to say yes. What has been sent already, or is being sent right now, stays as it is.',
    params: EntryPath,
    answer: Cancelled,
    errors: ['not_found', 'store_unavailable'],
    examples: [{ summary: 'Cancelled', output: { success: true, outbox_id: '12', cancelled: 1 } }],
    run: ({ params }) => outbox.cancel(params.id),
  })
}
