/** `svc outbox` and `svc approvals`: what waits until it may go, and what waits for a person to say yes. */
import { SvcError } from '../../model/error.ts'
import { type Cancelled, type OutboxEntry, OutboxFilter } from '../../model/message.ts'
import { byteSize, counted, localTime } from '../../platform/format.ts'
import { table } from '../columns.ts'
import type { Command } from '../command.ts'
import { wordCommand } from '../result.ts'
import { note, type Shown, waitOf } from '../show.ts'
import { colours, listed, oneLine } from '../terminal.ts'
import { inputCommand } from '../tool-flags.ts'

const ofApproval = (command: Command) =>
  command.argument('<id>', 'Id of the send, as svc approvals shows it.')

const seeApprovals = { action: 'see', what: 'approvals' } as const

export const commands = [
  inputCommand({
    words: 'outbox',
    summary: 'list messages that wait to be sent',
    about:
      'Lists the messages that were sent with --when-closed queue and still wait (until the user writes, or the pace allows it), in the order in which they will be sent. Messages that were sent, expired or cancelled are in svc history.',
    input: OutboxFilter,
    cli: { names: { user_id: 'user' }, short: { user_id: 'u', session: 's' } },
    examples: [['svc outbox', 'What waits, oldest first']],
    reads: true,
    work: ({ outbox }, filter) => outbox.list(filter),
    nothing: [],
    show: outboxText,
  }),
  wordCommand({
    words: 'outbox cancel',
    summary: 'cancel a message that waits',
    about: 'Cancels a queued send. Parts that were sent already, or are being sent now, stay as they are.',
    takes: command => command.argument('<id>', 'Id of the queued send, as svc outbox and svc send show it.'),
    examples: [['svc outbox cancel 12', 'By its id']],
    work: ({ outbox }, id) => outbox.cancel(id),
    done: 'cancelled',
    show: ended => cancelledText(ended, 'cancelled'),
  }),
  wordCommand({
    words: 'approvals',
    summary: 'list messages that wait for your approval',
    about:
      'Lists the messages that agents want to send and nobody has confirmed: svc was started with --confirm-send, and the client cannot ask its user, or the question was closed without an answer. Each waits for 24 hours.',
    json: 'Print the result as one JSON value, with the full texts.',
    examples: [['svc approvals', 'What waits, oldest first']],
    reads: true,
    work: async ({ outbox }) => (await outbox.list()).filter(({ waits_for }) => waits_for === 'approval'),
    nothing: [],
    show: approvalsText,
  }),
  wordCommand({
    words: 'approvals yes',
    summary: 'approve a message: it is sent',
    about:
      'Sends a message that waits for approval. If it cannot be sent now (window closed, answers used up, too fast), it waits for approval again, or for the user to write if the agent asked for that.',
    takes: ofApproval,
    examples: [['svc approvals yes 12', 'By its id']],
    work: ({ outbox }, id) => outbox.approve(id),
    done: 'approved',
    show: approvedText,
  }),
  wordCommand({
    words: 'approvals no',
    summary: 'decline a message: it is never sent',
    about: 'Declines a message that waits for approval. It is never sent, and the agent is told.',
    takes: ofApproval,
    examples: [['svc approvals no 12', 'By its id']],
    work: ({ outbox }, id) => outbox.cancel(id),
    done: 'declined',
    told: ({ code, options, problem }) =>
      new SvcError(code, problem, { ...options, ...(code === 'not_found' && { next: seeApprovals }) }),
    show: ended => cancelledText(ended, 'declined'),
  }),
]

const jsonShowsAll = '--json shows all'

type WaitingPart = OutboxEntry['parts'][number]

/** A table of what waits: `parts` tell what each part holds, `waiting` is a column before them. */
function waitingTable(
  entries: readonly OutboxEntry[],
  partText: (part: WaitingPart) => string,
  [head, waiting]: readonly [] | readonly [string, (entry: OutboxEntry) => string] = [],
): string {
  const rows = entries.map(entry => [
    ...[entry.outbox_id, entry.session, entry.user_name ?? entry.to_user].map(oneLine),
    ...[entry.created_at, entry.expires_at].map(localTime),
    ...(waiting ? [waiting(entry)] : []),
    entry.parts.map(partText).join(' | '),
  ])
  const heads = ['ID', 'SESSION', 'USER', 'SINCE', 'UNTIL', ...(head ? [head] : []), 'CONTENT']
  return table(heads, rows, colours.bold)
}

/** The table of what waits. */
function outboxText(entries: readonly OutboxEntry[]): Shown {
  if (entries.length === 0) return { text: '', note: note('nothing waits') }
  const partText = ({ text, file_name, kind }: WaitingPart) =>
    oneLine(listed(text ?? file_name ?? kind, jsonShowsAll))
  return { text: waitingTable(entries, partText, ['WAITS FOR', waitOf]) }
}

/** What waits for a yes. */
function approvalsText(entries: readonly OutboxEntry[], again: string): Shown {
  if (entries.length === 0) return { text: '', note: note('nothing waits for a yes') }
  const partText = ({ kind, text = '', file_name = '', size = 0, source = '' }: WaitingPart) => {
    if (kind !== 'text') return `${kind} ${oneLine(file_name)}, ${byteSize(size)}, from ${oneLine(source)}`
    return oneLine(listed(text, jsonShowsAll))
  }
  return {
    text: waitingTable(entries, partText),
    note: note(`svc approvals yes ID${again} sends one, svc approvals no ID${again} declines it`),
  }
}

/** What became of an approved send. */
function approvedText(entry: OutboxEntry): Shown {
  const parts = entry.parts.map(({ error, reason, status }) => error?.detail ?? reason ?? status)
  const words = entry.ended ? oneLine([...new Set(parts)].join(', ')) : `it waits for ${waitOf(entry)}`
  return {
    text: `approved: ${oneLine(entry.outbox_id)}, ${words}\n`,
    failed: entry.parts.some(({ status }) => status === 'refused' || status === 'unknown'),
  }
}

/** What became of a cancellation. */
const cancelledText = ({ success, outbox_id, cancelled }: Cancelled, done: string): Shown => ({
  text: success
    ? `${done}: ${oneLine(outbox_id)}, ${counted(cancelled, 'message')}\n`
    : `nothing was left to cancel of ${oneLine(outbox_id)}\n`,
  failed: !success,
})
