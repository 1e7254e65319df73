/** Declares `svc outbox` (queued sends) and `svc approvals` (sends that wait for a person to say yes). */
import { SvcError } from '../../model/error.ts'
import type { Cancelled, OutboxEntry } from '../../model/message.ts'
import * as outbox from '../../operations/outbox.ts'
import { byteSize, counted, localTime } from '../../platform/format.ts'
import { type Column, table } from '../columns.ts'
import { operationCommand } from '../operation-command.ts'
import { note, type Shown, waitOf } from '../show.ts'
import { colours, listed, oneLine } from '../terminal.ts'

const seeApprovals = { action: 'see', what: 'approvals' } as const

export const commands = [
  operationCommand(outbox.listOutbox, { nothing: () => [], show: outboxText }),
  operationCommand(outbox.cancelOutbox, {
    failed: ({ success }) => !success,
    done: 'cancelled',
    show: ended => cancelledText(ended, 'cancelled'),
  }),
  operationCommand(outbox.listApprovals, {
    json: 'Print the result as one JSON value, with the full texts.',
    nothing: () => [],
    show: approvalsText,
  }),
  operationCommand(outbox.approveOutbox, {
    failed: ({ parts }) => parts.some(({ status }) => status === 'refused' || status === 'unknown'),
    done: 'approved',
    show: approvedText,
  }),
  operationCommand(outbox.declineOutbox, {
    failed: ({ success }) => !success,
    done: 'declined',
    told: ({ code, options, problem }) =>
      new SvcError(code, problem, { ...options, ...(code === 'not_found' && { next: seeApprovals }) }),
    show: ended => cancelledText(ended, 'declined'),
  }),
]

const jsonShowsAll = '--json shows all'

type WaitingPart = OutboxEntry['parts'][number]

/**
 * Formats a table of waiting sends.
 *
 * @param more columns before the content
 * @param partText formats the content of a part
 */
function waitingTable(
  entries: readonly OutboxEntry[],
  more: readonly Column<OutboxEntry>[],
  partText: (part: WaitingPart) => string,
): string {
  const columns: Column<OutboxEntry>[] = [
    ['ID', ({ outbox_id }) => oneLine(outbox_id)],
    ['SESSION', ({ session }) => oneLine(session)],
    ['USER', ({ to_user, user_name = to_user }) => oneLine(user_name)],
    ['SINCE', ({ created_at }) => localTime(created_at)],
    ['UNTIL', ({ expires_at }) => localTime(expires_at)],
    ...more,
    ['CONTENT', ({ parts }) => parts.map(partText).join(' | ')],
  ]
  return table(entries, columns, colours.bold)
}

/** Formats the queued sends. */
function outboxText(entries: readonly OutboxEntry[]): Shown {
  if (entries.length === 0) return { note: note('nothing waits') }
  const partText = ({ text, file_name, kind }: WaitingPart) =>
    oneLine(listed(text ?? file_name ?? kind, jsonShowsAll))
  return { text: waitingTable(entries, [['WAITS FOR', waitOf]], partText) }
}

/** Formats the sends that wait for approval. */
function approvalsText(entries: readonly OutboxEntry[], again: string): Shown {
  if (entries.length === 0) return { note: note('nothing waits for approval') }
  const partText = ({ kind, text = '', file_name = '', size = 0, source = '' }: WaitingPart) => {
    if (kind !== 'text') return `${kind} ${oneLine(file_name)}, ${byteSize(size)}, from ${oneLine(source)}`
    return oneLine(listed(text, jsonShowsAll))
  }
  return {
    text: waitingTable(entries, [], partText),
    note: note(`svc approvals yes ID${again} sends one, svc approvals no ID${again} declines it`),
  }
}

/** Formats the result of an approval. */
function approvedText(entry: OutboxEntry): Shown {
  const parts = entry.parts.map(({ error, reason, status }) => error?.detail ?? reason ?? status)
  const words = entry.ended ? oneLine([...new Set(parts)].join(', ')) : `it waits for ${waitOf(entry)}`
  return { text: `approved: ${oneLine(entry.outbox_id)}, ${words}\n` }
}

/** Formats the result of a cancellation. @param done the verb for success, such as `cancelled` */
const cancelledText = ({ success, outbox_id, cancelled }: Cancelled, done: string): Shown => ({
  text: success
    ? `${done}: ${oneLine(outbox_id)}, ${counted(cancelled, 'message')}\n`
    : `nothing was left to cancel of ${oneLine(outbox_id)}\n`,
})
