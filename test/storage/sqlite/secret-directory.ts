/** A data directory with every kind of secret, and a search for them in every byte of its files. */
import { randomBytes } from 'node:crypto'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '../../../src/platform/clock.ts'
import { silentLog } from '../../../src/platform/log.ts'
import { openStorage } from '../../../src/storage/sqlite/open.ts'
import { message } from '../support.ts'
import { inOtherProcess } from './support.ts'

/** Every secret that the tests store contains it, and nothing else does. */
export const mark = 'sEcReTmArK'

const secret = (what: string) => `${mark}-${what}-${randomBytes(24).toString('base64url')}`

/**
 * Fills a directory, also through a process that is killed, so that a WAL stays.
 *
 * @param key the key of the directory, if its secrets are encrypted; then no process is killed
 */
export async function fillDirectory(dir: string, messages = 300, key?: string): Promise<void> {
  const now = Date.now()
  const cursors = ['', '1', '2']
  const polled = (text: string, user: string) => {
    const contextToken = secret('context')
    const raw = `{"message_id":9300000000000000123,"from_user_id":"${user}","context_token":"${contextToken}","note":"\\"context_token\\":\\"${text}\\""}`
    return {
      ...message(text, { from_user: user, raw }),
      repeated: { received_at: now },
      contextToken,
      written_at: now,
    }
  }
  const options = { clock: systemClock, log: silentLog, maxAgeDays: 0, maxCount: 0 }
  const storage = await openStorage({ dir, secret: key, ...options })
  const { sessions, logins } = storage.state
  const token = secret('bot')
  const bot = { bot_id: 's@im.bot', token, base_url: 'https://upstream.example', cursor: '', created_at: 1 }
  await sessions.save('s', bot)
  await sessions.save('other', { ...bot, bot_id: 'o@im.bot', token: secret('bot') })
  for (const [nth, cursorFrom] of cursors.slice(0, 2).entries()) {
    const batch = Array.from({ length: messages / 2 }, (_, n) => polled(`text ${n}`, `user-${n}@im.wechat`))
    const place = { id: String(nth), session: 's', token, botId: bot.bot_id }
    await storage.ingest({ ...place, cursorFrom, cursorTo: cursors[nth + 1]!, messages: batch, now })
  }
  await storage.store.webhooks.add({
    ...{
      id: 'hook',
      url: 'https://hook.example/',
      types: [],
      position: '0',
      created_at: now,
      link_key: secret('link'),
    },
    ...{
      headers: { authorization: secret('header') },
      secrets: [{ secret: secret('signing'), created_at: now }],
    },
    ...{ allow_private: false, replies: false },
  } as never)
  await logins.put(
    {
      ...{ id: 'l', session: 'new', version: '', until: now + 3_600_000, force: false, ended: false },
      ...{ status: 'waiting', revision: 1, told: 0 },
      qr: {
        ...{ qrcode: secret('qrcode'), qrUrl: `https://qr.example/${secret('qr')}`, renewals: 0 },
        ...{ state: 'waiting', needsCode: false, shown_at: now },
      },
    },
    now,
  )
  await storage.close()
  await writeFile(join(dir, 'api_token'), `${secret('api')}\n`, { mode: 0o600 })
  await writeFile(join(dir, '.mcp_key'), `${secret('mcp')}\n`, { mode: 0o600 })
  const damaged = Buffer.concat([
    Buffer.from(`{"token":"${secret('damaged')}","x":"`),
    Buffer.from([0xe4, 0xbd, 0, 0xff]),
  ])
  await writeFile(join(dir, 's', 'token.json.corrupt-1800000000000'), damaged)
  await writeFile(join(dir, 's', 'token.json.0123456789ab.tmp'), secret('leftover'))
  await mkdir(join(dir, 'damaged'), { mode: 0o700 })
  await writeFile(join(dir, 'damaged', 'token.json'), damaged)
  // As versions before wrote it, or a person.
  await writeFile(
    join(dir, 'damaged', 'contexts.json'),
    JSON.stringify({ 'bare@im.wechat': secret('bare'), later: 7 }),
  )
  if (key === undefined) await leaveWal(dir)
}

async function leaveWal(dir: string): Promise<void> {
  await inOtherProcess(
    dir,
    `await insert({ storage }, [{ message_id: 'killed', derived_id: '', from_user: 'u', msg_type: 'TEXT', text: 't', timestamp: 1, timed: true, contentHash: 'h', contextToken: '${secret('wal')}', raw: '{"context_token":"${secret('wal')}"}' }])
     await insert({ storage }, [{ message_id: 'removed', derived_id: '', from_user: 'u', msg_type: 'TEXT', text: 't', timestamp: 1, timed: true, contentHash: 'i', raw: '{"context_token":"${secret('free')}"}' }])
     const { openDatabase } = await import(${JSON.stringify(new URL('../../../src/platform/sqlite.ts', import.meta.url).pathname)})
     const db = await openDatabase(${JSON.stringify(join(dir, 'messages.db'))})
     db.exec("DELETE FROM message WHERE message_id = 'removed'")
     console.log('ready'); await hold()`,
    'SIGKILL',
  )
}

/** Every file of the directory except those of the simulated WeChat, by path. */
export async function filesIn(dir: string): Promise<Map<string, Buffer>> {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true })
  const paths = entries.filter(entry => entry.isFile()).map(entry => join(entry.parentPath, entry.name))
  const own = paths.filter(path => !path.startsWith(join(dir, 'sandbox/')))
  return new Map(
    await Promise.all(own.map(async path => [path.slice(dir.length + 1), await readFile(path)] as const)),
  )
}

/** Files that contain a text. */
export const filesWith = async (dir: string, text: string): Promise<string[]> =>
  [...(await filesIn(dir))]
    .filter(([, bytes]) => bytes.includes(text))
    .map(([path]) => path)
    .sort()

/** Whether a row belongs to the audit line that a command on secrets writes itself. */
const isOfCommand = (table: string, row: Record<string, unknown>): boolean =>
  table === 'audit'
    ? String(row.operation).endsWith('_secrets')
    : table === 'event'
      ? String(row.data).includes('_secrets"')
      : table === 'sqlite_sequence' && row.name === 'audit'

/** All that is stored, as text to compare: of the store each row of each table, of the files their JSON. Without the lines of the commands on secrets. */
export async function contentOf(dir: string): Promise<Record<string, unknown>> {
  const { openDatabase } = await import('../../../src/platform/sqlite.ts')
  const db = await openDatabase(join(dir, 'messages.db'))
  try {
    const tables = db.all<{ name: string }>`SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name`
    const content: Record<string, unknown> = {
      schema: db.all('SELECT name, sql FROM sqlite_schema ORDER BY name'),
    }
    for (const { name } of tables.filter(({ name }) => !name.startsWith('gram')))
      content[name] = db
        .all<Record<string, unknown>>(`SELECT * FROM "${name}"`)
        .filter(row => !isOfCommand(name, row))
    for (const [path, bytes] of await filesIn(dir)) {
      if (/^messages\.db|\.lock$|\.tmp$/.test(path)) continue
      try {
        content[path] = JSON.parse(bytes.toString())
      } catch {
        content[path] = bytes.toString('latin1')
      }
    }
    return content
  } finally {
    db.close()
  }
}
