import { expect, test } from 'bun:test'
import type { Store } from '../../src/store/store.ts'
import { openStore, startOther } from './support.ts'

const rules = { perWindow: 3, windowMs: 60_000, aheadMs: 30_000 }
const book = (store: Store, session: string, user: string, inMs = 0) =>
  store.turns(turns => turns.book(session, user, rules, ({ now }) => now + inMs))
const taken = (store: Store, session: string, user: string) =>
  store.turns(turns => turns.taken(session, user, rules))

test('the newest turns of a user inside the window come oldest first, and the newest of the whole session', async () => {
  await using t = await openStore()
  const from = t.clock.at
  expect(taken(t.store, 's', 'u')).toEqual({ now: from, last: undefined, user: [] })
  for (const user of ['u', 'u', 'v', 'u', 'u']) {
    expect(book(t.store, 's', user, 500)).toBe(500)
    t.clock.at += 1000
  }
  book(t.store, 'other', 'u')
  expect(taken(t.store, 's', 'u')).toEqual({
    now: from + 5000,
    last: from + 4500,
    user: [from + 1500, from + 3500, from + 4500],
  })
  t.clock.at = from + 63_000
  expect(taken(t.store, 's', 'u')).toMatchObject({ last: from + 4500, user: [from + 3500, from + 4500] })
})

test('they outlive a restart, and follow a session to its new name', async () => {
  await using t = await openStore()
  book(t.store, 'old', 'u')
  await t.reopen()
  expect(taken(t.store, 'old', 'u').user).toEqual([t.clock.at])
  t.store.renameSession('old', 'new')
  expect(taken(t.store, 'new', 'u').user).toEqual([t.clock.at])
  expect(taken(t.store, 'old', 'u').last).toBeUndefined()
})

test('one that is refused is not booked', async () => {
  await using t = await openStore()
  const refuse = () =>
    t.store.turns(turns =>
      turns.book('s', 'u', rules, () => {
        throw new Error('not now')
      }),
    )
  expect(refuse).toThrow('not now')
  expect(taken(t.store, 's', 'u').last).toBeUndefined()
})

test('one that is given back does not count, and no other goes with it', async () => {
  await using t = await openStore()
  const now = t.clock.at
  for (const inMs of [0, 500, 500, 1000]) book(t.store, 's', 'u', inMs)
  t.store.turns(turns => turns.giveBack('s', 'u', now + 500))
  expect(taken(t.store, 's', 'u').user).toEqual([now, now + 500, now + 1000])
  t.store.turns(turns => turns.giveBack('s', 'u', now + 500))
  t.store.turns(turns => turns.giveBack('s', 'u', now + 1000))
  expect(taken(t.store, 's', 'u')).toMatchObject({ last: now, user: [now] })
})

test('after the clock was set back, what it had booked counts only as far ahead as anybody waits, and is gone for good', async () => {
  await using t = await openStore()
  const now = t.clock.at
  book(t.store, 's', 'u', 20_000)
  t.clock.at = now - 5000
  expect(taken(t.store, 's', 'u').user).toEqual([now + 20_000])
  t.clock.at = now - 24 * 60 * 60_000
  expect(taken(t.store, 's', 'u')).toMatchObject({ last: undefined, user: [] })
  book(t.store, 's', 'u')
  t.clock.at = now
  expect(taken(t.store, 's', 'u').user).toEqual([])
})

test('old turns go', async () => {
  await using t = await openStore()
  const from = t.clock.at
  for (let hour = 0; hour < 3; hour++) {
    book(t.store, 's', 'u')
    t.clock.at += 60 * 60_000
  }
  const wide = { ...rules, perWindow: 100, windowMs: 24 * 60 * 60_000 }
  expect(t.store.turns(turns => turns.taken('s', 'u', wide)).user).toEqual([from + 2 * 60 * 60_000])
})

test('processes that book at once never get the same turn', async () => {
  await using t = await openStore()
  const others = Array.from({ length: 3 }, () =>
    startOther(
      t.path,
      `const store = await open()
       const rules = { perWindow: 1000, windowMs: 3_600_000, aheadMs: 3_600_000 }
       const got = []
       for (let n = 0; n < 100; n++)
         store.turns(turns => turns.book('s', 'u', rules, ({ now, last }) => {
           const at = Math.max(now, (last ?? 0) + 1000)
           got.push(at)
           return at
         }))
       store.close()
       console.log(JSON.stringify(got))`,
    ),
  )
  const got = (await Promise.all(others.map(child => new Response(child.stdout).json()))) as number[][]
  const all = got.flat().sort((a, b) => a - b)
  expect(all).toHaveLength(300)
  for (let n = 1; n < all.length; n++) expect(all[n]! - all[n - 1]!).toBe(1000)
})
