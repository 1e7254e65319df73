/** People have names: given here, shown with their messages, taken as `to`. */
import { expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { mkdir, rename, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { viewFor } from '../../src/gateway/scoped.ts'
import { presets, type Scope } from '../../src/model/access.ts'
import { createDirectCall } from '../../src/model/call.ts'
import type { SvcError } from '../../src/model/error.ts'
import { owner } from '../../src/model/principal.ts'
import { markRead } from '../../src/operations/conversations.ts'
import { failure } from '../support/failure.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'

/** The first user of a session has written to it. */
async function written(t: TestGateway, session = 'default'): Promise<string> {
  const { bot_id, user_id } = t.bots.get(session)!
  await t.sandbox.say(`hello ${session}`, { from: user_id, to: bot_id })
  await t.receive(1)
  await t.until('known', async () =>
    (await t.gateway.accounts.listUsers(session)).some(one => one.user_id === user_id),
  )
  return user_id
}

const refused = (field: string) => ({ code: 'invalid_arguments', details: { errors: [{ field }] } })

test('a name stands with the user, with each message, and with what waits', async () => {
  await using t = await withGateway()
  const id = await written(t)
  expect(await t.gateway.users.name({ user_id: id, name: '  Aunt   May ' })).toMatchObject({
    ...{ session: 'default', user_id: id, name: 'Aunt May' },
    remaining: 10,
  })
  expect(await t.gateway.users.list()).toMatchObject([{ session: 'default', user_id: id, name: 'Aunt May' }])
  expect((await t.gateway.accounts.listWithUsers())[0]?.users).toMatchObject([{ name: 'Aunt May' }])
  expect((await t.gateway.history.page({ limit: 1, offset: 0 })).messages).toMatchObject([
    { text: 'hello default', from_user: id, user_name: 'Aunt May' },
  ])
  await t.sandbox.say('again')
  expect(await t.receive(1)).toMatchObject([{ text: 'again', user_name: 'Aunt May' }])
  // A text like a question mark answers nobody: the quota is used up first.
  for (let count = 0; count < 10; count++) await t.send({ to: id, text: `${count}` })
  await t.send({ to: 'aunt may', text: 'later', when_closed: 'queue' })
  expect(await t.gateway.outbox.list(owner)).toMatchObject([{ to_user: id, user_name: 'Aunt May' }])
  const [sent] = (await t.gateway.history.page({ limit: 1, offset: 0 })).messages
  expect(sent).toMatchObject({ direction: 'sent', to_user: id, user_name: 'Aunt May' })

  expect(await t.gateway.users.name({ user_id: 'AUNT MAY', name: '' })).not.toHaveProperty('name')
  const after = (await t.gateway.history.page({ limit: 1, offset: 0 })).messages
  expect(after[0]).not.toHaveProperty('user_name')
})

test('an id is taken as people paste it, wherever a user is named; capitals are those of the known user', async () => {
  await using t = await withGateway()
  const { conversations, events, history, keys, outbox, people, users, webhooks } = t.gateway
  const id = await written(t)
  const calls: Record<string, (user: string) => Promise<unknown>> = {
    send: async to => (await t.send({ to, text: 'x' })).status,
    typing: async to => (await t.send({ to, typing: true })).status,
    foresee: to => t.gateway.sender.foresee({ to, media: [], text: 'x' }, createDirectCall()),
    history: async user_id => (await history.page({ user_id, limit: 9, offset: 0 })).messages.at(-1)?.text,
    users: async user_id => (await users.list({ user_id })).map(one => one.user_id),
    name: async user_id => (await users.name({ user_id, name: 'May' })).user_id,
    filter: async user => (await events.resolveFilter({ user })).user,
    outbox: async user_id => (await outbox.list(owner, { user_id })).length,
    webhook: async user => (await webhooks.add(owner, { url: 'https://example.com', user })).user,
    key: async user =>
      (await keys.add({ name: crypto.randomUUID(), can: ['read'], users: [user] }, owner)).users,
    mark: async user =>
      markRead.run(t.gateway, { session: 'default', user_id: user, up_to: 1 }, createDirectCall()),
  }
  for (const [name, call] of Object.entries(calls)) {
    const plain = await call(id)
    for (const pasted of [
      `“${id}”`,
      ` <mailto:${id}>,\u200b`,
      id.replace('@', '＠'),
      id.toUpperCase(),
      id.toLowerCase(),
    ]) {
      t.clock.advance(60_000)
      expect([name, pasted, await call(pasted)]).toEqual([name, pasted, plain])
    }
    expect([name, await failure(call(`"${id} x"`))]).toMatchObject([name, { code: 'invalid_arguments' }])
  }
  expect(await conversations.list({ limit: 9 })).toMatchObject([{ user_id: id, unread: 0 }])
  expect((await people.forget(`(${id.toUpperCase()})`)).messages).toBeGreaterThan(0)
  expect(await users.list()).toEqual([])
})

test('an id that nobody has stays as it is, and a key compares with its users only', async () => {
  await using t = await withGateway()
  const id = await written(t)
  const { users } = t.gateway
  expect((await t.gateway.events.resolveFilter({ user: 'New@x' })).user).toBe('New@x')
  const other = viewFor(t.gateway, { kind: 'key', id: 'k', grant: { rights: presets.read, users: ['me@x'] } })
  expect(await failure(other.users.list({ user_id: id.toUpperCase() }))).toMatchObject(refused('user_id'))
  expect(await users.list({ user_id: id.toUpperCase() })).toHaveLength(1)
})

for (const file of ['contexts.json', 'token.json'])
  test(`a session whose ${file} cannot be read: no login, nobody's users, and a logout keeps its files`, async () => {
    await using t = await withGateway({ sessions: ['default', 'other'] })
    const id = await written(t)
    const other = await written(t, 'other')
    const path = join(t.dir, 'default', file)
    // The log has it earlier: a batch that is fenced off in between takes it back.
    await t.until('the file has the user', async () => t.other.contexts.read('default').has(id))
    // Until a poll has written it for the last time, it may be there again at once.
    await t.until('a folder stands in its place', async () => {
      if (!existsSync(path)) return false
      await rename(path, `${path}.away`)
      return await mkdir(path).then(
        () => true,
        error => {
          if (error.code === 'EEXIST') return false
          throw error
        },
      )
    })
    await t.until('it is told', async () => (await t.gateway.accounts.list())[0]?.status === 'disconnected')
    const unreadable = { code: 'store_unavailable', message: expect.stringContaining(file) }
    const { accounts, users } = t.gateway
    // Several may be told with one and the same error, which Bun's matcher writes into.
    const isTold = async (call: Promise<unknown>) => {
      const error = await failure(call)
      expect({ ...(error as SvcError), message: (error as SvcError).message }).toMatchObject(unreadable)
    }
    for (const call of [t.send({ to: id, text: 'x', session: 'default' }), accounts.logout('default')])
      await isTold(call)
    if (file === 'contexts.json') {
      for (const filter of [{ session: 'default' }, { user_id: id }]) await isTold(users.list(filter))
    }
    expect((await users.list()).map(({ user_id }) => user_id)).toContain(other)
    expect((await accounts.list())[0]?.poll_error).toContain(file)
    await rmdir(path)
    await rename(`${path}.away`, path)
    await t.until('it works again', async () => (await t.gateway.accounts.list())[0]?.status === 'connected')
    expect(await users.list({ session: 'default' })).toMatchObject([{ user_id: id }])
    expect((await t.send({ to: id, text: 'x' })).status).toBe('accepted')
  })

test('capitals are also those of a user who is only in the log, as far as the caller sees it', async () => {
  await using t = await withGateway()
  const { history, accounts } = t.gateway
  const id = await written(t)
  const { bot_id } = t.bots.get('default')!
  await accounts.logout('default')
  const found = async (scope: Scope) =>
    (await history.page({ user_id: id.toUpperCase(), scope, limit: 9, offset: 0 })).messages.length
  expect(await found({})).toBeGreaterThan(0)
  expect(await found({ bots: [bot_id] })).toBeGreaterThan(0)
  expect(await found({ bots: ['another@im.bot'] })).toBe(0)
})

test('send and history take a name of one user, whatever its capitals and composition', async () => {
  await using t = await withGateway()
  const id = await written(t)
  await t.gateway.users.name({ user_id: id, name: 'Zoe\u0308 妈' })
  expect(await t.send({ to: 'ZO\u00cb 妈', text: 'hi' })).toMatchObject({ success: true })
  const page = await t.gateway.history.page({ user_id: 'zoë 妈', limit: 5, offset: 0 })
  expect(page.messages.map(({ text }) => text)).toEqual(['hi', 'hello default'])
  expect(await failure(t.send({ to: 'nobody', text: 'hi' }))).toMatchObject(refused('to'))
  expect(await failure(t.gateway.users.list({ user_id: 'nobody' }))).toMatchObject(refused('user_id'))
})

test('a key stands for the person who had the name when it was used', async () => {
  await using t = await withGateway()
  const id = await written(t)
  await t.gateway.users.name({ user_id: id, name: 'Mum' })
  const call = { to: 'Mum', text: 'once', idempotency_key: 'k' }
  const first = await t.send(call)
  expect(await t.send({ ...call, to: id })).toEqual({ ...first, repeated: true })
  const other = await t.sandbox.addUser('other')
  await t.sandbox.say('me', { from: other, to: t.bots.get('default')!.bot_id })
  await t.receive(1)
  await t.gateway.users.name({ user_id: id, name: '' })
  await t.until('named', () =>
    t.gateway.users.name({ user_id: other, name: 'Mum' }).then(
      () => true,
      () => false,
    ),
  )
  expect(await failure(t.send(call))).toMatchObject({ code: 'idempotency_conflict' })
})

test('a name is one user’s of a session, and no id', async () => {
  await using t = await withGateway({ sessions: ['one', 'two'] })
  const one = await written(t, 'one')
  const two = await written(t, 'two')
  const other = await t.sandbox.addUser('other')
  await t.sandbox.say('me too', { from: other, to: t.bots.get('one')!.bot_id })
  await t.receive(1)
  await t.until('known', async () => (await t.gateway.accounts.listUsers('one')).length === 2)
  const name = (user_id: string, given: string, session?: string) =>
    t.gateway.users.name({ user_id, name: given, ...(session !== undefined && { session }) })
  await name(one, 'Éva')
  for (const bad of ['e\u0301VA', 'a@b', 'a＠b', 'two\nlines', 'x'.repeat(65), '\u{1F468}'.repeat(65)])
    expect([bad, await failure(name(other, bad))]).toMatchObject([bad, refused('name')])
  // Its own name in other capitals is no other user's.
  expect(await name(one, 'ÉVA')).toMatchObject({ name: 'ÉVA' })
  expect(await failure(name(one, 'Bob', 'two'))).toMatchObject({ code: 'not_found' })
  expect(await failure(name('stranger@im.wechat', 'Bob'))).toMatchObject({ code: 'not_found' })
  expect(await failure(name(one, 'Bob', 'nowhere'))).toMatchObject({ code: 'session_not_found' })

  // In another session it may be somebody else: then the session says who is meant.
  const first = { session: 'one', user_id: one }
  expect(await name(two, 'éva')).toMatchObject({ session: 'two', namesakes: [first] })
  expect(await name(one, 'Eve')).not.toHaveProperty('namesakes')
  await name(one, 'ÉVA')
  const several = await failure(t.send({ to: 'éva', text: 'x' }))
  expect(several).toMatchObject(refused('to'))
  const users = [first, { session: 'two', user_id: two }]
  expect(several).toMatchObject({ details: { users: expect.arrayContaining(users) } })
  expect(several).toMatchObject({ advice: { next: { action: 'say which user' } } })
  expect(await t.send({ to: 'éva', session: 'TWO', text: 'x' })).toMatchObject({
    session: 'two',
    success: true,
  })
  // Of a session that is logged out nobody is meant as long as there is another.
  await t.gateway.accounts.logout('two')
  expect(await t.send({ to: 'éva', text: 'x' })).toMatchObject({ session: 'one', success: true })
  // Where all are logged out, to say which one would not help.
  await t.gateway.accounts.logout('one')
  const next = { action: 'login' }
  expect(await failure(t.send({ to: 'éva', text: 'x' }))).toMatchObject({ advice: { next } })
})

test('a name survives a logout, follows a rename of the session, and is seen by every process', async () => {
  await using t = await withGateway({ sessions: ['old'] })
  const id = await written(t, 'old')
  await t.gateway.users.name({ user_id: id, name: 'Mum' })
  await t.gateway.accounts.logout('old')
  const newest = async () => (await t.gateway.history.page({ limit: 1, offset: 0 })).messages[0]
  expect(await newest()).toMatchObject({ user_name: 'Mum' })
  expect(await t.gateway.users.name({ user_id: id, name: 'Mother', session: 'OLD' })).toMatchObject({
    name: 'Mother',
  })
  await t.connect('old', id)
  await t.until('it is polled', () => {
    t.clock.advance(1000)
    return t.sandbox.world.core.stats.polls_now > 0
  })
  await written(t, 'old')
  expect(await t.gateway.users.list({ session: 'old' })).toMatchObject([{ user_id: id, name: 'Mother' }])
  await t.gateway.accounts.rename('old', 'new')
  expect(await t.gateway.users.list({ session: 'new' })).toMatchObject([{ name: 'Mother' }])
  expect(await newest()).toMatchObject({ session: 'new', user_name: 'Mother' })
  await using beside = await withGateway({ sandbox: t.sandbox, dir: t.dir, sessions: [], start: false })
  await beside.gateway.users.name({ user_id: id, name: 'Mama' })
  expect(await newest()).toMatchObject({ user_name: 'Mama' })
  expect(
    await t.gateway.sender.send({ to: 'mama', text: 'hi', media: [] }, createDirectCall()),
  ).toMatchObject({
    success: true,
  })
})
