/** Results of the tools as people read them. */
import { errorCodes, SvcError, type SvcErrorOptions } from '../model/error.ts'
import type { Downloaded } from '../model/media.ts'
import type { HistoryPage, Message, SendPart, SendResult, Waiting } from '../model/message.ts'
import { adviceOf } from '../model/next-step.ts'
import type { Session, SilentSession } from '../model/session.ts'
import { byteSize, counted, localTime } from '../platform/format.ts'
import { chatLines } from './chat.ts'
import { table } from './columns.ts'
import type { Command } from './command.ts'
import { colours, type Output, oneLine } from './terminal.ts'

/** What goes to stdout, and a word about it that is no result, for stderr. */
export interface Shown {
  readonly text: string
  readonly note?: string
  /** What was changed, in a few words for who cannot be shown the text. */
  readonly done?: string
  /** The command did not reach what it was called for: exit status 1. */
  readonly failed?: boolean
}

/** The result of a tool for people; `again` as of `againFlags`. */
export function shownResult(
  tool: string,
  result: unknown,
  input: Readonly<Record<string, unknown>>,
  again: string,
): Shown {
  const show = shows[tool]
  return show ? show(result as never, again, input) : { text: `${JSON.stringify(result, undefined, 2)}\n` }
}

type Show = (result: never, again: string, input: Readonly<Record<string, unknown>>) => Shown

/** A word to stderr. */
export const note = (text: string) => `${colours.dim(text)}\n`

const shows: Readonly<Record<string, Show>> = {
  recv: (messages: Message[], again, { ack }) => ({
    text: messages.map(message => chatLines(message, again)).join(''),
    ...(messages.length === 0 && { note: note('no new messages') }),
    ...(messages.length > 0 &&
      ack !== undefined && { note: note(`after all of these: --ack ${messages.at(-1)!.id}`) }),
  }),
  send: (result: SendResult, again, input) => ({
    text: sendText(result, String(input.to), again),
    failed: !result.success && result.status !== 'queued',
    done: result.status === 'accepted' ? 'sent' : result.status,
  }),
  // The path alone on its line, for `$(svc download …)`.
  download: (saved: Downloaded) => ({
    text: `${oneLine(saved.path)}\n`,
    done: `saved to ${oneLine(saved.path)}`,
    note: note(
      `saved ${byteSize(saved.size)}, ${oneLine(saved.content_type)}${saved.sha256 ? `, sha256 ${saved.sha256}` : ''}${saved.renamed ? `; the sender's name of the file could not be kept: ${saved.renamed}` : ''}`,
    ),
  }),
  history: historyText,
  sessions: (sessions: Session[], again) => sessionsText(sessions, again),
  logout: ({ session }: { session: string }) => ({
    text: `logged out: ${oneLine(session)}\n`,
    done: 'logged out',
  }),
  rename_session: ({ old_name, new_name }: { old_name: string; new_name: string }) => ({
    text: `renamed: ${oneLine(old_name)} → ${oneLine(new_name)}\n`,
    done: 'renamed',
  }),
  set_default: ({ default_session }: { default_session: string }) => ({
    text: `default session: ${oneLine(default_session)}\n`,
    done: 'changed',
  }),
}

/** Of recv, where nobody can write: waiting would help nobody. */
export const noSession = (again: string): Shown => ({
  text: '',
  note: note(`no session is logged in: svc login${again}`),
})

/** Of what only looks, where there is nothing to look at. */
export const noDirectory = (dir: string, again: string): Shown => ({
  text: '',
  note: note(`there is no data directory ${oneLine(dir)}: svc login${again}`),
})

/** Of recv: whose messages do not come, or may not. */
export function silentText(silent: readonly SilentSession[], again: string): Shown {
  const lines = silent.map(({ name, status, why }) => {
    const shown = oneLine(name)
    if (why !== undefined) return `${shown} brings no messages: ${oneLine(why)}; see svc doctor${again}`
    return status === 'lapsed'
      ? `${shown} is lapsed: WeChat answers and may bring no messages; see svc check ${shown}${again}`
      : `${shown} is ${status} and brings no messages; log in again: svc login ${shown}${again}`
  })
  return { text: '', ...(lines.length > 0 && { note: note(lines.join('\n')) }) }
}

/** Writes the note of a result to stderr. */
export async function writeNote({ note: said }: Shown, { io }: Command): Promise<void> {
  if (said !== undefined) await io.err.write(said)
}

/** Says on a terminal that more may come; `phoneUrl` of the simulated WeChat that runs here, or is used. */
export async function writeFollowing(err: Output, phoneUrl?: string): Promise<void> {
  const where = phoneUrl === undefined ? '' : ` what is written at ${phoneUrl}`
  if (err.isTerminal) await err.write(note(`following${where}; Ctrl-C ends it`))
}

function sendText(result: SendResult, to: string, again: string): string {
  const { green, red, yellow } = colours
  const ids = result.message_id === undefined ? '' : `  ${oneLine(result.message_id)}`
  const paint = result.success ? green : result.status === 'queued' ? yellow : red
  const lines = [
    `${paint(result.suspect ? 'accepted, but without an id' : result.status)}  ${oneLine(result.session)} → ${oneLine(to)}${ids}`,
  ]
  if (result.repeated)
    lines.push('an earlier send had this key: this became of it, and nothing was sent again')
  for (const part of result.parts) {
    const named = part.renamed ? `, named ${oneLine(part.file_name ?? '')} (${part.renamed})` : ''
    const renamed = `${part.kind !== part.sent_as ? `, sent as ${part.sent_as}` : ''}${named}`
    if (result.parts.length > 1 || part.error || renamed)
      lines.push(
        `  ${part.kind}${renamed}: ${part.status}${part.error ? `, ${oneLine(part.error.detail)}. ${oneLine(adviceFor(part.error, result.session, again))}` : ''}`,
      )
  }
  if (result.outbox_id !== undefined)
    lines.push(
      `it waits for ${waitOf(result)}; svc outbox cancel ${oneLine(result.outbox_id)}${again} takes it back`,
    )
  if (result.status === 'unknown')
    lines.push('no answer came: it may have arrived. Look before sending it again.')
  const until =
    result.window_expires_at === undefined || result.remaining === 0
      ? ''
      : ` until ${localTime(result.window_expires_at)}`
  lines.push(colours.dim(`${counted(result.remaining, 'answer')} left${until}`))
  return `${lines.join('\n')}\n`
}

/** What to do about a part that failed: usual advice in the words of the command line, or that of the part. */
function adviceFor(
  { code, hint = '', retry_after: retryAfter }: NonNullable<SendPart['error']>,
  session: string,
  again: string,
): string {
  const known = errorCodes.find(one => one === code)
  const advice: SvcErrorOptions[] = [{ retryAfter }, { next: { action: 'login', session } }]
  const usual = known && advice.map(one => new SvcError(known, '', one)).find(one => adviceOf(one) === hint)
  return usual
    ? adviceOf(usual, { door: 'cli', command: words => `${['svc', ...words].join(' ')}${again}` })
    : hint
}

/** Oldest first, as one reads a conversation; the newest are the page. */
function historyText(page: HistoryPage, again: string): Shown {
  const shown = page.messages.length
  const total = `${page.total}${page.total_is_lower_bound ? ' or more' : ''}`
  return {
    text: page.messages
      .toReversed()
      .map(message => chatLines(message, again))
      .join(''),
    note: note(
      shown === 0
        ? 'no messages match'
        : `${shown} of ${total}${page.next_before === undefined ? '' : `; older ones: --before ${page.next_before}`}`,
    ),
  }
}

/** The table of sessions. */
export function sessionsText(sessions: readonly Session[], again: string): Shown {
  if (sessions.length === 0) return { text: '', note: note(`no session yet: svc login${again}`) }
  // Beside a service it alone knows when it polled: dashes would look as if it never did.
  const polled = sessions.some(session => session.last_poll_at !== undefined)
  const rows = sessions.map(session => [
    `${session.is_default ? '*' : ' '} ${oneLine(session.name)}`,
    session.status,
    String(session.user_count),
    ...(polled ? [localTime(session.last_poll_at)] : []),
    localTime(session.created_at),
    oneLine(session.bot_id ?? '–'),
  ])
  const heads = ['  SESSION', 'STATUS', 'USERS', ...(polled ? ['LAST POLL'] : []), 'LOGGED IN', 'BOT']
  const failing = sessions.flatMap(({ name, failing_since, poll_error }) =>
    poll_error === undefined
      ? []
      : `polls of ${oneLine(name)} fail${failing_since === undefined ? '' : ` since ${localTime(failing_since)}`}: ${oneLine(poll_error)}`,
  )
  const muted = sessions.flatMap(({ name, muted_since }) =>
    muted_since === undefined
      ? []
      : `WeChat may have muted ${oneLine(name)} since ${localTime(muted_since)}; see svc doctor${again}`,
  )
  const notes = [...failing, ...muted]
  return {
    text: table(heads, rows, colours.bold),
    ...(notes.length > 0 && { note: note(notes.join('\n')) }),
  }
}

const waits = {
  approval: 'a person to say yes',
  user: 'the user to write',
  pace: 'its turn, by the pace',
  refusal: 'the user to write, since WeChat refused',
  login: 'the session to be logged in',
  retry: 'the next try',
  busy: 'a send to this user that is under way',
} as const

/** What a send waits for. */
export const waitOf = ({ waits_for, not_before }: Waiting): string =>
  `${waits_for === undefined ? 'somebody who polls' : waits[waits_for]}${not_before === undefined ? '' : `, until ${localTime(not_before)}`}`
