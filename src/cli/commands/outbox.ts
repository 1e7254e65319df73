/** Declares `svc outbox` (queued sends) and `svc approvals` (sends that wait for a person to say yes). */
import { SvcError } from '../../model/error.ts'
import type { Cancelled, OutboxEntry } from '../../model/message.ts'
import { formatCaller } from '../../model/principal.ts'
import * as outbox from '../../operations/outbox.ts'
import { formatBytes, formatCount, formatLocalTime } from '../../platform/format.ts'
import { type Column, formatTable } from '../columns.ts'
import { operationCommand } from '../operation-command.ts'
import { type CommandOutput, describeWait, formatNote } from '../show.ts'
import { colours, oneLine, shortenListed } from '../terminal.ts'

const seeApprovals = { action: 'see', what: 'approvals' } as const

export const commands = [
  operationCommand(outbox.listOutbox, { createEmpty: () => [], render: formatOutbox }),
  operationCommand(outbox.cancelOutbox, {
    hasFailed: ({ success }) => !success,
    changeMade: 'cancelled',
    render: ended => formatCancelled(ended, 'cancelled'),
  }),
  operationCommand(outbox.listApprovals, {
    jsonHelp: 'Print the result as one JSON value, with the full texts.',
    createEmpty: () => [],
    render: formatApprovals,
  }),
  operationCommand(outbox.approveOutbox, {
    hasFailed: ({ parts }) => parts.some(({ status }) => status === 'refused' || status === 'unknown'),
    changeMade: 'approved',
    render: formatApproved,
  }),
  operationCommand(outbox.declineOutbox, {
    hasFailed: ({ success }) => !success,
    changeMade: 'declined',
    reword: ({ code, options, problem }) =>
      new SvcError(code, problem, { ...options, ...(code === 'not_found' && { next: seeApprovals }) }),
    render: ended => formatCancelled(ended, 'declined'),
  }),
]

const jsonHint = '--json shows all'

type WaitingPart = OutboxEntry['parts'][number]

/**
 * Formats a table of waiting sends.
 *
 * @param more columns before the content
 * @param partText formats the content of a part
 */
function formatWaiting(
  entries: readonly OutboxEntry[],
  more: readonly Column<OutboxEntry>[],
  partText: (part: WaitingPart) => string,
): string {
  const columns: Column<OutboxEntry>[] = [
    ['ID', ({ outbox_id }) => oneLine(outbox_id)],
    ['SESSION', ({ session }) => oneLine(session)],
    ['USER', ({ to_user, user_name = to_user }) => oneLine(user_name)],
    ['SINCE', ({ created_at }) => formatLocalTime(created_at)],
    ['UNTIL', ({ expires_at }) => formatLocalTime(expires_at)],
    ...more,
    ['CONTENT', ({ parts }) => parts.map(partText).join(' | ')],
  ]
  return formatTable(entries, columns, colours.bold)
}

/** Formats the queued sends. */
function formatOutbox(entries: readonly OutboxEntry[]): CommandOutput {
  if (entries.length === 0) return { note: formatNote('nothing waits') }
  const partText = ({ text, file_name, kind }: WaitingPart) =>
    oneLine(shortenListed(text ?? file_name ?? kind, jsonHint))
  return { text: formatWaiting(entries, [['WAITS FOR', describeWait]], partText) }
}

const askerOf = ({ made_by = 'owner', made_by_name }: OutboxEntry) =>
  oneLine(formatCaller(made_by, made_by_name))

/** Formats the sends that wait for approval. */
function formatApprovals(entries: readonly OutboxEntry[], again: string): CommandOutput {
  if (entries.length === 0) return { note: formatNote('nothing waits for approval') }
  const partText = ({ kind, text = '', file_name = '', size = 0, source = '' }: WaitingPart) => {
    if (kind !== 'text') return `${kind} ${oneLine(file_name)}, ${formatBytes(size)}, from ${oneLine(source)}`
    return oneLine(shortenListed(text, jsonHint))
  }
  return {
    text: formatWaiting(entries, [['ASKED BY', askerOf]], partText),
    note: formatNote(`svc approvals yes ID${again} sends one, svc approvals no ID${again} declines it`),
  }
}

/** Formats the result of an approval. */
function formatApproved(entry: OutboxEntry): CommandOutput {
  const parts = entry.parts.map(({ error, reason, status }) => error?.detail ?? reason ?? status)
  const words = entry.ended ? oneLine([...new Set(parts)].join(', ')) : `it waits for ${describeWait(entry)}`
  return { text: `approved: ${oneLine(entry.outbox_id)}, ${words}\n` }
}

/** Formats the result of a cancellation. @param done the verb for success, such as `cancelled` */
const formatCancelled = ({ success, outbox_id, cancelled }: Cancelled, done: string): CommandOutput => ({
  text: success
    ? `${done}: ${oneLine(outbox_id)}, ${formatCount(cancelled, 'message')}\n`
    : `nothing was left to cancel of ${oneLine(outbox_id)}\n`,
})
