/** What the outbox of the process that polls asks of the store, second after second. */
import { expect, test } from 'bun:test'
import { Bus } from '../../src/platform/runtime.ts'
import type { SendPorts } from '../../src/send/delivery-attempt.ts'
import { Outbox, type OutboxPorts } from '../../src/send/outbox.ts'
import { Worker } from '../../src/send/worker.ts'
import type { LaneFilter, OutboxStore as StoredSends, WaitingLane } from '../../src/storage/outbox.ts'
import { laneLeaseMs } from '../../src/storage/outbox-limits.ts'
import { openDirectory } from '../storage/sqlite/support.ts'
import { bot, message, outgoing } from '../storage/support.ts'
import { testClock } from '../support/clock.ts'
import { folderOfTest } from '../support/folder.ts'
import { withGateway } from '../support/gateway.ts'
import { runtimeOf } from '../support/runtime.ts'
import { until } from '../support/until.ts'
import { dayMs, pass, sent } from '../support/waiting.ts'

const rules = { quota: 10, windowMs: 86_400_000, pace: 'off', patienceMs: 30_000 } as const

test('lanes that wait for their user are looked at once; then those that change, in any process, and those that are due', async () => {
  const dir = folderOfTest()
  const clock = testClock({ runs: false })
  await using storage = await openDirectory(dir, clock)
  await using other = await openDirectory(dir, clock)
  const { state, store } = storage
  await state.sessions.save('s', bot('b', { cursor: 'c0' }))
  const users = Array.from({ length: 30 }, (_, nth) => `u${nth}`)
  const wrote = users.map(from_user => message('hi', { from_user, written_at: clock.now() - 90_000_000 }))
  const batch = {
    id: 'first',
    session: 's',
    token: bot('b').token,
    botId: 'b@im.bot',
    cursorFrom: 'c0',
    cursorTo: 'c1',
  }
  const repeated = { received_at: clock.now() }
  await storage.ingest({ ...batch, messages: wrote.map(one => ({ ...one, repeated })), now: clock.now() })
  const wait = (sends: StoredSends, user: string) => {
    const said = outgoing(crypto.randomUUID(), { to_user: user })
    const parts = [{ kind: 'text', waiting: { message: said } }] as const
    return sends.enqueue({ session: 's', bot_id: 'b', user, mode: 'queue', parts, made_by: 'owner' }, rules)
  }
  for (const user of users) await wait(store.outbox, user)

  const looks: string[][] = []
  const waiting = async (by: typeof rules, some?: LaneFilter) => {
    const found = await store.outbox.listWaiting(by, some)
    looks.push(found.lanes.map(({ user }) => user))
    return found
  }
  const closing = new AbortController()
  const runtime = runtimeOf({ clock, closing: closing.signal })
  // Nothing may go: neither upstream nor files are touched.
  const ports = {
    state,
    rules,
    store: { ...store, outbox: { ...store.outbox, listWaiting: waiting } },
  } as unknown as SendPorts
  const meant = async () => ({})
  const outbox = new Outbox(
    {
      ...ports,
      store: { ...store, ...ports.store },
      worker: new Worker(ports, runtime),
      resolveTarget: meant,
    },
    runtime,
  )
  runtime.bus.notify('roleChanged', 'poller')
  outbox.start()
  const look = async () => {
    const before = looks.length
    // Time passes only until there was one.
    await until('a look', 10_000, () => looks.length > before || clock.wake(1000))
    return looks.at(-1)
  }

  await until('the first look', 10_000, () => looks.length === 1)
  expect(looks[0]).toEqual(users)
  expect(await look()).toEqual([])
  expect(await look()).toEqual([])
  // Another process enqueues one.
  await wait(other.store.outbox, 'u7')
  expect(await look()).toEqual(['u7'])
  expect(await look()).toEqual([])
  // One that is held is looked at when its hold is over, though the user has not written.
  const { lanes } = await store.outbox.listWaiting(rules, { of: { session: 's', users: ['u3'] } })
  await storage.ingest({
    ...{ ...batch, cursorFrom: 'c1', cursorTo: 'c2', now: clock.now() },
    messages: [{ ...message('again', { from_user: 'u3', written_at: clock.now() }), repeated }],
  })
  const hold = { since: clock.now(), until: clock.now() + 60_000, count: 1 }
  await store.outbox.holdBack(lanes[0]!.id, { hold })
  runtime.bus.notify('committed', { session: 's', messages: [{ from_user: 'u3' }], rows: [1] })
  await until('a look at the user who wrote', 10_000, () => looks.at(-1)?.[0] === 'u3')
  expect(await look()).toEqual([])
  await store.outbox.holdBack(lanes[0]!.id, { hold: { ...hold, until: hold.until + 60_000 } })
  clock.advance(60_000)
  await until('it is due', 10_000, () => looks.at(-1)?.[0] === 'u3')
  // A login may let all of them go.
  runtime.bus.notify('sessionsChanged')
  expect(await look()).toEqual(users)
  closing.abort('over')
  await outbox.waitUntilClosed()
})

test('what waits where another process renames a session goes out at once', async () => {
  await using t = await withGateway({ sessions: ['one', 'two'] })
  const [one, two] = [t.bots.get('one')!, t.bots.get('two')!]
  const user = await t.sandbox.addUser('third')
  await t.sandbox.say('to two', { from: user, to: two.bot_id })
  await t.receive(1)
  await pass(t, dayMs)
  await t.send({ to: user, session: 'two', text: 'late', when_closed: 'queue' })
  await t.gateway.accounts.logout('two')
  await t.sandbox.say('to one', { from: user, to: one.bot_id })
  await t.receive(1)
  await t.send({ to: user, session: 'one', text: 'now' })
  await using other = await t.beside()
  await t.pass(3000)
  await other.gateway.accounts.rename('one', 'two')
  const renamedAt = t.clock.monotonic()
  await t.soon('it went out', async () =>
    (await sent(t)).some(({ text, status }) => text === 'late' && status === 'accepted'),
  )
  expect(t.clock.monotonic() - renamedAt).toBeLessThan(60_000)
})

test('a lane that a user freed while an older look goes on is looked at again at once', async () => {
  const clock = testClock({ runs: false })
  const lane = {
    id: 7,
    session: 's',
    user: 'u',
    counter: { used: 0 },
    not_before: 0,
    failures: 0,
    busy: false,
  }
  const free: WaitingLane = { ...lane, verdict: { go: 'now' }, crowded: false }
  const held: WaitingLane = { ...free, verdict: { go: 'no', why: 'held', waitMs: 6 * 60 * 60_000 } }
  let flushes = 0
  const looks: (LaneFilter | undefined)[] = []
  const older = Promise.withResolvers<{ lanes: WaitingLane[]; revision: number }>()
  const waiting = async (_rules: unknown, some?: LaneFilter) => {
    looks.push(some)
    return some?.ids && looks.length === 2 ? older.promise : { lanes: [free], revision: looks.length }
  }
  const sends = {
    listWaiting: waiting,
    reap: async () => 0,
    expire: async () => [],
    claim: async () => undefined,
  }
  const ports = {
    state: { sessions: { get: async () => ({ bot: bot('b') }) } },
    rules,
    store: { outbox: sends, maintenance: { isClockTrusted: async () => false } },
    worker: { runningFlushes: new Map(), flush: async () => void flushes++, crowdedUntil: new Map() },
  } as unknown as OutboxPorts
  const closing = new AbortController()
  const runtime = runtimeOf({ clock, closing: closing.signal })
  const { bus } = runtime
  const outbox = new Outbox(ports, runtime)
  const look = (count: number) => until('a look', 10_000, () => looks.length >= count || clock.wake(1000))
  bus.notify('roleChanged', 'poller')
  outbox.start()
  await look(2)
  bus.notify('committed', { session: 's', messages: [{ from_user: 'u' }], rows: [1] })
  await look(3)
  await until('the lane is worked on again', 10_000, () => flushes === 2)
  older.resolve({ lanes: [held], revision: 2 })
  await look(4)
  expect(looks).toEqual([
    undefined,
    { ids: [7], since: 1 },
    { of: { session: 's', users: ['u'] } },
    { ids: [7], since: 2 },
  ])
  closing.abort('over')
  await outbox.waitUntilClosed()
})

test('a user who writes just as a flush ends is answered, also in a process that polls for one call', async () => {
  const flushes = new Map([[7, Promise.withResolvers<void>()]])
  const flushed: number[] = []
  let found = 0
  const lane = {
    id: 7,
    session: 's',
    user: 'u',
    counter: { used: 0 },
    not_before: 0,
    failures: 0,
    busy: true,
  }
  const ports = {
    state: { sessions: { get: async () => ({ bot: bot('b') }) } },
    rules,
    store: {
      outbox: {
        claim: async () => undefined,
        listWaiting: async () => {
          found++
          return { lanes: [{ ...lane, verdict: { go: 'now' }, crowded: false }], revision: 1 }
        },
      },
    },
    worker: {
      runningFlushes: new Map([...flushes].map(([id, { promise }]) => [id, promise])),
      flush: async ({ id }: { id: number }) => void flushed.push(id),
      crowdedUntil: new Map(),
    },
  } as unknown as OutboxPorts
  const bus = new Bus()
  new Outbox(ports, runtimeOf({ clock: testClock(), bus }))
  bus.notify('committed', { session: 's', messages: [{ from_user: 'u' }], rows: [1] })
  await until('the lane was found', 5000, () => found > 0)
  expect(flushed).toEqual([])
  ;(ports.worker.runningFlushes as Map<number, Promise<void>>).delete(7)
  flushes.get(7)!.resolve()
  await until('it is flushed again', 5000, () => flushed.length > 0)
})

test('a lane is kept during a long upload, also by a process that does not poll', async () => {
  const clock = testClock({ runs: false })
  const claimed: number[] = []
  const ports = {
    store: {
      outbox: { reap: async () => 0, claim: async (id: number) => void claimed.push(id) },
      maintenance: { isClockTrusted: async () => false },
    },
    worker: { runningFlushes: new Map([[7, Promise.resolve()]]) },
  } as unknown as OutboxPorts
  const closing = new AbortController()
  const outbox = new Outbox(ports, runtimeOf({ clock, closing: closing.signal }))
  outbox.start()
  const beganAt = clock.monotonic()
  await until('it is claimed again and again', 10_000, () => {
    clock.wake(1000)
    return claimed.length > 2
  })
  expect(clock.monotonic() - beganAt).toBeLessThan(laneLeaseMs + 5000)
  closing.abort('over')
  await outbox.waitUntilClosed()
})
