/** Sends that wait outside their lane: for a person, or for their time. */
import { expect, test } from 'bun:test'
import type { NewPart } from '../../src/storage/outbox.ts'
import { failure } from '../support/failure.ts'
import { onEach } from './engines.ts'
import { add, begun, dayMs, enqueue, file, idsOf, lanes, next, outgoing, part } from './sends.ts'
import { open } from './support.ts'

onEach((it, openStore) => {
  it('at most a hundred sends of a session wait for approval, for any users; no process starts them', async t => {
    const asks: number[] = []
    for (let nth = 0; nth < 100; nth++) {
      const more = { user: `u${nth % 7}`, asked: 'queue' } as const
      asks.push((await add(t.store, [part(`a${nth}`), file(`f${nth}`)], more)).entry.id)
    }
    const over = enqueue(t.store, [part('over')], { asked: 'queue' })
    expect(await failure(over)).toMatchObject({ code: 'quota_exhausted' })
    // Another session has room of its own, and what needs no yes is not held up.
    await add(t.store, [part('other')], { session: 'other', asked: 'queue' })
    expect((await add(t.store, [part('plain')], { user: 'u1' })).verdict).toMatchObject({ go: 'now' })
    expect((await lanes(t.store)).map(({ user }) => user)).toEqual(['u1'])
    expect((await t.store.outbox.listFiles()).length).toBe(100)
    // A no makes room, a yes too.
    await t.store.outbox.end(asks[0]!, { code: 'cancelled', detail: 'no' }, { only: 'queue' })
    await add(t.store, [part('again')], { asked: 'queue' })
    expect(await t.store.outbox.approve(asks[1]!, open, 'panel')).toMatchObject({ state: 'approved' })
    expect(await t.store.outbox.approve(asks[1]!, open, 'panel')).toBeUndefined()
    expect((await next(t.store)).map(({ text }) => text)).toEqual(['a1', '', 'plain'])
    await add(t.store, [part('and again')], { asked: 'queue' })
  })

  it('what waits for an approval, or is being sent, does not wait for its user', async t => {
    await add(t.store, [part('asked')], { asked: 'queue', user: 'w' })
    const { entry } = await add(t.store, [part('begun')])
    await begun(t.store, idsOf(entry.parts), 'begun')
    expect(await t.store.outbox.getDepth()).toEqual({ messages: 0, sends: 0, users: 0 })
  })

  it('after an approval a send has a week from its call if it may wait for its user, otherwise its day', async t => {
    for (const [asked, days] of [
      ['queue', 7],
      ['fail', 1],
    ] as const) {
      const { entry } = await add(t.store, [part('x')], { asked })
      expect(entry.expires_at - entry.created_at).toBe(dayMs)
      t.clock.at += 1000
      await t.store.outbox.approve(entry.id, open, 'panel')
      const now = await t.store.outbox.getEntry(entry.id)
      expect(now).toMatchObject({ mode: 'queue', expires_at: entry.created_at + days * dayMs })
      expect(now?.asked).toBeUndefined()
    }
  })

  test('a send is listed while it can be approved, and not after that, even before its end is stored', async () => {
    await using t = await openStore()
    const { entry } = await add(t.store, [part('x')], { asked: 'queue' })
    t.clock.at = entry.expires_at - 1
    expect(await t.store.outbox.list()).toMatchObject([{ id: entry.id }])
    t.clock.at += 1
    expect(await t.store.outbox.approve(entry.id, open, 'panel')).toBeUndefined()
    expect(await t.store.outbox.list()).toEqual([])
  })

  it('what waits for its time is overtaken by what is sent before, and then waits in its lane', async t => {
    const { outbox } = t.store
    const send_at = t.clock.at + 5000
    const planned = (await add(t.store, [part('planned')], { send_at })).entry
    expect(planned).toMatchObject({ send_at, expires_at: send_at, parts: [{ status: 'asked' }] })
    const statusOf = async () => {
      const [row] = (await t.store.log.listAfter(0, { limit: 1 })).map(({ status, reason_code }) => [
        status,
        reason_code,
      ])
      return row
    }
    expect(await statusOf()).toEqual(['queued', 'time'])
    await add(t.store, [part('now')])
    expect((await next(t.store)).map(({ text }) => text)).toEqual(['now'])
    t.clock.at += 4999
    expect(await outbox.expire()).toEqual([])
    expect((await next(t.store)).map(({ text }) => text)).toEqual(['now'])
    const { revision } = await outbox.listWaiting(open)
    t.clock.at += 1
    expect(await outbox.expire()).toMatchObject([{ entry: { id: planned.id }, ended: 0, isLetGo: true }])
    expect(await outbox.expire()).toEqual([])
    expect((await next(t.store)).map(({ text }) => text)).toEqual(['planned', 'now'])
    expect(await statusOf()).toEqual(['queued', undefined])
    // Other processes see that something waits in this lane.
    expect((await outbox.listWaiting(open, { ids: [], since: revision })).lanes).toHaveLength(1)
    expect(await outbox.getEntry(planned.id)).toMatchObject({ expires_at: send_at + 7 * 24 * 60 * 60_000 })
  })

  it('an approval before the time of a send lets it wait for it, one after it lets it go', async t => {
    const { outbox } = t.store
    const send_at = t.clock.at + 5000
    const planned = () => add(t.store, [part('planned')], { send_at, asked: 'queue' })
    const [early, late] = [(await planned()).entry, (await planned()).entry]
    expect(await outbox.approve(early.id, open, 'panel')).toMatchObject({ state: 'approved' })
    expect(await outbox.approve(early.id, open, 'panel')).toBeUndefined()
    expect(await lanes(t.store)).toEqual([])
    t.clock.at += 5000
    expect(await outbox.expire()).toMatchObject([{ entry: { id: early.id }, isLetGo: true }])
    expect((await next(t.store)).map(({ entry }) => entry)).toEqual([early.id])
    expect(await outbox.approve(late.id, open, 'panel')).toMatchObject({ state: 'approved' })
    expect((await next(t.store)).map(({ entry }) => entry)).toEqual([early.id, late.id])
  })

  it('the row of a send that waits for approval has the reason and the source of its file, until the approval', async t => {
    const source = 'https://example.org/a.txt'
    const kept = { name: 'x', file_name: 'a.txt', size: 3, md5: 'ab', source }
    const message = { ...outgoing(''), msg_type: 'FILE' as const }
    const parts: NewPart[] = [part('a'), { kind: 'file', waiting: { message, file: kept } }]
    const { entry } = await add(t.store, parts, { asked: 'queue' })
    const reasons = async () =>
      (await t.store.log.listAfter(0, { limit: 9 })).map(one => [
        one.status,
        one.reason_code,
        one.reason_quote,
      ])
    expect(await reasons()).toEqual([
      ['queued', 'approval', undefined],
      ['queued', 'approval', source],
    ])
    await t.store.outbox.approve(entry.id, open, 'panel')
    expect(await reasons()).toEqual([
      ['queued', undefined, undefined],
      ['queued', undefined, undefined],
    ])
  })

  it('a call that needs approval queues behind waiting messages of its user, but not behind other such calls', async t => {
    const asked = () => add(t.store, [part('asked')], { asked: 'queue' })
    for (let nth = 0; nth < 2; nth++) expect((await asked()).verdict).toMatchObject({ go: 'now' })
    await add(t.store, [part('plain')])
    expect((await asked()).verdict).toBe('behind')
  })
})
