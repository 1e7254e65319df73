/** What was found in the folder of another program: its sessions, its history, and what is to be told of it. */
import { readdir } from 'node:fs/promises'
import { faultIn, faultText } from '../model/bad-json.ts'
import type { BotInfo, UserContext } from '../model/session.ts'
import { absentAs, bytesOf, errorCodeOf } from '../platform/files.ts'
import { reasonOf } from '../platform/system-error.ts'
import type { PastMessage } from '../storage/messages.ts'

/** The programs that can be moved from. */
export type Program = 'weilink' | 'openclaw'

/** As people know them. */
export const programNames: Readonly<Record<Program, string>> = { weilink: 'WeiLink', openclaw: 'OpenClaw' }

/**
 * Something a person should know. `problem`: not all came over; `warning`: something to do or to watch; `note`: how it
 * was done.
 */
export interface Finding {
  level: 'problem' | 'warning' | 'note'
  text: string
  /** What to do about it. */
  hint?: string
}

/** What is to be told, in the order it was found. */
export class Findings {
  readonly list: Finding[] = []
  readonly problem = this.#adds('problem')
  readonly warning = this.#adds('warning')
  readonly note = this.#adds('note')

  #adds(level: Finding['level']) {
    return (text: string, hint?: string): void => void this.list.push({ level, text, ...(hint && { hint }) })
  }
}

/** A session with its credentials. Secret. `base_url` and `cursor` are '' where there is none that is certainly its own. */
export interface SourceSession extends Pick<BotInfo, 'bot_id' | 'token' | 'base_url' | 'user_id' | 'cursor'> {
  /** As the program calls it; not necessarily a name of ours. */
  name: string
  /** Unix ms; undefined when unknown. */
  created_at?: number
  users: ReadonlyMap<string, UserContext>
}

/** What could not be carried as it was, by kind. */
export interface HistoryTally {
  received: number
  sent: number
  /** The stored form cannot be read: what the row's columns say came over, without media and quotes. */
  damaged: number
  /** Received without any content that the program kept. */
  empty: number
  /** Media whose place on the CDN the program did not keep: never to be downloaded. */
  mediaLost: number
}

/** Who wrote with which bot, and how often. */
export interface Conversation {
  bot_id: string
  user_id: string
  messages: number
}

/** Messages of the program, readable more than once. */
export interface SourceHistory {
  /** Rows as the program counts them. */
  readonly rows: number
  readonly conversations: readonly Conversation[]
  /** Oldest first, some hundred at a time. `sessionOf`: the session of ours that a bot's messages belong to. */
  read(sessionOf: (botId: string) => string, tally: HistoryTally): Iterable<PastMessage[]>
  close(): Promise<void>
}

/** The content of another program's folder. */
export interface Source {
  program: Program
  from: string
  sessions: SourceSession[]
  /** By the program's name of it. */
  defaultSession?: string
  history?: SourceHistory
  findings: Findings
}

const nowhere = ['ENOENT', 'ENOTDIR']

/** A JSON file of the source. `trouble`: why it cannot be used, for people. */
export interface Read {
  value?: unknown
  trouble?: string
  absent?: true
}

/** Reads a JSON file; nothing of its content stands in the trouble. */
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

/** The names in a folder; undefined when there is no such folder. @throws the system's error when it cannot be read */
export const namesIn = (path: string): Promise<string[] | undefined> =>
  readdir(path).then(names => names.sort(), absentAs(undefined, nowhere))

/** Unix seconds of another program, as it may have a fraction, as ours; none when it is no time, and never later than now. */
export function msOfSeconds(value: unknown, now: number): number | undefined {
  if (typeof value !== 'number' || !Number.isFinite(value) || value <= 0) return undefined
  // Beyond the year 5000 they are milliseconds already.
  return Math.min(now, Math.round(value > 1e11 ? value : value * 1000))
}
