import { Database } from 'bun:sqlite'
import { afterEach, describe, expect, test } from 'bun:test'
import { closeSync, copyFileSync, openSync, rmSync, truncateSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { formatStatus } from '../../src/cli/commands/status.ts'
import { readStatus } from '../../src/inspect/status-report.ts'
import { version } from '../../src/version.ts'
import { forFile } from '../support/folder.ts'
import { knownUsers } from '../support/known-users.ts'
import { idle, stateOf, withWard } from './support.ts'

const ward = forFile(await withWard())
const path = join(ward.dir, 'messages.db')
const kept = join(ward.dir, '../kept.db')
{
  await using gateway = await ward.open()
  await ward.sandbox.bulk(300, `${'x'.repeat(500)} {n}`)
  await gateway.receive(300)
}
copyFileSync(path, kept)
afterEach(() => {
  for (const suffix of ['-wal', '-shm']) rmSync(path + suffix, { force: true })
  copyFileSync(kept, path)
})

const change = (sql: string) => {
  const db = new Database(path)
  db.run(sql)
  db.close()
}

test('a whole one, with its messages and its size; no side files appear', async () => {
  const before = stateOf(ward.dir)
  const look = await ward.look()
  expect(look.of('store/integrity')).toMatchObject([
    { severity: 'ok', what: expect.stringMatching(/^messages\.db is whole: 301 messages, [\d.]+ [kM]B$/) },
  ])
  expect(stateOf(ward.dir)).toEqual(before)
})

test('webhooks that were switched off, or fail for a while; not one that somebody paused', async () => {
  const add = (id: string, more: string) =>
    change(`INSERT INTO webhook (id, url, types, headers, secrets, link_key, allow_private, replies, created_at, position,
      paused, disabled, disabled_at, failing_since, last_error) VALUES ('${id}', 'u', '[]', '{}', '[]', '', 0, 0, 1, '', ${more})`)
  add('off', "0, 'it answered with 410', 5, NULL, NULL")
  add('failing', "0, NULL, NULL, 5, 'HTTP 500'")
  add('paused', "1, NULL, NULL, 5, 'HTTP 500'")
  add('well', '0, NULL, NULL, NULL, NULL')
  const found = (await ward.look()).of('store/webhook')
  expect(found.map(({ severity }) => severity)).toEqual(['warning', 'warning'])
  expect(found.map(({ fix }) => /webhook \w+ (\w+)/.exec(fix ?? '')?.[1])).toEqual(['off', 'failing'])
})

test('a copy that was restored and not used since', async () => {
  const add = (operation: string) =>
    change(
      `INSERT INTO audit (at, principal, operation, outcome) VALUES (1767225600000, 'owner', '${operation}', 'done')`,
    )
  const severities = async () => (await ward.look()).of('store/copy').map(({ severity }) => severity)
  expect(await severities()).toEqual([])
  add('restore')
  expect(await severities()).toEqual(['warning'])
  add('send')
  expect(await severities()).toEqual([])
})

test('no backup, one that is older than two intervals, a recent one, and a failure', async () => {
  const severities = async (values = {}) =>
    (await ward.look(values)).of('store/backup').map(({ severity }) => severity)
  expect(await severities()).toEqual(['note'])
  const hoursAgo = Date.now() - 50 * 3_600_000
  change(`INSERT INTO backup (path, created_at, size, took_ms) VALUES ('/b/svc.tar', ${hoursAgo}, 9, 1)`)
  expect(await severities()).toEqual(['warning'])
  expect(await severities({ backupEvery: '2d' })).toEqual(['ok'])
  change(`INSERT INTO backup_failure (at, error) VALUES (${Date.now()}, 'the disk is full')`)
  const look = await ward.look({ backupEvery: '2d' })
  expect(look.of('store/backup')).toMatchObject([
    { severity: 'warning', what: expect.stringContaining('the disk is full') },
    { severity: 'ok', what: expect.stringContaining('/b/svc.tar') },
  ])
  // What svc status says of it.
  const report = await readStatus({ basePath: ward.dir, version })
  expect(report).toMatchObject({
    backup: { path: '/b/svc.tar', size: 9 },
    backup_failure: { error: 'the disk is full' },
  })
  const lines = formatStatus(report)
    .split('\n')
    .filter(line => /^(backup|trouble) /.test(line))
  expect(lines).toEqual([
    expect.stringContaining('2 days ago, 9 B: /b/svc.tar'),
    expect.stringContaining('the disk is full'),
  ])
})

describe('damage', () => {
  const overwrite = (at: number, bytes: number) => {
    const file = openSync(path, 'r+')
    writeSync(file, new Uint8Array(bytes).fill(0xa5), 0, bytes, at)
    closeSync(file)
  }
  const damages: Record<string, () => void> = {
    'the head overwritten': () => overwrite(0, 100),
    'the schema overwritten': () => overwrite(100, 3000),
    'pages in the middle overwritten': () => overwrite(Bun.file(path).size / 2, 40_000),
    'cut in half': () => truncateSync(path, Math.floor(Bun.file(path).size / 2)),
    'something else entirely': () => writeFileSync(path, 'this is no database '.repeat(1000)),
  }
  for (const [name, make] of Object.entries(damages)) {
    test(`${name}: an error with a way out, nothing is changed, and the rest is looked at`, async () => {
      make()
      const before = stateOf(ward.dir)
      const look = await ward.look()
      expect(look.of('store/integrity')).toMatchObject([
        { severity: 'error', what: expect.stringContaining('damaged'), fix: expect.stringContaining('mv ') },
      ])
      expect(look.troubles).toEqual([idle, 'store/integrity error'])
      expect(stateOf(ward.dir)).toEqual(before)
    })
  }

  test('the fix sets it aside where it is no session, and svc makes a new one', async () => {
    damages['the head overwritten']!()
    const { fix = '' } = (await ward.look()).of('store/integrity')[0]!
    const command = /then: (.*?) \(/.exec(fix)?.[1] ?? 'false'
    expect(Bun.spawnSync(['sh', '-c', command]).exitCode).toBe(0)
    expect((await ward.look()).troubles).toEqual([idle, 'store/integrity note'])
    {
      await using _gateway = await ward.open()
    }
    expect((await ward.look()).troubles).toEqual([idle])
  })
})

test('a newer form is an error, and so is one before the first release', async () => {
  change('PRAGMA user_version = 999')
  expect((await ward.look()).of('store/form')).toMatchObject([
    { severity: 'error', what: expect.stringContaining('newer version of svc (form 999') },
  ])
  change('PRAGMA user_version = 31')
  expect((await ward.look()).of('store/form')).toMatchObject([
    { severity: 'error', fix: expect.stringContaining(`svc store aside -d ${ward.dir} `) },
  ])
})

test('messages that wait for their users', async () => {
  {
    await using gateway = await ward.open()
    await ward.sandbox.advance(25 * 60 * 60_000)
    gateway.clock.advance(25 * 60 * 60_000)
    const [user] = [...(await knownUsers(gateway.other.contexts, 'work')).keys()]
    const sent = await gateway.send({ to: user!, text: 'later', when_closed: 'queue' })
    expect(sent.status).toBe('queued')
  }
  expect((await ward.look()).of('store/outbox')).toMatchObject([
    { severity: 'note', what: expect.stringMatching(/^1 send .* 1 user\b/) },
  ])
})

test('beside a service that receives: nothing is held up and nothing is lost, and looking takes turns with it', async () => {
  await using gateway = await ward.open()
  const looks = (async () => {
    const seen: string[] = []
    for (let at = 0; at < 15; at++) seen.push(...(await ward.look()).troubles)
    return seen
  })()
  await ward.sandbox.bulk(500, 'more {n}')
  expect((await gateway.receive(500)).length).toBe(500)
  expect(await looks).toEqual([])
})

test('a store that was left by a kill, its -wal file full, is read whole and left as it is', async () => {
  const program = `
    import { Database } from 'bun:sqlite'
    const db = new Database(process.argv[1])
    db.run('PRAGMA wal_autocheckpoint = 0')
    for (let at = 0; at < 50; at++) db.run("UPDATE message SET text = text || ? WHERE id <= 40", ['!'])
    process.kill(process.pid, 'SIGKILL')`
  Bun.spawnSync([process.execPath, '-e', program, path])
  const walBytes = Bun.file(`${path}-wal`).size
  expect(walBytes).toBeGreaterThan(100_000)
  // SQLite's own index of the -wal file is made anew by whoever reads first.
  const before = stateOf(ward.dir, /^\.$|-shm$/)
  const look = await ward.look()
  expect(look.of('store/integrity')).toMatchObject([
    { severity: 'ok', what: expect.stringContaining('not yet written back') },
  ])
  expect(stateOf(ward.dir, /^\.$|-shm$/)).toEqual(before)
})
