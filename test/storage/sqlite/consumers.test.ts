/** Readers of the log in SQLite: other processes, other versions, waits. */
import { expect } from 'bun:test'
import { openDatabase } from '../../../src/platform/sqlite.ts'
import type { ConsumerClaim } from '../../../src/storage/store.ts'
import { given } from '../../support/given.ts'
import { stopwatch } from '../../support/stopwatch.ts'
import { byId, insert, message, outgoing, type Running, sending } from '../support.ts'
import { inOtherProcess, openSqlite, startOnDirectory } from './support.ts'

const it = given(openSqlite)

const ids = (claim: ConsumerClaim | undefined) => claim?.rows.map(row => row.id) ?? []
const add = async (t: Running, count: number, session = 's') =>
  await insert(
    t,
    Array.from({ length: count }, (_, i) => message(`${session} ${i}`)),
    session,
  )

const never = () => new AbortController().signal

it('rows of a killed process are redelivered immediately', async t => {
  await add(t, 2)
  const body = `console.log((await store.consumers.claim('default', { limit: 1 })).rows.length, 'ready'); await hold()`
  t.clock.at = Date.now()
  await inOtherProcess(t.dir, body, 'SIGKILL')
  const again = (await t.store.consumers.claim('default', { limit: 10 }))!
  expect(ids(again)).toEqual([1])
  expect(again.redelivered.has(1)).toBe(true)
})

it('the rows of a living process stay its own', async t => {
  await add(t, 2)
  t.clock.at = Date.now()
  const child = startOnDirectory(
    t.dir,
    `await store.consumers.claim('default', { limit: 1 }); console.log('ready'); await hold()`,
  )
  try {
    await child.stdout.getReader().read()
    expect(ids(await t.store.consumers.claim('default', { limit: 10 }))).toEqual([2])
  } finally {
    child.kill('SIGKILL')
    await child.exited
  }
})

it('an older version that runs at the same time takes nothing from an acknowledging reader', async t => {
  await add(t, 3, 'a')
  const { acknowledgements } = t.store
  await acknowledgements.readAfter('default', 0, { limit: 1 })
  await acknowledgements.markHandedOut('default', 1)
  // As it hands out rows, of a session alone and of all, and confirms them.
  const db = await openDatabase(t.path)
  db.exec("INSERT INTO consumer_ahead (consumer, session, position) VALUES ('default', 1, 2)")
  db.exec("UPDATE consumer SET position = 3 WHERE name = 'default'")
  db.exec("DELETE FROM consumer_ahead WHERE consumer = 'default' AND position <= 3")
  db.close()
  const { rows, redelivered } = await acknowledgements.readAfter('default', 1, { limit: 9 })
  expect(rows.map(({ id }) => id)).toEqual([2, 3])
  expect(redelivered.size).toBe(0)
})

it('a wait ends at a row of our own, of another process, at an abandoned lease, in time, and at abort', async t => {
  const own = t.store.log.wait(0, 60_000, never())
  await add(t, 1)
  await own

  const foreign = t.store.log.wait(1, 60_000, never())
  const body = `await insert({ storage }, [${JSON.stringify(message('x'))}])`
  await Promise.all([foreign, inOtherProcess(t.dir, body)])
  expect(await t.store.log.getHead()).toBe(2)

  const claim = (await t.store.consumers.claim('default', { limit: 1 }))!
  const abandoned = t.store.log.wait(2, 60_000, never())
  await t.store.consumers.nack(claim.lease)
  await abandoned
  await t.store.consumers.ack((await t.store.consumers.claim('default', { limit: 5 }))!.lease)

  await t.store.log.wait(99, 5, never())
  const stop = new AbortController()
  const waiting = t.store.log.wait(99, 60_000, stop.signal)
  stop.abort()
  await waiting
  await t.store.log.wait(99, 60_000, stop.signal)
  await t.store.log.wait(1, 60_000, never())
})

it('a commit of another process between a read and the following wait ends that wait', async t => {
  await using other = await t.second()
  {
    const own = await sending(t.store, 's', 'b', outgoing('svc:1'))
    for (const status of ['unknown', 'accepted'] as const) {
      const seen = await t.store.log.getHead()
      await other.store.outbox.settle(own, { status, spent: true })
      using watch = stopwatch()
      await t.store.log.wait(seen, 20_000, never())
      expect(watch.ms).toBeLessThan(10_000)
      expect((await byId(t.store, own.row))?.status).toBe(status)
    }
  }
})

it('a program that leases waits for no writer while there is nothing for it', async t => {
  const { consumers } = t.store
  const of = (users: string) =>
    insert(
      t,
      [...users].map(user => message(user, { from_user: user })),
    )
  const take = async () => (await consumers.lease('default', { limit: 9 })).rows.map(({ id }) => id)
  const takeLocked = async () => {
    const db = await openDatabase(t.path)
    db.exec('BEGIN IMMEDIATE')
    try {
      return await take()
    } finally {
      db.close()
    }
  }
  expect(await take()).toEqual([])
  expect(await takeLocked()).toEqual([])
  await of('aab')
  expect(await take()).toEqual([1, 3])
  expect(await takeLocked()).toEqual([])
  await of('a'.repeat(1100))
  for (let nth = 0; nth < 12; nth++) await take()
  expect(await takeLocked()).toEqual([])
})
