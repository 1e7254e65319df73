/** Retention in SQLite: its file, its log lines, and a clock that jumps. */
import { describe, expect, test } from 'bun:test'
import { stat } from 'node:fs/promises'
import { openDatabase } from '../../../src/platform/sqlite.ts'
import type { Store } from '../../../src/storage/store.ts'
import { failure } from '../../support/failure.ts'
import { insert, message, type Running } from '../support.ts'
import { openSqlite } from './support.ts'

const day = 24 * 3_600_000
const add = async (t: Running, count: number, text = 'x') =>
  await insert(
    t,
    Array.from({ length: count }, () => message(text)),
  )
const left = async (store: Store) => (await store.log.listAfter(0, { limit: 10_000 })).map(row => row.id)

test('the limit by count keeps exactly the newest rows, and the index drops the rest', async () => {
  await using t = await openSqlite({ maxCount: 1000 })
  await add(t, 1700, '旧的')
  await add(t, 300, '新的')
  await t.store.maintenance.prune()
  expect(await left(t.store)).toEqual(Array.from({ length: 1000 }, (_, i) => i + 1001))
  expect((await t.store.log.search({ text_contains: '旧的', limit: 1, offset: 0 })).total).toBe(700)
  const db = await openDatabase(t.path)
  expect(db.get`SELECT count(*) AS n FROM gram WHERE gram MATCH '旧的'`?.n).toBe(700)
  db.close()
  await t.store.maintenance.prune()
  expect(await left(t.store)).toHaveLength(1000)
})

test('a warning names, once, a live reader that has not read the removed rows; an up-to-date reader is not named', async () => {
  await using t = await openSqlite({ maxCount: 10 })
  await t.store.consumers.claim('apart', { limit: 1 })
  await add(t, 700)
  await t.store.consumers.claim('apart', { limit: 1000, session: 's' })
  await t.store.consumers.ack((await t.store.consumers.claim('default', { limit: 5 }))!.lease)
  await t.store.consumers.claim('late', { limit: 5 })
  await t.store.maintenance.prune()
  const warnings = t.lines.filter(line => line.includes('WARNING'))
  expect(warnings).toHaveLength(1)
  expect(warnings[0]).toContain('consumer=default')
  expect((await t.store.consumers.claim('default', { limit: 1000 }))?.rows).toHaveLength(10)
})

test('the file shrinks again, while readers read', async () => {
  await using t = await openSqlite({ maxCount: 100 })
  for (let i = 0; i < 30; i++) {
    const raw = JSON.stringify({ filler: 'f'.repeat(3000) })
    await insert(
      t,
      Array.from({ length: 100 }, () => message('长 text 词', { raw })),
    )
  }
  const checkpoint = async () => {
    const db = await openDatabase(t.path)
    expect(db.get`PRAGMA auto_vacuum`?.auto_vacuum).toBe(2)
    db.all`PRAGMA wal_checkpoint(TRUNCATE)`
    db.close()
    return (await stat(t.path)).size
  }
  const before = await checkpoint()
  const pruning = t.store.maintenance.prune()
  const reader = await openDatabase(t.path, { readonly: true })
  const seen = Number(reader.get`SELECT count(*) AS n FROM message`?.n)
  expect(seen).toBeGreaterThanOrEqual(100)
  reader.close()
  await pruning
  await t.store.maintenance.shrink()
  expect(await checkpoint()).toBeLessThan(before / 4)
})

test('a reader that never ends is told, with what to do, once it was there at two looks', async () => {
  await using t = await openSqlite()
  await t.store.maintenance.shrink()
  const reader = await openDatabase(t.path, { readonly: true })
  const raw = 'x'.repeat(4_000_000)
  await insert(t, [message('first')])
  reader.exec('BEGIN')
  reader.get`SELECT count(*) FROM message`
  for (let count = 0; count < 5; count++) await insert(t, [message('long', { raw })])
  await t.store.maintenance.shrink()
  const error = await failure(t.store.maintenance.shrink())
  expect(error).toMatchObject({ code: 'store_unavailable' })
  expect(String(error)).toContain('messages.db-wal')
  // It lasts as long as the reader.
  expect(await failure(t.store.maintenance.shrink())).toMatchObject({ code: 'store_unavailable' })
  reader.exec('COMMIT')
  reader.close()
  await t.store.maintenance.shrink()
  expect(await t.store.maintenance.checkWritable()).toBeUndefined()
})

describe('a clock that jumps', () => {
  const warnings = (t: { lines: readonly string[] }) => t.lines.filter(line => line.includes('WARNING'))

  test('ten years ahead and back removes nothing; rows stored in between do not protect old rows later', async () => {
    await using t = await openSqlite({ maxAgeDays: 30 })
    await add(t, 5)
    t.clock.off = 3650 * day
    await add(t, 400)
    await t.store.maintenance.prune()
    t.clock.at += 3_600_000
    await t.store.maintenance.prune()
    expect(await left(t.store)).toHaveLength(405)
    expect(warnings(t)).toHaveLength(1)
    expect((await t.store.consumers.claim('default', { limit: 1000 }))?.rows).toHaveLength(405)
    t.clock.off = 0
    await add(t, 5)
    await t.store.maintenance.prune()
    expect(await left(t.store)).toHaveLength(410)
    // Nothing is old yet.
    t.clock.at += 2 * day
    await t.store.maintenance.prune()
    await t.store.maintenance.prune()
    expect(await left(t.store)).toHaveLength(410)
    // All of it is, and the rows of the future too, for what came after them is.
    t.clock.at += 30 * day
    await add(t, 2)
    await t.store.maintenance.prune()
    expect(await left(t.store)).toEqual([411, 412])
  })

  test('and stays there is trusted after a day', async () => {
    await using t = await openSqlite({ maxAgeDays: 30 })
    await add(t, 5)
    t.clock.off = 60 * day
    await t.store.maintenance.prune()
    t.clock.at += day - 60_000
    await t.store.maintenance.prune()
    expect(await left(t.store)).toHaveLength(5)
    t.clock.at += 120_000
    await t.store.maintenance.prune()
    expect(await left(t.store)).toEqual([])
  })

  test('while no process runs is not trusted for a day either', async () => {
    await using t = await openSqlite({ maxAgeDays: 30 })
    await add(t, 5)
    t.clock.off = 3650 * day
    await t.reopen()
    await t.store.maintenance.prune()
    expect(await left(t.store)).toHaveLength(5)
  })

  test('back keeps everything too', async () => {
    await using t = await openSqlite({ maxAgeDays: 30 })
    await add(t, 5)
    t.clock.off = -3650 * day
    await add(t, 5)
    await t.store.maintenance.prune()
    t.clock.at += 2 * day
    await t.store.maintenance.prune()
    expect(await left(t.store)).toHaveLength(10)
  })

  test('does not stop the limit by count, and a reader that lags then is named', async () => {
    await using t = await openSqlite({ maxCount: 10 })
    await add(t, 20)
    await t.store.consumers.ack((await t.store.consumers.claim('default', { limit: 2 }))!.lease)
    t.clock.off = 3650 * day
    await t.store.maintenance.prune()
    expect(await left(t.store)).toHaveLength(10)
    expect(warnings(t).some(line => line.includes('consumer=default'))).toBe(true)
  })
})

test('pruning ends soon after its signal aborts', async () => {
  await using t = await openSqlite({ maxCount: 1 })
  for (let i = 0; i < 10; i++) await add(t, 1000)
  const stop = new AbortController()
  const pruning = t.store.maintenance.prune(stop.signal)
  stop.abort()
  await pruning
  expect((await left(t.store)).length).toBeGreaterThan(8000)
})
