/** The event log as endpoints read it, where not all of a page can be read at once. */

import { expect, test } from 'bun:test'
import { eventTypes, isNamedOnly } from '../../src/model/event.ts'
import type { Message } from '../../src/model/message.ts'
import { owner } from '../../src/model/principal.ts'
import { silentLog } from '../../src/platform/log.ts'
import { Feed, type FeedPorts } from '../../src/push/feed.ts'
import { Webhooks } from '../../src/push/webhooks.ts'
import { Views } from '../../src/receive/view.ts'
import { cursorNumberOf, type EventType } from '../../src/storage/events.ts'
import { openSqlite } from '../storage/sqlite/support.ts'
import { insert, message } from '../storage/support.ts'
import { quietPorts } from '../support/quiet-ports.ts'

/** A log of events of these messages; so many rows are read at a time, and showing one fails so often. */
function feedOf(messages: readonly number[], { rows = 10, failures = 0, status = '', now = {} } = {}) {
  let shown = 0
  const all = messages.map((message, nth) => ({
    ...{ cursor: `s-${nth + 1}`, type: 'message.received', at: nth, message },
    ...(status && { status }),
  }))
  return new Feed({
    events: {
      listAfter: async (cursor: string, { limit }: { limit: number }) => {
        const events = all.filter(one => cursorNumberOf(one.cursor) > cursorNumberOf(cursor)).slice(0, limit)
        return { events, cursor: events.at(-1)?.cursor ?? cursor }
      },
    },
    log: {
      getByIds: async (ids: readonly number[]) =>
        ids.slice(0, rows).map(id => ({ id, session: 's', peer: 'u', direction: 'received', ...now })),
    },
    views: {
      toMessage: async (row: object) => {
        if (shown++ < failures) throw new Error('busy')
        return row
      },
    },
  } as unknown as FeedPorts)
}

const all = { types: [] }
const endpoint = {
  ...{ url: 'https://1.1.1.1/hook', types: [], headers: {}, secrets: [], link_key: 'k' },
  ...{ allow_private: false, replies: false, created_at: 1 },
}

test('what has no room is read the next time, also before another event of what had room', async () => {
  const feed = feedOf([1, 2, 1, 3], { rows: 1 })
  const ids: string[] = []
  for (let cursor = 's-0'; ; ) {
    const page = await feed.readAfter(cursor, all, 10)
    ids.push(...page.events.map(({ id }) => id))
    if (page.cursor === cursor) break
    cursor = page.cursor
  }
  expect(ids).toEqual(['s-1', 's-2', 's-3', 's-4'])
})

test('what could not be shown is shown when it is asked for again', async () => {
  const { events } = await feedOf([1], { failures: 1 }).readAfter('s-0', all, 10)
  expect(await events[0]!.data().catch(() => 'failed')).toBe('failed')
  expect(await events[0]!.data()).toMatchObject({ id: 1 })
})

test('a status that is told late is told as it was', async () => {
  const now = { status: 'refused', reason: 'why', reason_code: 'held' }
  const { events } = await feedOf([1], { status: 'queued', now }).readAfter('s-0', all, 10)
  const shown = await events[0]!.data()
  expect(shown).toMatchObject({ status: 'queued' })
  expect(Object.keys(shown!)).not.toContain('reason')
})

test('a kind of event that must be named reaches no endpoint without types', async () => {
  await using t = await openSqlite()
  const { events, log } = t.store
  const feed = new Feed({ events, log, views: new Views({ store: log, log: silentLog }) })
  const before = await events.getHead()
  await events.append([
    { type: 'backup.failed', data: { folder: '/srv', at: 1, error: 'full' } },
    { type: 'audit.line', data: { operation: 'send' } },
    { type: 'endpoint.disabled', data: { id: 'wh_1' } },
  ])
  const typesOf = async (types: string[]) => {
    const pages = [
      await feed.readAfter(before, { types }, 10),
      await feed.readConversation(before, { types }, { session: '', user: '' }),
    ]
    return pages.map(page => page.events.map(({ type }) => type))
  }
  expect(await typesOf([])).toEqual([['endpoint.disabled'], ['endpoint.disabled']])
  const named = ['backup.failed', 'audit.line']
  expect(await typesOf(named)).toEqual([named, named] as EventType[][])
  // A type that is added later must be named, or it belongs to webhooks that were added before it.
  expect(eventTypes.filter(type => !isNamedOnly(type))).toEqual([
    'message.received',
    'message.status',
    'session.status',
    'session.muted',
    'endpoint.disabled',
  ])
})

test('a page that is kept hands out nothing of a person who was erased since, and all of the others', async () => {
  await using t = await openSqlite()
  const { audit, events, log, people } = t.store
  let now = 0
  const clock = { monotonic: () => now }
  const feed = new Feed({ events, log, views: new Views({ store: log, log: silentLog }), clock })
  const before = await events.getHead()
  const users = ['ann', 'bob', 'ann', 'bob']
  const ids = await insert(
    t,
    users.map(from_user => message(`of ${from_user}`, { from_user })),
  )
  await audit.add({ at: 1, principal: 'owner', operation: 'name_user', subject: 'ann', outcome: 'done' })
  const wanted = { types: ['message.received', 'audit.line'] }
  const first = await feed.readAfter(before, wanted, 10)
  const lane = await feed.readConversation(before, wanted, { session: 'default', user: 'ann' })
  await people.erase('ann')
  now = 60_000
  const again = await feed.readAfter(before, wanted, 10)
  expect(again.events.map(({ user }) => user)).toEqual([...users, ''])
  const shown = await Promise.all([...first.events, ...again.events, ...lane.events].map(one => one.data()))
  const idsOfBob = [ids[1], ids[3]]
  expect(shown.flatMap(one => (one && 'text' in one ? (one as Message).id : []))).toEqual([
    ...idsOfBob,
    ...idsOfBob,
  ] as number[])
  expect(shown.filter(one => one && 'subject' in one)).toHaveLength(2)
  expect(JSON.stringify(shown)).not.toContain('ann')
})

test('an endpoint of a key gets what is in its grant; another one that reads from the same place does not', async () => {
  await using t = await openSqlite()
  const { events, log } = t.store
  const feed = new Feed({ events, log, views: new Views({ store: log, log: silentLog }) })
  const { webhooks } = t.store
  const unused = {
    resolveTarget: async () => ({}),
    getMessage: async () => undefined,
    isKeyOver: async () => false,
    listKeys: async () => [],
    ...quietPorts,
  }
  const replays = new Webhooks({ webhooks, events, clock: t.clock, ...unused })
  const before = await events.getHead()
  for (const bot of ['a', 'b'])
    for (const from_user of ['ann', 'bob']) await insert(t, [message('', { from_user })], 's', bot)
  await events.append([{ type: 'session.status', session: 's', data: { name: 's', bot_id: 'a' } }])
  await events.append([{ type: 'endpoint.disabled', data: { id: 'w' } }])
  const grants = [
    undefined,
    {},
    { bots: ['a'] },
    { users: ['bob'] },
    { bots: ['b'], users: ['bob'] },
    { bots: [] },
  ]
  const found = grants.map(async scope => {
    const grant = scope && { rights: [], ...scope }
    const page = await feed.readAfter(before, { ...all, grant }, 10)
    const ofSession = await feed.readConversation(before, { ...all, grant }, { session: 's', user: '' })
    const ofBob = await feed.readConversation(before, { ...all, grant }, { session: 's', user: 'bob' })
    return [page.events.map(event => event.user || event.type), ofSession.events.length, ofBob.events.length]
  })
  const messages = ['ann', 'bob', 'ann', 'bob']
  const counts = grants.map(async scope => {
    const id = `wh_${grants.indexOf(scope)}`
    const grant = scope && { rights: [], ...scope }
    await webhooks.add({ ...endpoint, id, position: await events.getHead(), ...(grant && { grant }) })
    return (await replays.replay(owner, id, { since: 0, dry_run: true })).replay.events
  })
  expect(await Promise.all(counts)).toEqual([6, 5, 3, 2, 1, 0])
  expect(await Promise.all(found)).toEqual([
    [[...messages, 'session.status', 'endpoint.disabled'], 1, 2],
    [[...messages, 'session.status'], 1, 2],
    [['ann', 'bob', 'session.status'], 1, 1],
    [['bob', 'bob'], 0, 2],
    [['bob'], 0, 1],
    [[], 0, 0],
  ])
})
