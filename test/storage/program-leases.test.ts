/** What every engine must do for programs that lease rows (`Consumers.lease` of `src/storage/store.ts`). */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { sql } from '../../src/platform/sql.ts'
import { maxLeases } from '../../src/storage/nouns/readers.ts'
import type { LeasedRow } from '../../src/storage/store.ts'
import { failure, fieldsOf } from '../support/failure.ts'
import { runs } from '../support/properties.ts'
import { onEach } from './engines.ts'
import { insert, message, nthOf, type Running } from './support.ts'

const secondMs = 1000
/** Messages of these users, one after another. */
const arrive = (t: Running, users: string, session = 's', bot = 'b') =>
  insert(
    t,
    [...users].map(user => message(user, { from_user: user })),
    session,
    bot,
  )
const take = async ({ store }: Running, limit = 9, more: object = {}, consumer = 'default') =>
  (await store.consumers.lease(consumer, { limit, ...more })).rows
const leasesOf = (rows: readonly LeasedRow[]) => rows.map(({ lease }) => lease)
const settle = ({ store }: Running, rows: readonly LeasedRow[], as: 'read' | 'unread' | 'unseen' = 'read') =>
  store.consumers.settleLeases('default', leasesOf(rows), as)
const ids = (rows: readonly LeasedRow[]) => rows.map(({ id }) => nthOf(id))
const marked = (rows: readonly LeasedRow[]) =>
  rows.map(({ id, redelivered }) => (redelivered ? -nthOf(id) : nthOf(id)))

onEach((it, open, share) => {
  it('of a person one row at a time is leased, in order, and meanwhile those of others; the same name elsewhere is another', async t => {
    await arrive(t, 'aabac')
    await arrive(t, 'a', 'other')
    const first = await take(t)
    expect(ids(first)).toEqual([1, 3, 5, 6])
    expect(await take(t)).toEqual([])
    expect(await settle(t, first.slice(0, 1))).toEqual([first[0]!.lease])
    const second = await take(t)
    expect(marked(second)).toEqual([2])
    await arrive(t, 'ad')
    expect(ids(await take(t))).toEqual([8])
    await settle(t, second)
    expect(ids(await take(t))).toEqual([4])
  })

  it('a new consumer begins where recv begins it, and one that acknowledges is refused', async t => {
    await arrive(t, 'a')
    expect(await take(t, 9, {}, 'late')).toEqual([])
    await arrive(t, 'b')
    expect(ids(await take(t, 9, {}, 'late'))).toEqual([2])
    await t.store.acknowledgements.readAfter('acks', 0, { limit: 1 })
    expect(fieldsOf(await failure(take(t, 1, {}, 'acks')))).toEqual(['ack'])
  })

  it('several programs at once never have the same row', async t => {
    await arrive(t, 'abcdefghijklmnop')
    await using other = await t.second()
    const all = await Promise.all([1, 2, 3, 4, 5, 6].map(nth => take(nth % 2 ? t : other, 3)))
    expect(
      all
        .flat()
        .map(({ id }) => nthOf(id))
        .sort((a, b) => a - b),
    ).toEqual(Array.from({ length: 16 }, (_, i) => i + 1))
  })

  it('a row that is given back comes again before newer ones: marked, or as before if nobody saw it', async t => {
    await arrive(t, 'aab')
    const first = await take(t, 1)
    expect(await settle(t, first, 'unseen')).toEqual(leasesOf(first))
    const second = await take(t, 1)
    expect(marked(second)).toEqual([1])
    await settle(t, second, 'unread')
    expect(await t.store.backlog.findConsumersToRedeliver()).toEqual(new Set(['default']))
    const third = await take(t, 1)
    expect(marked(third)).toEqual([-1])
    await settle(t, third, 'read')
    expect(marked(await take(t, 1))).toEqual([2])
  })

  it('a lease lasts 45 s from opening and each renewal; one that is over is neither renewed nor settled', async t => {
    await arrive(t, 'aa')
    const [first] = [await take(t)]
    const renew = (rows: readonly LeasedRow[], consumer = 'default') =>
      t.store.consumers.renewLeases(consumer, leasesOf(rows))
    t.clock.at += 44 * secondMs
    expect(await renew(first)).toEqual({ leases: leasesOf(first), expiresAt: t.clock.at + 45 * secondMs })
    t.clock.at += 44 * secondMs
    expect(await take(t)).toEqual([])
    t.clock.at += 2 * secondMs
    // Late, and nobody has got it meanwhile.
    expect((await renew(first)).leases).toEqual(leasesOf(first))
    t.clock.at += 46 * secondMs
    const second = await take(t)
    expect(marked(second)).toEqual([-1])
    expect([(await renew(first)).leases, await settle(t, first)]).toEqual([[], []])
    // Not another consumer, such as that of another key.
    expect((await renew(second, 'k/default')).leases).toEqual([])
    expect(await t.store.consumers.settleLeases('k/default', leasesOf(second), 'read')).toEqual([])
    expect(await settle(t, [...second, ...first])).toEqual(leasesOf(second))
    expect(await settle(t, second)).toEqual([])
    const third = await take(t)
    expect(marked(third)).toEqual([2])
    for (const as of ['unread', 'unseen'] as const)
      expect(await settle(t, third, as)).toEqual(as === 'unread' ? leasesOf(third) : [])
  })

  it('at most 100 are open; what else comes waits, and the end of one makes room', async t => {
    const users = Array.from({ length: maxLeases + 5 }, (_, nth) => message('x', { from_user: `u${nth}` }))
    await insert(t, users)
    const all = [...(await take(t, 60)), ...(await take(t, 60))]
    expect(all).toHaveLength(maxLeases)
    expect(await take(t, 60)).toEqual([])
    await settle(t, all.slice(0, 2))
    // Who waits is woken.
    expect(await t.store.backlog.findConsumersToRedeliver()).toEqual(new Set(['default']))
    expect(ids(await take(t, 60))).toEqual([101, 102])
    t.clock.at += 46 * secondMs
    const again = [...(await take(t, 60)), ...(await take(t, 60))]
    expect(again).toHaveLength(maxLeases)
    await settle(t, again)
    expect((await take(t, 60)).length + (await take(t, 60)).length).toBe(3)
  })

  it('a person whose rows wait in great number holds up the others at last, and loses none', async t => {
    await arrive(t, 'a'.repeat(1001))
    await arrive(t, 'b')
    const [first] = await take(t, 1)
    for (let nth = 0; nth < 12; nth++) expect(await take(t, 9)).toEqual([])
    await settle(t, [first!])
    const next = await take(t, 9)
    expect(ids(next)).toEqual([2, 1002])
  }, 60_000)

  it('open leases outlive the process that gave them, and any process settles them', async t => {
    await arrive(t, 'aab')
    const open = await take(t)
    expect(ids(open)).toEqual([1, 3])
    await t.reopen()
    expect(await take(t)).toEqual([])
    await using other = await t.second()
    expect((await other.store.consumers.renewLeases('default', leasesOf(open))).leases.sort()).toEqual(
      leasesOf(open).sort(),
    )
    expect(await settle(other, open.slice(0, 1))).toEqual([open[0]!.lease])
    expect(ids(await take(t))).toEqual([2])
  })

  it('rows of an erased person, and rows that are gone, are skipped', async t => {
    await arrive(t, 'aabbca')
    const open = await take(t)
    expect(ids(open)).toEqual([1, 3, 5])
    await t.store.people.begin('a')
    await t.store.people.erase('a')
    await t.query(sql`DELETE FROM message WHERE id = ${t.id(4)}`)
    expect(await settle(t, open)).toEqual(leasesOf(open.slice(1)))
    expect(await take(t)).toEqual([])
    expect(await t.store.backlog.findConsumersToRedeliver()).toEqual(new Set())
    await arrive(t, 'b')
    expect(ids(await take(t))).toEqual([7])
  })

  it('with a session or a scope, only its rows are leased, and the others stay', async t => {
    await arrive(t, 'ab', 's', 'b')
    await arrive(t, 'ab', 'other', 'c')
    const open = await take(t, 9, { session: 'other' })
    expect(ids(open)).toEqual([3, 4])
    await settle(t, open, 'unread')
    expect(await take(t, 9, { session: 's', scope: { bots: ['c'] } })).toEqual([])
    expect(ids(await take(t, 9, { scope: { users: ['a'] } }, 'k/default'))).toEqual([1, 3])
    expect(ids(await take(t, 9, { scope: { bots: ['c'] } }, 'l/default'))).toEqual([3, 4])
    expect(marked(await take(t, 9, { session: 'other', scope: { users: ['b'] } }))).toEqual([-4])
    expect(marked(await take(t))).toEqual([1, 2, -3])
  })

  it('a consumer that is also claimed, or begins to acknowledge, loses nothing', async t => {
    const { acknowledgements, backlog, consumers } = t.store
    await arrive(t, 'aabb')
    const claim = (await consumers.claim('default', { limit: 1 }))!
    const open = await take(t)
    expect(ids(open)).toEqual([3])
    expect(await backlog.countWaiting('default', { limit: 9 })).toBe(2)
    // What waits for others of its person may be claimed.
    const second = (await consumers.claim('default', { limit: 9 }))!
    expect(second.rows.map(({ id }) => nthOf(id))).toEqual([2, 4])
    await consumers.ack(claim.lease)
    await consumers.nack(second.lease)
    const third = await take(t)
    expect(marked(third)).toEqual([-2])
    // A lease that has expired and was claimed is over.
    t.clock.at += 46 * secondMs
    const fourth = (await consumers.claim('default', { limit: 2 }))!
    expect(fourth.rows).toHaveLength(2)
    const left = [...open, ...third].filter(({ id }) => fourth.rows.every(row => row.id !== id))
    expect(await settle(t, [...open, ...third], 'unread')).toEqual(leasesOf(left))
    const page = await acknowledgements.readAfter('default', 0, { limit: 9 })
    expect(page.rows.map(({ id }) => nthOf(id))).toEqual([2, 3, 4])
    expect(await settle(t, open)).toEqual([])
  })

  test('whatever happens, no row is lost, none is done twice, and of each person they come in order', async () => {
    const step = fc.oneof(
      fc.record({ does: fc.constant('arrive' as const), users: fc.stringMatching(/^[abc]{1,4}$/) }),
      fc.record({
        does: fc.constant('take' as const),
        limit: fc.integer({ min: 1, max: 3 }),
        other: fc.boolean(),
      }),
      fc.record({
        does: fc.constant('settle' as const),
        nth: fc.nat(5),
        as: fc.constantFrom('read' as const, 'read' as const, 'unread' as const, 'unseen' as const),
      }),
      fc.record({ does: fc.constant('renew' as const) }),
      fc.record({ does: fc.constant('pass' as const), ms: fc.constantFrom(1000, 20_000, 46_000) }),
      fc.record({ does: fc.constant('restart' as const) }),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 60 }), async steps => {
        await using t = await open()
        await using other = await t.second()
        const userOf = new Map<number, string>()
        const done: number[] = []
        /** What programs have in hand, as far as they know. */
        let held: (LeasedRow & { until: number })[] = []
        const took = (rows: readonly LeasedRow[]) => {
          for (const row of rows) {
            const user = userOf.get(row.id)!
            const before = [...userOf].filter(([id, who]) => who === user && id < row.id)
            expect(before.every(([id]) => done.includes(id))).toBe(true)
            expect(done).not.toContain(row.id)
            const others = held.filter(({ id, until }) => until > t.clock.at && userOf.get(id) === user)
            expect(others).toEqual([])
            held.push({ ...row, until: t.clock.at + 45 * secondMs })
          }
        }
        const finish = async (some: typeof held, as: 'read' | 'unread' | 'unseen') => {
          if (some.length === 0) return
          const over = await settle(t, some, as)
          if (as === 'read')
            done.push(...some.filter(({ lease }) => over.includes(lease)).map(({ id }) => id))
          held = held.filter(row => !some.includes(row))
        }
        for (const one of steps) {
          if (one.does === 'arrive')
            for (const [nth, id] of (await arrive(t, one.users)).entries())
              userOf.set(Number(id), one.users[nth]!)
          else if (one.does === 'take') took(await take(one.other ? other : t, one.limit))
          else if (one.does === 'settle') await finish(held.slice(one.nth, one.nth + 1), one.as)
          else if (one.does === 'pass') t.clock.at += one.ms
          else if (one.does === 'restart') await t.reopen()
          else if (held.length > 0) {
            const { leases } = await t.store.consumers.renewLeases('default', leasesOf(held))
            held = held.map(row =>
              leases.includes(row.lease) ? { ...row, until: t.clock.at + 45 * secondMs } : row,
            )
          }
        }
        t.clock.at += 46 * secondMs
        held = []
        for (let rows = await take(t); rows.length > 0; rows = await take(t)) {
          took(rows)
          await finish(held, 'read')
        }
        expect(done.toSorted((a, b) => a - b)).toEqual([...userOf.keys()])
      }),
      runs(Math.ceil(60 * share)),
    )
  }, 300_000)
})
