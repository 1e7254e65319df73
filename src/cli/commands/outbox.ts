/** `svc outbox` and `svc approvals`: what waits until it may go, and what waits for a person to say yes. */
import { SvcError } from '../../model/error.ts'
import { type Cancelled, type OutboxEntry, OutboxFilter } from '../../model/message.ts'
import { byteSize, counted, localTime } from '../../platform/format.ts'
import { table } from '../columns.ts'
import type { Command } from '../command.ts'
import { wordCommand } from '../result.ts'
import { note, type Shown, waitOf } from '../show.ts'
import { colours, oneLine } from '../terminal.ts'
import { inputCommand } from '../tool-flags.ts'

const ofApproval = (command: Command) =>
  command.argument('<id>', 'Id of the send, as svc approvals shows it.')

const seeApprovals = { action: 'see', what: 'approvals' } as const

export const commands = [
  inputCommand({
    words: 'outbox',
    summary: 'list messages that wait until they may go',
    about:
      'Lists what was sent with --when-closed queue and waits until it may go (its user writes, or the pace allows it), in the order in which it goes out. What has been sent, has expired or was cancelled is not here any more: svc history tells.',
    input: OutboxFilter,
    cli: { names: { user_id: 'user' }, short: { user_id: 'u', session: 's' } },
    examples: [['svc outbox', 'What waits, oldest first']],
    work: ({ outbox }, filter) => outbox.list(filter),
    nothing: [],
    show: outboxText,
  }),
  wordCommand({
    words: 'outbox cancel',
    summary: 'take back what has not gone out yet',
    about:
      'Takes back a queued send. What has been sent already, or is being sent right now, stays as it is.',
    takes: command => command.argument('<id>', 'Id of the queued send, as svc outbox and svc send show it.'),
    examples: [['svc outbox cancel 12', 'By its id']],
    work: ({ outbox }, id) => outbox.cancel(id),
    show: ended => cancelledText(ended, 'cancelled'),
  }),
  wordCommand({
    words: 'approvals',
    summary: 'list what waits for a person to say yes',
    about:
      'Lists what agents want to send and nobody could be asked about: svc was started with --confirm-send, and the client has no way to ask, or its question was closed without an answer. Each waits 24 hours for a yes.',
    json: 'Print the result as one JSON value, texts whole.',
    examples: [['svc approvals', 'What waits, oldest first']],
    work: async ({ outbox }) => (await outbox.list()).filter(({ waits_for }) => waits_for === 'approval'),
    nothing: [],
    show: approvalsText,
  }),
  wordCommand({
    words: 'approvals yes',
    summary: 'let it be sent',
    about:
      'Sends what waits for a yes. When it may not go now (window closed, answers used up, too fast) it goes on waiting for a yes, or for the user to write where the agent asked for that.',
    takes: ofApproval,
    examples: [['svc approvals yes 12', 'By its id']],
    work: ({ outbox }, id) => outbox.approve(id),
    show: approvedText,
  }),
  wordCommand({
    words: 'approvals no',
    summary: 'decline it',
    about: 'Declines what waits for a yes: it is never sent, and the agent learns that.',
    takes: ofApproval,
    examples: [['svc approvals no 12', 'By its id']],
    work: ({ outbox }, id) => outbox.cancel(id),
    told: ({ code, options, problem }) =>
      new SvcError(code, problem, { ...options, ...(code === 'not_found' && { next: seeApprovals }) }),
    show: ended => cancelledText(ended, 'declined'),
  }),
]

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
  const partText = ({ text, file_name, kind }: WaitingPart) => oneLine(text ?? file_name ?? kind)
  return { text: waitingTable(entries, partText, ['WAITS FOR', waitOf]) }
}

/** Characters of a text that are shown of what waits for a yes. */
const shownText = 300

/** What waits for a yes. */
function approvalsText(entries: readonly OutboxEntry[], again: string): Shown {
  if (entries.length === 0) return { text: '', note: note('nothing waits for a yes') }
  const partText = ({ kind, text = '', file_name = '', size = 0, source = '' }: WaitingPart) => {
    if (kind !== 'text') return `${kind} ${oneLine(file_name)}, ${byteSize(size)}, from ${oneLine(source)}`
    if (text.length <= shownText) return oneLine(text)
    return `${oneLine(text.slice(0, shownText))}… (${text.length} characters; --json shows all)`
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
