/** What every engine must do for readers with a scope: nothing of other accounts and users, by whatever method. */
import { expect } from 'bun:test'
import { hasMessage, type Scope } from '../../src/model/access.ts'
import type { EventFilter, LoggedEvent } from '../../src/storage/events.ts'
import type { HistoryFilter, StoredMessage } from '../../src/storage/messages.ts'
import { onEach } from './engines.ts'
import { insert, message, type Opened, outgoing, type Running, sending } from './support.ts'

const scopes: readonly Scope[] = [
  {},
  { bots: ['a@im.bot'] },
  { bots: ['a@im.bot', 'b@im.bot'] },
  { users: ['ann'] },
  { users: ['ann', 'bob', 'nobody'] },
  { bots: ['b@im.bot'], users: ['bob'] },
  { bots: ['b@im.bot'], users: ['ann', 'bob'] },
  { bots: ['c@im.bot'] },
  { users: ['nobody'] },
  { bots: [] },
  { users: [] },
  { bots: ['a@im.bot'], users: [] },
]

/** Messages of two accounts with two users, mixed. The accounts have a session each, and were logged in to a third one in turn. */
async function talk(t: Running, rounds = 3): Promise<void> {
  const { outbox, events } = t.store
  for (let round = 0; round < rounds; round++)
    for (const session of ['a', 'shared', 'b'])
      for (const user of ['ann', 'bob']) {
        const letter = session === 'shared' ? (round % 2 === 0 ? 'a' : 'b') : session
        const bot = `${letter}@im.bot`
        const words = `${session} ${user} ${round}`
        await insert(t, [message(`in ${words}`, { from_user: user })], session, bot)
        if (round > 0) continue
        const begun = await sending(t.store, session, bot, outgoing(`out ${words}`, { to_user: user }))
        await outbox.settle(begun, { status: 'accepted', spent: false })
      }
  for (const letter of ['a', 'b']) {
    const data = { name: letter, bot_id: `${letter}@im.bot` }
    await events.append([{ type: 'session.status', session: letter, data }])
  }
  await events.append([{ type: 'endpoint.disabled', data: { id: 'w' } }])
}

const isIn = (scope: Scope) => (row: StoredMessage) => hasMessage(scope, row.bot_id, row.peer)
const idsOf = (rows: readonly { id: number }[]) => rows.map(({ id }) => id)
const isReceived = ({ direction }: StoredMessage) => direction === 'received'

/** All rows, and by scope those that belong to it. */
async function expected(t: Running) {
  const all = await t.store.log.listAfter(0, { limit: 1000 })
  return scopes.map(scope => ({ scope, all, own: all.filter(isIn(scope)) }))
}

/** Pages of two rows each, to the end. */
async function searchAll(t: Running, filter: Partial<HistoryFilter>) {
  const found: number[] = []
  for (let before: number | undefined; ; ) {
    const page = await t.store.log.search({ limit: 2, offset: 0, before, ...filter })
    found.push(...idsOf(page.rows))
    before = page.next_before
    if (before === undefined) return { ids: found.reverse(), total: page.total }
  }
}

async function eventsOf(t: Running, filter: Omit<EventFilter, 'limit'>): Promise<LoggedEvent[]> {
  const found: LoggedEvent[] = []
  for (let cursor = ''; ; ) {
    const page = await t.store.events.listAfter(cursor, { limit: 2, ...filter })
    found.push(...page.events)
    if (page.cursor === cursor) return found
    cursor = page.cursor
  }
}

/** Claims two rows at a time to the end, and confirms them. */
async function claimAll(t: Opened, consumer: string, wanted: { scope: Scope; session?: string }) {
  const found: number[] = []
  for (;;) {
    const claim = await t.store.consumers.claim(consumer, { limit: 2, ...wanted })
    if (!claim) return found
    found.push(...idsOf(claim.rows))
    await t.store.consumers.ack(claim.lease)
  }
}

onEach(it => {
  it('rows are found only in the scope', async t => {
    await talk(t)
    for (const { scope, all, own } of await expected(t)) {
      const { log, backlog } = t.store
      expect(idsOf(await log.listAfter(0, { limit: 1000, scope }))).toEqual(idsOf(own))
      for (const direction of ['sent', 'received'] as const) {
        const some = own.filter(row => row.direction === direction)
        const wanted = { limit: 1000, direction, scope }
        expect(idsOf(await log.listAfter(0, wanted))).toEqual(idsOf(some))
        expect(await backlog.listRecent(0, wanted)).toEqual(idsOf(some))
      }
      for (const session of ['a', 'B', 'shared', 'none']) {
        const some = own.filter(row => row.session === session.toLowerCase())
        expect(idsOf(await log.listAfter(0, { limit: 1000, session, scope }))).toEqual(idsOf(some))
        expect(idsOf(await log.listAfter(0, { limit: 1, session, scope }))).toEqual(idsOf(some.slice(0, 1)))
        const left = some.filter(row => isReceived(row) && row.id > 5).length
        expect(await backlog.countWaiting(5, { limit: 1000, session, scope })).toBe(left)
      }
      expect(idsOf(await log.getByIds([...idsOf(all), 999], undefined, scope))).toEqual(idsOf(own))
      const names = [...all.map(row => row.message_id), 'none']
      const named = await log.getByMessageIds(names, undefined, scope)
      expect(named).toEqual({ rows: own, rest: [] })
    }
  })

  it('a search finds, counts and pages only what is in the scope', async t => {
    await talk(t)
    for (const { scope, own } of await expected(t)) {
      expect(await searchAll(t, { scope })).toEqual({ ids: idsOf(own), total: own.length })
      const filters: [Partial<HistoryFilter>, (row: StoredMessage) => boolean][] = [
        [{ user_id: 'bob' }, row => row.peer === 'bob'],
        [{ user_id: 'nobody' }, () => false],
        [{ session: 'shared' }, row => row.session === 'shared'],
        [{ bot_id: 'b@im.bot' }, row => row.bot_id === 'b@im.bot'],
        [{ direction: 'sent' }, row => row.direction === 'sent'],
        [{ text_contains: 'ann' }, row => row.text.includes('ann')],
      ]
      for (const [filter, matches] of filters) {
        const ids = idsOf(own.filter(matches))
        expect(await searchAll(t, { ...filter, scope })).toEqual({ ids, total: ids.length })
      }
    }
  })

  it('a consumer gets only what is in the scope, and its position passes the rest', async t => {
    const names = scopes.map((_, nth) => `key${nth}/reader`)
    for (const [nth, scope] of scopes.entries())
      await t.store.consumers.claim(names[nth]!, { limit: 1, scope })
    await talk(t)
    for (const [nth, { scope, own }] of (await expected(t)).entries()) {
      const { backlog, consumers } = t.store
      const consumer = names[nth]!
      const received = own.filter(isReceived)
      const shared = received.filter(({ session }) => session === 'shared')
      const count = (session?: string) => backlog.countWaiting(consumer, { limit: 1000, session, scope })
      expect(await count()).toBe(received.length)
      expect(await count('shared')).toBe(shared.length)
      const first = await consumers.claim(consumer, { limit: 1, session: 'shared', scope })
      expect(idsOf(first?.rows ?? [])).toEqual(idsOf(shared.slice(0, 1)))
      if (first) await consumers.nack(first.lease)
      expect(await count('shared')).toBe(shared.length)
      expect(await claimAll(t, consumer, { session: 'shared', scope })).toEqual(idsOf(shared))
      const rest = received.filter(({ session }) => session !== 'shared')
      expect(await count()).toBe(rest.length)
      expect(await claimAll(t, consumer, { scope })).toEqual(idsOf(rest))
      expect(await count()).toBe(0)
    }
    const lags = new Map((await t.store.backlog.listLags(100)).map(one => [one.consumer, one.messages]))
    expect(names.map(name => lags.get(name))).toEqual(names.map(() => 0))
  })

  it('rows that a consumer has are handed out again only in the scope; the others stay for later', async t => {
    const { backlog, consumers } = t.store
    await talk(t, 1)
    const all = (await consumers.claim('default', { limit: 1000 }))!
    await consumers.nack(all.lease)
    for (const { scope } of await expected(t)) {
      const own = all.rows.filter(isIn(scope))
      expect(await backlog.countWaiting('default', { limit: 1000, scope })).toBe(own.length)
      const again = await consumers.claim('default', { limit: 1000, scope })
      expect(again?.rows ?? []).toEqual(own)
      if (again) await consumers.nack(again.lease)
    }
    expect((await consumers.claim('default', { limit: 1000 }))?.rows).toEqual(all.rows)
  })

  it('a key reads its consumer `default` from the first row on', async t => {
    await talk(t)
    for (const [nth, { scope, own }] of (await expected(t)).entries()) {
      expect(await t.store.backlog.countWaiting(`key${nth}/default`, { limit: 1000, scope })).toBe(
        own.filter(isReceived).length,
      )
      expect(await claimAll(t, `key${nth}/default`, { scope })).toEqual(idsOf(own.filter(isReceived)))
    }
  })

  it('a consumer that acknowledges gets only what is in the scope', async t => {
    await talk(t)
    for (const [nth, { scope, own }] of (await expected(t)).entries()) {
      const { acknowledgements, backlog, consumers } = t.store
      const consumer = `key${nth}/default`
      const received = idsOf(own.filter(isReceived))
      const before = await consumers.claim(consumer, { limit: 1, scope })
      if (before) await consumers.ack(before.lease)
      const found = idsOf(before?.rows ?? [])
      for (let ack = found[0] ?? 0; ; ) {
        const { rows, redelivered } = await acknowledgements.readAfter(consumer, ack, { limit: 2, scope })
        expect(redelivered.size).toBe(0)
        expect(await backlog.countWaiting(consumer, { limit: 1000, scope })).toBe(
          received.length - found.length,
        )
        const last = rows.at(-1)
        if (!last) break
        found.push(...idsOf(rows))
        await acknowledgements.markHandedOut(consumer, last.id)
        ack = last.id
      }
      expect(found).toEqual(received)
      const ofSession = { limit: 1000, session: 'b', scope }
      const name = `key${nth}/other`
      await consumers.register(name)
      expect((await acknowledgements.readAfter(name, 0, ofSession)).rows).toEqual([])
    }
  })

  it('events are those of the scope: messages, and sessions unless it names users', async t => {
    await talk(t)
    for (const { scope, all, own } of await expected(t)) {
      const ids = new Set(idsOf(own))
      const whole = await eventsOf(t, {})
      const isOwn = ({ type, message, data }: LoggedEvent) =>
        type.startsWith('message.')
          ? ids.has(message!)
          : type === 'session.status' &&
            scope.users === undefined &&
            scope.bots?.includes((data as { bot_id: string }).bot_id) !== false
      expect(await eventsOf(t, { scope })).toEqual(whole.filter(isOwn))
      for (const filter of [
        { session: 'shared' },
        { session: 'a' },
        { user: 'ann' },
        { types: ['session.status', 'endpoint.disabled'] },
        { types: ['message.status'], user: 'bob' },
        { hidden: true },
      ] as const) {
        const some = await eventsOf(t, filter)
        expect(await eventsOf(t, { ...filter, scope })).toEqual(some.filter(isOwn))
      }
      expect(whole.length).toBeGreaterThan(all.length)
    }
  })

  it('conversations and counts are those of the scope', async t => {
    await talk(t)
    for (const { scope, own } of await expected(t)) {
      const { conversations } = t.store
      const listAll = async (query: { session?: string; sessions?: Map<string, string[]> }) => {
        const found: object[] = []
        for (let before: number | undefined; ; ) {
          const page = await conversations.listThreads({ limit: 1, before, scope, ...query })
          found.push(...page.threads.map(({ user, last, unread }) => ({ user, last: last.id, unread })))
          before = page.before
          if (before === undefined) return found
        }
      }
      const threadOf = (user: string, session?: string) => {
        const rows = own.filter(row => row.peer === user && (session ?? row.session) === row.session)
        const last = rows.at(-1)
        if (!last) return []
        const ofSession = rows.filter(row => row.session === last.session)
        const seen = ofSession.findLastIndex(row => !isReceived(row))
        return [{ user, last: last.id, unread: ofSession.length - 1 - seen }]
      }
      expect(await listAll({})).toEqual(['bob', 'ann'].flatMap(user => threadOf(user)))
      expect(await listAll({ session: 'shared' })).toEqual(
        ['bob', 'ann'].flatMap(user => threadOf(user, 'shared')),
      )
      const sessions = new Map([['bob', ['a', 'b']]])
      expect(await listAll({ sessions })).toEqual([
        ...threadOf('bob', 'a'),
        ...threadOf('bob', 'b'),
        ...threadOf('ann'),
      ])
      for (const user of ['ann', 'bob', 'nobody']) {
        const { threads } = await conversations.listThreads({ user, limit: 1, scope })
        expect(threads.map(({ last }) => last.id)).toEqual(threadOf(user).map(({ last }) => last))
      }
      const [counted] = await conversations.countMessages(0, 1e15, scope)
      const received = own.filter(isReceived).length
      expect(counted ?? { span: 0, received: 0, sent: 0 }).toEqual({
        span: 0,
        received,
        sent: own.length - received,
      })
    }
  })

  it('a page of conversations of one scope says nothing about the next page of another', async t => {
    await talk(t)
    const { conversations } = t.store
    const pageOf = async (scope: Scope, before?: number) => {
      const page = await conversations.listThreads({ limit: 1, before, scope })
      return { users: page.threads.map(({ user }) => user), before: page.before }
    }
    const first = await pageOf({ users: ['ann', 'bob'] })
    expect(await pageOf({ users: ['bob'] }, first.before)).toEqual({ users: [], before: undefined })
    expect((await pageOf({}, first.before)).users).toEqual(['ann'])
  })

  it('each person has marks of their own', async t => {
    const { conversations } = t.store
    const unread = async (reader?: string) =>
      (await conversations.listThreads({ user: 'ann', session: 'a', limit: 1, reader })).threads[0]?.unread
    await talk(t)
    const head = await t.store.log.getHead()
    expect([await unread(), await unread('p'), await unread('q')]).toEqual([2, 2, 2])
    await conversations.markRead('a', 'ann', head, 'p')
    expect([await unread(), await unread('p'), await unread('q')]).toEqual([2, 0, 2])
    await conversations.markRead('a', 'ann', head)
    expect([await unread(), await unread('p'), await unread('q')]).toEqual([0, 0, 2])
    await conversations.markRead('a', 'ann', undefined, 'p')
    expect([await unread(), await unread('p'), await unread('q')]).toEqual([0, 1, 2])
    await conversations.markRead('a', 'ann', 1, 'q')
    await conversations.markRead('a', 'bob', head, 'q')
    expect([await unread(), await unread('p'), await unread('q')]).toEqual([0, 1, 2])
  })
})
