/** What every engine must keep, and for how long (`src/storage/README.md`, "Retention"). */
import { expect, test } from 'bun:test'
import type { Store } from '../../src/storage/store.ts'
import { onEach } from './engines.ts'
import { insert, message, type Running } from './support.ts'

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
    expect(await left(t.store)).toEqual([501, 502, 503, 504, 505])
    t.clock.at += 60 * day
    await t.store.maintenance.prune()
    expect(await left(t.store)).toEqual([])
    expect(await add(t, 1)).toEqual([506])
    await t.store.maintenance.prune()
    expect(await left(t.store)).toEqual([506])
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
    expect((await consumers.claim('default', { limit: 9 }))?.rows.map(({ id }) => id)).toEqual([2, 3])
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
