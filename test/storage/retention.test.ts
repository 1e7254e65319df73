/** What every engine must keep, and for how long (`src/storage/README.md`, "Retention"). */
import { expect, test } from 'bun:test'
import { cursorNumberOf } from '../../src/storage/events.ts'
import { lastRowId } from '../../src/storage/log-rows.ts'
import type { Store } from '../../src/storage/store.ts'
import { onEach } from './engines.ts'
import { insert, message, nthOf, outgoing, type Running, sending } from './support.ts'

const day = 24 * 3_600_000
const add = async (t: Running, count: number, text = 'x') =>
  await insert(
    t,
    Array.from({ length: count }, () => message(text)),
  )
const left = async (store: Store) => (await store.log.listAfter(0, { limit: 10_000 })).map(row => row.id)

onEach((_it, openStore) => {
  test('the limit by age removes old rows, and new row ids continue', async () => {
    await using t = await openStore({ maxAgeDays: 30 })
    await add(t, 500)
    t.clock.at += 29 * day
    await add(t, 5)
    await t.store.maintenance.prune()
    expect(await left(t.store)).toHaveLength(505)
    t.clock.at += day + 1
    await t.store.maintenance.prune()
    expect(await left(t.store)).toEqual([501, 502, 503, 504, 505].map(t.id))
    t.clock.at += 60 * day
    await t.store.maintenance.prune()
    expect(await left(t.store)).toEqual([])
    expect(await add(t, 1)).toEqual([t.id(506)])
    await t.store.maintenance.prune()
    expect(await left(t.store)).toEqual([t.id(506)])
  })

  test('the limits hold with high row ids, and remove the events between the messages', async () => {
    await using t = await openStore({ maxCount: 10, maxAgeDays: 30 })
    await t.continueAfter(lastRowId - 1000)
    await add(t, 20)
    await t.store.events.append([{ type: 'audit.line', data: {} }])
    await add(t, 20)
    await t.store.maintenance.prune()
    expect(await left(t.store)).toEqual(Array.from({ length: 10 }, (_, nth) => lastRowId - 1000 + 31 + nth))
    const { events } = await t.store.events.listAfter('', { limit: 100, hidden: true })
    expect(events.map(({ type }) => type)).toEqual(Array(10).fill('message.received'))
    t.clock.at += 20 * day
    await add(t, 5)
    t.clock.at += 11 * day
    await t.store.maintenance.prune()
    expect(await left(t.store)).toHaveLength(5)
  })

  test('the log refuses rows after the last id, in words, and shows those that it has', async () => {
    await using t = await openStore()
    await t.continueAfter(lastRowId - 2)
    await add(t, 2)
    const full = { code: 'store_unavailable', message: expect.stringContaining(String(lastRowId)) }
    for (let tries = 0; tries < 2; tries++) expect(await add(t, 1).catch(error => error)).toMatchObject(full)
    expect(await sending(t.store, 's', 'b', outgoing('1')).catch(error => error)).toMatchObject(full)
    expect(await left(t.store)).toEqual([lastRowId - 1, lastRowId])
    await t.store.events.append([{ type: 'audit.line', data: {} }])
    const { events } = await t.store.events.listAfter('', {
      limit: 9,
      types: ['message.received', 'audit.line'],
    })
    expect(events.map(({ type }) => type)).toEqual(['message.received', 'message.received', 'audit.line'])
    expect(new Set(events.map(({ cursor }) => cursorNumberOf(cursor))).size).toBe(3)
    expect(cursorNumberOf(await t.store.events.getHead())).toBeLessThan(Number.MAX_SAFE_INTEGER)
  })

  test('a doubt of the clock ends after a day of running, over several starts, and is no new one at each', async () => {
    await using t = await openStore({ maxAgeDays: 30 })
    await add(t, 3)
    const { maintenance } = t.store
    expect(await maintenance.isClockTrusted()).toBe(true)
    // Nobody wrote, and nothing ran, for 40 days.
    t.clock.off += 40 * day
    await t.reopen()
    for (const hours of [10, 10]) {
      expect(await t.store.maintenance.isClockTrusted()).toBe(false)
      await t.store.maintenance.prune()
      expect(await left(t.store)).toHaveLength(3)
      t.clock.at += hours * 3_600_000
      await t.store.maintenance.noteClock()
      t.clock.off += 2 * day
      await t.reopen()
    }
    expect(await t.store.maintenance.isClockTrusted()).toBe(false)
    t.clock.at += 4 * 3_600_000
    expect(await t.store.maintenance.isClockTrusted()).toBe(true)
    await t.store.maintenance.prune()
    expect(await left(t.store)).toEqual([])
    // The next start knows it, and a pause of a week without messages is no doubt while svc runs in between.
    for (let starts = 0; starts < 4; starts++) {
      await t.store.maintenance.noteClock()
      t.clock.off += 5 * day
      await t.reopen()
      expect(await t.store.maintenance.isClockTrusted()).toBe(true)
    }
    // A clock that is set is doubted for a whole day again.
    t.clock.off += 3650 * day
    expect(await t.store.maintenance.isClockTrusted()).toBe(false)
    await t.store.maintenance.noteClock()
    await t.reopen()
    t.clock.at += 23 * 3_600_000
    expect(await t.store.maintenance.isClockTrusted()).toBe(false)
  })

  test('a row that was claimed and then removed is not counted as waiting', async () => {
    await using t = await openStore({ maxCount: 2 })
    await add(t, 1)
    const { consumers, backlog, maintenance } = t.store
    await consumers.claim('default', { limit: 9 })
    await add(t, 2)
    await maintenance.prune()
    t.clock.at += 31_000
    expect(await backlog.countWaiting('default', { limit: 9 })).toBe(2)
    expect((await consumers.claim('default', { limit: 9 }))?.rows.map(({ id }) => nthOf(id))).toEqual([2, 3])
  })

  test('messages that consumers in use have not read are counted, for a key those that it may see', async () => {
    await using t = await openStore({ maxCount: 10 })
    const { consumers, keys, maintenance } = t.store
    const grant = { rights: ['recv'], users: ['u'] } as const
    await keys.add({ name: 'k', id: 'k', hash: 'k', grant, can: [], made_by: 'owner', created_at: 1 })
    for (const name of ['default', 'gone']) await consumers.register(name)
    t.clock.at += 31 * day
    for (const name of ['k/default', 'reads']) await consumers.register(name)
    await insert(t, [message('1'), { ...message('2'), from_user: 'u' }, message('3')])
    await add(t, 17)
    await consumers.claim('default', { limit: 4 })
    await consumers.claim('reads', { limit: 20 })
    // Six for `default`, one for the key, none for `reads` and `gone`.
    expect(await maintenance.prune()).toBe(7)
    expect(await maintenance.prune()).toBe(0)
  })

  test('without limits nothing is removed', async () => {
    await using t = await openStore()
    await add(t, 400)
    t.clock.at += 10_000 * day
    await t.store.maintenance.prune()
    expect(await left(t.store)).toHaveLength(400)
  })
})
