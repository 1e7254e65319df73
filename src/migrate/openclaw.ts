/**
 * The folder of OpenClaw, as its WeChat plugin keeps accounts in it (facts from @tencent-weixin/openclaw-weixin 2.4.9):
 * `openclaw-weixin/accounts.json` lists them, `openclaw-weixin/accounts/<id>.json` has the credentials, `<id>.sync.json` the
 * cursor, `<id>.context-tokens.json` the context tokens without times. It keeps no message log.
 */
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import process from 'node:process'
import { filledOf, objectOf } from '../ilink/fields.ts'
import type { UserContext } from '../model/session.ts'
import { processState } from '../platform/other-process.ts'
import {
  type Finding,
  type LostSession,
  namesIn,
  readJson,
  type Source,
  type SourceSession,
} from './source.ts'

/** The one cursor of the plugin's first versions, which knew one account. */
const oldCursor = 'agents/default/sessions/.openclaw-weixin-sync/default.json'
const oldToken = 'credentials/openclaw-weixin/credentials.json'

/**
 * Reads it whole. Nothing in it is changed.
 *
 * @returns undefined when there is nothing of the plugin's in the folder
 * @throws the system's error when it cannot be read
 */
export async function readOpenClaw(from: string, now: number): Promise<Source | undefined> {
  const findings: Finding[] = []
  const folder = join(from, 'openclaw-weixin')
  const ids = await accountIds(folder, findings)
  if (!ids) return undefined
  const config = await channelConfig(from, findings)
  const sessions: SourceSession[] = []
  const lost: LostSession[] = []
  for (const id of ids) {
    const account = new Account(join(folder, 'accounts'), id, findings)
    const name = nameOf(id, config, ids.length)
    const session = await account.credentials(from, ids.length, now)
    const users = await account.users(session?.user_id)
    if (session) {
      const cursor = await account.cursor(from, ids.length)
      sessions.push({ ...session, name, cursor, users })
    } else lost.push({ name, users })
    tellOfSettings(id, name, config, findings)
  }
  if (sessions.some(({ users }) => users.size > 0)) {
    findings.push({
      level: 'warning',
      text: 'OpenClaw does not note when users wrote: until they write again, svc cannot say whether and how often they may still be answered',
      hint: 'An answer that WeChat refuses (window_closed or quota_exhausted) goes through when the user has written again.',
    })
  }
  if (existsSync(join(folder, 'ref-messages.sqlite'))) {
    findings.push({
      level: 'note',
      text: 'OpenClaw keeps no message log; its cache of quoted messages (ref-messages.sqlite) is not one, and stays where it is',
    })
  }
  return { program: 'openclaw', from, sessions, lost, findings }
}

/** The process that runs OpenClaw's gateway on this folder, as far as its lock file tells. */
export async function openClawRuns(from: string): Promise<number | undefined> {
  const folder = join(tmpdir(), process.getuid ? `openclaw-${process.getuid()}` : 'openclaw')
  for (const name of (await namesIn(folder).catch(() => undefined)) ?? []) {
    if (!/^gateway\..*\.lock$/.test(name)) continue
    const read = await readJson(join(folder, name))
    const lock = read !== 'absent' && 'value' in read ? objectOf(read.value) : undefined
    const config = filledOf(lock?.configPath)
    if (config === undefined || dirname(resolve(config)) !== resolve(from)) continue
    const pid = lock?.pid
    if (typeof pid === 'number' && pid > 0 && (await processState(pid)) !== 'gone') return pid
  }
  return undefined
}

/** Undefined when the plugin left nothing here. */
async function accountIds(folder: string, findings: Finding[]): Promise<string[] | undefined> {
  const files = (await namesIn(join(folder, 'accounts'))) ?? []
  const found = files.flatMap(
    name => /^(?!.*\.(?:sync|context-tokens)\.json$)(.+)\.json$/.exec(name)?.[1] ?? [],
  )
  const read = await readJson(join(folder, 'accounts.json'))
  const listed = read !== 'absent' && 'value' in read && Array.isArray(read.value) ? read.value : undefined
  if (listed) {
    const ids = [...new Set(listed.flatMap(id => filledOf(id)?.trim() || []))].filter(isFileName)
    const others = found.filter(id => !ids.some(listedId => listedId === id || rawId(listedId) === id))
    if (others.length > 0) {
      findings.push({
        level: 'note',
        text: `accounts that OpenClaw no longer lists do not come over: ${others.join(', ')}`,
      })
    }
    return ids
  }
  if (read === 'absent' && found.length === 0) return undefined
  const why =
    read !== 'absent' && 'trouble' in read ? read.trouble : read === 'absent' ? 'is missing' : 'is no list'
  findings.push({
    level: 'problem',
    text: `accounts.json ${why}: every account that has a file was taken, also one that OpenClaw no longer used`,
    hint: 'Log out of those you do not want.',
  })
  return found
}

/** An account id is part of file names, so nothing in it may lead elsewhere. */
const isFileName = (id: string) => !/[/\\\0]/.test(id) && id !== '.' && id !== '..'

/** One account's files, under its id or under the bot's id itself, as older versions had it. */
class Account {
  readonly #folder: string
  readonly #id: string
  readonly #findings: Finding[]

  constructor(folder: string, id: string, findings: Finding[]) {
    this.#folder = folder
    this.#id = id
    this.#findings = findings
  }

  async credentials(
    from: string,
    accounts: number,
    now: number,
  ): Promise<Omit<SourceSession, 'name' | 'cursor' | 'users'> | undefined> {
    const read = await this.#read('.json')
    const fields = 'value' in read ? objectOf(read.value) : undefined
    let token = filledOf(fields?.token)?.trim()
    // The file of the first versions does not say whose token it is.
    if (!token && accounts === 1) token = await tokenOfOld(from)
    if (!token) {
      const why = 'trouble' in read ? read.trouble : 'has no token'
      this.#findings.push({
        level: 'problem',
        text: `account ${this.#id}: its file ${why}; its credentials do not come over`,
        hint: 'Log it in again.',
      })
      return undefined
    }
    const user_id = filledOf(fields?.userId)?.trim()
    const savedAt = Date.parse(filledOf(fields?.savedAt) ?? '')
    return {
      bot_id: this.#botId(token),
      token,
      base_url: filledOf(fields?.baseUrl)?.trim() ?? '',
      ...(user_id && { user_id }),
      ...(savedAt > 0 && { created_at: Math.min(savedAt, now) }),
    }
  }

  /** The plugin's id is the bot's in small letters with `-` for what is neither letter nor digit; a token begins with it. */
  #botId(token: string): string {
    const inToken = /^([^:\s]+@im\.bot):/.exec(token)?.[1]
    const plain = (id: string) => id.toLowerCase().replace(/[^a-z0-9_-]/g, '-')
    if (inToken !== undefined && plain(inToken) === plain(this.#id)) return inToken
    const raw = rawId(this.#id)
    if (raw === undefined && !this.#id.endsWith('@im.bot')) {
      this.#findings.push({
        level: 'note',
        text: `account ${this.#id}: its id is not a bot's; it is taken for one all the same`,
      })
    }
    return raw ?? this.#id
  }

  /** The cursor, where it certainly is this account's; '' otherwise. */
  async cursor(from: string, accounts: number): Promise<string> {
    const read = await this.#read('.sync.json')
    if ('value' in read) return filledOf(objectOf(read.value)?.get_updates_buf) ?? ''
    const old = await readJson(join(from, oldCursor))
    const value =
      old !== 'absent' && 'value' in old ? filledOf(objectOf(old.value)?.get_updates_buf) : undefined
    // With several accounts it may be anybody's.
    if (value !== undefined && accounts === 1) return value
    this.#findings.push({
      level: 'warning',
      text: `account ${this.#id}: its cursor ${read.trouble}; WeChat decides which undelivered messages come first`,
    })
    return ''
  }

  /** @param scannedBy the account's own user, whose id is spelled as WeChat spells it */
  async users(scannedBy: string | undefined): Promise<Map<string, UserContext>> {
    const users = new Map<string, UserContext>()
    const read = await this.#read('.context-tokens.json')
    if ('trouble' in read && read.absent) return users
    const tokens = 'value' in read ? objectOf(read.value) : undefined
    if (!tokens) {
      const why = 'trouble' in read ? read.trouble : 'is not what it should be'
      this.#findings.push({
        level: 'problem',
        text: `account ${this.#id}: its file of context tokens ${why}`,
        hint: 'Whoever writes to the bot again can be answered again.',
      })
      return users
    }
    // NewFuture's fork (3.1 and later) writes ids in small letters; to WeChat those are other users.
    const isLowered = Object.keys(tokens).every(user => user === user.toLowerCase())
    for (const [key, token] of Object.entries(tokens)) {
      const known = filledOf(token)
      const isOwn = isLowered && key === scannedBy?.toLowerCase()
      const user = isOwn ? scannedBy! : key
      // When the user wrote is not known, nor how many answers were given since.
      if (known !== undefined && user !== '') users.set(user, { token: known, used: 0, first_seen: 0 })
    }
    const lowered = [...users.keys()].filter(user => isLowered && user !== scannedBy)
    if (lowered.length > 0) {
      this.#findings.push({
        level: 'warning',
        text: `account ${this.#id}: users under ids in small letters, as a fork of the plugin writes them: ${lowered.length}. WeChat knows them by their true ids alone`,
        hint: 'Nothing to do: svc learns the true id with the first message of each; until then they cannot be written to.',
      })
    }
    return users
  }

  async #read(ending: string): Promise<{ value: unknown } | { trouble: string; absent?: true }> {
    for (const id of [this.#id, rawId(this.#id)]) {
      if (id === undefined) continue
      const read = await readJson(join(this.#folder, `${id}${ending}`))
      if (read !== 'absent') return read
    }
    return { trouble: 'is missing', absent: true }
  }
}

/** Of an id as the plugin writes it, that of the bot. */
const rawId = (id: string) =>
  id.endsWith('-im-bot') ? `${id.slice(0, -'-im-bot'.length)}@im.bot` : undefined

async function tokenOfOld(from: string): Promise<string | undefined> {
  const read = await readJson(join(from, oldToken))
  return read !== 'absent' && 'value' in read ? filledOf(objectOf(read.value)?.token)?.trim() : undefined
}

type Fields = Record<string, unknown>

/** What `openclaw.json` says of the channel; it may be written by hand, with comments. */
async function channelConfig(from: string, findings: Finding[]): Promise<Fields | undefined> {
  const read = await readJson(join(from, 'openclaw.json'))
  if (read === 'absent') return undefined
  if ('trouble' in read) {
    findings.push({
      level: 'note',
      text: `openclaw.json ${read.trouble}: names and settings of accounts in it do not come over`,
    })
    return undefined
  }
  return objectOf(objectOf(objectOf(read.value)?.channels)?.['openclaw-weixin'])
}

const settingsOf = (id: string, config: Fields | undefined) => objectOf(objectOf(config?.accounts)?.[id])

/** The name given in the settings, else the bot's id without its host. */
function nameOf(id: string, config: Fields | undefined, accounts: number): string {
  const given = settingsOf(id, config)?.name ?? (accounts === 1 ? config?.name : undefined)
  return filledOf(given)?.trim() || id.replace(/(-im-bot|@im\.bot)$/, '')
}

/** Settings that svc has otherwise, or not at all. */
function tellOfSettings(id: string, name: string, config: Fields | undefined, findings: Finding[]): void {
  const own = settingsOf(id, config) ?? config
  if (own?.enabled === false) {
    findings.push({
      level: 'warning',
      text: `account "${name}" is switched off in OpenClaw; svc polls every session it has`,
      hint: `To keep it off, log it out in svc.`,
    })
  }
  if (filledOf(own?.cdnBaseUrl)) {
    findings.push({
      level: 'warning',
      text: `account "${name}" has a CDN of its own in OpenClaw`,
      hint: 'Start svc with --cdn-url.',
    })
  }
  if (own?.routeTag !== undefined) {
    findings.push({ level: 'warning', text: `account "${name}" has a routeTag in OpenClaw; svc sends none` })
  }
}
