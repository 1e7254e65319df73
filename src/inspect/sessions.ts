/** The session folders as they lie there. Unlike the state, which mends what it meets, this changes nothing. */
import { join } from 'node:path'
import { dataFiles } from '../model/data-files.ts'
import { SvcError } from '../model/error.ts'
import {
  type BotInfo,
  hasWritten,
  type SessionStatus,
  standingOf,
  type UserContext,
} from '../model/session.ts'
import { readText } from '../platform/files.ts'
import { JsonFiles } from '../platform/json-file.ts'
import type { FileLock } from '../platform/lock.ts'
import { silentLog } from '../platform/log.ts'
import { openState } from '../storage/sqlite/state/state.ts'
import { type DataDirectory, sessionFolders } from './data-directory.ts'

/** One session folder. */
export interface SessionFolder {
  name: string
  status: Exclude<SessionStatus, 'logging_in'>
  /** Its credentials, when they can be read: never to be shown. */
  bot?: BotInfo
  isDefault: boolean
  /** Why it is disconnected: its token.json does not parse, or the system refuses to show it. */
  trouble?: { kind: 'damaged' } | { kind: 'unreadable'; error: unknown }
  /** Its contexts.json: nobody can be answered whose token stands there. */
  contexts: 'read' | 'absent' | 'damaged' | 'unreadable'
  users: ReadonlyMap<string, UserContext>
}

export interface SessionFolders {
  /** The default one first, then the oldest first. */
  sessions: SessionFolder[]
  /** What `.default_session` says, when that is no session. */
  lostDefault?: string
}

/** Whoever only looks has no lock, and so mends nothing. */
const lookOnly: Pick<FileLock, 'run'> = {
  run: () => Promise.reject(new SvcError('store_unavailable', 'nothing is changed here')),
}

/** Looks at every session. */
export async function lookAtSessions(directory: DataDirectory): Promise<SessionFolders> {
  const { dir } = directory
  const { sessions, contexts } = openState({ dir, lock: lookOnly, log: silentLog })
  const plain = new JsonFiles(fields => fields)
  const found: SessionFolder[] = []
  const wanted = await sessions.defaultName().catch(() => undefined)
  for (const name of sessionFolders(directory)) {
    const sight = { name, isDefault: name === wanted, contexts: 'absent', users: new Map() } as const
    try {
      const record = await sessions.get(name)
      if (record?.name === name) {
        const kind = kindOf(plain, sessions.contextsPath(name))
        found.push({
          ...sight,
          status: record.bot ? standingOf(record.bot) : 'disconnected',
          ...(record.bot && { bot: record.bot }),
          ...(record.damaged && { trouble: { kind: 'damaged' } }),
          contexts: kind,
          users: new Map(
            kind === 'read' ? [...contexts.known(name)].filter(([, context]) => hasWritten(context)) : [],
          ),
        })
      }
    } catch (error) {
      found.push({ ...sight, status: 'disconnected', trouble: { kind: 'unreadable', error } })
    }
  }
  const age = ({ bot }: SessionFolder) => bot?.created_at ?? Number.MAX_SAFE_INTEGER
  found.sort(
    (a, b) => Number(b.isDefault) - Number(a.isDefault) || age(a) - age(b) || (a.name < b.name ? -1 : 1),
  )
  const said = wanted === undefined ? await saidDefault(dir) : undefined
  return { sessions: found, ...(said && { lostDefault: said }) }
}

function kindOf(files: JsonFiles<unknown>, path: string): SessionFolder['contexts'] {
  try {
    return files.read(path).kind
  } catch {
    return 'unreadable'
  }
}

async function saidDefault(dir: string): Promise<string | undefined> {
  return (await readText(join(dir, dataFiles.defaultSession)).catch(() => undefined))?.trim()
}
