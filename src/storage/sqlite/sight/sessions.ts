/** The session folders as they lie there. Unlike the state, which mends what it meets, this changes nothing. */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { dataFiles } from '../../../model/data-files.ts'
import { SvcError } from '../../../model/error.ts'
import { hasWritten, standingOf } from '../../../model/session.ts'
import { readText } from '../../../platform/files.ts'
import { JsonFiles } from '../../../platform/json-file.ts'
import type { FileLock } from '../../../platform/lock.ts'
import { silentLog } from '../../../platform/log.ts'
import type { SeenSession, SeenSessions } from '../../sight.ts'
import { sessionFolders } from '../directory-claim.ts'
import { openState } from '../state/state.ts'

/** Whoever only looks has no lock, and so mends nothing. */
const lookOnly: Pick<FileLock, 'run'> = {
  run: () => Promise.reject(new SvcError('store_unavailable', 'nothing is changed here')),
}

/** Looks at every session. */
export async function lookAtSessions(dir: string): Promise<SeenSessions> {
  const { sessions, contexts } = openState({ dir, lock: lookOnly, log: silentLog })
  const plain = new JsonFiles(fields => fields)
  const found: SeenSession[] = []
  const wanted = await sessions.defaultName().catch(() => undefined)
  for (const name of await foldersIn(dir)) {
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
  const age = ({ bot }: SeenSession) => bot?.created_at ?? Number.MAX_SAFE_INTEGER
  found.sort(
    (a, b) => Number(b.isDefault) - Number(a.isDefault) || age(a) - age(b) || (a.name < b.name ? -1 : 1),
  )
  const said = wanted === undefined ? await saidDefault(dir) : undefined
  return { sessions: found, ...(said && { lostDefault: said }) }
}

/** None where there is no directory, or none that can be read. */
async function foldersIn(dir: string): Promise<string[]> {
  return sessionFolders({ entries: await readdir(dir, { withFileTypes: true }).catch(() => []) })
}

function kindOf(files: JsonFiles<unknown>, path: string): SeenSession['contexts'] {
  try {
    return files.read(path).kind
  } catch {
    return 'unreadable'
  }
}

async function saidDefault(dir: string): Promise<string | undefined> {
  return (await readText(join(dir, dataFiles.defaultSession)).catch(() => undefined))?.trim()
}
