/**
 * A store that another program made or changed: whatever in it names a file leads below svc's own folders, or nowhere. What
 * comes from such a store is refused with the name of the row.
 */
import { Database } from 'bun:sqlite'
import { describe, expect, test } from 'bun:test'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { makeBackup } from '../../src/backup/make.ts'
import { restoreBackup } from '../../src/backup/restore.ts'
import { readConfig } from '../../src/config.ts'
import { adoptStore } from '../../src/migrate/store/adopt.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { FreeSpace } from '../../src/platform/free-space.ts'
import { silentLog } from '../../src/platform/log.ts'
import { MediaFolder } from '../../src/storage/sqlite/media-folder.ts'
import { newDatabase, secret } from '../support/databases.ts'
import { failure } from '../support/failure.ts'
import { folderOfTest } from '../support/folder.ts'
import { changeIn, withGateway } from '../support/gateway.ts'
import { isPostgresThere, sharedPostgres } from '../support/postgres.ts'
import { withSandbox } from '../support/sandbox.ts'
import { fillDirectory, move, uploadId } from './postgres/copy-support.ts'

/** Names that lead elsewhere on some system, or that svc does not give. */
const names = [
  '../../../outside',
  '..',
  '.',
  '',
  '/outside',
  '..\\..\\outside',
  'C:\\outside',
  `../${uploadId}`,
  `${uploadId}/../../outside`,
  `${uploadId}:stream`,
  `${uploadId}.json`,
  `${uploadId}\0`,
  `${uploadId}\n`,
]

/** A folder of the test with a file beside the data directory that nothing may change. */
function openWorld() {
  const root = folderOfTest()
  const outside = join(root, 'outside')
  writeFileSync(outside, 'mine')
  return {
    root,
    check() {
      expect(readFileSync(outside, 'utf8')).toBe('mine')
      expect(existsSync(join(root, 'outside.json'))).toBe(false)
      expect(readdirSync(root).filter(name => name.startsWith('token'))).toEqual([])
    },
  }
}

describe('a media folder', () => {
  const openFolder = (mediaRoot: string, rules = {}) =>
    new MediaFolder({
      ...{ mediaRoot, name: 'uploads', clock: systemClock, log: silentLog, ...rules },
      space: new FreeSpace(mediaRoot, 0),
    })
  const signal = new AbortController().signal

  test.each(names)('stores, opens and removes nothing under the name %j', async name => {
    const { check, root } = openWorld()
    const mediaRoot = join(root, 'data', 'media')
    mkdirSync(mediaRoot, { recursive: true })
    for (const rules of [{}, { lifeMs: 1000, room: { files: 1, bytes: 10, largest: 10 } }]) {
      const place = openFolder(mediaRoot, rules)
      expect(await failure(place.put(name, new Blob(['x']).stream(), { signal }))).toMatchObject({
        code: 'invalid_arguments',
      })
      expect(await place.open(name)).toBeUndefined()
      await place.discard([name])
    }
    check()
    expect(readdirSync(join(mediaRoot, 'uploads'))).toEqual([])
  })

  test('that is a link is not used: nothing is stored or removed behind it', async () => {
    const root = folderOfTest()
    mkdirSync(join(root, 'elsewhere'))
    writeFileSync(join(root, 'elsewhere', uploadId), 'mine')
    symlinkSync(join(root, 'elsewhere'), join(root, 'uploads'))
    const place = openFolder(root)
    await place.discard([uploadId])
    expect(await failure(place.put(crypto.randomUUID(), new Blob(['x']).stream(), { signal }))).toBeDefined()
    expect(readdirSync(join(root, 'elsewhere'))).toEqual([uploadId])
  })
})

/** Changes of rows that both engines have, and the table that the refusal names. A session may have the name of an upload. */
const changesOf = (name: string): [string, string][] => [
  ['outbox_part', `UPDATE outbox_part SET file = '${JSON.stringify({ name })}' WHERE file IS NOT NULL`],
  ['access_key', `UPDATE access_key SET id = '${name}'`],
  ...(/^[0-9a-f.-]{36}/.test(name)
    ? []
    : [['session', `UPDATE session SET name = '${name}'`] as [string, string]]),
]

const configOf = (basePath: string) => readConfig({ basePath, keepFree: '0' }, {})

async function backUp(dir: string, path: string): Promise<void> {
  const config = configOf(dir)
  await makeBackup({ path, config, clock: systemClock, passphrase: undefined, force: true })
}

const restore = (path: string, dir: string) =>
  restoreBackup({
    path,
    config: configOf(dir),
    clock: systemClock,
    passphrase: undefined,
    keepKeys: false,
  })

test('a backup with such a row is not restored, and the row is named', async () => {
  const { check, root } = openWorld()
  const dir = join(root, 'data')
  await fillDirectory(dir)
  const store = join(dir, 'messages.db')
  const original = readFileSync(store)
  const path = join(root, 'backup.tar')
  for (const [table, statement] of names.filter(name => !name.includes('\0')).flatMap(changesOf)) {
    writeFileSync(store, original)
    const db = new Database(store)
    db.run(statement)
    db.close()
    await backUp(dir, path)
    const error = await failure(restore(path, join(root, 'restored')))
    expect([statement, error]).toMatchObject([
      statement,
      { code: 'invalid_arguments', details: { table, row: expect.anything() } },
    ])
    expect(existsSync(join(root, 'restored'))).toBe(false)
    check()
  }
}, 60_000)

test('a restore writes nothing behind a link in the media root', async () => {
  const root = folderOfTest()
  const [dir, media] = [join(root, 'data'), join(root, 'media')]
  await fillDirectory(dir)
  await backUp(dir, join(root, 'backup.tar'))
  for (const name of ['elsewhere', 'media']) mkdirSync(join(root, name))
  symlinkSync(join(root, 'elsewhere'), join(media, 'outbox'))
  const config = readConfig({ basePath: join(root, 'restored'), mediaRoot: media, keepFree: '0' }, {})
  const given = { path: join(root, 'backup.tar'), clock: systemClock, passphrase: undefined, keepKeys: false }
  expect(await failure(restoreBackup({ ...given, config }))).toBeDefined()
  expect(readdirSync(join(root, 'elsewhere'))).toEqual([])
  expect(lstatSync(join(media, 'outbox')).isSymbolicLink()).toBe(true)
})

test('erasing a person removes the folders of agents, and nothing that another name leads to', async () => {
  await using t = await withGateway()
  const user = await t.sandbox.addUser('gone')
  await t.sandbox.say('hello', { from: user })
  await t.until('it is stored', async () => (await t.gateway.inbox.getHead()) === 1)
  const agents = join(t.dir, '.agents')
  const place = (...path: string[]) => {
    mkdirSync(join(agents, ...path), { recursive: true })
    writeFileSync(join(agents, ...path, 'file'), 'x')
    return join(agents, ...path)
  }
  const own = place('home', '0123456789abcdef')
  const kept = [
    place('home', 'other'),
    place('a', 'b', '0123456789abcdef'),
    place('..', 'linked', 'f'.repeat(16)),
  ]
  symlinkSync(join(t.dir, 'linked'), join(agents, 'link'))
  const foreign = [
    ...kept.slice(0, 2),
    `${agents}/link/${'f'.repeat(16)}`,
    `${own}/../other`,
    t.dir,
    agents,
    '/',
    '',
    'x',
  ]
  const rows = [own, ...foreign].map((folder, nth) => `('a${nth}', 1, '${user}', '${folder}')`)
  await changeIn(t.dir, `INSERT INTO agent_conversation (agent, session, peer, folder) VALUES ${rows.join()}`)
  await t.gateway.people.forget(user)
  expect(existsSync(own)).toBe(false)
  expect(kept.map(path => existsSync(join(path, 'file')))).toEqual([true, true, true])
}, 30_000)

test('the simulated CDN removes its own files alone', async () => {
  await using sandbox = await withSandbox()
  const { core, media } = sandbox.world
  const path = join(core.dir, 'mine')
  writeFileSync(path, 'mine')
  core.db.run`INSERT INTO media (id, param, kind, key_hex, raw_size, cipher_size, md5, created_at)
    VALUES ('../mine', 'p', 'image', '', 1, 1, '', 0)`
  expect(await failure(media.removeOld(1))).toMatchObject({ code: 'invalid_arguments' })
  expect(readFileSync(path, 'utf8')).toBe('mine')
})

describe.skipIf(!isPostgresThere())('a database', () => {
  /** Changes of rows that only PostgreSQL has. */
  const ownOf = (name: string): [string, string][] => [
    ['account', `UPDATE account SET name = '${name}' WHERE name = 'work'`],
    [
      'upload',
      `SET session_replication_role = replica;
        UPDATE blob SET id = '${name}' WHERE id = '${uploadId}';
        UPDATE upload SET id = '${name}' WHERE id = '${uploadId}'`,
    ],
  ]
  // The first test has every form of a name.
  const all = [changesOf('../../../outside')[0]!, ...ownOf('../../../outside')]

  test('with such a row is not copied into a directory, and not adopted', async () => {
    const { check, root } = openWorld()
    const server = await sharedPostgres()
    await using database = await newDatabase({ isNew: true })
    await fillDirectory(join(root, 'data'))
    await move(join(root, 'data'), database.url)
    const from = new URL(database.url).pathname.slice(1)
    for (const [nth, [table, statement]] of all.entries()) {
      const name = `foreign${nth}`
      await server.createDatabase(name, from)
      await server.psql(`SET search_path = svc; ${statement}`, name)
      const url = server.url(name)
      const adopted = await failure(
        adoptStore({ url, secret, clock: systemClock, goesOn: true, keepKeys: true }),
      )
      expect([statement, adopted]).toMatchObject([
        statement,
        { code: 'invalid_arguments', details: { table } },
      ])
      await server.psql('UPDATE svc.meta SET home = svc.home()', name)
      const back = join(root, 'back', String(nth))
      mkdirSync(join(root, 'back'), { recursive: true })
      expect([statement, await failure(move(back, url, true))]).toMatchObject([
        statement,
        { code: 'invalid_arguments' },
      ])
      check()
      expect(readdirSync(join(root, 'back'))).toEqual([String(nth)])
      await Bun.$`rm -r ${join(root, 'back')}`
      await server.dropDatabase(name)
    }
  }, 120_000)
})
