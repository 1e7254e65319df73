/** Texts for people that several commands share: results, and notes about them. */
import { findDoubts } from '../inspect/finding.ts'
import { SvcError } from '../model/error.ts'
import type { Waiting } from '../model/message.ts'
import { type ListPage, nextOffset } from '../model/page.ts'
import type { Session, SilentSession } from '../model/session.ts'
import { formatLocalTime } from '../platform/format.ts'
import { type Column, formatTable } from './columns.ts'
import type { Command } from './command.ts'
import { colours, type Output, oneLine } from './terminal.ts'

/** Output of a command: the result for stdout, and a note for stderr. */
export interface CommandOutput {
  readonly text?: string
  readonly note?: string
}

/** Formats a note for stderr. */
export const formatNote = (text: string) => `${colours.dim(text)}\n`

/** Adds a note to a page of a list, if more may follow. */
export function withNext(shown: CommandOutput, page: ListPage, found: readonly unknown[]): CommandOutput {
  const offset = nextOffset(page, found)
  return offset === undefined
    ? shown
    : { ...shown, note: formatNote(`there may be more: --offset ${offset}`) }
}

/** Returns the error of a command whose result is shown once, and could not be printed. */
export const unprintedError = (problem: string) =>
  new SvcError('internal', problem, {
    hint: 'Check where the output goes, and the free space there, then run the command again.',
  })

/** Returns the note of recv if no session is logged in, so no message can come. */
export const noSessionNote = (again: string): string =>
  formatNote(`no session is logged in: svc login${again}`)

/** Returns the output of a command that only reads, if there is no data directory. */
export const missingDirectoryOutput = (dir: string, again: string): CommandOutput => ({
  note: formatNote(`there is no data directory ${oneLine(dir)}: svc login${again}`),
})

/** Returns the note of recv about sessions whose messages do not come, or may not. */
export function formatSilent(silent: readonly SilentSession[], again: string): string | undefined {
  if (silent.length === 0) return undefined
  const lines = silent.map(({ name, status, why }) => {
    const safeName = oneLine(name)
    if (why !== undefined) return `${safeName} brings no messages: ${oneLine(why)}; see svc doctor${again}`
    return status === 'lapsed'
      ? `${safeName} is lapsed: WeChat answers and may bring no messages; see svc check ${safeName}${again}`
      : `${safeName} is ${status} and brings no messages; log in again: svc login ${safeName}${again}`
  })
  return formatNote(lines.join('\n'))
}

/** Writes the note of a result to stderr. */
export async function printNote({ note: text }: CommandOutput, { io }: Command): Promise<void> {
  if (text !== undefined) await io.err.write(text)
}

/**
 * Prints on a terminal that the command waits for more.
 *
 * @param phoneUrl the phone of the simulated WeChat, if one is used
 */
export async function writeFollowing(err: Output, phoneUrl?: string): Promise<void> {
  const where = phoneUrl === undefined ? '' : ` what is written at ${phoneUrl}`
  if (err.isTerminal) await err.write(formatNote(`following${where}; Ctrl-C ends it`))
}

/** Columns of every table of sessions. */
export const sessionColumns: readonly Column<Session>[] = [
  ['  SESSION', ({ is_default, name }) => `${is_default ? '*' : ' '} ${oneLine(name)}`],
  ['STATUS', ({ status }) => status],
  ['USERS', ({ user_count }) => String(user_count)],
  ['LOGGED IN', ({ created_at }) => formatLocalTime(created_at)],
  ['BOT', ({ bot_id = '–' }) => oneLine(bot_id)],
]

/** Formats the table of sessions, with notes about sessions in trouble. */
export function formatSessions(sessions: readonly Session[], again: string): CommandOutput {
  if (sessions.length === 0) return { note: formatNote(`no session yet: svc login${again}`) }
  // Only the polling process knows when it polled. Beside it the column would show dashes, as if it never
  // polled.
  const polled = sessions.some(session => session.last_poll_at !== undefined)
  const columns = polled
    ? sessionColumns.toSpliced(3, 0, ['LAST POLL', session => formatLocalTime(session.last_poll_at)])
    : sessionColumns
  const notes = sessions.flatMap(findDoubts).map(({ what }) => `${oneLine(what)}; see svc doctor${again}`)
  return {
    text: formatTable(sessions, columns, colours.bold),
    note: notes.length > 0 ? formatNote(notes.join('\n')) : undefined,
  }
}

const waitTexts = {
  approval: 'a person to say yes',
  time: 'its time',
  user: 'the user to write',
  pace: 'its turn, by the pace',
  refusal: 'the user to write, since WeChat refused',
  login: 'the session to be logged in',
  retry: 'the next try',
  busy: 'a send to this user that is under way',
} as const

/** Describes what a send waits for, and until when. */
export const describeWait = ({ waits_for, not_before }: Waiting): string =>
  `${waits_for === undefined ? 'somebody who polls' : waitTexts[waits_for]}${not_before === undefined ? '' : `, until ${formatLocalTime(not_before)}`}`
