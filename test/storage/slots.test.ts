/** What every engine must do to keep the pace (`Outbox`). */
import { expect } from 'bun:test'
import type { Terms } from '../../src/storage/outbox.ts'
import { onEach } from './engines.ts'
import { type Opened, open, outgoing, rename, sending } from './support.ts'

const terms = (perSecond: number, perWindow: number, windowMs = 60_000): Terms => ({
  ...open,
  rules: { ...open.rules, pace: { perSecond, perWindow, windowMs } },
})
let count = 0
const send = (t: Opened, user: string, how: Terms, session = 's') => {
  const message = { client_id: `c${++count}`, to_user: user, msg_type: 'TEXT', text: 'x' } as const
  return sending(t.store, session, 'b', { ...message, timestamp: count, raw: '{}' }, { terms: how })
}
const verdict = (t: Opened, user: string, how: Terms, session = 's', messages = 1) =>
  t.store.outbox.verdict(session, user, messages, how)

onEach(it => {
  it('a message takes its slot: the next one of the session follows, and the window of the user fills', async t => {
    const now = t.clock.at
    const how = { ...terms(1, 3), context: { received_at: now, used: 0 } }
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

  it('lanes come with the slots that count for them, all of them or those of some users', async t => {
    const how = { ...terms(1, 2), context: { received_at: t.clock.at, used: 0 } }
    await send(t, 'u', how)
    const message = outgoing('w')
    for (const [nth, [user, session]] of Object.entries({
      a: ['u', 's'],
      b: ['v', 's'],
      c: ['u', 'other'],
    } as const)) {
      const parts = [{ kind: 'text', waiting: { message: { ...message, client_id: nth } } }] as const
      await t.store.outbox.enqueue(
        { session, bot_id: 'b', user, mode: 'queue', parts, made_by: 'owner' },
        how,
      )
    }
    const [part] = await t.store.outbox.next((await t.store.outbox.lanes(how.rules))[1]!.id)
    const slot = t.clock.at + 1000
    expect(await t.store.outbox.begin([part!.id], 'b', how, message)).toEqual({ go: 'later', slot })
    const lanes = async (session?: string, ...users: string[]) =>
      (await t.store.outbox.lanes(how.rules, session === undefined ? session : { session, users })).map(
        ({ session, slot, slots, user }) => ({ session, user, slot, slots }),
      )
    const [u, v, other] = [
      { session: 's', user: 'u', slot: undefined, slots: { last: slot, user: [t.clock.at] } },
      { session: 's', user: 'v', slot, slots: { last: slot, user: [slot] } },
      { session: 'other', user: 'u', slot: undefined, slots: { user: [] } },
    ]
    expect(await lanes()).toEqual([u, v, other])
    expect(await lanes('s', 'v', 'w')).toEqual([v])
    expect(await lanes('s', 'w')).toEqual([])
  })

  it('slots outlive a restart, and follow a session to its new name', async t => {
    const how = terms(0.1, 10)
    await send(t, 'u', how, 'old')
    await t.reopen()
    await rename(t, 'old', 'new')
    expect(await verdict(t, 'u', how, 'new')).toMatchObject({ go: 'later' })
    expect(await verdict(t, 'u', how, 'old')).toMatchObject({ go: 'now' })
  })

  it('one in which WeChat saw nothing does not count', async t => {
    const how = terms(0.1, 10)
    for (const unseen of [true, false]) {
      const begun = await send(t, 'u', how)
      await t.store.outbox.settle(begun, { status: 'refused', spent: false, unseen })
      expect((await verdict(t, 'u', how)).go).toBe(unseen ? 'now' : 'later')
    }
  })

  it('one who waits has a slot that others stand behind; past it, or cancelled, it is free', async t => {
    const now = t.clock.at
    const how = terms(0.1, 10)
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

  it('after the clock was set back, what it had taken counts only as far ahead as anybody waits', async t => {
    const how = terms(0.1, 10)
    await send(t, 'u', how)
    t.clock.at -= 5000
    expect((await verdict(t, 'u', how)).go).toBe('later')
    t.clock.at -= 24 * 60 * 60_000
    expect((await verdict(t, 'u', how)).go).toBe('now')
  })
})
