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

/** Lines without their ends. What is undefined or false is left out. */
export type OutputLines = readonly (string | undefined | false)[]

/** Output of a command: the result for stdout as lines or as text, and a note for stderr. */
export interface CommandOutput {
  readonly text?: string | OutputLines
  readonly note?: string | undefined | OutputLines
}

/** What a view shows: lines of the result, or more. */
export type Shown = OutputLines | CommandOutput

/** Formats lines as text. */
export const formatLines = (lines: OutputLines): string =>
  lines.map(line => (typeof line === 'string' ? `${line}\n` : '')).join('')

/** Formats a note for stderr. */
export const formatNote = (text: string) => `${colours.dim(text)}\n`

/** Formats a list as a table. @param empty the note about an empty list */
export const showTable = <T>(
  rows: readonly T[],
  empty: string,
  columns: readonly Column<T>[],
): CommandOutput => (rows.length === 0 ? { note: empty } : { text: formatTable(rows, columns) })

/** Returns the view of an operation that returns a list. It is printed as by `showTable`. */
export const tableView = <T>(empty: string, columns: readonly Column<T>[]) => ({
  createEmpty: (): T[] => [],
  render: (rows: readonly T[]) => showTable(rows, empty, columns),
})

/** Returns the note about a page of a list, if more may follow. */
export function describeNext(page: ListPage, found: readonly unknown[]): string | undefined {
  const offset = nextOffset(page, found)
  return offset === undefined ? undefined : `there may be more: --offset ${offset}`
}

/** Returns the error of a command whose result is shown once, and could not be printed. */
export const unprintedError = (problem: string) =>
  new SvcError('internal', problem, {
    hint: 'Check where the output goes, and the free space there, then run the command again.',
  })

/** Returns the note of recv if no session is logged in, so no message can come. */
export const noSessionNote = (again: string): string => `no session is logged in: svc login${again}`

/** Returns the output of a command that only reads, if there is no data directory. */
export const missingDirectoryOutput = (dir: string, again: string): CommandOutput => ({
  note: `there is no data directory ${oneLine(dir)}: svc login${again}`,
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
  return lines.join('\n')
}

/** Writes the note of a result to stderr. */
export async function printNote({ note }: CommandOutput, { io }: Command): Promise<void> {
  const text = formatLines([note ?? []].flat()).trimEnd()
  if (text !== '') await io.err.write(formatNote(text))
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
export const sessionColumns = [
  ['  SESSION', ({ is_default, name }) => `${is_default ? '*' : ' '} ${oneLine(name)}`],
  ['STATUS', 'status'],
  ['USERS', 'user_count'],
  ['LOGGED IN', 'created_at'],
  ['BOT', ({ bot_id = '–' }) => oneLine(bot_id)],
] satisfies readonly Column<Session>[]

/** Formats the table of sessions, with notes about sessions in trouble. */
export function formatSessions(sessions: readonly Session[], again: string): CommandOutput {
  // Only the polling process knows when it polled. Beside it the column would show dashes, as if it never
  // polled.
  const polled = sessions.some(session => session.last_poll_at !== undefined)
  const columns: Column<Session>[] = [...sessionColumns]
  if (polled) columns.splice(3, 0, ['LAST POLL', 'last_poll_at'])
  const notes = sessions.flatMap(findDoubts).map(({ what }) => `${oneLine(what)}; see svc doctor${again}`)
  return { note: notes, ...showTable(sessions, `no session yet: svc login${again}`, columns) }
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
