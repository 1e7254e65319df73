/** What a newer build wrote is refused by a message, whatever the command, and left as it is. */
import { Database } from 'bun:sqlite'
import { describe, expect, test } from 'bun:test'
import { cp, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import { isSvcError, Svc } from '../../src/index.ts'
import { fingerprint, weiLinkSession } from '../migrate/profile.ts'
import { ended } from '../support/ended.ts'
import { svcProgram } from '../support/svc-program.ts'
import { fixtures, unpacked } from './fixtures.ts'

const newest = fixtures.at(-1)!
const refusal = 'messages.db was written by a newer version of svc (form 99'

/** How a newer version may have left its store. */
const ways: Record<string, (path: string) => Promise<void>> = {
  'ended well': async path => raise(path, 'WAL').close(),
  'was killed': async path => {
    const db = raise(path, 'WAL')
    const files = ['', '-wal', '-shm'].map(end => path + end)
    for (const file of files) await cp(file, `${file}.kept`)
    // This takes the -wal file in, which alone has the new form until then.
    db.close()
    for (const file of files) await rename(`${file}.kept`, file)
  },
  'keeps another kind of journal': async path => raise(path, 'DELETE').close(),
}

function raise(path: string, journal: string): Database {
  const db = new Database(path)
  db.run(`PRAGMA journal_mode = ${journal}`)
  db.run('PRAGMA user_version = 99')
  return db
}

/**
 * Everything in there, save the index of a -wal file, which its readers make anew; and the last time alone, which even
 * giving a file the rights that it has would change.
 */
const contents = (dir: string) =>
  fingerprint(dir)
    .filter(line => !/^(\.|messages\.db-shm) /.test(line))
    .map(line => line.replace(/ \d+ (\w*)$/, ' $1'))

const free = ['--port', '0', '--sandbox-port', '0']
const commands = [
  ['openapi', '--no-banner', ...free],
  ['admin', '--admin-port', '0', '--sandbox-port', '0'],
  ['mcp', '-t', 'stdio'],
  ['mcp', '-t', 'http', ...free],
  ['login', 'third'],
  ['logout', 'home'],
  ['send', 'somebody@im.wechat', 'hello'],
  ['recv', '--timeout', '0'],
  ['history'],
  ['users'],
  ['outbox'],
  ['sessions'],
  ['hook-poll'],
  ['doctor'],
  ['status'],
  ['status', '--json'],
]

const run = (dir: string, args: readonly string[], sandbox = true) =>
  ended([...svcProgram, ...args, ...(sandbox ? ['--sandbox'] : []), '-d', dir], {
    cwd: join(dir, '..'),
    env: { PATH: process.env.PATH ?? '', HOME: join(dir, '..') },
    stdin: '',
  })

describe.each(Object.entries(ways))('a store of a newer version that %s', (way, leave) => {
  test('every command refuses it, and nothing is changed', async () => {
    await using fixture = await unpacked(newest)
    const { dir } = fixture
    await leave(join(dir, 'messages.db'))
    const before = contents(dir)
    expect(before.some(line => line.startsWith('work/token.json '))).toBe(true)
    expect(before.some(line => line.startsWith('messages.db-wal '))).toBe(way === 'was killed')
    const some =
      way === 'ended well' ? commands : commands.filter(([name]) => /openapi|recv|doctor/.test(name!))
    for (const args of some) {
      const { status, stdout, stderr } = await run(dir, args)
      expect([args, status, `${stdout}${stderr}`]).toEqual([args, 1, expect.stringContaining(refusal)])
      expect([args, contents(dir)]).toEqual([args, before])
    }
  })

  test('a program that opens it gets the error, with the store and without', async () => {
    await using fixture = await unpacked(newest)
    const { dir } = fixture
    await leave(join(dir, 'messages.db'))
    const before = contents(dir)
    for (const store of [true, false, join(dir, 'messages.db')]) {
      const refused = await Svc.open({ basePath: dir, sandbox: true, store }).catch(error => error)
      expect([store, isSvcError(refused, 'store_unavailable'), refused.message]).toEqual([
        ...[store, true],
        expect.stringContaining(refusal),
      ])
    }
    expect(contents(dir)).toEqual(before)
  })
})

test('moving in from another program does not touch it either', async () => {
  await using fixture = await unpacked(newest)
  const { dir } = fixture
  await rm(join(dir, 'sandbox'), { recursive: true })
  raise(join(dir, 'messages.db'), 'WAL').close()
  const from = join(dir, '../old')
  await weiLinkSession(from, 'shop', { bot: 'old@im.bot' })
  const before = contents(dir)
  const { status, stdout, stderr } = await run(dir, ['migrate', 'weilink', '--from', from], false)
  expect([status, `${stdout}${stderr}`]).toEqual([1, expect.stringContaining(refusal)])
  expect(contents(dir)).toEqual(before)
})

test('the world of a newer sandbox is refused, and left as it is', async () => {
  for (const journal of ['WAL', 'DELETE']) {
    await using fixture = await unpacked(newest)
    const { dir } = fixture
    raise(join(dir, 'sandbox/world.db'), journal).close()
    // Its lock says who took it last, and what was in the folder meanwhile shows in the time of that.
    const told = () => contents(dir).filter(line => !/^sandbox(\/\.lock)? /.test(line))
    const before = told()
    for (const args of [
      ['openapi', '--no-banner', ...free],
      ['recv', '--timeout', '0'],
    ]) {
      const { status, stderr } = await run(dir, args)
      expect([args, status, stderr]).toEqual([
        args,
        1,
        expect.stringMatching(/world.* was written by a newer/),
      ])
    }
    expect(told()).toEqual(before)
  }
})
