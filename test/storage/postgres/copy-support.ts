/** A used data directory for the tests of `svc store copy`, and the content of both engines as rows. */
import { Database } from 'bun:sqlite'
import { expect } from 'bun:test'
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { moveStore } from '../../../src/migrate/store/move.ts'
import { systemClock } from '../../../src/platform/clock.ts'
import { FreeSpace } from '../../../src/platform/free-space.ts'
import { silentLog } from '../../../src/platform/log.ts'
import { connectPg } from '../../../src/platform/postgres.ts'
import { createSealer } from '../../../src/platform/sealing.ts'
import { constantSql } from '../../../src/platform/sql.ts'
import { uploadRulesOf } from '../../../src/storage/media-store.ts'
import { openPgStorage } from '../../../src/storage/postgres/open.ts'
import { openMediaStores } from '../../../src/storage/sqlite/media-folder.ts'
import { openStorage } from '../../../src/storage/sqlite/open.ts'
import type { Storage } from '../../../src/storage/storage.ts'
import {
  changeSecrets,
  copiedTables,
  type StoreRow,
  type StoreTable,
} from '../../../src/storage/table-list.ts'
import { secret } from '../../support/databases.ts'
import { bot, insert, message, open, outgoing, sending } from '../support.ts'

/** Opens a data directory; its secrets may be encrypted. */
export const openAt = (dir: string, isSealed = false): Promise<Storage> =>
  openStorage({
    dir,
    ...(isSealed && { secret }),
    clock: systemClock,
    log: silentLog,
    maxAgeDays: 0,
    maxCount: 0,
  })

export const openAtUrl = (url: string): Promise<Storage> =>
  openPgStorage({ url, secret, clock: systemClock, log: silentLog, maxAgeDays: 0, maxCount: 0 })

/** The conversation goes on: the user writes behind a cursor, and gets an answer. */
export async function goOn(storage: Storage, cursorFrom: string, cursorTo: string): Promise<void> {
  const { log, outbox } = storage.store
  const [head, now] = [await log.getHead(), Date.now()]
  const again = message('still there?', { from_user: 'u@im.wechat', written_at: now })
  const batch = {
    ...{ id: crypto.randomUUID(), session: 'work', token: bot('work').token, botId: bot('work').bot_id },
    ...{ cursorFrom, cursorTo, now },
    messages: [{ ...again, contextToken: `context of ${cursorTo}`, repeated: { received_at: now } }],
  }
  const ingested = await storage.ingest(batch)
  expect(ingested).toEqual({ rows: [head + 1], cursor: 'moved' })
  const answer = outgoing(`yes ${cursorTo}`, { to_user: 'u@im.wechat' })
  const sent = await sending(storage.store, 'work', bot('work').bot_id, answer)
  await outbox.settle(sent, { status: 'accepted', message_id: `id ${cursorTo}`, spent: true })
  const found = await storage.state.contexts.find('work', 'u@im.wechat')
  expect(found?.token).toBe(`context of ${cursorTo}`)
  const [{ used } = {}] = (await outbox.getCounters('work', 'u@im.wechat')).values()
  expect(used).toBe(1)
}

/** Moves a store: from a directory to the database of the URL, or the other way. */
export const move = (dir: string, url: string, isFromPostgres = false) =>
  moveStore({
    config: {
      basePath: dir,
      mediaRoot: join(dir, 'media'),
      keepFreeBytes: 0,
      storeUrl: url,
      secretKey: secret,
    },
    clock: systemClock,
    isFromPostgres,
    onProgress() {},
  })

export const mediaOf = (dir: string) =>
  openMediaStores(
    {
      mediaRoot: join(dir, 'media'),
      space: new FreeSpace(dir, 0),
      clock: systemClock,
      log: silentLog,
    },
    uploadRulesOf(1_000_000),
  )

export const queuedFile = `${crypto.randomUUID()}.queued`
export const uploadId = crypto.randomUUID()

/** Writes to a directory what svc stores: two accounts, a conversation both ways, sends that wait, and all the rest. */
export async function fillDirectory(dir: string): Promise<void> {
  mkdirSync(join(dir, 'media'), { recursive: true, mode: 0o700 })
  const storage = await openAt(dir)
  const { state, store } = storage
  await state.sessions.save('work', bot('work', { user_id: 'owner@im.wechat', created_at: 3 }))
  await state.sessions.save('家', bot('home', { created_at: 4 }))
  await state.sessions.setDefault('家')
  const now = Date.now()
  await store.consumers.register('reader')
  const arrived = ['hello', '你好 world', 'with \0 and \ue0fe and "quotes"'].map(text =>
    Object.assign(
      message(text, {
        from_user: 'u@im.wechat',
        written_at: now,
        raw: JSON.stringify({ text, context_token: `token of ${text}`, big: '12345678901234567890' }),
      }),
      { contextToken: `context of ${text}`, repeated: { received_at: now } },
    ),
  )
  const rowsOf = async (session: string, name: string, messages: typeof arrived, cursorTo: string) =>
    (
      await storage.ingest({
        ...{ id: crypto.randomUUID(), session, token: bot(name).token, botId: bot(name).bot_id },
        ...{ cursorFrom: '', cursorTo, messages, now },
      })
    ).rows as number[]
  const rows = await rowsOf('work', 'work', arrived, 'cursor 1')
  const others = Array.from({ length: 620 }, (_, nth) => ({
    ...message(`many ${nth}`, { from_user: `u${nth}@im.wechat`, written_at: now - 1000 * nth }),
    contextToken: `context ${nth}`,
    repeated: { received_at: now },
  }))
  await rowsOf('家', 'home', others, 'cursor 2')
  const sent = await sending(
    store,
    'work',
    bot('work').bot_id,
    outgoing('answer', { to_user: 'u@im.wechat' }),
    {
      key: 'idempotent',
    },
  )
  await store.outbox.settle(sent, { status: 'accepted', message_id: '7001', spent: true })
  // Its process dies meanwhile.
  await sending(store, 'work', bot('work').bot_id, outgoing('in flight', { to_user: 'u@im.wechat' }))
  await store.outbox.enqueue(
    {
      ...{
        session: 'work',
        bot_id: bot('work').bot_id,
        user: 'late@im.wechat',
        mode: 'queue',
        made_by: 'owner',
      },
      parts: [
        {
          kind: 'text',
          waiting: { message: outgoing('later', { client_id: 'q1', to_user: 'late@im.wechat' }) },
        },
        {
          kind: 'file',
          waiting: {
            message: outgoing('', { client_id: 'q2', to_user: 'late@im.wechat', msg_type: 'FILE' }),
            file: { name: queuedFile, file_name: 'a.bin', size: 5, md5: '5d41402abc4b2a76b9719d911017c592' },
          },
        },
      ],
    },
    { ...open, quota: 0 },
  )
  const { queued, uploads } = mediaOf(dir)
  const signal = new AbortController().signal
  await queued.put(queuedFile, new Blob(['hello']).stream(), { signal })
  await uploads.put(uploadId, new Blob(['upload']).stream(), { signal, note: { file_name: 'u.txt' } })
  await store.names.set('work', 'u@im.wechat', 'Mum')
  await store.conversations.markRead('work', 'u@im.wechat', rows[0])
  await store.conversations.markRead('work', 'u@im.wechat', rows[0], 'k1')
  await store.consumers.claim('reader', { limit: 2 })
  await store.acknowledgements.markHandedOut('acks', rows[0]!)
  await store.webhooks.add({
    ...{
      id: 'hook',
      url: 'https://example.org/hook',
      types: ['message.received'],
      headers: { 'X-Key': 'hush' },
    },
    ...{ secrets: [{ secret: 'whsec_AA==' }], link_key: 'link', allow_private: true, replies: false },
    ...{ created_at: now, position: await store.events.getHead() },
  })
  await store.events.append([
    { type: 'session.status', at: now, session: 'work', data: { status: 'connected' } } as never,
  ])
  await store.events.setPosition('events', await store.events.getHead())
  await store.keys.add({
    ...{ id: 'k1', name: 'key', hash: 'ab'.repeat(32), grant: { rights: ['recv'] }, can: ['read'] },
    ...{ made_by: 'owner', created_at: now },
  })
  await store.audit.add({ at: now, principal: 'owner', operation: 'login', outcome: 'done' } as never)
  const turn = await store.agents.addTurn({
    ...{ agent: 'home', session: 'work', user: 'u@im.wechat', source: 'message', messages: [rows[0]!] },
  })
  await store.agents.ask({
    ...{ turn: turn.id, text: 'May I?', code: 'K7QX', expires_at: now + 60_000 },
    options: [{ id: 'yes', name: 'Yes', kind: 'allow_once' }],
  })
  await state.signIns.end(['a sign-in'], now + 1e9)
  await storage.close()
  fillEmptyTables(join(dir, 'messages.db'))
}

/** Adds a row to each table that has none, with a value in each column. */
function fillEmptyTables(path: string): void {
  using db = new Database(path)
  for (const { columns, name } of copiedTables) {
    if (db.query(`SELECT 1 FROM ${name}`).get()) continue
    const types = new Map(
      db
        .query<{ name: string; type: string }, []>(`PRAGMA table_info("${name}")`)
        .all()
        .map(column => [column.name, column.type]),
    )
    const values = columns.map((column, nth) =>
      types.get(column) === 'TEXT' ? `text ${nth}` : nth + 0.5 * Number(types.get(column) === 'REAL'),
    )
    db.query(
      `INSERT INTO ${name} (${columns.map(column => `"${column}"`).join()}) VALUES (${columns.map(() => '?').join()})`,
    ).run(...values)
  }
}

/** Columns that say which process works on a row, or that differ in their form. */
const ownColumns: Readonly<Record<string, readonly string[]>> = {
  lease: ['ids', 'owner', 'expires_at'],
  outbox: ['owner', 'expires_at'],
  outbox_part: ['owner'],
  outbox_lane: ['token', 'first_seen', 'received_at', 'used'],
}

const columnsOf = ({ columns, name }: StoreTable) =>
  columns.filter(column => column !== 'nth' && !ownColumns[name]?.includes(column))

/** Returns the rows of a table as lines, in order, with opened secrets. */
function linesOf(table: StoreTable, rows: readonly StoreRow[]): string[] {
  const { open } = createSealer(secret)
  return rows
    .map(row => {
      const opened = changeSecrets(table, row, open)
      return JSON.stringify(columnsOf(table).map(column => opened[column] ?? null))
    })
    .sort()
}

export function dumpDirectory(dir: string): Record<string, string[]> {
  using db = new Database(join(dir, 'messages.db'), { readonly: true })
  return Object.fromEntries(
    copiedTables.map(table => {
      const selected = columnsOf(table).map(column => `"${column}"`)
      const rows = db.query<StoreRow, []>(`SELECT ${selected.join()} FROM ${table.name}`).all()
      return [table.name, linesOf(table, rows)]
    }),
  )
}

export async function dumpDatabase(url: string): Promise<Record<string, string[]>> {
  const connection = await connectPg({ url, name: 'tests', answerMs: 60_000 })
  try {
    const dump: Record<string, string[]> = {}
    for (const table of copiedTables) {
      const selected = columnsOf(table).map(column => `"${column}"`)
      const rows = await connection.all<StoreRow>(
        constantSql(`SELECT ${selected.join()} FROM svc.${table.name}`),
      )
      dump[table.name] = linesOf(table, rows)
    }
    return dump
  } finally {
    connection.destroy()
  }
}

/** What the interfaces return that is not in the rows as such. */
export async function readState({ state, store }: Storage) {
  const sessions = (await state.sessions.list()).toSorted((a, b) => (a.name < b.name ? -1 : 1))
  const contexts = await Promise.all(
    sessions.flatMap(({ name }) =>
      ['u@im.wechat', 'u0@im.wechat', 'u619@im.wechat', 'nobody'].map(user =>
        state.contexts.find(name, user),
      ),
    ),
  )
  const names = sessions.map(({ name }) => name)
  return {
    sessions,
    chosen: await state.sessions.getDefaultName(),
    // What is counted of the answers, the lanes have.
    contexts: contexts.map(context => context && sorted({ ...context, used: 0, last_sent_at: undefined })),
    counters: [...(await store.outbox.getCounters('work', 'u@im.wechat'))],
    waiting: (await store.outbox.list()).map(({ id, mode, parts }) => [id, mode, parts.length]),
    webhooks: await store.webhooks.list(),
    keys: await store.keys.list(),
    names: [...(await store.names.list('work'))],
    questions: (await store.agents.listQuestions()).map(({ code, text }) => [code, text]),
    counts: [...(await state.contexts.countWriters(names))],
    ended: [...(await state.signIns.filterEnded(['a sign-in', 'another']))],
    found: (await store.log.search({ text_contains: '你好', limit: 5, offset: 0 })).rows.map(
      ({ text }) => text,
    ),
    head: await store.log.getHead(),
    events: await store.events.getHead(),
  }
}

const sorted = (fields: object) =>
  Object.fromEntries(Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1)))

/** Adds received messages of one user. */
export async function insertMany(dir: string, count: number): Promise<void> {
  const storage = await openAt(dir)
  for (let done = 0; done < count; done += 5000) {
    const batch = Array.from({ length: Math.min(5000, count - done) }, (_, nth) =>
      message(`message ${done + nth} 你好`, {
        raw: JSON.stringify({ text: 'x'.repeat(300), context_token: `token ${done + nth}`.padEnd(60, '.') }),
      }),
    )
    await insert({ storage }, batch, 'work', bot('work').bot_id)
  }
  await storage.close()
}

/** Whether svc opens a directory. */
export const isOpenable = async (dir: string, isSealed: boolean): Promise<boolean> => {
  if (!existsSync(join(dir, 'messages.db'))) return false
  const storage = await openAt(dir, isSealed).catch(() => undefined)
  await storage?.close()
  return storage !== undefined
}
