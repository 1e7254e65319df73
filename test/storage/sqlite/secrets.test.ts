/** Secrets at rest: where they are sealed, and who may open a directory that has some. */
import { expect, test } from 'bun:test'
import { cpSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { silentLog } from '../../../src/platform/log.ts'
import { createSealer } from '../../../src/platform/sealing.ts'
import type { StoredLogin } from '../../../src/storage/logins.ts'
import { mapRaw } from '../../../src/storage/sealed-places.ts'
import { openStorage, type StorageOptions } from '../../../src/storage/sqlite/open.ts'
import { writeSecretState } from '../../../src/storage/sqlite/secret-state.ts'
import { openSqliteStore } from '../../../src/storage/sqlite/store.ts'
import type { Storage } from '../../../src/storage/storage.ts'
import { codeOf } from '../../support/failure.ts'
import { folderOfTest, readFolder } from '../../support/folder.ts'
import { secret } from '../engines.ts'
import { bot, message, testClock } from '../support.ts'

const key = createSealer(secret).keyId ?? ''
const clock = testClock()
async function openDir(dir: string, more: Partial<StorageOptions> = {}) {
  const storage = await openStorage({ dir, clock, log: silentLog, maxAgeDays: 0, maxCount: 0, ...more })
  return Object.assign(storage, { [Symbol.asyncDispose]: () => storage.close() })
}

/** Part of every secret here. No ciphertext has it by chance, as base64 has no dot. */
const mark = 'hUsH.hUsH'
const secretOf = (name: string) => `${mark}-${name}`

const filesWithSecrets = (dir: string): string[] =>
  [...readFolder(dir)].flatMap(([path, bytes]) => (bytes.includes(mark) ? path : []))

const login: StoredLogin = {
  id: 'l1',
  session: 'new',
  version: '',
  until: Number.MAX_SAFE_INTEGER,
  force: false,
  ended: false,
  status: 'waiting',
  revision: 1,
  told: 0,
  qr: {
    qrcode: secretOf('qr'),
    qrUrl: `https://x/${secretOf('qr url')}`,
    renewals: 0,
    state: 'waiting',
    needsCode: false,
    shown_at: 1,
  },
}

/** More users than contexts.json has room for. */
const users = Array.from({ length: 700 }, (_, nth) => `User${nth}@im.wechat`)
let batches = 0

/** A poll that brings a message of each of these users. */
async function receive({ ingest, state }: Storage, from: readonly string[]): Promise<void> {
  const {
    bot_id: botId = '',
    token = '',
    cursor: cursorFrom = '',
  } = (await state.sessions.get('work'))?.bot ?? {}
  const now = ++batches * 1000
  const messages = from.map((from_user, nth) => {
    const contextToken = secretOf(`context ${from_user} ${batches}`)
    const raw = `{"message_id":9007199254740993${nth},"context_token":"${contextToken}","ref":{"context_token" : "${contextToken}\\n"}}`
    const times = { written_at: now + nth, repeated: { received_at: now + nth } }
    return { ...message(`m${batches}.${nth}`), from_user, contextToken, raw, ...times }
  })
  const cursorTo = `c${batches}`
  const batch = { id: cursorTo, session: 'work', botId, token, cursorFrom, cursorTo, messages }
  expect(await ingest({ ...batch, now: Number.POSITIVE_INFINITY })).toMatchObject({ cursor: 'moved' })
}

async function fill(storage: Storage): Promise<void> {
  const { state, store } = storage
  await state.sessions.save('work', { ...bot('work'), token: secretOf('bot token') })
  await state.logins.put(login, 0)
  await store.webhooks.add({
    id: 'hook',
    url: 'https://example.org/hook',
    types: [],
    headers: { Authorization: secretOf('header') },
    secrets: [{ secret: secretOf('signature') }],
    link_key: secretOf('link key'),
    allow_private: false,
    replies: false,
    created_at: 1,
    position: '0',
  })
  await store.webhooks.change('hook', { rotation: { secret: secretOf('next signature'), until: 5 } })
  for (let from = 0; from < users.length; from += 100) await receive(storage, users.slice(from, from + 100))
  await receive(storage, users.slice(0, 50))
}

async function checkOpened({ state, store }: Storage): Promise<void> {
  expect((await state.sessions.get('work'))?.bot?.token).toBe(secretOf('bot token'))
  expect((await state.logins.list(0))[0]?.qr).toEqual(login.qr)
  expect(await store.webhooks.get('hook')).toMatchObject({
    headers: { Authorization: secretOf('header') },
    secrets: [{ secret: secretOf('next signature') }, { secret: secretOf('signature') }],
    link_key: secretOf('link key'),
  })
  for (const [nth, user] of users.entries()) {
    const batch = nth < 50 ? batches : batches - 7 + Math.floor(nth / 100)
    expect((await state.contexts.find('work', user))?.token).toBe(secretOf(`context ${user} ${batch}`))
  }
}

test('no byte of a directory with a key shows a secret, and all are there with the key', async () => {
  const dir = folderOfTest()
  await writeSecretState(dir, { key })
  const storage = await openDir(dir, { secret })
  await fill(storage)
  await checkOpened(storage)
  expect(statSync(join(dir, 'messages.db-wal')).size).toBeGreaterThan(0)
  expect(filesWithSecrets(dir)).toEqual([])
  await storage.close()
  expect(filesWithSecrets(dir)).toEqual([])
  const again = await openDir(dir, { secret })
  await checkOpened(again)
  await again.state.sessions.rename('work', 'other')
  expect((await again.state.contexts.find('other', users[3]!))?.token).toContain(mark)
  expect((await again.state.sessions.get('other'))?.bot?.token).toBe(secretOf('bot token'))
  await again.close()
  expect(filesWithSecrets(dir)).toEqual([])
})

test('without a key everything is stored as it is', async () => {
  const dir = folderOfTest()
  await using storage = await openDir(dir)
  await fill(storage)
  await checkOpened(storage)
  const names = filesWithSecrets(dir).map(path => path.slice(dir.length + 1))
  const files = ['messages.db', 'messages.db-wal', 'work/contexts.json', 'work/token.json']
  expect(names.filter(name => name !== 'messages.db')).toEqual(files.filter(name => name !== 'messages.db'))
  expect(existsSync(join(dir, '.secrets'))).toBe(false)
  expect(readFileSync(join(dir, '.data.lock'), 'utf8')).toStartWith('flock\n')
})

test('without its key, with another one, or in the middle of a change nothing is opened or changed', async () => {
  const dir = folderOfTest()
  await writeSecretState(dir, { key })
  await (await openDir(dir, { secret })).close()
  const copy = folderOfTest()
  cpSync(dir, copy, { recursive: true })
  const look = () => [...readFolder(copy)].map(([path, bytes]) => [path, bytes.toString('latin1')])
  const before = look()
  for (const wrong of [undefined, `${secret}x`])
    for (const path of [undefined, false] as const)
      expect(await codeOf(openDir(copy, { secret: wrong, path }))).toBe('store_unavailable')
  expect(look()).toEqual(before)
  writeFileSync(join(copy, '.secrets'), `{"from":"${key}","to":null}\n`)
  for (const given of [undefined, secret])
    expect(await codeOf(openDir(copy, { secret: given }))).toBe('store_unavailable')
  await (await openDir(dir, { secret, path: false })).close()
  const elsewhere = join(folderOfTest(), 'elsewhere.db')
  expect(await codeOf(openDir(dir, { secret, path: elsewhere }))).toBe('invalid_arguments')
})

test('a process without a store notices that the secrets were changed, and writes nothing', async () => {
  const dir = folderOfTest()
  await using storage = await openDir(dir, { path: false })
  await storage.state.sessions.save('work', bot('work'))
  await writeSecretState(dir, { key })
  const before = readFileSync(join(dir, 'work/token.json'), 'utf8')
  expect(await codeOf(storage.state.sessions.mark('work', bot('work').token, { expired_at: 1 }))).toBe(
    'store_unavailable',
  )
  expect(readFileSync(join(dir, 'work/token.json'), 'utf8')).toBe(before)
})

test('a sealed token that cannot be opened is unreadable, not damaged', async () => {
  const dir = folderOfTest()
  await writeSecretState(dir, { key })
  const storage = await openDir(dir, { secret })
  await storage.state.sessions.save('work', bot('work'))
  await storage.close()
  const path = join(dir, 'work/token.json')
  const text = readFileSync(path, 'utf8').replace('work@im.bot', 'another@im.bot')
  writeFileSync(path, text)
  await using again = await openDir(dir, { secret })
  const found = await again.state.sessions.get('work')
  expect([found?.bot, found?.damaged, found?.unreadable?.code]).toEqual([
    undefined,
    undefined,
    'store_unavailable',
  ])
  expect(readFileSync(path, 'utf8')).toBe(text)
})

test('tokens that were written by hand are sealed with the next change', async () => {
  const dir = folderOfTest()
  const before = await openDir(dir)
  await before.state.sessions.save('work', { ...bot('work'), token: secretOf('by hand') })
  await receive(before, users.slice(0, 3))
  await before.close()
  await writeSecretState(dir, { key })
  await using storage = await openDir(dir, { secret })
  expect((await storage.state.contexts.find('work', users[2]!))?.token).toContain(mark)
  await receive(storage, users.slice(3, 4))
  const [contexts, token] = ['work/contexts.json', 'work/token.json'].map(name =>
    readFileSync(join(dir, name)),
  )
  expect([contexts?.includes(mark), token?.includes(mark)]).toEqual([false, false])
  expect((await storage.state.contexts.find('work', users[2]!))?.token).toContain(mark)
})

test('a token in raw JSON is sealed in place, and opened to the same bytes', () => {
  const { open, seal } = createSealer(secret)
  for (const raw of [
    '{"message_id":12345678901234567890,"context_token":"a\\"b\\\\","x":1}',
    '{ "context_token" :\n"t" , "ref_msg":{"context_token":"u"}}',
    '{"text":"\\"context_token\\":\\"no key\\"","context_token":""}',
    '{"context_token":null,"a":["context_token","b"]}',
    'no JSON, "context_token": "cut off',
    `{"context_token":"${'x'.repeat(1_000_000)}"}`,
  ]) {
    const sealed = mapRaw(raw, 'id', seal)
    expect(mapRaw(sealed, 'id', open)).toBe(raw)
    const holds = /"context_token" ?:\s*"[^"]/.test(raw) && !raw.startsWith('no JSON')
    expect(sealed !== raw).toBe(holds)
    if (!raw.startsWith('no JSON')) expect(() => JSON.parse(sealed)).not.toThrow()
  }
})

test('an imported history is sealed too', async () => {
  const dir = folderOfTest()
  const options = { clock, log: silentLog, maxAgeDays: 0, maxCount: 0 }
  const store = await openSqliteStore({
    ...options,
    path: join(dir, 'messages.db'),
    sealer: createSealer(secret),
  })
  const raw = `{"context_token":"${secretOf('past')}"}`
  await store.intake.add([{ ...message('past'), raw, session: 's', bot_id: 'b', direction: 'received' }])
  expect(filesWithSecrets(dir)).toEqual([])
  await store.maintenance.close()
})
