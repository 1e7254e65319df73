/** Backups that are not restored: damaged, cut off, of another form, or with another passphrase. Nothing is written. */
import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Encrypter, Stanza } from 'age-encryption'
import { createTarPacker, type TarHeader, unpackTar } from 'modern-tar'
import { makeBackup } from '../../src/backup/make.ts'
import type { Manifest } from '../../src/backup/manifest.ts'
import { restoreBackup } from '../../src/backup/restore.ts'
import { readConfig } from '../../src/config.ts'
import type { SvcError } from '../../src/model/error.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { silentLog } from '../../src/platform/log.ts'
import { newestSchemaVersion } from '../../src/storage/sqlite/migrations.ts'
import { openStorage } from '../../src/storage/sqlite/open.ts'
import { failure, fieldsOf } from '../support/failure.ts'
import { folderOfFile } from '../support/folder.ts'

const folder = folderOfFile()
const passphrase = 'a passphrase of many words'
const configOf = (name: string) => readConfig({ basePath: join(folder, name), keepFree: '0' }, {})

const bot = { bot_id: 'b@im.bot', token: 't', base_url: 'http://x', cursor: '', created_at: 1 }
const plain = await makePlain()
const encrypted = await encryptCheaply(plain)
const files = await unpackTar(plain)

async function makePlain(): Promise<Buffer<ArrayBuffer>> {
  const config = configOf('data')
  const options = { dir: config.basePath, clock: systemClock, log: silentLog, maxAgeDays: 0, maxCount: 0 }
  await using storage = await openAt(options)
  await storage.state.sessions.save('work', bot).catch(() => {})
  const path = join(folder, 'plain.tar')
  await makeBackup({ path, config, clock: systemClock, passphrase: undefined, force: false })
  return readFileSync(path)
}

/** Encrypts as another program may: at a low cost, since each try to read it derives the key. */
async function encryptCheaply(bytes: Uint8Array): Promise<Buffer> {
  const encrypter = new Encrypter()
  encrypter.setPassphrase(passphrase)
  encrypter.setScryptWorkFactor(10)
  return Buffer.from(await encrypter.encrypt(bytes))
}

async function openAt(options: Parameters<typeof openStorage>[0]) {
  await Bun.$`mkdir -p ${options.dir}`.quiet()
  const storage = await openStorage(options)
  return Object.assign(storage, { [Symbol.asyncDispose]: () => storage.close() })
}

/** Restores these bytes. Returns the fields of the error and checks that nothing was written. */
const refuse = async (bytes: Uint8Array, phrase?: string) => fieldsOf(await refusalOf(bytes, phrase))

async function refusalOf(bytes: Uint8Array, phrase?: string) {
  const path = join(folder, 'tried')
  writeFileSync(path, bytes)
  const before = readdirSync(folder)
  const options = {
    path,
    config: configOf('restored'),
    clock: systemClock,
    passphrase: phrase,
    keepKeys: false,
  }
  const error = await failure(restoreBackup(options))
  expect(readdirSync(folder)).toEqual(before)
  expect(error).toMatchObject({ code: 'invalid_arguments' })
  return error
}

/** Packs files, with the list of contents that is right for them unless `list` changes it. */
async function pack(
  entries: { header: TarHeader; data?: Uint8Array }[],
  list: (manifest: Manifest) => object = m => m,
) {
  const { readable, controller } = createTarPacker()
  const packed = new Response(readable).bytes()
  const add = async (header: TarHeader, data: Uint8Array = new Uint8Array()) => {
    const writer = controller.add({ ...header, size: data.length }).getWriter()
    if (data.length > 0) await writer.write(new Uint8Array(data))
    await writer.close()
  }
  for (const { header, data } of entries) await add(header, data)
  const manifest = JSON.parse(Buffer.from(files.at(-1)!.data!).toString()) as Manifest
  manifest.files = entries.map(({ header, data = new Uint8Array() }) => ({
    name: header.name,
    size: data.length,
    sha256: new Bun.CryptoHasher('sha256').update(data).digest('hex'),
  }))
  await add({ name: 'svc-backup.json', size: 0 }, Buffer.from(JSON.stringify(list(manifest))))
  controller.finalize()
  return packed
}
const own = files.slice(0, -1)

describe.each([
  ['a plain backup', plain, undefined],
  ['an encrypted backup', encrypted, passphrase],
] as const)('%s', (_kind, bytes, phrase) => {
  test('is refused with any bit flipped', async () => {
    const places = [
      0,
      90,
      150,
      257,
      300,
      512,
      700,
      1024,
      bytes.length - 1100,
      bytes.length - 600,
      bytes.length - 1,
    ]
    for (let at = 5000; at < bytes.length; at += Math.floor(bytes.length / 7)) places.push(at)
    for (const at of places) {
      const flipped = Buffer.from(bytes)
      flipped[at]! ^= 1
      const same = phrase === undefined && isFree(at)
      if (!same) expect([at, await refuse(flipped, phrase)]).toEqual([at, [expect.any(String)]])
    }
  }, 60_000)

  test('is refused at any other length', async () => {
    const lengths = [0, 1, 100, 511, 512, 513, 1024, 2048, 65_536, bytes.length >> 1]
    for (let cut = 1; cut <= 4096; cut *= 2) lengths.push(bytes.length - cut)
    for (let blocks = 1; blocks < 8; blocks++) lengths.push(bytes.length - blocks * 512)
    for (const length of lengths)
      expect([length, await refuse(bytes.subarray(0, length), phrase)]).toEqual([
        length,
        [expect.any(String)],
      ])
    expect(await refuse(Buffer.concat([bytes, Buffer.from('more')]), phrase)).toEqual(['file'])
  }, 60_000)
})

/** Returns whether a byte of a plain backup means nothing: padding after a file. */
function isFree(at: number): boolean {
  let start = 0
  for (const { data } of files) {
    const end = start + 512 + (data?.length ?? 0)
    const next = start + 512 + Math.ceil((data?.length ?? 0) / 512) * 512
    if (at >= end && at < next) return true
    start = next
  }
  return false
}

test('a passphrase belongs to its backup', async () => {
  expect(await refuse(encrypted, 'another passphrase')).toEqual(['--passphrase-file'])
  expect(await refuse(encrypted)).toEqual(['--passphrase-file'])
  expect(await refuse(plain, passphrase)).toEqual(['--passphrase-file'])
  expect(await refuse(Buffer.from('hello'.repeat(1000)))).toEqual(['file'])
})

test('an encrypted file of another program is refused before it costs anything', async () => {
  const header = encrypted.subarray(0, 300).toString('latin1')
  const withHeader = (change: (text: string) => string) => Buffer.from(change(header), 'latin1')
  for (const change of [
    (text: string) => text.replace(/ 10\n/, ' 20\n'),
    (text: string) => text.replace(/ 10\n/, ' 99\n'),
    (text: string) => text.replace('-> scrypt', '-> X25519'),
    (text: string) => text.replace('\n---', `\n-> a ${'b'.repeat(100)}\n\n---`),
    () => `age-encryption.org/v1\n-> ${'x'.repeat(1_000_000)}`,
    () => `age-encryption.org/v1\n${'-> a b\n\n'.repeat(100_000)}`,
  ])
    expect(await refuse(withHeader(change), passphrase)).toEqual(['file'])
  const encrypter = new Encrypter()
  encrypter.addRecipient({ wrapFileKey: () => [new Stanza(['other', 'kind'], new Uint8Array(32))] })
  expect(await refuse(await encrypter.encrypt(plain), passphrase)).toEqual(['file'])
})

test.each([
  ['../outside', 'file'],
  ['/etc/passwd', 'file'],
  ['work/../../outside', 'file'],
  ['work/other.json', 'file'],
  ['a/b/token.json', 'file'],
  ['.hidden/token.json', 'file'],
  ['sandbox/media/../../x', 'file'],
  ['media/outbox/x', 'file'],
  ['messages.db-wal', 'file'],
  ['.restoring', 'file'],
  ['work\\token.json', 'file'],
  ['work/token.json', 'symlink'],
  ['other/token.json', 'link'],
  ['other/', 'directory'],
  ['other/token.json', 'fifo'],
] as const)('a file %p (%s) is foreign', async (name, type) => {
  const header: TarHeader = { name, size: 0, type, ...(type.endsWith('link') && { linkname: '/etc/passwd' }) }
  expect(await refuse(await pack([...own, { header }]))).toEqual(['file'])
})

test('two files of one name are refused, also in another spelling', async () => {
  for (const name of ['work/token.json', 'Work/token.json', 'MESSAGES.DB'])
    expect(await refuse(await pack([...own, { header: { name, size: 0 } }]))).toEqual(['file'])
})

test('files after the list, a list that differs, and no store are refused', async () => {
  expect(await refuse(await pack(own, list => ({ ...list, files: [] })))).toEqual(['file'])
  expect(await refuse(await pack(own, list => ({ ...list, form: 0 })))).toEqual(['file'])
  expect(await refuse(await pack(own, () => []))).toEqual(['file'])
  expect(await refuse(await pack(own.filter(({ header }) => header.name !== 'messages.db')))).toEqual([
    'file',
  ])
  const list = files.at(-1)!
  expect(await refuse(await pack([...own, list]))).toEqual(['file'])
})

test.each([
  { accounts: [null] },
  { accounts: [{ session: 1, bot_id: 'b' }] },
  { secret_key: 'abc\u001b]0;title' },
  { secret_key: undefined },
  { created_at: 'now' },
  { svc: {} },
])('a list with the value %j is refused', async value => {
  expect(await refuse(await pack(own, list => ({ ...list, ...value })))).toEqual(['file'])
})

test('a store with parts that svc does not make is refused', async () => {
  const other = join(folder, 'other.db')
  for (const statement of [
    'CREATE TRIGGER t AFTER UPDATE ON access_key BEGIN UPDATE access_key SET revoked_at = NULL; END',
    'CREATE VIEW v AS SELECT 1',
    'DROP TABLE webhook_try',
    'DROP TRIGGER message_audited; CREATE TRIGGER message_audited AFTER INSERT ON message BEGIN SELECT 1; END',
    'ALTER TABLE access_key ADD more TEXT',
    'ALTER TABLE webhook RENAME COLUMN paused TO halted',
    'CREATE UNIQUE INDEX one ON access_key (revoked_at)',
    'CREATE TRIGGER sqlitexstat1 AFTER UPDATE ON access_key BEGIN SELECT 1; END',
  ]) {
    writeFileSync(other, own.find(({ header }) => header.name === 'messages.db')!.data!)
    const db = new Database(other)
    db.run(statement)
    db.close()
    // A name that SQLite gives to nobody, but reads.
    const bytes = readFileSync(other).toString('latin1').replaceAll('sqlitexstat1', 'sqlite_stat1')
    writeFileSync(other, bytes, 'latin1')
    const changed = own.map(({ header, data }) =>
      header.name === 'messages.db' ? { header, data: readFileSync(other) } : { header, data: data! },
    )
    rmSync(other)
    expect([statement, await refuse(await pack(changed))]).toEqual([statement, ['file']])
  }
})

/** The backup with another schema version of its messages.db. */
const withSchema = (schema: number) =>
  pack(
    own.map(({ header, data }) => {
      if (header.name !== 'messages.db') return { header, data: data! }
      const store = Buffer.from(data!)
      store.writeUInt32BE(schema, 60)
      return { header, data: store }
    }),
    list => ({ ...list, schema }),
  )

test('a newer form, a newer schema and one before the first release are refused', async () => {
  expect(await refuse(await pack(own, list => ({ ...list, form: 2, files: undefined })))).toEqual(['file'])
  const hints: unknown[] = []
  // What to do differs: take a newer program, or leave the old store.
  for (const schema of [newestSchemaVersion + 1, 31]) {
    const { code, hint } = (await refusalOf(await withSchema(schema))) as SvcError
    expect([code, hint]).toEqual(['invalid_arguments', expect.any(String)])
    hints.push(hint)
  }
  expect(new Set(hints).size).toBe(2)
})

test('the same files packed again are restored, with a large one after one that is left out', async () => {
  const path = join(folder, 'again')
  const [token, contexts] = ['api_token', 'other/contexts.json'].map((name, nth) => ({
    header: { name, size: 0 },
    data: Buffer.alloc(nth * 1_000_000 + 1, ' '),
  }))
  writeFileSync(path, await pack([token!, contexts!, ...own]))
  await restoreBackup({
    path,
    config: configOf('again-data'),
    clock: systemClock,
    passphrase: undefined,
    keepKeys: false,
  })
  expect(readdirSync(join(folder, 'again-data'))).toContain('work')
})

afterAll(() => rmSync(folder, { recursive: true, force: true }))
