/** What every engine must do to keep the pace (`OutboxStore`). */
import { expect } from 'bun:test'
import type { SendRules } from '../../src/model/admission.ts'
import type { LaneFilter } from '../../src/storage/outbox.ts'
import { onEach } from './engines.ts'
import { insert, message, type Opened, open, outgoing, rename, sending } from './support.ts'

const paced = (perSecond: number, perWindow: number, windowMs = 60_000): SendRules => ({
  ...open,
  pace: { perSecond, perWindow, windowMs },
})
let count = 0
const send = (t: Opened, user: string, how: SendRules, session = 's') => {
  const message = { client_id: `c${++count}`, to_user: user, msg_type: 'TEXT', text: 'x' } as const
  return sending(t.store, session, 'b', { ...message, timestamp: count, raw: '{}' }, { rules: how })
}
const verdict = (t: Opened, user: string, how: SendRules, session = 's', messages = 1) =>
  t.store.outbox.checkAdmission(session, user, messages, how)

onEach(it => {
  it('a message takes its slot: the next one of the session follows, and the window of the user fills', async t => {
    const now = t.clock.at
    const how = paced(1, 3)
    await insert(t, [message('hi', { from_user: 'u', written_at: now })])
    await send(t, 'u', how)
    expect(await verdict(t, 'v', how)).toEqual({ go: 'later', slot: now + 1000 })
    expect(await verdict(t, 'u', how, 'other')).toEqual({ go: 'now', slot: now })
    for (let n = 0; n < 2; n++) {
      t.clock.at += 1000
      await send(t, 'u', how)
    }
    t.clock.at += 1000
    expect(await verdict(t, 'u', how)).toEqual({ go: 'no', why: 'pace', waitMs: 57_000 })
    expect(await verdict(t, 'v', how)).toMatchObject({ go: 'now' })
  })

  it('the first waiting lanes get the remaining slots of their session', async t => {
    const { outbox } = t.store
    const how = paced(0.1, 10)
    const wait = (user: string, session = 's') => {
      const parts = [{ kind: 'text', waiting: { message: outgoing(`${session} ${user}`) } }] as const
      const entry = { session, bot_id: 'b', user, mode: 'queue', parts, made_by: 'owner' } as const
      return outbox.enqueue(entry, how)
    }
    await send(t, 'u', how)
    const users = ['a', 'b', 'c', 'd', 'e']
    const wrote = { written_at: t.clock.at }
    await insert(
      t,
      users.map(from_user => message('hi', { ...wrote, from_user })),
    )
    for (const user of users) await wait(user)
    await wait('a', 'other')
    const looked = async (some?: LaneFilter) =>
      (await outbox.listWaiting(how, some)).lanes.map(({ session, user, verdict, crowded }) => {
        const when =
          verdict.go === 'no' ? 'waitMs' in verdict && verdict.waitMs : (verdict.slot ?? 0) - t.clock.at
        return [session, user, verdict.go, when, crowded]
      })
    const late = ['s', 'd', 'no', 40_000, true]
    expect(await looked()).toEqual([
      ['s', 'a', 'later', 10_000, false],
      ['s', 'b', 'later', 20_000, false],
      ['s', 'c', 'later', 30_000, false],
      late,
      ['s', 'e', 'no', 40_000, true],
      ['other', 'a', 'now', 0, false],
    ])
    // Nothing was taken: of some alone the first one gets the first slot.
    expect(await looked({ of: { session: 's', users: ['c', 'nobody'] } })).toEqual([
      ['s', 'c', 'later', 10_000, false],
    ])
    // One that has its slot keeps it, and gives nobody else's away.
    const [a] = (await outbox.listWaiting(how)).lanes
    const { parts } = (await outbox.claim(a!.id))!
    const slot = t.clock.at + 10_000
    expect(await outbox.begin([parts[0]!.id], 'b', how, outgoing('w'))).toEqual({ go: 'later', slot })
    expect((await looked()).slice(1, 4)).toEqual([
      ['s', 'b', 'later', 20_000, false],
      ['s', 'c', 'later', 30_000, false],
      late,
    ])
    t.clock.at = slot
    expect((await looked())[0]).toEqual(['s', 'a', 'now', 0, false])
  })

  it('slots outlive a restart, and follow a session to its new name', async t => {
    const how = paced(0.1, 10)
    await send(t, 'u', how, 'old')
    await t.reopen()
    await rename(t, 'old', 'new')
    expect(await verdict(t, 'u', how, 'new')).toMatchObject({ go: 'later' })
    expect(await verdict(t, 'u', how, 'old')).toMatchObject({ go: 'now' })
  })

  it('a slot for a message that WeChat never saw does not count', async t => {
    const how = paced(0.1, 10)
    for (const unseen of [true, false]) {
      const begun = await send(t, 'u', how)
      await t.store.outbox.settle(begun, { status: 'refused', spent: false, unseen })
      expect((await verdict(t, 'u', how)).go).toBe(unseen ? 'now' : 'later')
    }
  })

  it('a waiting message has a slot before others; when it is missed or cancelled, it is free', async t => {
    const now = t.clock.at
    const how = paced(0.1, 10)
    await send(t, 'u', how)
    const entry = {
      session: 's',
      bot_id: 'b',
      user: 'v',
      mode: 'fail',
      made_by: 'owner',
      parts: [{ kind: 'text' }],
    } as const
    const waiting = await t.store.outbox.enqueue(entry, how)
    if (waiting.state !== 'new') throw new Error('not written')
    const message = outgoing('w', { to_user: 'v' })
    const begin = () => t.store.outbox.begin([waiting.entry.parts[0]!.id], 'b', how, message)
    expect(await begin()).toEqual({ go: 'later', slot: now + 10_000 })
    expect(await verdict(t, 'u', how)).toEqual({ go: 'later', slot: now + 20_000 })
    t.clock.at = now + 15_000
    expect(await begin()).toMatchObject({ go: 'begun', begun: { slot: now + 15_000 } })
    const again = await t.store.outbox.enqueue(entry, how)
    if (again.state !== 'new') throw new Error('not written')
    const { id, parts } = again.entry
    expect(
      await t.store.outbox.begin([parts[0]!.id], 'b', how, { ...message, client_id: 'y' }),
    ).toMatchObject({ slot: now + 25_000 })
    await t.store.outbox.end(id, { code: 'shutting_down', detail: 'gone' })
    expect(await verdict(t, 'u', how)).toEqual({ go: 'later', slot: now + 25_000 })
  })

  it('after the clock was set back, slots taken before count only up to the patience', async t => {
    const how = paced(0.1, 10)
    await send(t, 'u', how)
    t.clock.at -= 5000
    expect((await verdict(t, 'u', how)).go).toBe('later')
    t.clock.at -= 24 * 60 * 60_000
    expect((await verdict(t, 'u', how)).go).toBe('now')
  })

  it('a part that may not go in its slot after all, or goes joined to another, leaves it to others', async t => {
    const how = paced(0.1, 10)
    const { outbox } = t.store
    const wait = async (user: string, asked?: 'queue') => {
      const parts = [
        { kind: 'text', waiting: { message: outgoing(`${++count}`, { to_user: user }) } },
      ] as const
      const entry = { session: 's', bot_id: 'b', user, mode: 'queue', parts, made_by: 'owner' } as const
      const enqueued = await outbox.enqueue({ ...entry, ...(asked && { asked }) }, how)
      if (enqueued.state !== 'new') throw new Error(enqueued.state)
      return { part: enqueued.entry.parts[0]!.id, ...enqueued }
    }
    const begin = (ids: number[], user = 'v', rules = how) =>
      outbox.begin(ids, 'b', rules, outgoing(`${++count}`, { to_user: user }))
    await send(t, 'u', how)
    const { part, lane } = await wait('v')
    const slot = t.clock.at + 10_000
    expect(await begin([part])).toEqual({ go: 'later', slot })
    t.clock.at = slot
    expect(await begin([part], 'v', { ...how, quota: 0 })).toMatchObject({ go: 'no', why: 'quota' })
    expect((await outbox.claim(lane))?.parts[0]?.slot).toBeUndefined()
    const other = await wait('w')
    expect(await begin([other.part], 'w')).toMatchObject({ go: 'begun', begun: { slot } })
    expect(await begin([part])).toEqual({ go: 'later', slot: slot + 10_000 })

    const before = await wait('x', 'queue')
    const behind = await wait('x')
    expect(await begin([behind.part], 'x')).toEqual({ go: 'later', slot: slot + 20_000 })
    await outbox.approve(before.entry.id, how, 'owner')
    t.clock.at = slot + 15_000
    expect(await begin([before.part, behind.part], 'x')).toEqual({ go: 'later', slot: slot + 20_000 })
  })
})
