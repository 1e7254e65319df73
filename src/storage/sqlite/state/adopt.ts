/**
 * Takes over a session of another program: stores its login and its users' contexts while holding the data
 * lock once.
 */
import { dirname } from 'node:path'
import { SvcError } from '../../../model/error.ts'
import { type BotInfo, normalizeSessionName, type UserContext } from '../../../model/session.ts'
import { ensurePrivateDir, setAside, statOf, syncDir, writeDurablyInOrder } from '../../../platform/files.ts'
import { JsonFiles } from '../../../platform/json-file.ts'
import type { FileLock } from '../../../platform/lock.ts'
import type { FileState } from './state.ts'
import { withoutMarks } from './token-file.ts'

export interface Adoption {
  name: string
  bot: BotInfo
  /** Replaces an older login of the same bot. */
  renews: boolean
  users: ReadonlyMap<string, UserContext>
}

/** Changes that an adoption made. */
export interface AdoptResult {
  login: 'added' | 'renewed' | 'kept'
  /** Number of users with new data. */
  users: number
}

/**
 * Takes a session over. A login that svc has already keeps its own cursor, and the newer data of each user
 * stays, so adopting the same session again changes nothing. The contexts are written before the login: a
 * session never appears without them.
 *
 * @throws SvcError `session_exists` if the name was given to another session since
 */
export async function adopt(state: FileState, lock: FileLock, adoption: Adoption): Promise<AdoptResult> {
  const { sessions, contexts } = state
  const name = normalizeSessionName(adoption.name)
  return lock.run(async () => {
    sessions.markWritten(name)
    contexts.markWritten(name)
    const tokenPath = sessions.tokenPath(name)
    const contextsPath = sessions.contextsPath(name)
    const file = sessions.readToken(name)
    if (file ? file.bot.bot_id !== adoption.bot.bot_id : await statOf(tokenPath)) {
      throw new SvcError('session_exists', `the name "${name}" was taken meanwhile, by another bot`, {
        hint: 'Try again: it gets another name then.',
      })
    }
    const login = !file
      ? 'added'
      : adoption.renews && file.bot.token !== adoption.bot.token
        ? 'renewed'
        : 'kept'
    const isDamaged = new JsonFiles(fields => fields).read(contextsPath).kind === 'damaged'
    if (isDamaged) await setAside(contextsPath)
    const known = contexts.read(name)
    // Contexts that an earlier login under this name left belong to another bot.
    const [users, changed] = mergeUsers(file ? known : new Map(), adoption.users)
    const folder = dirname(tokenPath)
    if (!(await statOf(folder))) {
      await ensurePrivateDir(folder)
      await syncDir(dirname(folder))
    }
    const files = []
    if (changed > 0 || (!file && known.size > 0))
      files.push({ path: contextsPath, text: contexts.toText(users) })
    if (login !== 'kept') {
      const fields = withoutMarks(file?.fields ?? {})
      files.push({ path: tokenPath, text: sessions.toTokenText({ ...fields, ...adoption.bot }) })
    }
    try {
      await writeDurablyInOrder(files)
    } finally {
      sessions.markWritten(name)
      contexts.markWritten(name)
    }
    return { login, users: changed }
  })
}

/**
 * Returns the context of the later message for each user. A context of unknown time counts only if there is
 * no other.
 */
function mergeUsers(
  ours: ReadonlyMap<string, UserContext>,
  theirs: ReadonlyMap<string, UserContext>,
): [Map<string, UserContext>, number] {
  const users = new Map(ours)
  let changed = 0
  for (const [user, their] of theirs) {
    const our = ours.get(user)
    const context = our ? newerOf(our, their) : their
    if (context === our) continue
    users.set(user, context)
    changed += 1
  }
  return [users, changed]
}

function newerOf(our: UserContext, their: UserContext): UserContext {
  const later =
    their.token !== undefined &&
    (our.token === undefined || (their.received_at ?? 0) > (our.received_at ?? 0))
  const earliest = Math.min(...[our.first_seen, their.first_seen].filter(at => at > 0))
  const first_seen = Number.isFinite(earliest) ? earliest : 0
  if (!later) return first_seen === our.first_seen ? our : { ...our, first_seen }
  const { last_sent_at = 0 } = our
  const sent = Math.max(last_sent_at, their.last_sent_at ?? 0)
  return { ...our, ...their, ...(sent > 0 && { last_sent_at: sent }), first_seen }
}
