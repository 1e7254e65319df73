/** Declares `svc outbox` (queued sends) and `svc approvals` (sends that wait for a person to say yes). */
import { SvcError } from '../../model/error.ts'
import type { Cancelled, OutboxEntry } from '../../model/message.ts'
import { formatCaller } from '../../model/principal.ts'
import * as outbox from '../../operations/outbox.ts'
import { formatBytes, formatCount } from '../../platform/format.ts'
import type { Column } from '../columns.ts'
import { operationCommand } from '../operation-command.ts'
import { type CommandOutput, describeWait, type OutputLines, showTable } from '../show.ts'
import { oneLine, shortenListed } from '../terminal.ts'

const seeApprovals = { action: 'see', what: 'approvals' } as const

export const commands = [
  operationCommand(outbox.listOutbox, { createEmpty: () => [], render: formatOutbox }),
  operationCommand(outbox.cancelOutbox, {
    hasFailed: ({ success }) => !success,
    changeMade: 'cancelled',
    render: ended => describeCancelled(ended, 'cancelled'),
  }),
  operationCommand(outbox.listApprovals, {
    jsonHelp: 'Print the result as one JSON value, with the full texts.',
    createEmpty: () => [],
    render: formatApprovals,
  }),
  operationCommand(outbox.approveOutbox, {
    hasFailed: ({ parts }) => parts.some(({ status }) => status === 'refused' || status === 'unknown'),
    changeMade: 'approved',
    render: describeApproved,
  }),
  operationCommand(outbox.declineOutbox, {
    hasFailed: ({ success }) => !success,
    changeMade: 'declined',
    reword: ({ code, options, problem }) =>
      new SvcError(code, problem, { ...options, ...(code === 'not_found' && { next: seeApprovals }) }),
    render: ended => describeCancelled(ended, 'declined'),
  }),
]

const jsonHint = '--json shows all'

type WaitingPart = OutboxEntry['parts'][number]

/**
 * Returns the columns of waiting sends.
 *
 * @param more the column before the content
 * @param partText formats the content of a part
 */
const waitingColumns = (
  more: Column<OutboxEntry>,
  partText: (part: WaitingPart) => string,
): Column<OutboxEntry>[] => [
  ['ID', 'outbox_id'],
  ['SESSION', 'session'],
  ['USER', ({ to_user, user_name = to_user }) => oneLine(user_name)],
  ['SINCE', 'created_at'],
  ['UNTIL', 'expires_at'],
  more,
  ['CONTENT', ({ parts }) => parts.map(partText).join(' | ')],
]

/** Formats the queued sends. */
function formatOutbox(entries: readonly OutboxEntry[]): CommandOutput {
  const partText = ({ text, file_name, kind }: WaitingPart) =>
    oneLine(shortenListed(text ?? file_name ?? kind, jsonHint))
  return showTable(entries, 'nothing waits', waitingColumns(['WAITS FOR', describeWait], partText))
}

const askerOf = ({ made_by = 'owner', made_by_name }: OutboxEntry) =>
  oneLine(formatCaller(made_by, made_by_name))

/** Formats the sends that wait for approval. */
function formatApprovals(entries: readonly OutboxEntry[], again: string): CommandOutput {
  const partText = ({ kind, text = '', file_name = '', size = 0, source = '' }: WaitingPart) => {
    if (kind !== 'text') return `${kind} ${oneLine(file_name)}, ${formatBytes(size)}, from ${oneLine(source)}`
    return oneLine(shortenListed(text, jsonHint))
  }
  return {
    note: `svc approvals yes ID${again} sends one, svc approvals no ID${again} declines it`,
    ...showTable(entries, 'nothing waits for approval', waitingColumns(['ASKED BY', askerOf], partText)),
  }
}

/** Describes the result of an approval. */
function describeApproved(entry: OutboxEntry): OutputLines {
  const parts = entry.parts.map(({ error, reason, status }) => error?.detail ?? reason ?? status)
  const words = entry.ended ? oneLine([...new Set(parts)].join(', ')) : `it waits for ${describeWait(entry)}`
  return [`approved: ${oneLine(entry.outbox_id)}, ${words}`]
}

/** Describes the result of a cancellation. @param done the verb for success, such as `cancelled` */
const describeCancelled = ({ success, outbox_id, cancelled }: Cancelled, done: string): OutputLines => [
  success
    ? `${done}: ${oneLine(outbox_id)}, ${formatCount(cancelled, 'message')}`
    : `nothing was left to cancel of ${oneLine(outbox_id)}`,
]
