/** Folders of other programs, written as those programs write them, with pretend tokens. */
import { Database } from 'bun:sqlite'
import { createHash } from 'node:crypto'
import { lstatSync, readdirSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { configFromValues } from '../../src/config.ts'
import { applyMove, type MoveResult } from '../../src/migrate/apply.ts'
import { type MovePlan, planMove } from '../../src/migrate/plan.ts'
import { type MoveFinding, MoveFindings, type Program } from '../../src/migrate/source.ts'
import type { UserContext } from '../../src/model/session.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { createLog, silentLog } from '../../src/platform/log.ts'
import type { StoredMessage } from '../../src/storage/messages.ts'
import { openSqliteStore, type SqliteStore } from '../../src/storage/sqlite/store.ts'

/** A temporary folder with a place for the source and one for svc. */
export interface Folders extends AsyncDisposable {
  readonly root: string
  readonly from: string
  readonly into: string
}

export async function folders(): Promise<Folders> {
  const root = await realpath(await mkdtemp(join(tmpdir(), 'svc-move-')))
  const from = join(root, 'old')
  await mkdir(from)
  return {
    ...{ root, from, into: join(root, 'svc') },
    [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }),
  }
}

/** Everything about a folder that a change would change: names, kinds, rights, times of writing, content. */
export function fingerprint(dir: string): string[] {
  return ['.', ...readdirSync(dir, { recursive: true, encoding: 'utf8' })].sort().map(name => {
    const path = join(dir, name)
    const info = lstatSync(path, { bigint: true })
    const content = info.isFile() ? createHash('sha256').update(readFileSync(path)).digest('hex') : ''
    return [name, info.mode, info.ino, info.size, info.mtimeNs, info.ctimeNs, content].join(' ')
  })
}

/** Unix seconds with a fraction, as Python's clock says them. */
export const seconds = (ms: number) => ms / 1000 + 0.000_25

export interface WeiLinkSession {
  bot: string
  user?: string
  cursor?: string
  created?: number
  base_url?: string
  token?: string
  contexts?: Record<string, unknown>
}

/** `<name>/token.json` and `<name>/contexts.json`; directly in the folder for the name ''. */
export async function weiLinkSession(from: string, name: string, session: WeiLinkSession): Promise<void> {
  const folder = join(from, name)
  await mkdir(folder, { recursive: true })
  const {
    bot,
    user = '',
    cursor = '',
    created = Date.now(),
    base_url = 'https://ilinkai.weixin.qq.com',
  } = session
  const token = {
    ...{ bot_id: bot, base_url, token: session.token ?? `${bot}:pretend`, user_id: user, cursor },
    created_at: seconds(created),
  }
  await writeFile(join(folder, 'token.json'), JSON.stringify(token, null, 2))
  if (session.contexts) {
    await writeFile(join(folder, 'contexts.json'), JSON.stringify(session.contexts, null, 2))
  }
}

interface WeiLinkRow {
  /** A numeral, written bare into the JSON as Python does; undefined for a sent one. */
  message_id?: string
  user?: string
  bot?: string
  sent?: true
  msg_type?: number
  text?: string
  at?: number
  stored?: number
  context_token?: string
  /** Besides: image, voice, file, video, ref_msg. */
  more?: Record<string, unknown>
  /** Instead of the JSON that belongs there. */
  data?: string
}

/** An open log of WeiLink's; its -wal and -shm lie beside it until it is closed. */
export interface WeiLinkLog extends Disposable {
  readonly db: Database
  add(...rows: WeiLinkRow[]): void
}

export function weiLinkLog(from: string): WeiLinkLog {
  const db = new Database(join(from, 'messages.db'), { create: true })
  db.run('PRAGMA journal_mode = WAL')
  db.run(`CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, message_id INTEGER UNIQUE, user_id TEXT NOT NULL,
    bot_id TEXT NOT NULL DEFAULT '', msg_type INTEGER NOT NULL DEFAULT 1, direction INTEGER NOT NULL DEFAULT 1,
    text TEXT, timestamp_ms INTEGER NOT NULL DEFAULT 0, context_token TEXT NOT NULL DEFAULT '',
    data TEXT NOT NULL DEFAULT '{}', stored_at REAL NOT NULL)`)
  db.run('CREATE INDEX IF NOT EXISTS idx_msg_ts ON messages(timestamp_ms DESC)')
  db.run('PRAGMA user_version = 1')
  const insert = db.prepare(
    `INSERT INTO messages (message_id, user_id, bot_id, msg_type, direction, text, timestamp_ms, context_token, data, stored_at)
     VALUES (CAST(? AS INTEGER), ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  )
  const add = (row: WeiLinkRow) => {
    const {
      user = 'o1@im.wechat',
      bot = 'aaaaaaaaaaaa@im.bot',
      msg_type = 1,
      text,
      at = 0,
      context_token = '',
    } = row
    const form = {
      ...{ from_user: user, msg_type, timestamp: at, message_id: null, context_token, bot_id: bot },
      ...(text !== undefined && { text }),
      ...row.more,
    }
    const data =
      row.data ??
      JSON.stringify(form).replace('"message_id":null', `"message_id":${row.message_id ?? 'null'}`)
    const stored = seconds(row.stored ?? (at || Date.now()))
    const direction = row.sent ? 2 : 1
    insert.run(
      row.message_id ?? null,
      user,
      bot,
      msg_type,
      direction,
      text ?? null,
      at,
      context_token,
      data,
      stored,
    )
  }
  return {
    db,
    add: (...rows) => db.transaction(() => rows.forEach(add))(),
    [Symbol.dispose]() {
      insert.finalize()
      // As a program that ends well: the -wal goes into the file and away.
      db.close(true)
    },
  }
}

/** A media reference as WeiLink keeps it: what upstream did not say is '' or 0. */
export const mediaInfo = (more: object = {}) => ({
  ...{ encrypt_query_param: '', aes_key: '', encrypt_type: 0, full_url: '' },
  ...more,
})

/** Reads and, unless told otherwise, carries out a move. */
export async function move(
  program: Program,
  { from, into }: Pick<Folders, 'from' | 'into'>,
  options: { dryRun?: true; now?: number; storeMaxCount?: number; storeMaxAgeDays?: number } = {},
): Promise<{ plan: MovePlan; applied: MoveResult; findings: MoveFinding[]; lines: string[] }> {
  const { storeMaxCount = 100_000, storeMaxAgeDays = 30, now = Date.now() } = options
  const config = configFromValues({ basePath: into, storeMaxCount, storeMaxAgeDays })
  const upstreamUrl = config.upstreamUrl
  await using plan = await planMove({ program, from, into, upstreamUrl, now, storeMaxAgeDays })
  const lines: string[] = []
  const log = createLog('DEBUG', line => void lines.push(line))
  const nothing: MoveResult = {
    sessions: new Map(),
    history: { added: 0, leftOut: 0 },
    findings: new MoveFindings(),
  }
  const applied = options.dryRun ? nothing : await applyMove(plan, { config, clock: systemClock, log })
  return { plan, applied, findings: [...plan.findings, ...applied.findings.list], lines }
}

/** A file of svc's. */
export const json = <T = Record<string, unknown>>(...path: string[]): T =>
  JSON.parse(readFileSync(join(...path), 'utf8'))

export const contexts = (into: string, name: string) =>
  json<Record<string, UserContext>>(into, name, 'contexts.json')

export const openLog = (into: string): Promise<SqliteStore> =>
  openSqliteStore({
    ...{ path: join(into, 'messages.db'), clock: systemClock, log: silentLog },
    ...{ maxAgeDays: 0, maxCount: 0 },
  })

/** All rows of svc's log, oldest first. */
export async function rowsOf(into: string): Promise<StoredMessage[]> {
  const store = await openLog(into)
  try {
    return await store.log.listAfter(0, { limit: 1_000_000 })
  } finally {
    await store.maintenance.close()
  }
}

/** The findings of a level, as texts. */
export const told = (findings: readonly MoveFinding[], level: MoveFinding['level']): string[] =>
  findings.filter(finding => finding.level === level).map(({ text }) => text)

/** OpenClaw's files of one account; undefined ones are not written, texts are written as they are. */
export async function openClawAccount(
  from: string,
  id: string,
  files: { account?: unknown; sync?: unknown; contexts?: unknown },
): Promise<void> {
  const folder = join(from, 'openclaw-weixin', 'accounts')
  await mkdir(folder, { recursive: true })
  const endings = { account: '.json', sync: '.sync.json', contexts: '.context-tokens.json' } as const
  for (const [kind, ending] of Object.entries(endings)) {
    const content = files[kind as keyof typeof files]
    if (content === undefined) continue
    await writeFile(
      join(folder, `${id}${ending}`),
      typeof content === 'string' ? content : JSON.stringify(content),
    )
  }
}
