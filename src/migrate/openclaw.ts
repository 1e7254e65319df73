/**
 * The folder of OpenClaw with the accounts of its WeChat plugin (facts from @tencent-weixin/openclaw-weixin
 * 2.4.9). `openclaw-weixin/accounts.json` lists the accounts. `openclaw-weixin/accounts/<id>.json` has the
 * credentials, `<id>.sync.json` the cursor, `<id>.context-tokens.json` the context tokens without times.
 * There is no message log.
 */
import { join } from 'node:path'
import { filledOf, objectOf } from '../ilink/fields.ts'
import type { UserContext } from '../model/session.ts'
import { formatCount } from '../platform/format.ts'
import { MoveFindings, readJson, type Source, type SourceSession } from './source.ts'

/**
 * Reads the folder whole and changes nothing in it.
 *
 * @returns undefined if the folder has no data of the plugin
 * @throws the system's error if it cannot be read
 */
export async function readOpenClaw(from: string, now: number): Promise<Source | undefined> {
  const findings = new MoveFindings()
  const folder = join(from, 'openclaw-weixin')
  const { value: listed, trouble, absent } = await readJson(join(folder, 'accounts.json'))
  if (absent) return undefined
  if (!Array.isArray(listed))
    findings.addProblem(`accounts.json ${trouble ?? 'is no list'}: no account is moved`)
  const ids = [...new Set((Array.isArray(listed) ? listed : []).flatMap(id => filledOf(id)?.trim() || []))]
  const settings = await readChannelSettings(from, findings)
  const sessions: SourceSession[] = []
  for (const id of ids.filter(isFileName)) {
    const own = objectOf(objectOf(settings?.accounts)?.[id]) ?? (ids.length === 1 ? settings : undefined)
    const name = filledOf(own?.name)?.trim() || id.replace(/(-im-bot|@im\.bot)$/, '')
    const session = await readSession(join(folder, 'accounts', id), { id, name, now, findings })
    if (session) sessions.push(session)
    if (own?.enabled === false)
      findings.addWarning(
        `account "${name}" is disabled in OpenClaw; svc polls every session it has`,
        'To keep it off, log it out in svc.',
      )
  }
  if (sessions.some(({ users }) => users.size > 0))
    findings.addWarning(
      'OpenClaw does not store when users wrote: until they write again, svc does not know whether and how often it may answer them',
      'An answer that WeChat refuses (window_closed or quota_exhausted) works after the user has written again.',
    )
  return { program: 'openclaw', from, sessions, findings }
}

/** Returns true if the account id is a plain file name, since file names contain it. */
const isFileName = (id: string) => !/[/\\\0]/.test(id) && id !== '.' && id !== '..'

/**
 * Reads one account.
 *
 * @param path path of the account's files, without their endings
 */
async function readSession(
  path: string,
  { id, name, now, findings }: { id: string; name: string; now: number; findings: MoveFindings },
): Promise<SourceSession | undefined> {
  const read = await readJson(`${path}.json`)
  const fields = objectOf(read.value)
  const token = filledOf(fields?.token)?.trim()
  if (!token) {
    const why = read.trouble ?? 'has no token'
    findings.addProblem(`account ${id}: its file ${why}; its credentials are not moved`, 'Log it in again.')
    return undefined
  }
  const user_id = filledOf(fields?.userId)?.trim()
  const savedAt = Date.parse(filledOf(fields?.savedAt) ?? '')
  const sync = await readJson(`${path}.sync.json`)
  if (sync.trouble)
    findings.addWarning(
      `account ${id}: its cursor ${sync.trouble}; WeChat decides which undelivered messages come first`,
    )
  return {
    name,
    token,
    bot_id: botIdOf(id, token),
    base_url: filledOf(fields?.baseUrl)?.trim() ?? '',
    ...(user_id && { user_id }),
    ...(savedAt > 0 && { created_at: Math.min(savedAt, now) }),
    cursor: filledOf(objectOf(sync.value)?.get_updates_buf) ?? '',
    users: await readUsers(`${path}.context-tokens.json`, { id, owner: user_id, findings }),
  }
}

/**
 * Returns the bot id. The plugin's id is the bot's in lower case, with `-` for other characters; a token
 * begins with the true id.
 */
function botIdOf(id: string, token: string): string {
  const inToken = /^([^:\s]+@im\.bot):/.exec(token)?.[1]
  if (inToken?.toLowerCase().replace(/[^a-z0-9_-]/g, '-') === id) return inToken
  return id.replace(/-im-bot$/, '@im.bot')
}

/**
 * Reads the context tokens of an account.
 *
 * @param owner the user who scanned; this id has WeChat's spelling
 */
async function readUsers(
  path: string,
  { id, owner, findings }: { id: string; owner: string | undefined; findings: MoveFindings },
): Promise<Map<string, UserContext>> {
  const { value, trouble = 'is not what it should be', absent } = await readJson(path)
  const tokens = objectOf(value)
  if (!tokens && !absent)
    findings.addProblem(
      `account ${id}: its file of context tokens ${trouble}`,
      'A user who writes to the bot again can be answered again.',
    )
  const users = new Map<string, UserContext>()
  // NewFuture's fork writes ids in lower case (protocol notes 5.6); to WeChat those are other users.
  const isLowered = Object.keys(tokens ?? {}).every(user => user === user.toLowerCase())
  for (const [key, value] of Object.entries(tokens ?? {})) {
    const token = filledOf(value)
    const user = isLowered && owner !== undefined && key === owner.toLowerCase() ? owner : key
    // OpenClaw does not store when the user wrote, and how many answers were sent since.
    if (token !== undefined && user !== '') users.set(user, { token, used: 0, first_seen: 0 })
  }
  const lowered = [...users.keys()].filter(user => isLowered && user !== owner)
  if (lowered.length > 0)
    findings.addWarning(
      `account ${id}: the ids of ${formatCount(lowered.length, 'user')} are in lower case, as a fork of the plugin writes them. WeChat knows users only by their exact ids`,
      'Nothing to do: svc learns the exact id with the first message of each user; until then you cannot write to them.',
    )
  return users
}

/** Reads the channel's settings from `openclaw.json`, which people may edit and comment. */
async function readChannelSettings(
  from: string,
  findings: MoveFindings,
): Promise<Record<string, unknown> | undefined> {
  const { value, trouble, absent } = await readJson(join(from, 'openclaw.json'))
  if (trouble && !absent)
    findings.addNote(`openclaw.json ${trouble}: names and settings of its accounts are not moved`)
  return objectOf(objectOf(objectOf(value)?.channels)?.['openclaw-weixin'])
}
