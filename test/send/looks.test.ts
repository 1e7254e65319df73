/** What the outbox of the process that polls asks of the store, second after second. */
import { expect, test } from 'bun:test'
import { silentLog } from '../../src/platform/log.ts'
import { Bus } from '../../src/platform/runtime.ts'
import type { SendPorts } from '../../src/send/delivery-attempt.ts'
import { Outbox } from '../../src/send/outbox.ts'
import { Worker } from '../../src/send/worker.ts'
import type { LaneFilter, Outbox as StoredSends } from '../../src/storage/outbox.ts'
import { openDirectory } from '../storage/sqlite/support.ts'
import { bot, message, outgoing } from '../storage/support.ts'
import { testClock } from '../support/clock.ts'
import { folderOfTest } from '../support/folder.ts'
import { until } from '../support/until.ts'

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
    const found = await store.outbox.waiting(by, some)
    looks.push(found.lanes.map(({ user }) => user))
    return found
  }
  const closing = new AbortController()
  const runtime = { clock, log: silentLog, closing: closing.signal, bus: new Bus() }
  // Nothing may go: neither upstream nor files are touched.
  const ports = {
    state,
    rules,
    store: { ...store, outbox: { ...store.outbox, waiting } },
  } as unknown as SendPorts
  const meant = async () => ({})
  const outbox = new Outbox(
    { ...ports, store: { ...store, ...ports.store }, worker: new Worker(ports, runtime), meant },
    runtime,
  )
  runtime.bus.tell('roleChanged', 'poller')
  outbox.start()
  const look = async () => {
    const before = looks.length
    await until('a look', 10_000, () => {
      clock.wake(1000)
      return looks.length > before
    })
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
  const { lanes } = await store.outbox.waiting(rules, { of: { session: 's', users: ['u3'] } })
  await storage.ingest({
    ...{ ...batch, cursorFrom: 'c1', cursorTo: 'c2', now: clock.now() },
    messages: [{ ...message('again', { from_user: 'u3', written_at: clock.now() }), repeated }],
  })
  const hold = { since: clock.now(), until: clock.now() + 60_000, count: 1 }
  await store.outbox.holdBack(lanes[0]!.id, { hold })
  runtime.bus.tell('committed', { session: 's', messages: [{ from_user: 'u3' }] })
  await until('a look at the user who wrote', 10_000, () => looks.at(-1)?.[0] === 'u3')
  expect(await look()).toEqual([])
  await store.outbox.holdBack(lanes[0]!.id, { hold: { ...hold, until: hold.until + 60_000 } })
  clock.advance(60_000)
  await until('it is due', 10_000, () => looks.at(-1)?.[0] === 'u3')
  // A login may let all of them go.
  runtime.bus.tell('sessionsChanged')
  expect(await look()).toEqual(users)
  closing.abort('over')
  await outbox.closed()
})
