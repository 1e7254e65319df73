import { expect, test } from 'bun:test'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { folderOfTest } from '../../../support/folder.ts'
import { given } from '../../../support/given.ts'
import { knownUsers } from '../../../support/known-users.ts'
import { until } from '../../../support/until.ts'
import { bot, message, outgoing, sending } from '../../support.ts'
import { insertInto, openDirectory, openStore } from '../support.ts'
import { inOther, openTestState, type TestState } from './support.ts'

async function withSession(): Promise<TestState> {
  const t = await openTestState()
  await t.sessions.save('s', bot('b', { cursor: 'c0' }))
  return t
}
const it = given(withSession)

let cursors = 0
const commit = (t: TestState, inbound: Parameters<TestState['commitBatch']>[0]['inbound']) => {
  const from = t.sessions.readToken('s')!.bot.cursor
  return t.commitBatch({
    session: 's',
    token: bot('b').token,
    cursorFrom: from,
    cursorTo: `n${++cursors}`,
    inbound,
  })
}

/** As version 0.1 left it, which counted here. */
const used = async (t: TestState, used: number) => {
  const path = join(t.dir, 's', 'contexts.json')
  const fields = JSON.parse(await readFile(path, 'utf8'))
  fields.u.used = used
  await writeFile(path, JSON.stringify(fields))
}

it('the same message again neither opens the window nor renews the quota, but its newer token counts', async t => {
  await commit(t, [{ user_id: 'u', token: 't1', received_at: 1000 }])
  await used(t, 7)
  await commit(t, [{ user_id: 'u', token: 't1', received_at: 1000 }])
  expect(await t.contexts.find('s', 'u')).toMatchObject({ used: 7, received_at: 1000, token: 't1' })
  await commit(t, [{ user_id: 'u', token: 't2', received_at: 1000 }])
  expect(await t.contexts.find('s', 'u')).toMatchObject({ used: 7, received_at: 1000, token: 't2' })
})

it('an older message that comes late changes nothing', async t => {
  await commit(t, [{ user_id: 'u', token: 't2', received_at: 2000 }])
  await used(t, 3)
  await commit(t, [{ user_id: 'u', token: 't1', received_at: 1000 }])
  expect(await t.contexts.find('s', 'u')).toMatchObject({ used: 3, received_at: 2000, token: 't2' })
})

it('a message without a time that was stored before brings its token and nothing else', async t => {
  await commit(t, [{ user_id: 'u', token: 't1', received_at: 1000 }])
  await used(t, 3)
  await commit(t, [{ user_id: 'u', token: 't2', received_at: 9000, again: true }])
  expect(await t.contexts.find('s', 'u')).toMatchObject({ used: 3, received_at: 1000, token: 't2' })
  // After a crash between store and contexts it is all there is.
  await commit(t, [{ user_id: 'new', token: 't3', received_at: 9000, again: true }])
  expect(await t.contexts.find('s', 'new')).toMatchObject({ received_at: 9000, token: 't3' })
})

it('of two messages of one moment in a batch the later one counts', async t => {
  await commit(t, [
    { user_id: 'u', token: 't1', received_at: 1000 },
    { user_id: 'u', token: 't2', received_at: 1000 },
  ])
  expect(await t.contexts.find('s', 'u')).toMatchObject({ token: 't2', used: 0 })
})

it('an imported context with a lower-case id moves to the real id with the first message', async t => {
  await commit(t, [{ user_id: 'met@im.wechat', token: 'kept', received_at: 500 }])
  const path = join(t.dir, 's', 'contexts.json')
  const fields = JSON.parse(await readFile(path, 'utf8'))
  await writeFile(
    path,
    JSON.stringify({ ...fields, 'oab@im.wechat': { token: 'old', used: 0, first_seen: 0 } }),
  )
  await commit(t, [
    { user_id: 'oAb@im.wechat', received_at: 1000 },
    // One who has written under the other id is somebody else.
    { user_id: 'Met@im.wechat', token: 'new', received_at: 1000 },
  ])
  expect(Object.fromEntries(await knownUsers(t.contexts, 's'))).toEqual({
    'met@im.wechat': { token: 'kept', received_at: 500, used: 0, first_seen: 500 },
    'oAb@im.wechat': { token: 'old', received_at: 1000, used: 0, first_seen: 1000 },
    'Met@im.wechat': { token: 'new', received_at: 1000, used: 0, first_seen: 1000 },
  })
})

it('odd user ids and fields of a later version survive', async t => {
  const odd = ['__proto__', 'constructor', '0', 'a/b\\c"\n', '中文@im.wechat', '']
  await commit(
    t,
    odd.map(user_id => ({ user_id, token: `t ${user_id}`, received_at: 1000 })),
  )
  const path = t.contexts && join(t.dir, 's', 'contexts.json')
  const fields = JSON.parse(await readFile(path, 'utf8'))
  fields.later = { ...fields['0'], mood: 'good' }
  fields.bare = 'token alone'
  fields.form = 7
  await writeFile(path, JSON.stringify(fields))
  const users = await knownUsers(t.contexts, 's')
  expect(new Set(users.keys())).toEqual(new Set([...odd, 'later', 'bare']))
  for (const user of odd) expect(users.get(user)).toMatchObject({ token: `t ${user}` })
  expect(users.get('bare')).toMatchObject({ token: 'token alone' })
  const kept = async () => {
    const { later, form } = JSON.parse(await readFile(path, 'utf8'))
    return [later?.mood, form]
  }
  expect(await kept()).toEqual(['good', 7])
  await commit(t, [{ user_id: 'later', token: 'newer', received_at: 2000 }])
  expect(await kept()).toEqual(['good', 7])
  // Of another bot nothing is known of the users but who they are.
  await t.sessions.save('s', bot('other'))
  expect(await kept()).toEqual([undefined, 7])
})

test('a send continues the count of version 0.1 in the file, and restarts it from a message that is only there', async () => {
  const dir = folderOfTest()
  await using storage = await openDirectory(dir)
  await storage.state.sessions.save('s', bot('b'))
  const file = (u: object) => writeFile(join(dir, 's', 'contexts.json'), JSON.stringify({ u }))
  const send = () => sending(storage.store, 's', 'b@im.bot', outgoing(crypto.randomUUID()))
  await file({ token: 'old', received_at: 1000, used: 4, last_sent_at: 900, first_seen: 1 })
  const counter = { received_at: 1000, used: 5, last_sent_at: 900 }
  expect(await send()).toMatchObject({ token: 'old', counter })
  expect(await send()).toMatchObject({ counter: { used: 6 } })
  // The file decides when the user wrote. What was sent since then stays counted.
  await file({ token: 'old', received_at: 500, used: 0, first_seen: 1 })
  expect(await send()).toMatchObject({ counter: { received_at: 500, used: 7 } })
  await file({ token: 'new', received_at: 2000, used: 0, first_seen: 1 })
  expect(await send()).toMatchObject({ token: 'new', counter: { received_at: 2000, used: 1 } })
})

it('times with fractions of a millisecond are accepted', async t => {
  const u = { token: 't', used: 2, received_at: 1500.25, first_seen: 1000.5, last_sent_at: 1600.75 }
  await writeFile(join(t.dir, 's', 'contexts.json'), JSON.stringify({ u }))
  const whole = { ...u, received_at: 1500, first_seen: 1000, last_sent_at: 1600 }
  expect(await t.contexts.find('s', 'u')).toEqual(whole)
})

it('a damaged contexts.json is set aside by the next write, and the rest works', async t => {
  const path = join(t.dir, 's', 'contexts.json')
  for (const text of ['{"u": ', '[]', 'null', '']) {
    await writeFile(path, text)
    // Looks of one turn of the event loop are one look.
    await new Promise(resolve => setImmediate(resolve))
    expect((await knownUsers(t.contexts, 's')).size).toBe(0)
    await commit(t, [{ user_id: 'u', token: 't', received_at: 1000 }])
    expect((await t.contexts.find('s', 'u'))?.token).toBe('t')
    const aside = (await readdir(join(t.dir, 's'))).filter(name => name.startsWith('contexts.json.corrupt-'))
    const texts = await Promise.all(aside.map(name => readFile(join(t.dir, 's', name), 'utf8')))
    expect(texts).toContain(text)
  }
  expect(t.lines.filter(line => line.includes('ERROR'))).toHaveLength(4)
})

it('a logged-out or renamed session gets no new contexts file', async t => {
  await commit(t, [{ user_id: 'u', received_at: 1000 }])
  const late = (session: string) =>
    t.commitBatch({
      session,
      token: bot('b').token,
      cursorFrom: 'x',
      cursorTo: 'y',
      inbound: [{ user_id: 'u', received_at: 2000 }],
    })
  await t.sessions.rename('s', 'other')
  expect(await late('s')).toBe('gone')
  await t.sessions.remove('other')
  expect(await late('other')).toBe('gone')
  expect(await readdir(t.dir)).toEqual(['.data.lock'])
  // Nor where a foreign file has kept the folder.
  await t.sessions.save('kept', bot('b'))
  await writeFile(join(t.dir, 'kept', 'note.txt'), 'mine')
  await t.sessions.remove('kept')
  expect(await late('kept')).toBe('gone')
  expect(await readdir(join(t.dir, 'kept'))).toEqual(['note.txt'])
})

test('no update of three processes is lost', async () => {
  await using t = await openTestState()
  const { dir } = t
  await t.sessions.save('s', bot('b'))
  const rounds = 60
  // Whoever polled meanwhile has moved the cursor: then its batch is committed upon the new one.
  const rush = `async (sessions, commitBatch, who) => {
    for (let i = 0; i < ${rounds}; ) {
      const cursorFrom = sessions.readToken('s').bot.cursor
      const inbound = [{ user_id: who + i, received_at: 1000 }]
      const batch = { session: 's', token: ${JSON.stringify(bot('b').token)}, cursorFrom, cursorTo: who + i, inbound }
      if ((await commitBatch(batch)) === 'moved') i++
    }
  }`
  const others = [1, 2].map(who => inOther(dir, `await (${rush})(sessions, commitBatch, 'p${who}.')`))
  const here = new Function(`return ${rush}`)() as (...args: unknown[]) => Promise<void>
  await here(t.sessions, t.commitBatch, 'here.')
  await Promise.all(others.map(child => child.exited))
  expect((await knownUsers(t.contexts, 's')).size).toBe(3 * rounds)
})

it('ten thousand users are read and changed in milliseconds', async t => {
  await commit(
    t,
    Array.from({ length: 10_000 }, (_, i) => ({
      user_id: `o9cq80${i}@im.wechat`,
      token: 'AARz'.repeat(40),
      received_at: 1000,
    })),
  )
  const took: number[] = []
  for (let i = 0; i < 10; i++) {
    const from = performance.now()
    await commit(t, [{ user_id: 'o9cq805@im.wechat', received_at: 2000 + i }])
    took.push(performance.now() - from)
  }
  // Some 35 ms each on the machine this was written on.
  expect(Math.min(...took)).toBeLessThan(500)
})

it('sessions that know a user: from existing files, from new messages, and after a login of another bot', async bare => {
  await bare.sessions.save('other', bot('other'))
  await commit(bare, [{ user_id: 'u', token: 't', received_at: 1000 }])
  expect((await bare.contexts.findKnowing('u')).map(({ record }) => record.name)).toEqual(['s'])
  // With a store, which tells of what another process writes later.
  await using kept = await openStore()
  await using t = await openTestState({ dir: bare.dir, rows: kept.store })
  const { contexts } = t
  const holders = async (user: string) => (await contexts.findKnowing(user)).map(({ record }) => record.name)
  expect(await holders('u')).toEqual(['s'])
  expect(await holders('v')).toEqual([])
  await commit(t, [{ user_id: 'v', token: 't', received_at: 1000 }])
  expect(await holders('v')).toEqual(['s'])
  // A file that came with another login is read for it.
  const brought = JSON.stringify({ w: { token: 't', received_at: 1000 } })
  await t.sessions.save('other', bot('another'))
  await writeFile(join(t.dir, 'other', 'contexts.json'), brought)
  contexts.markWritten('other')
  expect(await holders('w')).toEqual(['other'])
})

test('for a user who wrote long ago the newest of several messages counts, and a repeated one removes nothing', async () => {
  await using kept = await openStore()
  await using t = await openTestState({ rows: kept.store })
  await t.sessions.save('s', bot('b', { cursor: 'c0' }))
  const old = { token: 'old', received_at: 1000, used: 0, first_seen: 500 }
  await kept.store.contexts.save('s', new Map(['u', 'v'].map(user => [user, old])))
  await commit(t, [
    { user_id: 'u', token: 'new', received_at: 3000 },
    { user_id: 'u', token: 'late', received_at: 2000 },
    { user_id: 'v', token: 'old', received_at: 1000 },
    { user_id: 'v', token: 'older', received_at: 900 },
  ])
  expect(await t.contexts.find('s', 'u')).toEqual({ ...old, token: 'new', received_at: 3000 })
  expect(await t.contexts.find('s', 'v')).toEqual(old)
  expect(await kept.store.contexts.count('s', [])).toBe(0)
})

test('users who wrote too long ago to stay in the file are not forgotten', async () => {
  await using kept = await openStore()
  await using t = await openTestState({ rows: kept.store })
  await t.sessions.save('s', bot('b', { cursor: 'c0' }))
  const old = { token: 'old', received_at: 1000, used: 0, first_seen: 500 }
  await kept.store.contexts.save('s', new Map([['u', old]]))
  const many = Array.from({ length: 600 }, (_, i) => ({
    user_id: `n${i}`,
    token: 't',
    received_at: 2000 + i,
  }))
  await commit(t, many)
  await commit(t, [
    { user_id: 'u', token: 'old', received_at: 1000 },
    { user_id: 'new', token: 'late', received_at: 900 },
  ])
  expect(await t.contexts.find('s', 'u')).toEqual(old)
  expect(await t.contexts.find('s', 'new')).toMatchObject({ token: 'late' })
  expect((await knownUsers(t.contexts, 's')).size).toBe(602)
  expect((await t.contexts.countWriters(['s'])).get('s')).toBe(602)
})

test('of a session whose file cannot be read nobody is shown, nor those who wrote long ago alone', async () => {
  await using kept = await openStore()
  await using t = await openTestState({ rows: kept.store })
  await t.sessions.save('s', bot('b', { cursor: 'c0' }))
  await kept.store.contexts.save(
    's',
    new Map([['u', { token: 'old', received_at: 1000, used: 0, first_seen: 500 }]]),
  )
  expect((await knownUsers(t.contexts, 's')).size).toBe(1)
  await mkdir(t.sessions.contextsPath('s'))
  // What was read a moment ago is not read again.
  await until('the folder is seen', 5000, async () => (await t.sessions.get('s'))?.unreadable !== undefined)
  expect((await knownUsers(t.contexts, 's')).size).toBe(0)
})

test('the context of the first message to a new bot counts before the file has it', async () => {
  await using kept = await openStore()
  await using t = await openTestState({ rows: kept.store })
  await t.sessions.save('s', bot('b', { cursor: 'c0' }))
  await commit(t, [{ user_id: 'u', token: 'former', received_at: 1000 }])
  await t.sessions.save('s', bot('other'))
  const first = message('x', { from_user: 'u', contextToken: 'new', written_at: 2000 })
  await insertInto(kept.store, [first], 's', 'other@im.bot')
  const found = { token: 'new', received_at: 2000 }
  expect(await t.contexts.find('s', 'u')).toMatchObject(found)
  expect(await t.contexts.find('s', 'u')).toMatchObject(found)
})

test('a user in both the file and the store is counted once', async () => {
  await using kept = await openStore()
  await using t = await openTestState({ rows: kept.store })
  await t.sessions.save('s', bot('b', { cursor: 'c0' }))
  await commit(t, [{ user_id: 'u', token: 't', received_at: 1000 }])
  // Of a batch whose second step is still to come.
  const batch = ['u', 'v'].map(from_user => message(from_user, { from_user, written_at: 2000 }))
  await insertInto(kept.store, batch, 's', 'b@im.bot')
  expect((await t.contexts.countWriters(['s'])).get('s')).toBe(2)
})

it('the number of writers includes a message to this process immediately, and one to another process soon', async t => {
  const writers = async () => (await t.contexts.countWriters(['s'])).get('s')
  expect(await writers()).toBe(0)
  await commit(t, [{ user_id: 'u', token: 't', received_at: 1000 }])
  expect(await writers()).toBe(1)
  const batch = { session: 's', token: bot('b').token, cursorFrom: t.sessions.readToken('s')!.bot.cursor }
  const more = { ...batch, cursorTo: 'other', inbound: [{ user_id: 'v', token: 't', received_at: 1000 }] }
  expect(await inOther(t.dir, `await commitBatch(${JSON.stringify(more)})`).exited).toBe(0)
  await until('the other is counted', 5000, async () => (await writers()) === 2)
  await t.sessions.save('s', bot('another'))
  expect(await writers()).toBe(0)
})
