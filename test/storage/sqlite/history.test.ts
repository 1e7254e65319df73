/** Searches in SQLite, which look through windows. */
import { expect, test } from 'bun:test'
import { systemClock } from '../../../src/platform/clock.ts'
import { silentLog } from '../../../src/platform/log.ts'
import { sql } from '../../../src/platform/sql.ts'
import { gramsOf } from '../../../src/storage/sqlite/bigram-index.ts'
import { openSqliteStore } from '../../../src/storage/sqlite/store.ts'
import { inMemory } from '../../../src/storage/sqlite/work.ts'
import { failure } from '../../support/failure.ts'
import { given } from '../../support/given.ts'
import { insert, message } from '../support.ts'
import { insertInto, openSqlite } from './support.ts'

const it = given(openSqlite)

test('a long text costs the index few entries', () => {
  const text = Array.from({ length: 100_000 }, (_, n) => String.fromCodePoint(0x4e00 + (n % 20_000))).join('')
  expect(gramsOf(text).length).toBeLessThan(10)
})

it('rows may be added and removed during a long search', async t => {
  for (let i = 0; i < 20; i++) {
    await insert(
      t,
      Array.from({ length: 1000 }, (_, n) => message(i === 0 ? `针${n}` : '草')),
    )
  }
  const search = t.store.log.search({
    msg_type: 'TEXT',
    text_contains: '针',
    user_id: 'u@im.wechat',
    limit: 200,
    offset: 900,
  })
  await insert(t, [message('针 late')])
  expect((await search).rows).toHaveLength(100)
})

it('a search ends with the reason of its signal, or because the store closes', async t => {
  for (let i = 0; i < 20; i++) {
    await insert(
      t,
      Array.from({ length: 1000 }, () => message('草草草草', { timed: false })),
    )
  }
  const stop = new AbortController()
  const search = t.store.log.search({ msg_type: 'VIDEO', bot_id: 'b', limit: 1, offset: 0 }, stop.signal)
  stop.abort(new Error('gone'))
  expect((await failure(search)).message).toBe('gone')
  const other = t.store.log.search({ msg_type: 'VIDEO', bot_id: 'b', limit: 1, offset: 0 })
  await t.storage.close()
  expect(await failure(other)).toMatchObject({ code: 'shutting_down' })
})

it('a hostile search text and messages do not block other work', async t => {
  const half = 'a'.repeat(4999)
  // LIKE would take minutes for them.
  await insert(
    t,
    Array.from({ length: 8 }, () => message(`${half}b`.repeat(200))),
  )
  const found = await t.store.log.search({ text_contains: `a${half}b${half}`, limit: 1, offset: 0 })
  expect(found.rows).toEqual([])
})

it('the audit log is read in pieces: others are served, and its caller may leave', async t => {
  await t.query(sql`INSERT INTO audit (at, principal, operation)
    WITH RECURSIVE line(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM line WHERE id < 30000)
    SELECT id, 'owner', 'logout' FROM line`)
  // Each look at the clock takes 10 ms.
  let now = t.clock.monotonic()
  t.clock.monotonic = () => (now += 10)
  let rounds = 0
  let leaves = false
  const stop = new AbortController()
  let looking = setImmediate(function look() {
    rounds++
    if (leaves) stop.abort(new Error('gone'))
    looking = setImmediate(look)
  })
  const list = () => t.store.audit.list({ limit: 1, address: 'none' }, stop.signal)
  expect(await list()).toEqual([])
  expect(rounds).toBeGreaterThanOrEqual(7)
  leaves = true
  expect((await failure(list())).message).toBe('gone')
  clearImmediate(looking)
})

/** A store in which each look at the clock takes 10 ms: no two rows of a search are looked at in one go. */
async function slowStore(rows: number) {
  let now = 0
  const clock = { ...systemClock, monotonic: () => (now += 10) }
  const store = await openSqliteStore({
    path: inMemory,
    clock,
    log: silentLog,
    maxAgeDays: 0,
    maxCount: 0,
  })
  await insertInto(
    store,
    Array.from({ length: rows }, (_, nth) => message(`word${nth} other`)),
  )
  return { store, [Symbol.asyncDispose]: () => store.maintenance.close() }
}

test('a search ends a window when its time is over, still finds everything, and yields to other work', async () => {
  await using t = await slowStore(40)
  let rounds = 0
  let looking = setImmediate(function look() {
    rounds++
    looking = setImmediate(look)
  })
  const found = await t.store.log.search({ text_contains: 'd3', limit: 5, offset: 0 })
  clearImmediate(looking)
  expect(found.rows.map(({ text }) => text)).toEqual([39, 38, 37, 36, 35].map(nth => `word${nth} other`))
  expect(found.total).toBe(11)
  expect(rounds).toBeGreaterThan(30)
})

test('a limited number of long searches runs at a time; further ones are rejected', async () => {
  await using t = await slowStore(200)
  const search = () => t.store.log.search({ text_contains: 'd other', limit: 1, offset: 0 })
  const codes = async (count: number) => {
    const found = await Promise.allSettled(Array.from({ length: count }, search))
    return found.map(one => (one.status === 'fulfilled' ? '' : one.reason.code)).sort()
  }
  expect(await codes(10)).toEqual([...Array(8).fill(''), 'rate_limited', 'rate_limited'])
  // Their room is given back.
  expect(await codes(8)).toEqual(Array(8).fill(''))
})
