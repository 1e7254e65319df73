/** What a newer build wrote, or one before the first release, is refused by a message, whatever the command, and left as it is. */
import { Database } from 'bun:sqlite'
import { beforeAll, describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { cp, mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import { isSvcError, Svc } from '../../src/index.ts'
import { unreleasedForms } from '../../src/storage/unreleased.ts'
import { fingerprint, weiLinkSession } from '../migrate/profile.ts'
import { ended } from '../support/ended.ts'
import { folderOfFile, folderOfTest } from '../support/folder.ts'
import { logIn, startService } from '../support/service.ts'
import { svcProgram } from '../support/svc-program.ts'

const home = folderOfFile()
/** A user who wrote to the session work. */
let user = ''

beforeAll(async () => {
  await mkdir(join(home, 'data'), { mode: 0o700 })
  await using service = await startService({ dir: join(home, 'data') })
  const other = await service.phone('users', { name: 'Mei' })
  await logIn(service, 'home', other.id)
  await logIn(service, 'work')
  await service.phone('say', { text: 'hello' })
  const { body } = await service.call('recv', { timeout: 10 })
  user = body[0].from_user
  expect(body).toMatchObject([{ text: 'hello', session: 'work' }])
  expect(await service.kill('SIGTERM')).toBe(0)
}, 60_000)

/** A copy of what this build left in a data directory. */
async function copied(): Promise<string> {
  const dir = join(folderOfTest(), 'data')
  await cp(join(home, 'data'), dir, { recursive: true, preserveTimestamps: true })
  return dir
}

/** Forms that this build does not use, and what it says of them. */
const forms = [
  {
    by: 'a newer version',
    form: 999,
    refusal: 'messages.db was written by a newer version of svc (form 999',
  },
  {
    by: 'a version before the first release',
    form: unreleasedForms,
    refusal: `messages.db was written by a version of svc before the first release (form ${unreleasedForms})`,
  },
]
const newer = forms[0]!

/** How that version may have left its store. */
const ways: Record<string, (path: string, form: number) => Promise<void>> = {
  'ended well': async (path, form) => written(path, form, 'WAL').close(),
  'was killed': async (path, form) => {
    const db = written(path, form, 'WAL')
    const files = ['', '-wal', '-shm'].map(end => path + end)
    for (const file of files) await cp(file, `${file}.kept`)
    // This takes the -wal file in, which alone has the new form until then.
    db.close()
    for (const file of files) await rename(`${file}.kept`, file)
  },
  'keeps another kind of journal': async (path, form) => written(path, form, 'DELETE').close(),
}

function written(path: string, form: number, journal: string): Database {
  const db = new Database(path)
  db.run(`PRAGMA journal_mode = ${journal}`)
  db.run(`PRAGMA user_version = ${form}`)
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

const cases = forms.flatMap(one => Object.entries(ways).map(([way, leave]) => ({ ...one, way, leave })))

describe.each(cases)('a store of $by that $way', ({ form, leave, refusal, way }) => {
  test('every command refuses it, and nothing is changed', async () => {
    const dir = await copied()
    await leave(join(dir, 'messages.db'), form)
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
  }, 120_000)

  test('a program that opens it gets the error, with the store and without', async () => {
    const dir = await copied()
    await leave(join(dir, 'messages.db'), form)
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

/** The files with logins, and with what lets svc answer. */
const logins = (dir: string) =>
  ['home', 'work'].flatMap(name =>
    ['token.json', 'contexts.json'].map(file => {
      const path = join(dir, name, file)
      return existsSync(path) ? readFileSync(path, 'utf8') : path
    }),
  )

test.each(Object.entries(ways))(
  'a store before the first release that %s is set aside by the command that the refusal names, and the accounts go on',
  async (_way, leave) => {
    const dir = await copied()
    const path = join(dir, 'messages.db')
    await leave(path, 31)
    const before = logins(dir)
    const { stderr } = await run(dir, ['history'])
    const command = /svc (store aside -d \S+)/.exec(stderr)![1]!
    const aside = await run(dir, [...command.split(' '), '--json'], false)
    expect(aside).toMatchObject({
      status: 0,
      stderr: '',
      stdout: `${JSON.stringify({ aside: `${path}.aside` })}\n`,
    })
    expect(logins(dir)).toEqual(before)
    expect(contents(dir).filter(line => line.startsWith('messages.db-'))).toEqual([])
    const old = new Database(`${path}.aside`, { readonly: true })
    expect(old.query('SELECT text, user_version FROM message, pragma_user_version').get()).toEqual({
      text: 'hello',
      user_version: 31,
    })
    old.close()

    await using service = await startService({ dir })
    expect((await service.call('history')).body).toMatchObject({ total: 0 })
    expect(JSON.parse((await run(dir, ['audit', '--json'])).stdout)).toMatchObject([
      { principal: 'owner', operation: 'set_store_aside', subject: `${path}.aside`, outcome: 'done' },
    ])
    const { body } = await service.call('send', { to: user, session: 'work', text: 'still here' })
    expect(body).toMatchObject({ status: 'accepted', session: 'work' })
    await service.phone('say', { text: 'good' })
    expect((await service.call('recv', { timeout: 10 })).body).toMatchObject([
      { text: 'good', session: 'work' },
    ])
  },
)

test('only such a store is set aside, when nobody uses the directory, and in the place of no other file', async () => {
  const dir = await copied()
  const path = join(dir, 'messages.db')
  const aside = async () => {
    const { status, stderr } = await run(dir, ['store', 'aside'], false)
    return [status, stderr, existsSync(`${path}.aside`)]
  }
  const other = expect.stringContaining('no version of svc before the first release wrote')
  expect(await aside()).toEqual([2, other, false])
  const db = written(path, 31, 'WAL')
  expect(await aside()).toEqual([1, expect.stringContaining('another process uses'), false])
  db.close()
  await writeFile(`${path}.aside`, 'mine')
  expect(await aside()).toEqual([1, expect.stringContaining('is there already'), true])
  expect(readFileSync(`${path}.aside`, 'utf8')).toBe('mine')
  await rm(path)
  expect(await aside()).toEqual([1, expect.stringContaining('there is no messages.db'), true])
})

test('moving in from another program does not touch it either', async () => {
  for (const { form, refusal } of forms) {
    const dir = await copied()
    await rm(join(dir, 'sandbox'), { recursive: true })
    written(join(dir, 'messages.db'), form, 'WAL').close()
    const from = join(dir, '../old')
    await weiLinkSession(from, 'shop', { bot: 'old@im.bot' })
    const before = contents(dir)
    const { status, stdout, stderr } = await run(dir, ['migrate', 'weilink', '--from', from], false)
    expect([status, `${stdout}${stderr}`]).toEqual([1, expect.stringContaining(refusal)])
    expect(contents(dir)).toEqual(before)
  }
})

test('the world of a newer sandbox is refused, and left as it is', async () => {
  for (const journal of ['WAL', 'DELETE']) {
    const dir = await copied()
    written(join(dir, 'sandbox/world.db'), newer.form, journal).close()
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

test('a newer store whose secrets are encrypted is refused with its key and without, and left as it is', async () => {
  const dir = await copied()
  const key = join(dir, '../secret.key')
  expect((await run(dir, ['secrets', 'on', '--secret-key-file', key])).status).toBe(0)
  written(join(dir, 'messages.db'), newer.form, 'WAL').close()
  const before = contents(dir)
  for (const withKey of [[], ['--secret-key-file', key]])
    for (const args of [['sessions'], ['openapi', '--no-banner', ...free], ['secrets', 'off']]) {
      const { status, stderr } = await run(dir, [...args, ...withKey])
      expect([args, status, stderr]).toEqual([args, 1, expect.stringContaining(String(newer.form))])
    }
  expect(contents(dir)).toEqual(before)
})
