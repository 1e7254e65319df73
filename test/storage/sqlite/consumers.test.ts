import { expect, test } from 'bun:test'
import { systemClock } from '../../../src/platform/clock.ts'
import { silentLog } from '../../../src/platform/log.ts'
import { openDatabase } from '../../../src/platform/sqlite.ts'
import { type Claim, Store } from '../../../src/storage/sqlite/store.ts'
import { stopwatch } from '../../support/stopwatch.ts'
import { inOtherProcess, message, openStore, sending, startOther } from './support.ts'

const ids = (claim: Claim | undefined) => claim?.rows.map(row => row.id) ?? []
const add = (store: Store, count: number, session = 's') =>
  store.insertReceived(
    session,
    'b',
    Array.from({ length: count }, (_, i) => message(`${session} ${i}`)),
  )

test('the default consumer begins at the beginning, another one at the end', async () => {
  await using t = await openStore()
  add(t.store, 3)
  expect(t.store.claim('late', { limit: 10 })).toBeUndefined()
  expect(ids(t.store.claim('default', { limit: 10 }))).toEqual([1, 2, 3])
  add(t.store, 1)
  expect(ids(t.store.claim('late', { limit: 10 }))).toEqual([4])
})

test('what was confirmed does not come again, in this process or the next', async () => {
  await using t = await openStore()
  add(t.store, 3)
  t.store.confirm(t.store.claim('default', { limit: 2 })!.lease)
  await t.reopen()
  t.clock.at += 60_000
  const rest = t.store.claim('default', { limit: 10 })!
  expect(ids(rest)).toEqual([3])
  expect(rest.redelivered.size).toBe(0)
  t.store.confirm(rest.lease)
  expect(t.store.claim('default', { limit: 10 })).toBeUndefined()
})

test('a bot never hears itself', async () => {
  await using t = await openStore()
  const out = { to_user: 'u', msg_type: 'TEXT', text: 'out', timestamp: 1, raw: '{}' } as const
  await sending(t.store, 's', 'b', { ...out, client_id: '1' })
  add(t.store, 1)
  await sending(t.store, 's', 'b', { ...out, client_id: '2' })
  expect(ids(t.store.claim('default', { limit: 10 }))).toEqual([2])
  expect(t.store.claim('default', { limit: 10 })).toBeUndefined()
  expect(t.store.claim('default', { limit: 10, session: 's' })).toBeUndefined()
})

test('parallel calls never get the same row', async () => {
  await using t = await openStore()
  add(t.store, 25)
  const claims = Array.from({ length: 4 }, () => t.store.claim('default', { limit: 10 }))
  expect(claims.flatMap(ids)).toEqual(Array.from({ length: 25 }, (_, i) => i + 1))
})

test('processes that claim at once never get the same row, and get all', async () => {
  await using t = await openStore()
  add(t.store, 600)
  const body = `
    const store = await open()
    for (let none = 0; none < 3; ) {
      const claim = store.claim('default', { limit: 7 })
      if (!claim) { none++; continue }
      console.log(claim.rows.map(row => row.id).join(' '))
      store.confirm(claim.lease)
    }
    store.close()`
  const told = await Promise.all([1, 2, 3].map(() => inOtherProcess(t.path, body)))
  const got = told.join('\n').split(/\s+/).filter(Boolean).map(Number)
  expect(got.sort((a, b) => a - b)).toEqual(Array.from({ length: 600 }, (_, i) => i + 1))
})

test('abandoned rows come again, marked, before newer ones; rows never given are not marked', async () => {
  await using t = await openStore()
  add(t.store, 4)
  const first = t.store.claim('default', { limit: 2 })!
  t.store.abandon(first.lease)
  const again = t.store.claim('default', { limit: 10 })!
  expect(ids(again)).toEqual([1, 2])
  expect([...again.redelivered]).toEqual([1, 2])
  const rest = t.store.claim('default', { limit: 10 })!
  expect(ids(rest)).toEqual([3, 4])
  expect(rest.redelivered.size).toBe(0)
})

test('a lapsed lease is given out in pieces of the size that is asked for, and confirming it late harms nothing', async () => {
  await using t = await openStore()
  add(t.store, 1000)
  const slow = t.store.claim('default', { limit: 1000 })!
  expect(t.store.claim('default', { limit: 10 })).toBeUndefined()
  t.clock.at += 30_001
  const piece = t.store.claim('default', { limit: 10 })!
  expect(ids(piece)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
  expect(piece.redelivered.size).toBe(10)
  t.store.abandon(piece.lease)
  // The slow one arrives after all: what nobody else has taken meanwhile is done.
  t.store.confirm(slow.lease)
  expect(ids(t.store.claim('default', { limit: 1000 }))).toEqual(ids(piece))
})

test('a lease lapses although the clock was set back', async () => {
  await using t = await openStore()
  add(t.store, 1)
  t.store.claim('default', { limit: 1 })
  t.clock.at -= 24 * 3_600_000
  expect(ids(t.store.claim('default', { limit: 1 }))).toEqual([1])
})

test('the rows of a killed process come again at once', async () => {
  await using t = await openStore()
  add(t.store, 2)
  const body = `const store = await open(); console.log(store.claim('default', { limit: 1 }).rows.length, 'ready'); await hold()`
  t.clock.at = Date.now()
  await inOtherProcess(t.path, body, 'SIGKILL')
  const again = t.store.claim('default', { limit: 10 })!
  expect(ids(again)).toEqual([1])
  expect(again.redelivered.has(1)).toBe(true)
})

test('the rows of a living process stay its own', async () => {
  await using t = await openStore()
  add(t.store, 2)
  t.clock.at = Date.now()
  const child = startOther(
    t.path,
    `const store = await open(); store.claim('default', { limit: 1 }); console.log('ready'); await hold()`,
  )
  try {
    await child.stdout.getReader().read()
    expect(ids(t.store.claim('default', { limit: 10 }))).toEqual([2])
  } finally {
    child.kill('SIGKILL')
    await child.exited
  }
})

test('rows that retention removed while they were leased are forgotten', async () => {
  await using t = await openStore({ maxCount: 1 })
  add(t.store, 3)
  const claim = t.store.claim('default', { limit: 3 })!
  await t.store.prune()
  t.store.abandon(claim.lease)
  expect(ids(t.store.claim('default', { limit: 3 }))).toEqual([3])
})

test('reading sessions apart and together, mixed at random, gives each row once', async () => {
  await using t = await openStore()
  let seed = 3
  const random = (below: number) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
    return Math.floor((seed / 2 ** 32) * below)
  }
  const got: number[] = []
  let stored = 0
  for (let step = 0; step < 400; step++) {
    const act = random(10)
    if (act < 4) stored += add(t.store, 1 + random(4), `s${random(5)}`).length
    else {
      const session = act < 8 ? { session: `s${random(5)}` } : {}
      const claim = t.store.claim('default', { limit: 1 + random(6), ...session })
      if (!claim) continue
      if (session.session) expect(claim.rows.every(row => row.session === session.session)).toBe(true)
      expect(ids(claim)).toEqual(ids(claim).toSorted((a, b) => a - b))
      if (random(4) === 0) t.store.abandon(claim.lease)
      else {
        t.store.confirm(claim.lease)
        got.push(...ids(claim))
      }
    }
  }
  for (let rounds = 0; rounds < 1000; rounds++) {
    const claim = t.store.claim('default', { limit: 50 })
    if (!claim) break
    t.store.confirm(claim.lease)
    got.push(...ids(claim))
  }
  expect(got.sort((a, b) => a - b)).toEqual(Array.from({ length: stored }, (_, i) => i + 1))
})

test('a session read apart keeps its order when the name was given to several', async () => {
  await using t = await openStore()
  add(t.store, 1, 'a')
  t.store.renameSession('a', 'b')
  add(t.store, 1, 'a')
  t.store.renameSession('a', 'b')
  t.store.insertReceived('b', 'b', [message('x')])
  expect(ids(t.store.claim('default', { limit: 2, session: 'b' }))).toEqual([1, 2])
  expect(ids(t.store.claim('default', { limit: 2, session: 'B' }))).toEqual([3])
})

test('a thousand sessions, each read apart, then together: nothing is left and nothing comes twice', async () => {
  await using t = await openStore()
  const db = await openDatabase(t.path)
  db.exec('PRAGMA synchronous = OFF')
  db.close()
  for (let i = 0; i < 1000; i++) add(t.store, 1, `s${i}`)
  for (let i = 0; i < 1000; i += 2) {
    const claim = t.store.claim('default', { limit: 5, session: `s${i}` })!
    expect(ids(claim)).toEqual([i + 1])
    t.store.confirm(claim.lease)
  }
  const rest = t.store.claim('default', { limit: 1000 })!
  expect(ids(rest)).toEqual(Array.from({ length: 500 }, (_, i) => i * 2 + 2))
  t.store.confirm(rest.lease)
  expect(t.store.claim('default', { limit: 5, session: 's0' })).toBeUndefined()
})

const never = () => new AbortController().signal

test('a wait ends at a row of our own, of another process, at an abandoned lease, in time, and at abort', async () => {
  await using t = await openStore()
  const own = t.store.waitForChange(never(), 60_000, 0)
  add(t.store, 1)
  await own

  const foreign = t.store.waitForChange(never(), 60_000, 1)
  const body = `const store = await open(); store.insertReceived('s', 'b', [${JSON.stringify(message('x'))}]); store.close()`
  await Promise.all([foreign, inOtherProcess(t.path, body)])
  expect(t.store.lastId()).toBe(2)

  const claim = t.store.claim('default', { limit: 1 })!
  const abandoned = t.store.waitForChange(never(), 60_000, 2)
  t.store.abandon(claim.lease)
  await abandoned
  t.store.confirm(t.store.claim('default', { limit: 5 })!.lease)

  await t.store.waitForChange(never(), 5, 99)
  const stop = new AbortController()
  const waiting = t.store.waitForChange(stop.signal, 60_000, 99)
  stop.abort()
  await waiting
  await t.store.waitForChange(stop.signal, 60_000, 99)
  await t.store.waitForChange(never(), 60_000, 1)
})

test('what another process commits between a look and the wait that follows ends that wait', async () => {
  await using t = await openStore()
  const other = await Store.open({
    ...{ path: t.path, clock: systemClock, log: silentLog, maxAgeDays: 0, maxCount: 0 },
  })
  try {
    const own = await sending(t.store, 's', 'b', {
      ...{ client_id: 'svc:1', to_user: 'u', msg_type: 'TEXT', text: 'x', timestamp: 1, raw: '{}' },
    })
    for (const status of ['unknown', 'accepted'] as const) {
      const seen = t.store.lastId()
      await other.outbox.settle(own, { status, spent: true })
      using watch = stopwatch()
      await t.store.waitForChange(never(), 20_000, seen)
      expect(watch.ms).toBeLessThan(10_000)
      expect(t.store.byId(own.row)?.status).toBe(status)
    }
  } finally {
    other.close()
  }
})

test('who waits looks again while rows are leased: a lease lapses without a word', async () => {
  await using t = await openStore()
  add(t.store, 1)
  t.store.claim('default', { limit: 1 })
  using watch = stopwatch()
  await t.store.waitForChange(never(), 60_000, 1)
  expect(watch.ms).toBeLessThan(5000)
})

test('ten thousand waits leave no listener behind, and closing ends the ones that are left', async () => {
  await using t = await openStore()
  let listeners = 0
  const { signal } = new AbortController()
  const counted = new Proxy(signal, {
    get(target, key) {
      if (key === 'addEventListener') listeners++
      if (key === 'removeEventListener') listeners--
      const value = Reflect.get(target, key, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  for (let round = 0; round < 100; round++) {
    const waits = Array.from({ length: 100 }, () => t.store.waitForChange(counted, 60_000, round))
    expect(listeners).toBe(100)
    add(t.store, 1)
    await Promise.all(waits)
  }
  expect(listeners).toBe(0)
  const last = t.store.waitForChange(counted, 60_000, 100)
  t.store.close()
  await last
  expect(listeners).toBe(0)
  expect(() => t.store.lastId()).toThrow()
})
