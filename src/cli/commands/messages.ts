/** Declares the commands for messages: `svc recv`, `svc send`, `svc download` and `svc history`. */
import { badArgument, errorCodes, SvcError, type SvcErrorOptions } from '../../model/error.ts'
import type { HistoryPage, Received, SendPart, SendResult } from '../../model/message.ts'
import { adviceOf } from '../../model/next-step.ts'
import { describeInbox } from '../../operations/reading.ts'
import { verbs } from '../../operations/tools.ts'
import { formatBytes, formatCount, formatLocalTime } from '../../platform/format.ts'
import { formatMessage } from '../chat.ts'
import { operationCommand } from '../operation-command.ts'
import { type CommandOutput, describeWait, formatSilent, noSessionNote } from '../show.ts'
import { colours, oneLine } from '../terminal.ts'

export const commands = [
  operationCommand(verbs.recv, {
    jsonHelp: 'Print the result as one JSON value; with --follow one message per line.',
    addOptions: command =>
      command
        .option('-f, --follow', 'Keep printing messages as they arrive, until Ctrl-C or --limit.')
        .option(
          '--brief',
          'With --follow: one line a message, marked as data from outside, for a program that wakes an agent. Guests are left out.',
        ),
    toInput(typed, command) {
      const { brief, consumer, follow } = command.opts()
      if (brief && !follow) throw badArgument('--brief', 'expected together with --follow')
      // `--ack` needs a named consumer: without -c the default consumer is removed, and the operation rejects
      // the call.
      return typed.ack !== undefined && consumer === undefined ? { ...typed, consumer: undefined } : typed
    },
    createEmpty: () => [],
    longRun: {
      when: command => command.opts().follow === true,
      run: async typed => (await import('../follow.ts')).followMessages(typed),
    },
    isOnward: command => command.opts().consumer !== undefined,
    warnOf: (messages: Received, again) =>
      messages.more
        ? `the last minute has more messages than the newest ${messages.length} printed here: svc history${again} has them all, and svc recv -c NAME${again} reads on from a position`
        : undefined,
    async render(messages, again, { input: { ack, session }, ask }) {
      const now = await ask(describeInbox, { session })
      const silent = formatSilent(now.silent, again)
      const text = messages.map(message => formatMessage(message, again)).join('')
      const last = messages.at(-1)
      if (last) {
        const next = ack !== undefined && `to acknowledge all of these: --ack ${last.id}`
        return { text, note: [next, silent] }
      }
      if (now.connected) return { text, note: ['no new messages', silent] }
      return { text, note: silent ?? noSessionNote(again) }
    },
  }),
  operationCommand(verbs.send, {
    hasFailed: ({ status, success }) => !success && status !== 'queued',
    changeMade: ({ status }) => (status === 'accepted' ? 'sent' : status),
    render: (result, again, { input }) => ({ text: formatSend(result, input.to, again, input.send_at) }),
  }),
  operationCommand(verbs.download, {
    absentCode: 'message_not_found',
    changeMade: ({ path }) => `saved to ${oneLine(path)}`,
    // stdout has only the path, for `$(svc download …)`.
    render: ({ content_type, path, renamed, sha256, size }) => ({
      text: [oneLine(path)],
      note: `saved ${formatBytes(size)}, ${oneLine(content_type)}${sha256 ? `, sha256 ${sha256}` : ''}${renamed ? `; the sender's name of the file could not be kept: ${renamed}` : ''}`,
    }),
  }),
  operationCommand(verbs.history, {
    createEmpty: ({ limit = 50, offset = 0 }) => ({
      messages: [],
      total: 0,
      total_is_lower_bound: false,
      limit,
      offset,
    }),
    render: formatHistory,
  }),
]

/** Formats the result of a send. @param sendAt the time that was asked for */
export function formatSend(result: SendResult, to: string, again: string, sendAt?: number): string {
  const { green, red, yellow } = colours
  const ids = result.message_id === undefined ? '' : `  ${oneLine(result.message_id)}`
  const paint = result.success ? green : result.status === 'queued' ? yellow : red
  const lines = [
    `${paint(result.suspect ? 'accepted, but without an id' : result.status)}  ${oneLine(result.session)} → ${oneLine(to)}${ids}`,
  ]
  if (result.repeated)
    lines.push('an earlier send had this key: this is its result, and nothing was sent again')
  for (const part of result.parts) {
    const named = part.renamed ? `, named ${oneLine(part.file_name ?? '')} (${part.renamed})` : ''
    const renamed = `${part.kind !== part.sent_as ? `, sent as ${part.sent_as}` : ''}${named}`
    if (result.parts.length > 1 || part.error || renamed)
      lines.push(
        `  ${part.kind}${renamed}: ${part.status}${part.error ? `, ${oneLine(part.error.detail)}. ${oneLine(partAdviceOf(part.error, result.session, again))}` : ''}`,
      )
  }
  if (result.outbox_id !== undefined)
    lines.push(
      `it waits for ${describeWait(result)}; svc outbox cancel ${oneLine(result.outbox_id)}${again} takes it back`,
    )
  if (result.outbox_id !== undefined && sendAt !== undefined && sendAt !== result.not_before)
    lines.push(`it is planned for ${formatLocalTime(sendAt)}`)
  if (result.status === 'unknown')
    lines.push('no answer came: it may have arrived. Check before you send it again.')
  const until =
    result.window_expires_at === undefined || result.remaining === 0
      ? ''
      : ` until ${formatLocalTime(result.window_expires_at)}`
  lines.push(colours.dim(`${formatCount(result.remaining, 'answer')} left${until}`))
  return `${lines.join('\n')}\n`
}

/**
 * Returns advice for a failed part: the default advice in the words of the command line, else the part's own
 * hint.
 */
function partAdviceOf(
  { code, hint = '', retry_after: retryAfter }: NonNullable<SendPart['error']>,
  session: string,
  again: string,
): string {
  const known = errorCodes.find(one => one === code)
  const advice: SvcErrorOptions[] = [{ retryAfter }, { next: { action: 'login', session } }]
  const standard =
    known && advice.map(options => new SvcError(known, '', options)).find(error => adviceOf(error) === hint)
  return standard
    ? adviceOf(standard, { door: 'cli', command: words => `${['svc', ...words].join(' ')}${again}` })
    : hint
}

/** Formats a page of the history, oldest message first. */
function formatHistory(page: HistoryPage, again: string): CommandOutput {
  const count = page.messages.length
  const total = `${page.total}${page.total_is_lower_bound ? ' or more' : ''}`
  return {
    text: page.messages
      .toReversed()
      .map(message => formatMessage(message, again))
      .join(''),
    note:
      count === 0
        ? 'no messages match'
        : `${count} of ${total}${page.next_before === undefined ? '' : `; older ones: --before ${page.next_before}`}`,
  }
}
