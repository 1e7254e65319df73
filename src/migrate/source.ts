/** Content of another program's folder: its sessions, its history, and findings for the user. */
import { readdir } from 'node:fs/promises'
import { findFault, formatFault } from '../model/bad-json.ts'
import type { BotInfo, UserContext } from '../model/session.ts'
import { errorCodeOf, readBytes, returnIfAbsent } from '../platform/files.ts'
import { reasonOf } from '../platform/system-error.ts'
import type { ImportedMessage } from '../storage/messages.ts'

/** Programs to move from. */
export type Program = 'weilink' | 'openclaw'

/** Names of the programs for people. */
export const programNames: Readonly<Record<Program, string>> = { weilink: 'WeiLink', openclaw: 'OpenClaw' }

/**
 * A finding for the user. `problem`: something is not moved; `warning`: something to do or to watch;
 * `note`: how something was moved.
 */
export interface MoveFinding {
  level: 'problem' | 'warning' | 'note'
  text: string
  /** What to do about it. */
  hint?: string
}

/** Findings in the order they were added. */
export class MoveFindings {
  readonly list: MoveFinding[] = []
  readonly addProblem = this.#createAdder('problem')
  readonly addWarning = this.#createAdder('warning')
  readonly addNote = this.#createAdder('note')

  #createAdder(level: MoveFinding['level']) {
    return (text: string, hint?: string): void => void this.list.push({ level, text, ...(hint && { hint }) })
  }
}

/** A session with its credentials. Contains secrets. `base_url` and `cursor` are '' if unknown. */
export interface SourceSession extends Pick<BotInfo, 'bot_id' | 'token' | 'base_url' | 'user_id' | 'cursor'> {
  /** Name in the other program; svc may not allow it. */
  name: string
  /** Unix ms; undefined when unknown. */
  created_at?: number
  users: ReadonlyMap<string, UserContext>
}

/** Numbers of messages, and of messages that lose something. */
export interface HistoryTally {
  received: number
  sent: number
  /** The stored form cannot be parsed: only the row's columns are moved, no media and no quotes. */
  damaged: number
  /** Received messages without content. */
  empty: number
  /** Media without an address on the CDN: they can never be downloaded. */
  mediaLost: number
}

/** A bot and a user, with the number of their messages. */
export interface PastConversation {
  bot_id: string
  user_id: string
  messages: number
}

/** Messages of the other program. They can be read more than once. */
export interface SourceHistory {
  /** Number of rows. */
  readonly rows: number
  readonly conversations: readonly PastConversation[]
  /**
   * Yields pages of some hundred messages, oldest first, and counts in `tally`. `sessionOf` returns svc's
   * session of a bot.
   */
  read(sessionOf: (botId: string) => string, tally: HistoryTally): Iterable<ImportedMessage[]>
  close(): Promise<void>
}

/** Content of another program's folder. */
export interface Source {
  program: Program
  from: string
  sessions: SourceSession[]
  /** Default session, by its name in the other program. */
  defaultSession?: string
  history?: SourceHistory
  findings: MoveFindings
}

const absentCodes = ['ENOENT', 'ENOTDIR']

/** Result of reading a JSON file. `trouble` says for people why it cannot be used. */
export interface JsonReading {
  value?: unknown
  trouble?: string
  absent?: true
}

/** Reads a JSON file. `trouble` never contains its content. */
export async function readJson(path: string): Promise<JsonReading> {
  let text: string
  try {
    text = readBytes(path).toString()
  } catch (error) {
    const code = errorCodeOf(error)
    if (absentCodes.includes(code ?? '')) return { trouble: 'is missing', absent: true }
    return { trouble: `cannot be read: ${reasonOf(error)}` }
  }
  // Some editors begin a file with a byte order mark.
  const bare = text.replace(/^\ufeff/, '')
  try {
    return { value: JSON.parse(bare) }
  } catch {
    const fault = await findFault(bare)
    const where = fault ? ` (${formatFault(fault)})` : ''
    return { trouble: bare.trim() === '' ? 'is empty' : `does not parse${where}` }
  }
}

/**
 * Returns the sorted names in a folder; undefined if there is no such folder.
 *
 * @throws the system's error if it cannot be read
 */
export const listNames = (path: string): Promise<string[] | undefined> =>
  readdir(path).then(names => names.sort(), returnIfAbsent(undefined, absentCodes))

/**
 * Converts another program's Unix seconds, with or without a fraction, to milliseconds, at most `now`;
 * undefined if it is no time.
 */
export function toMs(value: unknown, now: number): number | undefined {
  if (typeof value !== 'number' || !Number.isFinite(value) || value <= 0) return undefined
  // Larger values (seconds after the year 5000) are milliseconds already.
  return Math.min(now, Math.round(value > 1e11 ? value : value * 1000))
}
