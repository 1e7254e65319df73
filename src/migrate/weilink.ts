/**
 * The folder of WeiLink (facts from its release 0.6.2): `<session>/token.json` and
 * `<session>/contexts.json` (its first versions had both in the folder itself), `.default_session`, and the
 * message log `messages.db`.
 */
import { join } from 'node:path'
import { countOf, filledOf, objectOf, textOf } from '../ilink/fields.ts'
import { defaultSessionName, type UserContext } from '../model/session.ts'
import { readText } from '../platform/files.ts'
import { formatCount } from '../platform/format.ts'
import { isTaken } from '../platform/lock-engine.ts'
import { listNames, MoveFindings, readJson, type Source, type SourceSession, toMs } from './source.ts'
import { openWeiLinkHistory } from './weilink-history.ts'

/**
 * Reads the folder, except for the messages themselves, and changes nothing in it.
 *
 * @returns undefined if the folder has no data of WeiLink
 * @throws SvcError `store_unavailable` if WeiLink writes into its log while it is copied; the system's
 * error
 */
export async function readWeiLink(from: string, now: number): Promise<Source | undefined> {
  const names = await listNames(from)
  if (!names) return undefined
  const findings = new MoveFindings()
  const sessions: SourceSession[] = []
  const folders = new Map<string, string>()
  for (const name of names) {
    if (!name.startsWith('.') && (await listNames(join(from, name)))?.includes('token.json')) {
      folders.set(name, join(from, name))
    }
  }
  if (names.includes('token.json') && !folders.has(defaultSessionName)) folders.set(defaultSessionName, from)
  for (const [name, folder] of folders) {
    const users = await readContexts(name, folder, now, findings)
    const session = await readToken(name, folder, now, findings)
    if (session) sessions.push({ ...session, users })
  }
  const history = names.includes('messages.db')
    ? await openWeiLinkHistory(join(from, 'messages.db'), findings)
    : undefined
  if (folders.size === 0 && !history && !findings.list.some(({ level }) => level === 'problem'))
    return undefined
  if (!names.includes('messages.db')) {
    findings.addNote('WeiLink kept no message log here (messages.db): there is no history')
  }
  const defaultSession = await readDefault(from, folders)
  return { program: 'weilink', from, sessions, defaultSession, history, findings }
}

/** Returns true if WeiLink polls now, which it does while it holds its poll lock; undefined if unknown. */
export async function isWeiLinkPolling(from: string): Promise<boolean | undefined> {
  return isTaken('flock', join(from, '.poll.lock')).catch(() => undefined)
}

async function readToken(
  name: string,
  folder: string,
  now: number,
  findings: MoveFindings,
): Promise<Omit<SourceSession, 'users'> | undefined> {
  const lost = (why: string) => {
    findings.addProblem(
      `session "${name}": its token.json ${why}; its credentials are not moved`,
      'Log it in again.',
    )
    return undefined
  }
  const { value, trouble } = await readJson(join(folder, 'token.json'))
  if (trouble) return lost(trouble)
  const fields = objectOf(value)
  const bot_id = filledOf(fields?.bot_id)
  const token = filledOf(fields?.token)
  if (!bot_id || !token) return lost('has no bot id or no token')
  const [base_url = '', cursor = ''] = [fields?.base_url, fields?.cursor].map(textOf)
  const created_at = toMs(fields?.created_at, now)
  return { name, bot_id, token, base_url, user_id: filledOf(fields?.user_id), cursor, created_at }
}

/**
 * Reads the contexts. Per user: `t` a token, `ts` when it came, `sc` sends since, `send_ts` the last send,
 * `first_seen`; each may be missing.
 */
async function readContexts(
  name: string,
  folder: string,
  now: number,
  findings: MoveFindings,
): Promise<Map<string, UserContext>> {
  const users = new Map<string, UserContext>()
  const {
    value,
    trouble = 'is not what it should be',
    absent,
  } = await readJson(join(folder, 'contexts.json'))
  if (absent) return users
  const entries = objectOf(value)
  if (!entries) {
    findings.addProblem(
      `session "${name}": its contexts.json ${trouble}; its context tokens are not moved`,
      'A user who writes to the bot again can be answered again.',
    )
    return users
  }
  let unusable = 0
  for (const [user, value] of Object.entries(entries)) {
    const entry = objectOf(value)
    if (!entry || user === '') {
      unusable += 1
      continue
    }
    const token = filledOf(entry.t)
    const received_at = token === undefined ? undefined : toMs(entry.ts, now)
    const last_sent_at = toMs(entry.send_ts, now)
    const used = token === undefined ? 0 : (countOf(entry.sc) ?? 0)
    const first_seen = toMs(entry.first_seen, now) ?? received_at ?? 0
    users.set(user, { token, received_at, used, last_sent_at, first_seen })
  }
  if (unusable > 0) {
    findings.addProblem(
      `session "${name}": its contexts.json has ${formatCount(unusable, 'damaged entry', 'damaged entries')}`,
      'Those users can be answered when they have written again.',
    )
  }
  return users
}

/** Returns the chosen default session, else by WeiLink's rule the one called `default`. */
async function readDefault(from: string, folders: ReadonlyMap<string, string>): Promise<string | undefined> {
  const chosen = (await readText(join(from, '.default_session')).catch(() => ''))?.trim() ?? ''
  if (folders.has(chosen)) return chosen
  return folders.has(defaultSessionName) ? defaultSessionName : undefined
}
