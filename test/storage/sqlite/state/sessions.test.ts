import { expect } from 'bun:test'
import {
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  rmdir,
  stat,
  unlink,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import { statOf } from '../../../../src/platform/files.ts'
import { failure } from '../../../support/failure.ts'
import { given } from '../../../support/given.ts'
import { bot } from '../../support.ts'
import { openTestState } from './support.ts'

const it = given(openTestState)

it('if no default session was chosen, a new login keeps the oldest as default', async t => {
  await t.sessions.save('first', bot('a', { created_at: 1 }))
  await rm(join(t.dir, '.default_session'))
  await t.sessions.save('second', bot('b', { created_at: 2 }))
  expect(await t.sessions.getDefaultName()).toBe('first')
})

it('a new login of the same bot keeps unknown fields, and no marks', async t => {
  await t.sessions.save('s', bot('b', { user_id: 'me' }))
  const path = join(t.dir, 's', 'token.json')
  await writeFile(
    path,
    JSON.stringify({ ...JSON.parse(await readFile(path, 'utf8')), mood: 'good', expired_at: 5 }),
  )
  await t.sessions.save('s', bot('b', { token: 'b@im.bot:new' }))
  const fields = JSON.parse(await readFile(path, 'utf8'))
  expect(fields).toMatchObject({ mood: 'good', token: 'b@im.bot:new' })
  expect(fields.expired_at).toBeUndefined()
  // Nobody said that the same person scanned again.
  expect(fields.user_id).toBeUndefined()
})

it('a damaged token.json is set aside, logged once, and repaired by a login; its contexts are not trusted', async t => {
  await t.sessions.save('s', bot('b'))
  await t.sessions.save('fine', bot('f'))
  const inbound = [{ user_id: 'u', token: 't', received_at: 1000 }]
  await t.commitBatch({ session: 's', token: bot('b').token, cursorFrom: '', cursorTo: 'c', inbound })
  await writeFile(join(t.dir, 's', 'token.json'), '{"bot_id": "b@im')
  t.sessions.markWritten()
  const seen = async () => [...(await t.sessions.list())].sort((a, b) => (a.name < b.name ? -1 : 1))
  expect(await seen()).toMatchObject([{ name: 'fine' }, { name: 's', damaged: true }])
  t.sessions.markWritten()
  expect(await seen()).toMatchObject([{ name: 'fine' }, { name: 's', damaged: true }])
  expect(t.lines.filter(line => line.includes('ERROR'))).toHaveLength(1)
  const aside = (await readdir(join(t.dir, 's'))).find(name => name.includes('corrupt'))!
  expect(await readFile(join(t.dir, 's', aside), 'utf8')).toBe('{"bot_id": "b@im')
  await t.sessions.save('s', bot('new'))
  expect((await t.sessions.get('s'))?.bot?.bot_id).toBe('new@im.bot')
  expect((await t.contexts.find('s', 'u'))?.token).toBeUndefined()
})

it('an unreadable token.json is logged once, and again when it happens again', async t => {
  const told = () => t.lines.filter(line => / WARNING .* folder=s /.test(line)).length
  const path = join(t.dir, 's', 'token.json')
  for (const times of [1, 2]) {
    await t.sessions.save('s', bot('b'))
    expect(await t.sessions.get('s')).toMatchObject({ bot: bot('b') })
    await unlink(path)
    await mkdir(path)
    for (let looks = 0; looks < 3; looks++) {
      expect(await t.sessions.get('s')).toMatchObject({
        name: 's',
        unreadable: { code: 'store_unavailable' },
      })
    }
    expect(told()).toBe(times)
    await rmdir(path)
  }
})

it('a login between finding a damaged file and setting it aside is kept', async t => {
  await t.sessions.save('s', bot('b'))
  await writeFile(join(t.dir, 's', 'token.json'), '{')
  t.sessions.markWritten()
  await t.lock.lock()
  const listed = t.sessions.list()
  await writeFile(join(t.dir, 's', 'whole'), JSON.stringify(bot('new')))
  await rename(join(t.dir, 's', 'whole'), join(t.dir, 's', 'token.json'))
  await t.lock.unlock()
  expect(await listed).toMatchObject([{ name: 's', bot: { bot_id: 'new@im.bot' } }])
  expect((await readdir(join(t.dir, 's'))).filter(name => name.includes('corrupt'))).toEqual([])
})

it('a logout removes all credentials, including set-aside files and unfinished writes, and no folder tree', async t => {
  await t.sessions.save('s', bot('b'))
  const path = (name: string) => join(t.dir, 's', name)
  await writeFile(path('token.json.corrupt-1234567890123'), 'secret')
  await writeFile(path('token.json.0123456789ab.tmp'), 'secret')
  await mkdir(path('photos'))
  await writeFile(path('photos/a.jpg'), 'mine')
  await t.sessions.remove('s')
  expect(await readdir(join(t.dir, 's'))).toEqual(['photos'])
  expect(await t.sessions.list()).toEqual([])
  expect(await failure(t.sessions.remove('s'))).toMatchObject({ code: 'session_not_found' })
})

it('a logout that cannot remove the credentials says so', async t => {
  await t.sessions.save('s', bot('b'))
  // A folder in the place of a file cannot be unlinked, by nobody.
  await mkdir(join(t.dir, 's', 'token.json.corrupt-1'))
  expect(await failure(t.sessions.remove('s'))).toMatchObject({ code: 'store_unavailable' })
})

it('a rename replaces no foreign folder or file, only the rest of a killed logout', async t => {
  await t.sessions.save('s', bot('b'))
  await mkdir(join(t.dir, 'mine'))
  await writeFile(join(t.dir, 'mine', 'a.txt'), 'x')
  await writeFile(join(t.dir, 'file'), 'x')
  await mkdir(join(t.dir, 'left'))
  await writeFile(join(t.dir, 'left', 'contexts.json'), '{}')
  for (const name of ['mine', 'file']) {
    expect(await failure(t.sessions.rename('s', name))).toMatchObject({ code: 'session_exists' })
  }
  expect(await readFile(join(t.dir, 'mine', 'a.txt'), 'utf8')).toBe('x')
  await t.sessions.rename('s', 'left')
  expect(await t.sessions.list()).toMatchObject([{ name: 'left', bot: { bot_id: 'b@im.bot' } }])
})

it('nothing outside the directory is read, and folders without a session name are ignored', async t => {
  await mkdir(join(t.dir, 'base'))
  await writeFile(join(t.dir, 'token.json'), '{ damaged')
  await using inner = await openTestState({ dir: join(t.dir, 'base') })
  expect(await inner.sessions.get('..')).toBeUndefined()
  expect(await readFile(join(t.dir, 'token.json'), 'utf8')).toBe('{ damaged')
  await mkdir(join(t.dir, 'a b'))
  await writeFile(join(t.dir, 'a b', 'token.json'), JSON.stringify(bot('x')))
  expect(await t.sessions.list()).toEqual([])
  t.sessions.markWritten()
  await t.sessions.list()
  expect(t.lines.filter(line => line.includes('folder ignored'))).toHaveLength(1)
})

it('a file replaced by one with the same size and time is noticed', async t => {
  await t.sessions.save('s', bot('b'))
  const path = join(t.dir, 's', 'token.json')
  const then = new Date(1_700_000_000_000)
  await utimes(path, then, then)
  expect((await t.sessions.get('s'))?.bot?.cursor).toBe('')
  await writeFile(`${path}.new`, (await readFile(path, 'utf8')).replace('secret', 'SECRET'))
  await utimes(`${path}.new`, then, then)
  await rename(`${path}.new`, path)
  t.sessions.markWritten()
  expect((await t.sessions.get('s'))?.bot?.token).toBe('b@im.bot:SECRET')
})

it('a thousand sessions are listed in milliseconds, in private files', async t => {
  for (let i = 0; i < 1000; i++) {
    await mkdir(join(t.dir, `s${i}`), { mode: 0o700 })
    await writeFile(join(t.dir, `s${i}`, 'token.json'), JSON.stringify(bot(`b${i}`)), { mode: 0o600 })
  }
  expect(await t.sessions.list()).toHaveLength(1000)
  const took: number[] = []
  for (let tries = 0; tries < 5; tries++) {
    t.sessions.markWritten()
    const from = performance.now()
    expect(await t.sessions.list()).toHaveLength(1000)
    took.push(performance.now() - from)
  }
  expect(Math.min(...took)).toBeLessThan(500)
  await t.sessions.save('new', bot('n'))
  const inbound = [{ user_id: 'u', token: 't', received_at: 1000 }]
  await t.commitBatch({ session: 'new', token: bot('n').token, cursorFrom: '', cursorTo: 'c', inbound })
  for (const name of ['token.json', 'contexts.json'])
    expect((await stat(join(t.dir, 'new', name))).mode & 0o777).toBe(0o600)
  expect((await stat(join(t.dir, 'new'))).mode & 0o777).toBe(0o700)
})

it('old incomplete files of killed writers are removed; new, foreign and set-aside files stay', async t => {
  await t.sessions.save('work', bot('work'))
  const left = (name: string) => `${name}.0123456789ab.tmp`
  const old = [left('.default_session'), `work/${left('token.json')}`, `work/${left('contexts.json')}`]
  old.push(left('.poll.lock'), left('.data.lock'), left('.restoring'), left('api_token'), left('.mcp_key'))
  old.push(`${left('messages.db')}-journal`)
  const others = [
    `work/token.json.ba9876543210.tmp`,
    'work/notes.0123456789ab.tmp',
    'work/token.json.corrupt-1',
    'work/token.json',
  ]
  for (const name of [...old, ...others])
    if (name !== 'work/token.json') await writeFile(join(t.dir, name), '')
  for (const name of [...old, ...others.slice(1)])
    await utimes(join(t.dir, name), 1_700_000_000, 1_700_000_000)
  expect(await t.sessions.sweep(Date.now() - 60 * 60_000)).toBe(old.length)
  const names = await readdir(t.dir, { recursive: true })
  for (const name of old) expect(names).not.toContain(name)
  for (const name of others) expect(names).toContain(name)
})

it('a missing data directory gives store_unavailable with a hint, for reads and writes', async t => {
  await t.sessions.save('work', bot('work'))
  await rm(t.dir, { recursive: true })
  const gone = { code: 'store_unavailable', hint: expect.any(String) }
  await new Promise(resolve => setImmediate(resolve))
  expect(await failure(t.sessions.list())).toMatchObject(gone)
  expect(await failure(t.sessions.get('work'))).toMatchObject(gone)
  expect(await failure(t.sessions.setDefault('work'))).toMatchObject({ code: 'store_unavailable' })
  expect(await failure(t.sessions.save('new', bot('new')))).toMatchObject({ code: 'store_unavailable' })
  // Nothing is put into its place.
  expect(await statOf(t.dir)).toBeUndefined()
})
