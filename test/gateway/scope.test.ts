/** Histories, conversations, names and events as a caller with a scope gets them. */
import { expect, test } from 'bun:test'
import type { Gateway } from '../../src/gateway/gateway-api.ts'
import type { Scope } from '../../src/model/access.ts'
import type { Conversation, ConversationMark } from '../../src/model/conversation.ts'
import { failure } from '../support/failure.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'

/** Two accounts. Each has its own user, and both have the same other user. */
async function talk() {
  const t = await withGateway({ sessions: ['work', 'home'] })
  const [work, home] = [t.bots.get('work')!, t.bots.get('home')!]
  const friend = await t.sandbox.addUser('friend')
  for (const { user_id, bot_id } of [work, home])
    for (const from of [user_id, friend]) {
      await t.sandbox.say(`to ${bot_id}`, { from, to: bot_id })
      await t.receive(1)
    }
  for (const session of ['work', 'home'])
    await t.gateway.users.name({ user_id: friend, name: `Friend of ${session}`, session })
  await t.gateway.users.name({ user_id: home.user_id, name: 'Mum', session: 'home' })
  return { t, work, home, friend }
}

const page = ({ gateway }: TestGateway, filter: object) =>
  gateway.history.page({ limit: 10, offset: 0, ...filter })

test('a name counts only in the scope: a foreign one is an id, or none', async () => {
  const { t, work, home, friend } = await talk()
  await using _ = t
  const total = async (user_id: string, scope?: Scope) => (await page(t, { user_id, scope })).total
  expect(await total('mum')).toBe(1)
  const foreign = [{ bots: [work.bot_id] }, { users: [work.user_id] }, { bots: [] }]
  for (const scope of foreign) {
    expect(await total('mum', scope)).toBe(0)
    expect(await total('nobody', scope)).toBe(0)
    expect(await total(home.user_id, scope)).toBe(0)
    const resolve = (user: string) => failure(t.gateway.events.resolveFilter({ user, scope }))
    expect(await resolve('Mum')).toEqual(await resolve('Nobody'))
  }
  expect(await total('mum', { bots: [home.bot_id] })).toBe(1)
  expect(await total('friend of home', { bots: [home.bot_id] })).toBe(1)
  const found = await t.gateway.events.resolveFilter({ user: 'mum', scope: { users: [home.user_id] } })
  expect(found.user).toBe(home.user_id)
  // The name that a message shows is that of its session.
  const { messages } = await page(t, { scope: { bots: [work.bot_id], users: [friend] } })
  expect(messages.map(({ user_name }) => user_name)).toEqual(['Friend of work'])
})

test('a foreign session is none for a filter of events; one that left messages in the scope is not', async () => {
  const { t, work, home } = await talk()
  await using _ = t
  const resolve = (session: string, scope: Scope) => t.gateway.events.resolveFilter({ session, scope })
  const scope = { bots: [work.bot_id] }
  expect((await resolve('WORK', scope)).session).toBe('work')
  await t.gateway.accounts.logout('work')
  expect((await resolve('work', scope)).session).toBe('work')
  for (const session of ['home', 'nobody'])
    expect(await failure(resolve(session, scope))).toMatchObject({ code: 'session_not_found' })
  expect((await resolve('home', { users: [work.user_id] })).session).toBe('home')
  expect((await resolve('home', { bots: [home.bot_id] })).session).toBe('home')
})

test('conversations are those of the scope, with its unread messages and rights to answer alone', async () => {
  const { t, work, home, friend } = await talk()
  await using _ = t
  const { conversations } = t.gateway
  const shown = ({ session, user_id, unread, remaining }: Conversation) =>
    [session, user_id, unread, remaining] as const
  const list = async (scope: Scope, more: object = {}) =>
    (await conversations.list({ scope, ...more })).map(shown)
  await t.until('all may be answered', async () =>
    (await t.gateway.accounts.list()).every(({ user_count }) => user_count === 2),
  )
  const ofWork: ReturnType<typeof shown>[] = [
    ['work', friend, 1, 10],
    ['work', work.user_id, 1, 10],
  ]
  expect(await list({ bots: [work.bot_id] })).toEqual(ofWork)
  expect(await list({ bots: [work.bot_id] }, { limit: 1 })).toEqual(ofWork.slice(0, 1))
  expect(await list({ bots: [work.bot_id] }, { session: 'home' })).toEqual([])
  expect(await list({ users: [friend] })).toEqual([
    ['home', friend, 1, 10],
    ['work', friend, 1, 10],
  ])
  expect(await list({ bots: [home.bot_id], users: [work.user_id] })).toEqual([])
  expect(await list({ users: [] })).toEqual([])
  const sum = async (scope?: Scope) => (await conversations.countPerHour(1, scope))[0]?.received
  expect(
    await Promise.all([sum(), sum({ bots: [work.bot_id] }), sum({ users: [friend] }), sum({ bots: [] })]),
  ).toEqual([4, 2, 2, 0])
  // Another account is logged in under the name: what it may answer is not shown.
  await t.gateway.accounts.logout('work')
  await t.connect('work', friend)
  expect(await list({ bots: [work.bot_id] })).toEqual([
    ['work', friend, 1, undefined],
    ['work', work.user_id, 1, undefined],
  ])
})

test('a mark of a person is told to that person alone, and counts for that person alone', async () => {
  const { t, work } = await talk()
  await using _ = t
  const { changes, conversations } = t.gateway
  const told: [ConversationMark, string | undefined][] = []
  const stops = [undefined, 'ann', 'bob'].map(reader =>
    changes.subscribe({ reader, marked: mark => void told.push([mark, reader]) }),
  )
  const unread = async (reader?: string) =>
    (await conversations.list({ user_id: work.user_id, reader })).map(one => one.unread)
  await conversations.markRead('work', work.user_id, 99, 'ann')
  expect([await unread(), await unread('ann')]).toEqual([[1], [0]])
  await conversations.markUnread('work', work.user_id, 'ann')
  expect([await unread(), await unread('ann')]).toEqual([[1], [1]])
  await conversations.markRead('work', work.user_id, 99)
  expect([await unread(), await unread('ann'), await unread('bob')]).toEqual([[0], [1], [1]])
  const mark = { session: 'work', user_id: work.user_id }
  expect(told).toEqual([
    [{ ...mark, up_to: 99 }, 'ann'],
    [mark, 'ann'],
    [{ ...mark, up_to: 99 }, undefined],
  ])
  for (const stop of stops) stop()
})

test('a reader of events gets those of the scope, and never how an endpoint does', async () => {
  const { t, work, home } = await talk()
  await using _ = t
  const { events } = t.gateway
  const types = async (scope: Scope) => {
    const found: string[] = []
    const follow = events.follow('0', { scope }, new AbortController().signal, { toEnd: true })
    for await (const { type, data } of follow) found.push(`${type} ${(data as { bot_id: string }).bot_id}`)
    return [...new Set(found)].sort()
  }
  await t.until('both sessions are in the log', async () => (await types({})).length === 4)
  const ofHome = [`message.received ${home.bot_id}`, `session.status ${home.bot_id}`]
  expect(await types({ bots: [home.bot_id] })).toEqual(ofHome)
  expect(await types({ users: [home.user_id] })).toEqual(ofHome.slice(0, 1))
  const page = async (filter: Parameters<Gateway['events']['readPage']>[1]) =>
    (await events.readPage('0', filter)).events.map(({ bot, user }) => [bot, user])
  expect(await page({ limit: 9, types: ['message.received'], scope: { users: [work.user_id] } })).toEqual([
    [work.bot_id, work.user_id],
  ])
  expect(await page({ limit: 9, types: ['session.status'], scope: { bots: [work.bot_id] } })).toEqual([
    [work.bot_id, undefined],
  ])
})
