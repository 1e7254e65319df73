/**
 * The folder of WeiLink (facts from its release 0.6.2): `<session>/token.json` and `<session>/contexts.json`, or both in
 * the folder itself as its first versions had them, `.default_session`, and the message log `messages.db`.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { filledOf, objectOf, textOf } from '../ilink/fields.ts'
import { defaultSessionName, type UserContext } from '../model/session.ts'
import { isTaken } from '../platform/lock-engine.ts'
import {
  type Finding,
  type LostSession,
  msOfSeconds,
  namesIn,
  readJson,
  type Source,
  type SourceSession,
} from './source.ts'
import { openWeiLinkHistory } from './weilink-history.ts'

/**
 * Reads it whole, without the messages themselves. Nothing in it is changed.
 *
 * @returns undefined when there is nothing of WeiLink's in the folder
 * @throws SvcError `store_unavailable` when WeiLink writes into its log all the time; the system's error
 */
export async function readWeiLink(from: string, now: number): Promise<Source | undefined> {
  const names = await namesIn(from)
  if (!names) return undefined
  const findings: Finding[] = []
  const sessions: SourceSession[] = []
  const lost: LostSession[] = []
  const folders = new Map<string, string>()
  for (const name of names) {
    if (!name.startsWith('.') && (await namesIn(join(from, name)))?.includes('token.json')) {
      folders.set(name, join(from, name))
    }
  }
  if (names.includes('token.json') && !folders.has(defaultSessionName)) folders.set(defaultSessionName, from)
  for (const [name, folder] of folders) {
    const users = await readContexts(name, folder, now, findings)
    const session = await readToken(name, folder, now, findings)
    if (session) sessions.push({ ...session, users })
    else lost.push({ name, users })
  }
  const history = names.includes('messages.db')
    ? await openWeiLinkHistory(join(from, 'messages.db'), findings)
    : undefined
  if (folders.size === 0 && !history && !findings.some(({ level }) => level === 'problem')) return undefined
  if (!names.includes('messages.db')) {
    findings.push({
      level: 'note',
      text: 'WeiLink kept no message log here (messages.db): there is no history',
    })
  }
  if (names.includes('messages.db-shm')) {
    findings.push({
      level: 'warning',
      text: 'messages.db is in use by WeiLink, or was when WeiLink was killed',
      hint: 'Make sure that WeiLink is stopped.',
    })
  }
  const defaultSession = await defaultOf(from, folders)
  return {
    program: 'weilink',
    from,
    sessions,
    lost,
    ...(defaultSession !== undefined && { defaultSession }),
    ...(history && { history }),
    findings,
  }
}

/** Whether WeiLink polls at this moment: it holds its lock then. Undefined where that cannot be told. */
export async function weiLinkPolls(from: string): Promise<boolean | undefined> {
  return isTaken('flock', join(from, '.poll.lock')).catch(() => undefined)
}

async function readToken(
  name: string,
  folder: string,
  now: number,
  findings: Finding[],
): Promise<Omit<SourceSession, 'users'> | undefined> {
  const lost = (why: string) => {
    findings.push({
      level: 'problem',
      text: `session "${name}": its token.json ${why}; its credentials do not come over`,
      hint: `Log it in again.`,
    })
    return undefined
  }
  const read = await readJson(join(folder, 'token.json'))
  if (read === 'absent') return lost('is gone')
  if ('trouble' in read) return lost(read.trouble)
  const fields = objectOf(read.value)
  const bot_id = filledOf(fields?.bot_id)
  const token = filledOf(fields?.token)
  if (!bot_id || !token) return lost('has no bot id or no token')
  const user_id = filledOf(fields?.user_id)
  const created_at = msOfSeconds(fields?.created_at, now)
  return {
    name,
    bot_id,
    token,
    base_url: textOf(fields?.base_url) ?? '',
    ...(user_id !== undefined && { user_id }),
    cursor: textOf(fields?.cursor) ?? '',
    ...(created_at !== undefined && { created_at }),
  }
}

/** Per user `t`, a token; `ts`, when it came; `sc`, sends since; `send_ts`, the last send; `first_seen`. All may be missing. */
async function readContexts(
  name: string,
  folder: string,
  now: number,
  findings: Finding[],
): Promise<Map<string, UserContext>> {
  const users = new Map<string, UserContext>()
  const read = await readJson(join(folder, 'contexts.json'))
  if (read === 'absent') return users
  const entries = 'value' in read ? objectOf(read.value) : undefined
  if (!entries) {
    const why = 'trouble' in read ? read.trouble : 'is not what it should be'
    findings.push({
      level: 'problem',
      text: `session "${name}": its contexts.json ${why}; its context tokens do not come over`,
      hint: 'Whoever writes to the bot again can be answered again.',
    })
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
    const received_at = token === undefined ? undefined : msOfSeconds(entry.ts, now)
    const last_sent_at = msOfSeconds(entry.send_ts, now)
    const sends = entry.sc
    users.set(user, {
      ...(token !== undefined && { token }),
      ...(received_at !== undefined && { received_at }),
      used: token !== undefined && Number.isSafeInteger(sends) && Number(sends) > 0 ? Number(sends) : 0,
      ...(last_sent_at !== undefined && { last_sent_at }),
      first_seen: msOfSeconds(entry.first_seen, now) ?? received_at ?? 0,
    })
  }
  if (unusable > 0) {
    findings.push({
      level: 'problem',
      text: `session "${name}": ${unusable} entries of its contexts.json are not what they should be`,
      hint: 'Those users can be answered when they have written again.',
    })
  }
  return users
}

/** What was chosen; else WeiLink's own rule: the one called `default`. */
async function defaultOf(from: string, folders: ReadonlyMap<string, string>): Promise<string | undefined> {
  const chosen = await readFile(join(from, '.default_session'), 'utf8').then(
    text => text.trim(),
    () => '',
  )
  if (folders.has(chosen)) return chosen
  return folders.has(defaultSessionName) ? defaultSessionName : undefined
}
