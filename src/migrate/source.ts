/** Content of another program's folder: its sessions, its history, and findings for the user. */
import { readdir } from 'node:fs/promises'
import { faultIn, faultText } from '../model/bad-json.ts'
import type { BotInfo, UserContext } from '../model/session.ts'
import { absentAs, bytesOf, errorCodeOf } from '../platform/files.ts'
import { reasonOf } from '../platform/system-error.ts'
import type { PastMessage } from '../storage/messages.ts'

/** Programs to move from. */
export type Program = 'weilink' | 'openclaw'

/** Names of the programs for people. */
export const programNames: Readonly<Record<Program, string>> = { weilink: 'WeiLink', openclaw: 'OpenClaw' }

/**
 * A finding for the user. `problem`: something is not moved; `warning`: something to do or to watch;
 * `note`: how something was moved.
 */
export interface Finding {
  level: 'problem' | 'warning' | 'note'
  text: string
  /** What to do about it. */
  hint?: string
}

/** Findings in the order they were added. */
export class Findings {
  readonly list: Finding[] = []
  readonly problem = this.#adds('problem')
  readonly warning = this.#adds('warning')
  readonly note = this.#adds('note')

  #adds(level: Finding['level']) {
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

/** Numbers of messages, and of those that lose something. */
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
export interface Conversation {
  bot_id: string
  user_id: string
  messages: number
}

/** Messages of the other program. They can be read more than once. */
export interface SourceHistory {
  /** Number of rows. */
  readonly rows: number
  readonly conversations: readonly Conversation[]
  /**
   * Yields pages of some hundred messages, oldest first, and counts in `tally`. `sessionOf` returns svc's
   * session of a bot.
   */
  read(sessionOf: (botId: string) => string, tally: HistoryTally): Iterable<PastMessage[]>
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
  findings: Findings
}

const nowhere = ['ENOENT', 'ENOTDIR']

/** Result of reading a JSON file. `trouble` says for people why it cannot be used. */
export interface Read {
  value?: unknown
  trouble?: string
  absent?: true
}

/** Reads a JSON file. `trouble` never contains its content. */
export async function readJson(path: string): Promise<Read> {
  let text: string
  try {
    text = bytesOf(path).toString()
  } catch (error) {
    const code = errorCodeOf(error)
    if (nowhere.includes(code ?? '')) return { trouble: 'is missing', absent: true }
    return { trouble: `cannot be read: ${reasonOf(error)}` }
  }
  // Some editors begin a file with a byte order mark.
  const bare = text.replace(/^\ufeff/, '')
  try {
    return { value: JSON.parse(bare) }
  } catch {
    const fault = await faultIn(bare)
    const where = fault ? ` (${faultText(fault)})` : ''
    return { trouble: bare.trim() === '' ? 'is empty' : `does not parse${where}` }
  }
}

/**
 * Returns the sorted names in a folder; undefined if there is no such folder.
 *
 * @throws the system's error if it cannot be read
 */
export const namesIn = (path: string): Promise<string[] | undefined> =>
  readdir(path).then(names => names.sort(), absentAs(undefined, nowhere))

/**
 * Converts another program's Unix seconds, with or without a fraction, to milliseconds, at most `now`;
 * undefined if it is no time.
 */
export function msOfSeconds(value: unknown, now: number): number | undefined {
  if (typeof value !== 'number' || !Number.isFinite(value) || value <= 0) return undefined
  // Larger values (seconds after the year 5000) are milliseconds already.
  return Math.min(now, Math.round(value > 1e11 ? value : value * 1000))
}
