/** Delivery to one endpoint while its store fails: the receiver is real, the log is a list. */
import { expect, test } from 'bun:test'
import { silentLog } from '../../src/platform/log.ts'
import { type EndpointPorts, EndpointRun } from '../../src/push/endpoint.ts'
import type { LaneEvent } from '../../src/push/lanes.ts'
import { DeliveryPacer } from '../../src/push/pacer.ts'
import { cursorNumberOf } from '../../src/storage/events.ts'
import { testClock } from '../support/clock.ts'
import { freePort } from '../support/port.ts'
import { openInMemory } from '../support/store-in-memory.ts'
import { until } from '../support/until.ts'
import { receiver } from './receiver.ts'

const withinMs = 60_000

/** An endpoint at the beginning of a log that holds one event of each of these users. */
async function withEndpoint(
  url: string,
  users: readonly string[],
  data = async (_user: string): Promise<object | undefined> => ({}),
) {
  const { progress, ...webhooks } = (await openInMemory()).webhooks
  const clock = testClock()
  const log = users.map(
    (user, nth): LaneEvent => ({
      ...{ id: `s-${nth + 1}`, type: 'session.status', at: nth, session: 's', user },
      data: () => data(user),
    }),
  )
  const read = (cursor: string, of?: string) => ({
    events: log.filter(
      ({ id, user }) => cursorNumberOf(id) > cursorNumberOf(cursor) && (of ?? user) === user,
    ),
    cursor: `s-${log.length}`,
  })
  const given = { id: 'w', url, types: [], headers: {}, secrets: [{ secret: 'whsec_AAAA' }], link_key: '' }
  await webhooks.add({ ...given, allow_private: true, replies: false, created_at: 0, position: 's-0' })
  const ports: EndpointPorts = {
    feed: {
      readAfter: async (cursor: string) => read(cursor),
      readConversation: async (cursor: string, _wants: object, { user }: LaneEvent) => read(cursor, user),
    } as never,
    progress,
    createLinks: () => undefined,
    sendReply: async () => {},
    disable: async () => {},
    isClockReliable: async () => true,
  }
  const parts = { clock, log: silentLog, pacer: new DeliveryPacer(clock) }
  const open = async () => new EndpointRun({ ...ports, ...parts, webhook: (await webhooks.list())[0]! })
  return { clock, ports, open }
}

test('an event that cannot be read for now is tried after a rest', async () => {
  using r = receiver()
  let isBroken = true
  const { clock, open } = await withEndpoint(r.url, ['a', 'b'], async user => {
    if (isBroken && user === 'a') throw new Error('busy')
    return {}
  })
  const run = await open()
  await until('it rests', withinMs, () => clock.sleeps(4000, 5000))
  isBroken = false
  clock.advance(5000)
  const ids = () => new Set(r.got.map(({ id }) => id))
  await until('all', withinMs, () => ids().size === 2)
  await run.stop()
  expect([...ids()].sort()).toEqual(['s-1', 's-2'])
})

test('an event that is no longer in the log is passed over', async () => {
  using r = receiver()
  const gone = async (user: string) => (user === 'gone' ? undefined : {})
  const { open } = await withEndpoint(r.url, ['gone', 'a', 'gone', 'a'], gone)
  const run = await open()
  await until('the others', withinMs, () => r.got.length === 2)
  await run.stop()
  expect(r.got.map(({ id }) => id).sort()).toEqual(['s-2', 's-4'])
})

test('when progress could not be kept, no later part of it is kept without it', async () => {
  let hangs = 0
  using r = receiver(({ id }) => (id === 's-2' ? 500 : hangs++ === 0 ? new Promise(() => {}) : 200))
  const { ports, open } = await withEndpoint(r.url, ['a', 'b'])
  let isFailureKnown = false
  let isKeepRefused = false
  const { save } = ports.progress
  ports.isClockReliable = async () => {
    isFailureKnown = true
    return true
  }
  ports.progress.save = async () => {
    isKeepRefused = true
    throw new Error('busy')
  }
  const first = await open()
  await until('one hangs, one failed', withinMs, () => hangs > 0 && isFailureKnown && isKeepRefused)
  ports.progress.save = save
  await first.stop()
  const second = await open()
  const again = await until('the one that hung', withinMs, () => r.got.find(({ id }) => id === 's-1'))
  await second.stop()
  expect(again.status).toBe(200)
})

test('conversations whose events take long hold up no other', async () => {
  const slow = Array.from({ length: 20 }, (_, nth) => `slow${nth}`)
  let hung = 0
  const hang = () => {
    hung += 1
    return new Promise<Response>(() => {})
  }
  const users = [...Array.from({ length: 20 }, () => slow).flat(), 'quick', 'quick']
  const isQuick = (id: string) => cursorNumberOf(id) > users.length - 2
  using r = receiver(({ id }) => (isQuick(id) ? 200 : hang()))
  const { clock, open } = await withEndpoint(r.url, users)
  const run = await open()
  await until('all of the others', withinMs, () => {
    clock.advance(100)
    return r.got.length === 2
  })
  await run.stop()
  expect(hung).toBe(slow.length)
})

test('an event that fails, and finds nobody at its next try, has lost no try of its own', async () => {
  const port = freePort()
  const held = Promise.withResolvers<Response>()
  const events = (of: typeof first) => of.got.map(({ id, status }) => [id, status])
  // No connection is kept, which would break in place of being refused.
  const headers = { connection: 'close' }
  const refusal = () => new Response(null, { status: 500, headers })
  const first = receiver(({ id }) => (id === 's-1' ? refusal() : held.promise), port)
  const { clock, open, ports } = await withEndpoint(first.url, ['a', 'b'])
  const run = await open()
  await until('the first fails', withinMs, () => first.got.length === 1)
  clock.advance(10)
  held.resolve(new Response(null, { headers }))
  await until('the other succeeds', withinMs, () => first.got.length === 2)
  expect(events(first)).toEqual([
    ['s-1', 500],
    ['s-2', 200],
  ])
  first[Symbol.dispose]()
  const errors = async () => (await ports.progress.listTries('w', 10)).map(({ code }) => code)
  clock.advance(5000)
  await until('nobody is there', withinMs, async () => {
    clock.advance(1)
    return (await errors()).includes('unreachable')
  })
  using second = receiver(() => 200, port)
  clock.advance(5000)
  await until('it comes again', withinMs, () => second.got.length === 1)
  await run.stop()
})

test('a page that is read while the endpoint begins to fail makes it skip no event', async () => {
  const reading = Promise.withResolvers<void>()
  const failed = Promise.withResolvers<void>()
  let isUp = false
  using r = receiver(async () => {
    if (!isUp) await reading.promise
    return new Response(null, { status: isUp ? 200 : 500 })
  })
  // One more than may be delivered at a time: the last one waits.
  const users = ['a', 'b', 'c', 'd', 'e']
  const { clock, open, ports } = await withEndpoint(r.url, users)
  const { readAfter } = ports.feed
  ports.feed.readAfter = async (cursor, ...rest) => {
    const page = await readAfter(cursor, ...rest)
    if (cursorNumberOf(cursor) < users.length) return page
    reading.resolve()
    await failed.promise
    return page
  }
  let failures = 0
  ports.isClockReliable = async () => {
    failures += 1
    return true
  }
  const run = await open()
  await until('the others failed', withinMs, () => failures === users.length - 1)
  isUp = true
  failed.resolve()
  const delivered = () => r.got.flatMap(({ id, status }) => (status === 200 ? [id] : []))
  await until('all', withinMs, () => {
    clock.advance(1000)
    return delivered().length === users.length
  })
  await run.stop()
  expect(delivered().sort()).toEqual(['s-1', 's-2', 's-3', 's-4', 's-5'])
})
