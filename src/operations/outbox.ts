/** Operations for messages that wait: until they may be sent, or until a person approves them. */
import { Type } from '@sinclair/typebox'
import type { Gateway } from '../gateway/gateway-api.ts'
import type { Call } from '../model/call.ts'
import { Cancelled, OutboxEntry, OutboxFilter } from '../model/message.ts'
import { bounded, closed, optional } from '../model/shapes.ts'
import { withoutUndefined } from '../platform/fields.ts'
import { exampleUser } from './example-values.ts'
import { defineOperation } from './operation.ts'

const OneEntry = closed({ id: bounded(64, 'The outbox_id that send answered with.', { examples: ['12'] }) })
/** Several may be cancelled, approved or declined by one command. */
const ids = { form: /^\d+$/ }
/** A caller without the rights `outbox` and `approve` sees and cancels only its own sends. */
export const outboxRights = ['outbox', 'send', 'draft', 'approve'] as const
const Entries = Type.Array(OutboxEntry, { description: 'Oldest first.' })

/** Names, in the audit line of a decision, whose messages it decides, for whom, and whether their text is changed. */
async function findDecided({ outbox }: Gateway, { id, text }: { id: string; text?: string }, { by }: Call) {
  const entry = await outbox.get(by, id).catch(() => undefined)
  if (!entry) return {}
  return withoutUndefined({
    subject: `${entry.session} ${entry.to_user}`,
    messages: entry.parts.map(part => part.id),
    draft_by: entry.made_by,
    changed:
      text !== undefined && text !== entry.parts.find(({ kind }) => kind === 'text')?.text
        ? ('text' as const)
        : undefined,
  })
}

const exampleEntry = {
  outbox_id: '12',
  session: 'default',
  to_user: exampleUser,
  created_at: 1767225600000,
  expires_at: 1767830400000,
  waits_for: 'user' as const,
  parts: [
    {
      id: 43,
      kind: 'text' as const,
      sent_as: 'text' as const,
      status: 'queued' as const,
      text: 'Your order has been shipped.',
    },
  ],
}
const { waits_for: _, ...ended } = exampleEntry
const exampleEnded = {
  ...ended,
  ended: true,
  parts: [{ id: 43, kind: 'text', sent_as: 'text', status: 'accepted', message_id: '7412365478965412366' }],
}

export const listOutbox = defineOperation({
  name: 'list_outbox',
  title: 'List messages that wait to be sent',
  effect: 'read',
  right: outboxRights,
  description:
    'Lists the queued messages that wait (until the user writes, or the pace allows it), in the order in which they will be sent, and the messages that wait for a person\'s approval. Messages that were sent, expired or cancelled are in the history; for a week you can also get their status by the outbox_id. A key without the right "outbox" gets only the messages that it sent itself.',
  input: OutboxFilter,
  output: Entries,
  errors: ['session_not_found'],
  examples: [{ summary: 'One message waits', output: [exampleEntry] }],
  rest: { route: 'GET /outbox', tag: 'messages' },
  cli: {
    path: ['outbox'],
    short: { user_id: 'u', session: 's' },
    names: { user_id: 'user' },
    examples: [['svc outbox', 'Messages that wait, oldest first']],
  },
  run: async (gateway, filter, { by }) => nameAnswered(gateway, await gateway.outbox.list(by, filter)),
})

/** Adds, to each answer of an agent that waits for approval, the messages that it answers. */
async function nameAnswered(
  { agents }: Pick<Gateway, 'agents'>,
  entries: OutboxEntry[],
): Promise<OutboxEntry[]> {
  if (!entries.some(({ waits_for }) => waits_for === 'approval')) return entries
  const turns = new Map(
    (await agents.listDrafts()).flatMap(({ drafts = [], turn }) => drafts.map(id => [id, turn])),
  )
  return Promise.all(
    entries.map(async entry => {
      const turn = turns.get(Number(entry.outbox_id))
      const { messages = [] } = (turn !== undefined && (await agents.getTurn(turn))) || {}
      return messages.length > 0 ? { ...entry, answers: messages } : entry
    }),
  )
}

export const getOutbox = defineOperation({
  name: 'get_outbox',
  title: 'Get the status of a queued send',
  effect: 'read',
  right: outboxRights,
  description:
    'Gets a queued send by the outbox_id that send answered with, up to a week after the call. `ended` means that no part of it waits any more; `parts` gives the status of each part.',
  input: OneEntry,
  output: OutboxEntry,
  errors: ['not_found'],
  examples: [{ summary: 'It was sent', input: { id: '12' }, output: exampleEnded }],
  rest: { route: 'GET /outbox/{id}', tag: 'messages' },
  run: ({ outbox }, { id }, { by }) => outbox.get(by, id),
})

export const cancelOutbox = defineOperation({
  name: 'cancel_outbox',
  title: 'Cancel a message that waits',
  effect: 'destroy',
  right: outboxRights,
  description:
    'Cancels a queued send: parts that wait will not be sent. History shows them as refused, with the reason_code cancelled, or declined if the send waited for approval. Parts that were sent already, or are being sent now, stay as they are.',
  input: OneEntry,
  output: Cancelled,
  errors: ['not_found'],
  examples: [
    { summary: 'Cancelled', input: { id: '12' }, output: { success: true, outbox_id: '12', cancelled: 1 } },
  ],
  rest: { route: 'DELETE /outbox/{id}', tag: 'messages' },
  cli: {
    path: ['outbox', 'cancel'],
    many: ids,
    help: { id: 'Id of the queued send, as svc outbox and svc send show it.' },
    examples: [['svc outbox cancel 12 13', 'By their ids']],
  },
  findAuditDetails: findDecided,
  run: ({ outbox }, { id }, { by }) => outbox.cancel(by, id),
})

const approvalId = { id: 'Id of the send, as svc approvals shows it.' }

/** Lists the sends that wait for an approval. Only the command line has it: other doors use `list_outbox`. */
export const listApprovals = defineOperation({
  name: 'list_approvals',
  title: 'List messages that wait for your approval',
  effect: 'read',
  right: 'approve',
  description:
    'Lists the messages that agents want to send and nobody has approved: svc was started with --confirm-send, and the client cannot ask its user, or the question was closed without an answer. Also what a key proposed that has only the right draft, and what an ended key had queued. Each waits up to 24 hours.',
  output: Entries,
  cli: {
    path: ['approvals'],
    examples: [['svc approvals', 'Messages that wait for you, oldest first']],
  },
  run: async ({ outbox }, _input, { by }) =>
    (await outbox.list(by)).filter(({ waits_for }) => waits_for === 'approval'),
})

/** Approves a send. Only people may do that, so the MCP service without REST does not offer it. */
export const approveOutbox = defineOperation({
  name: 'approve_outbox',
  title: 'Approve a message: it is sent',
  effect: 'write',
  right: 'approve',
  description:
    'Sends a message that waits for approval. For a person, never for an agent. With --confirm-send, a send from an MCP client that cannot ask its user waits up to 24 hours, and so does each send of a key with the right draft, and what an ended key had queued. They are listed with waits_for "approval". The answer has its status. If it cannot be sent now (window closed, answers used up, too fast), the call fails and the send goes on waiting for approval; a send that may be queued waits for the user instead. Cancelling declines it. A key cannot approve what it sent itself.',
  input: closed({
    ...OneEntry.properties,
    text: optional.text(
      'Sent in place of the text of the send, which must have exactly one. At most one message long.',
    ),
  }),
  output: OutboxEntry,
  errors: [
    'not_found',
    'forbidden',
    'not_connected',
    'window_closed',
    'quota_exhausted',
    'text_too_long',
    'rate_limited',
  ],
  examples: [{ summary: 'It was sent', input: { id: '12' }, output: exampleEnded }],
  rest: { route: 'POST /outbox/{id}/approve', tag: 'messages' },
  cli: {
    path: ['approvals', 'yes'],
    many: { ...ids, without: 'text' },
    help: approvalId,
    examples: [
      ['svc approvals yes 12 13', 'By their ids'],
      ['svc approvals yes 12 --text "It was shipped."', 'With another text'],
    ],
  },
  findAuditDetails: findDecided,
  run: ({ outbox }, { id, text }, { by }) => outbox.approve(by, id, text),
})

/** Only for the command line: other doors use `cancel_outbox`. */
export const declineOutbox = defineOperation({
  name: 'decline_outbox',
  title: 'Decline a message: it is never sent',
  effect: 'destroy',
  right: 'approve',
  description: 'Declines a message that waits for approval. It is never sent, and the agent can see that.',
  input: OneEntry,
  output: Cancelled,
  errors: ['not_found'],
  cli: {
    path: ['approvals', 'no'],
    positionals: ['id'],
    many: ids,
    help: approvalId,
    examples: [['svc approvals no 12 13', 'By their ids']],
  },
  findAuditDetails: findDecided,
  run: ({ outbox }, { id }, { by }) => outbox.cancel(by, id),
})
