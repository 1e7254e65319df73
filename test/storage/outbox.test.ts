/** What every engine must do for sends (`src/storage/outbox.ts`). */
import { expect, test } from 'bun:test'
import {
  type BegunMessage,
  type LaneFilter,
  type StoredEntry,
  stoppedDuringSend,
} from '../../src/storage/outbox.ts'
import { failure } from '../support/failure.ts'
import { onEach } from './engines.ts'
import {
  accepted,
  add,
  begin,
  begun,
  claim,
  dayMs,
  enqueue,
  file,
  idsOf,
  lane,
  lanes,
  next,
  outgoing,
  part,
  removeSends,
  rows,
} from './sends.ts'
import { bot, byMessageId, insert, message, nthOf, open, rename, sending } from './support.ts'

onEach((it, openStore) => {
  it('the lane whose first part waits longest comes first', async t => {
    const users = async () => (await lanes(t.store)).map(({ user }) => user)
    const { entry } = await add(t.store, [part('a')])
    for (const user of ['v', 'w', 'u']) await add(t.store, [part('b')], { user })
    expect(await users()).toEqual(['u', 'v', 'w'])
    await t.store.outbox.end(entry.id, { code: 'cancelled', detail: 'x' })
    expect(await users()).toEqual(['v', 'w', 'u'])
  })

  it('parts wait in order, in the log too, per user and session', async t => {
    expect(await t.store.outbox.getDepth()).toEqual({ messages: 0, sends: 0, users: 0 })
    const { entry } = await add(t.store, [part('a'), part('b')])
    t.clock.at += 1000
    await add(t.store, [part('c')])
    const { created_at: oldestAt, expires_at: firstExpiryAt } = entry
    expect(await t.store.outbox.getDepth()).toEqual({
      ...{ messages: 3, sends: 2, users: 1 },
      oldestAt,
      firstExpiryAt,
    })
    await add(t.store, [part('other')], { user: 'v' })
    await add(t.store, [part('third')], { session: 'S2' })
    await t.reopen()
    expect((await next(t.store)).map(({ text }) => text)).toEqual(['a', 'b', 'c'])
    expect((await lanes(t.store)).map(({ session, user }) => [session, user])).toEqual([
      ['s', 'u'],
      ['s', 'v'],
      ['S2', 'u'],
    ])
    expect((await t.store.log.listAfter(0, { limit: 2 })).map(row => row.id)).toEqual(
      entry.parts.map(part => part.message!),
    )
    expect((await rows(t.store))[0]).toEqual(['a', 'queued'])
    const list = (filter = {}) => t.store.outbox.list(filter)
    expect((await list()).map(entry => entry.parts.length)).toEqual([2, 1, 1, 1])
    expect((await list())[0]).toMatchObject({ id: entry.id, session: 's', user: 'u' })
    expect((await list({ user_id: 'v' })).length).toBe(1)
    expect((await list({ session: 's2' })).length).toBe(1)
    expect(await list({ session: 'nobody' })).toEqual([])
    await rename(t, 's', 'new')
    expect((await list({ session: 'new' })).length).toBe(3)
    expect(await add(t.store, [part('d')], { session: 'new' })).toMatchObject({ verdict: 'behind' })
  })

  it('a call of mode fail has no row before it begins, none when it is refused, and none when it ended', async t => {
    const { entry } = await add(t.store, [{ kind: 'text' }, { kind: 'text' }], { mode: 'fail' })
    expect(await rows(t.store)).toEqual([])
    expect(await t.store.outbox.list()).toEqual([])
    const first = await begun(t.store, [entry.parts[0]!.id], 'a')
    expect(await rows(t.store)).toEqual([['a', 'sending']])
    const rest = { code: 'upstream_error', detail: 'not tried' }
    const settled = await t.store.outbox.settle(first, { status: 'unknown', spent: true, rest })
    expect(settled.entries[0]).toMatchObject({
      ended: true,
      parts: [{ status: 'unknown' }, { status: 'refused', error: rest }],
      counter: { used: 1 },
    })
    expect(await t.store.outbox.getEntry(entry.id)).toBeUndefined()
    const shut = { ...open, quota: 1 }
    const closed = await enqueue(t.store, [{ kind: 'text' }, { kind: 'text' }], { mode: 'fail', rules: shut })
    expect(closed).toMatchObject({ state: 'closed', verdict: { why: 'quota' } })
    expect(await add(t.store, [part('x'), part('y')], { rules: shut, user: 'v' })).toMatchObject({
      verdict: { go: 'no' },
    })
  })

  it('waiting calls count towards the quota of later calls', async t => {
    const rules = { ...open, quota: 3 }
    await add(t.store, [{ kind: 'text' }, { kind: 'text' }], { mode: 'fail', rules })
    expect(
      await enqueue(t.store, [{ kind: 'text' }, { kind: 'text' }], { mode: 'fail', rules }),
    ).toMatchObject({ verdict: { why: 'quota', left: 1 } })
  })

  it('answers are counted from the last message of the user; an answer that was not spent is given back', async t => {
    const used = async () => (await t.store.outbox.getCounters('s')).get('u')
    const wrote = (written_at: number) => insert(t, [message('m', { from_user: 'u', written_at })])
    const send = () => sending(t.store, 's', 'b', outgoing('x'))
    await wrote(1000)
    const first = await send()
    expect(await used()).toEqual({ received_at: 1000, used: 1, last_sent_at: t.clock.at })
    await t.store.outbox.settle(first, { status: 'refused', spent: false })
    expect(await used()).toEqual({ received_at: 1000, used: 0 })
    await t.store.outbox.settle(await send(), accepted)
    expect(await used()).toEqual({ received_at: 1000, used: 1, last_sent_at: t.clock.at })
    await wrote(2000)
    const [second, third] = [await send(), await send()]
    expect(await used()).toMatchObject({ received_at: 2000, used: 2 })
    await wrote(3000)
    await send()
    for (const begun of [second, third])
      await t.store.outbox.settle(begun, { status: 'refused', spent: false })
    expect(await used()).toMatchObject({ received_at: 3000, used: 1 })
  })

  it('an unspent message restores the time of the previous answer; a new count keeps that time', async t => {
    const counter = async () => (await t.store.outbox.getCounters('s', 'u')).get('u')
    const first = await sending(t.store, 's', 'b', outgoing('1'))
    expect(first.counter.last_sent_at).toBeUndefined()
    await t.store.outbox.settle(first, accepted)
    const { last_sent_at } = (await counter())!
    t.clock.at += 5000
    const second = await sending(t.store, 's', 'b', outgoing('2'))
    expect(second.counter).toEqual({ used: 2, last_sent_at })
    expect((await counter())?.last_sent_at).toBe(t.clock.at)
    await t.store.outbox.settle(second, { status: 'refused', spent: false })
    expect(await counter()).toEqual({ used: 1, last_sent_at })
    const written_at = t.clock.at
    await insert(t, [message('x', { from_user: 'u', written_at })])
    expect(await counter()).toEqual({ received_at: written_at, used: 0, last_sent_at })
    await sending(t.store, 's', 'b', outgoing('3'))
    await insert(t, [message('y', { from_user: 'u', written_at })])
    expect((await counter())?.used).toBe(1)
  })

  it('a message restarts the counter in the write that stores it; a repeated or late one does not', async t => {
    const used = async () => (await t.store.outbox.getCounters('s')).get('u')
    const again = message('m', { from_user: 'u', written_at: 2000 })
    await insert(t, [again, message('of another', { from_user: 'v', written_at: 3000 })])
    expect(await used()).toMatchObject({ received_at: 2000, used: 0 })
    await sending(t.store, 's', 'b', outgoing('x'))
    expect(await used()).toMatchObject({ received_at: 2000, used: 1 })
    // Delivered again, or late: neither begins a count.
    await insert(t, [{ ...again, written_at: 4000 }, message('late', { from_user: 'u', written_at: 1500 })])
    expect(await used()).toMatchObject({ received_at: 2000, used: 1 })
    await sending(t.store, 's', 'b', outgoing('x'))
    expect(await used()).toMatchObject({ received_at: 2000, used: 2 })
  })

  it('a message goes with the token that came last, also where the clock was ahead as one before came', async t => {
    const { state } = t.storage
    const dayMs = 24 * 60 * 60_000
    await state.sessions.save('s', bot('b'))
    const wrote = async (contextToken: string) => {
      const [at, cursor] = [t.clock.now(), (await state.sessions.get('s'))!.bot!.cursor]
      const said = message(contextToken, { from_user: 'u', written_at: at, contextToken })
      await t.storage.ingest({
        ...{ id: contextToken, session: 's', token: bot('b').token, botId: 'b@im.bot', now: at },
        ...{ cursorFrom: cursor, cursorTo: contextToken },
        messages: [{ ...said, repeated: { received_at: at } }],
      })
    }
    const token = async () => (await sending(t.store, 's', 'b@im.bot', outgoing('x'))).token
    t.clock.off = dayMs
    await wrote('ahead')
    t.clock.off = 0
    const at = t.clock.now()
    await wrote('after')
    expect([await token(), await token()]).toEqual(['after', 'after'])
    expect(await state.contexts.find('s', 'u')).toMatchObject({ token: 'after' })
    t.clock.at += dayMs
    expect(await token()).toBe('after')
    expect((await t.store.outbox.getCounters('s', 'u')).get('u')).toMatchObject({ received_at: at, used: 3 })
  })

  it('listing lanes returns those with new waiting messages since a revision, and those requested', async t => {
    const { outbox } = t.store
    const users = async (some?: LaneFilter) => (await lanes(t.store, some)).map(({ user }) => user)
    const { lane: u } = await add(t.store, [part('a'), part('b')])
    const { entry, lane: v } = await add(t.store, [part('c', 'v')], { user: 'v', asked: 'queue' })
    const { revision } = await outbox.listWaiting(open)
    expect(await users()).toEqual(['u'])
    expect(await users({ since: 0 })).toEqual(['u'])
    expect(await users({ since: revision })).toEqual([])
    expect(await users({ ids: [u, v, 99] })).toEqual(['u'])
    await using second = await t.second()
    await add(second.store, [part('d', 'w')], { user: 'w' })
    await second.store.outbox.approve(entry.id, open, 'panel')
    expect(await users({ since: revision })).toEqual(['v', 'w'])
    expect(await users({ since: revision, ids: [u] })).toEqual(['u', 'v', 'w'])
    expect(await users({ of: { session: 's', users: ['w', 'x'] } })).toEqual(['w'])
    expect(await users({ of: { session: 'S', users: ['w', 'x'] } })).toEqual(['w'])
    expect(await users({ of: { session: 'other', users: ['w'] } })).toEqual([])
    // What is handed over is no news; what waits again is.
    const later = (await outbox.listWaiting(open)).revision
    const claimed = (await outbox.claim(u))!
    expect(claimed.parts.map(({ text }) => text)).toEqual(['a', 'b'])
    const one = await begun(t.store, [claimed.parts[0]!.id], 'a')
    expect(await users({ since: later })).toEqual([])
    await outbox.settle(one, { status: 'queued', spent: true })
    expect(await users({ since: later })).toEqual(['u'])
  })

  it('what joined a session by a rename is looked at when it changes', async t => {
    const { outbox } = t.store
    await add(t.store, [part('own')], { session: 'old' })
    const { entry } = await add(t.store, [part('asked')], { session: 'new', asked: 'queue' })
    await rename(t, 'old', 'new')
    const { revision } = await outbox.listWaiting(open)
    await outbox.approve(entry.id, open, 'panel')
    expect(await lanes(t.store, { since: revision })).toMatchObject([{ session: 'new', user: 'u' }])
  })

  it('any text is returned as it was stored', async t => {
    const text = 'nul \0, lone \ud800, 👋🏽, \r\n'
    await add(t.store, [part(text)])
    await t.reopen()
    expect((await next(t.store))[0]!.text).toBe(text)
  })

  it('a lease lapses, also when the clock was set back', async t => {
    await add(t.store, [part('a')])
    const id = await lane(t.store)
    await using second = await t.second()
    expect(await claim(t.store, id)).toBe(true)
    expect(await claim(second.store, id)).toBe(false)
    const busy = () => Promise.all([t, second].map(async ({ store }) => (await lanes(store))[0]?.busy))
    expect(await busy()).toEqual([true, true])
    t.clock.at += 60_001
    expect(await claim(second.store, id)).toBe(true)
    await second.store.outbox.release(id)
    expect(await busy()).toEqual([false, false])
    expect(await claim(second.store, id)).toBe(true)
    // The first one wakes up: nothing is its to send any more.
    expect(await begin(t.store, idsOf(await next(t.store)), 'a')).toEqual({ go: 'gone' })
    t.clock.at -= 600_000
    expect(await claim(t.store, id)).toBe(true)
  })

  it('joined parts: the first row has the sent text, the others name it; search and ids follow', async t => {
    await add(t.store, [part('alpha'), part('beta')])
    const one = await begun(t.store, idsOf(await next(t.store)), 'alpha\n\nbeta')
    expect(await rows(t.store)).toEqual([
      ['alpha\n\nbeta', 'sending'],
      ['beta', 'sending'],
    ])
    await t.store.outbox.settle(one, { ...accepted, message_id: '77' })
    expect(await byMessageId(t.store, '77')).toMatchObject({ text: 'alpha\n\nbeta', status: 'accepted' })
    expect((await t.store.log.listAfter(t.id(1), { limit: 1 }))[0]).toMatchObject({
      status: 'accepted',
      sent_with: '77',
    })
    const find = async (text_contains: string) =>
      (await t.store.log.search({ text_contains, limit: 9, offset: 0 })).rows.map(row => nthOf(row.id))
    expect(await find('alpha')).toEqual([1])
    expect(await find('beta')).toEqual([2, 1])
    expect(await lanes(t.store)).toEqual([])
  })

  it('if upstream returns an id that another message has, the rows keep their ids', async t => {
    await insert(t, [message('mine', { message_id: '77' })])
    const { entry } = await add(t.store, [part('alpha'), part('beta')])
    const one = await begun(t.store, idsOf(await next(t.store)), 'alpha\n\nbeta')
    await t.store.outbox.settle(one, { ...accepted, message_id: '77' })
    const [, first, second] = await t.store.log.listAfter(0, { limit: 9 })
    expect(first?.message_id).toStartWith('local:')
    expect(second?.sent_with).toBe(first!.message_id)
    expect(second?.message_id).toBe(`${first!.message_id}+1`)
    expect((await t.store.outbox.getEntry(entry.id))?.parts.map(({ message_id }) => message_id)).toEqual([
      '77',
      '77',
    ])
  })

  it('a message that was not sent keeps its position and its own text', async t => {
    await add(t.store, [part('alpha'), part('beta')])
    const one = await begun(t.store, idsOf(await next(t.store)), 'alpha\n\nbeta')
    await t.store.outbox.settle(one, { status: 'queued', spent: true })
    expect(await rows(t.store)).toEqual([
      ['alpha', 'queued'],
      ['beta', 'queued'],
    ])
    expect((await next(t.store)).map(({ text, tries }) => [text, tries])).toEqual([
      ['alpha', 1],
      ['beta', 1],
    ])
    expect(await t.store.outbox.reap(Number.MAX_SAFE_INTEGER)).toBe(0)
    const found = await t.store.log.search({ text_contains: 'alpha\n', limit: 9, offset: 0 })
    expect(found.rows).toEqual([])
  })

  it('the result of a message after it was taken for lost changes only its row', async t => {
    const one = await sending(t.store, 's', 'b', outgoing('a'), { key: 'k' })
    expect(await t.store.outbox.reap(t.clock.at + 1)).toBe(1)
    const lost = await t.store.outbox.findByKey('k')
    expect(lost).toMatchObject({ ended: true, parts: [{ status: 'unknown', error: stoppedDuringSend }] })
    await t.store.outbox.settle(one, { status: 'refused', spent: false, message_id: '7' })
    expect(await byMessageId(t.store, '7')).toMatchObject({ status: 'refused' })
    expect(await t.store.outbox.findByKey('k')).toEqual(lost)
    expect((await t.store.outbox.getCounters('s')).get('u')?.used).toBe(0)
  })

  it('a call of mode fail needs no lane, and only its own process can send it', async t => {
    await using second = await t.second()
    await add(t.store, [part('waits')])
    expect(await claim(second.store, await lane(t.store))).toBe(true)
    const { entry } = await add(t.store, [part('now')], { mode: 'fail' })
    expect(await begin(second.store, idsOf(entry.parts), 'now')).toEqual({ go: 'gone' })
    expect(await begin(t.store, idsOf(entry.parts), 'now')).toMatchObject({ go: 'begun' })
  })

  it('an entry records who made, approved and cancelled it', async t => {
    const { outbox } = t.store
    const who = async (id: number) => {
      const { made_by, approved_by, ended_by } = (await outbox.getEntry(id))!
      return [made_by, approved_by, ended_by]
    }
    const cancelled = { code: 'cancelled', detail: 'x' }
    const asked = await add(t.store, [part('a'), part('b')], { asked: 'queue', made_by: 'stdio' })
    const other = await add(t.store, [part('c')], { made_by: 'webhook:w1' })
    const own = await add(t.store, [{ kind: 'text' }], { mode: 'fail', key: 'k', made_by: 'panel' })
    for (const { entry } of [asked, other, own]) expect(await outbox.getEntry(entry.id)).toMatchObject(entry)
    expect(await who(asked.entry.id)).toEqual(['stdio', undefined, undefined])
    await outbox.approve(asked.entry.id, open, 'panel')
    const first = await begun(t.store, [asked.entry.parts[0]!.id], 'a')
    await outbox.end(asked.entry.id, cancelled, { only: 'queue', by: 'owner' })
    // Nothing waits any more: it is nobody else's end.
    await outbox.end(asked.entry.id, cancelled, { only: 'queue', by: 'stdio' })
    await outbox.settle(first, accepted)
    await outbox.end(other.entry.id, cancelled)
    await outbox.settle(await begun(t.store, idsOf(own.entry.parts), 'd'), accepted)
    expect(await who(asked.entry.id)).toEqual(['stdio', 'panel', 'owner'])
    expect(await who(other.entry.id)).toEqual(['webhook:w1', undefined, undefined])
    expect((await outbox.findByKey('k'))?.made_by).toBe('panel')
  })

  it('a caller sees the entries of its accounts and users, or those that it made', async t => {
    const { outbox } = t.store
    const entries = new Map<string, StoredEntry>()
    for (const [name, more] of [
      ['b u', { asked: 'queue' }],
      ['b v', { user: 'v', made_by: 'key:1', asked: 'fail' }],
      ['c u', { session: 's2', bot: 'c', made_by: 'panel:1' }],
      ['c v', { session: 's2', bot: 'c', user: 'v', made_by: 'key:2' }],
    ] as const)
      entries.set(name, (await add(t.store, [file(name)], more)).entry)
    for (const [sight, names] of [
      [{}, ['b u', 'b v', 'c u', 'c v']],
      [{ scope: {} }, ['b u', 'b v', 'c u', 'c v']],
      [{ scope: { bots: ['b'] } }, ['b u', 'b v']],
      [{ scope: { users: ['v'] } }, ['b v', 'c v']],
      [{ scope: { bots: ['c', 'd'], users: ['u'] } }, ['c u']],
      [{ scope: { bots: [] } }, []],
      [{ scope: { users: [] } }, []],
      [{ made_by: ['key:1', 'panel:1'] }, ['b v', 'c u']],
    ] as const) {
      const seen = names.map(name => entries.get(name)!.id)
      expect(idsOf(await outbox.list({ sight }))).toEqual(seen)
      expect(idsOf(await outbox.list({ user_id: 'v', sight }))).toEqual(
        names.filter(name => name.endsWith('v')).map(name => entries.get(name)!.id),
      )
      for (const { id, parts } of entries.values()) {
        expect((await outbox.getEntry(id, sight))?.id).toBe(seen.includes(id) ? id : undefined)
        expect((await outbox.fileOf(parts[0]!.message!, sight)) !== undefined).toBe(seen.includes(id))
      }
      expect(await outbox.getEntry(99_999, sight)).toBeUndefined()
    }
  })

  test('waiting messages whose rows retention removed are sent, with new rows', async () => {
    await using t = await openStore({ maxCount: 2 })
    await add(t.store, [part('waits'), part('too')])
    await insert(
      t,
      ['1', '2', '3'].map(text => message(text)),
    )
    await t.store.maintenance.prune()
    expect((await rows(t.store)).map(([text]) => text)).toEqual(['2', '3'])
    const parts = await next(t.store)
    expect(parts.map(({ text }) => text)).toEqual(['waits', 'too'])
    const one = await begun(t.store, idsOf(parts), 'waits\n\ntoo')
    await t.store.outbox.settle(one, { ...accepted, message_id: '9' })
    expect(await byMessageId(t.store, '9')).toMatchObject({ status: 'accepted', text: 'waits\n\ntoo' })
    expect(await lanes(t.store)).toEqual([])
  })

  it('expired, cancelled and settled parts free their files and their lane', async t => {
    const first = (await add(t.store, [file('x')])).entry
    t.clock.at += 500
    const second = (await add(t.store, [file('y')])).entry
    expect(await t.store.outbox.listFiles()).toEqual(['x', 'y'])
    const fileOf = async ({ parts }: StoredEntry) => (await t.store.outbox.fileOf(parts[0]!.message!))?.name
    expect([await fileOf(first), await fileOf(second)]).toEqual(['x', 'y'])
    expect(await t.store.outbox.fileOf(999)).toBeUndefined()
    t.clock.at += first.expires_at - first.created_at - 500
    const late = { code: 'window_closed', detail: 'late' }
    const reasons = { late, unasked: late }
    expect(await t.store.outbox.expire(reasons)).toMatchObject([
      { entry: { id: first.id, user: 'u' }, ended: 1, files: [{ name: 'x' }] },
    ])
    expect(await t.store.outbox.expire(reasons)).toEqual([])
    expect(
      (await t.store.log.listAfter(0, { limit: 9 })).map(({ status, reason }) => [status, reason]),
    ).toEqual([
      ['refused', 'late'],
      ['queued', undefined],
    ])
    expect(await t.store.outbox.end(first.id, late)).toMatchObject({ ended: 0, entry: { ended: true } })
    expect(await t.store.outbox.end(first.id, late, { only: 'queue' })).toBeUndefined()
    // Its week is over, but not its last day.
    await removeSends(t)
    expect(await t.store.outbox.getEntry(first.id)).toBeDefined()
    t.clock.at += 24 * 60 * 60_000
    await removeSends(t)
    expect(await t.store.outbox.getEntry(first.id)).toBeUndefined()
    expect(await t.store.outbox.getEntry(second.id)).toBeDefined()
    await t.store.outbox.end(second.id, late)
    expect(await t.store.outbox.listFiles()).toEqual([])
    expect([await fileOf(first), await fileOf(second)]).toEqual([undefined, undefined])
    expect(await lanes(t.store)).toEqual([])
  })

  it('at most a thousand messages wait for a user; a send above that stores nothing', async t => {
    for (let i = 0; i < 50; i++)
      await add(
        t.store,
        Array.from({ length: 20 }, () => part('x')),
      )
    expect(await failure(add(t.store, [part('y')]))).toMatchObject({ code: 'quota_exhausted' })
    expect(await t.store.log.getHead()).toBe(t.id(1000))
    await add(t.store, [part('y')], { user: 'v' })
  })

  it('a key answers for a day after its call ended, and then is free', async t => {
    const one = await sending(t.store, 's', 'b', outgoing('a'), { key: 'k' })
    expect(await enqueue(t.store, [part('a')], { key: 'k' })).toMatchObject({
      state: 'known',
      entry: { ended: false, mode: 'fail' },
    })
    t.clock.at += 1000
    await t.store.outbox.settle(one, { ...accepted, message_id: '5' })
    const known = { ended: true, counter: { used: 1 }, parts: [{ status: 'accepted', message_id: '5' }] }
    expect(await t.store.outbox.findByKey('k')).toMatchObject(known)
    t.clock.at += dayMs - 1
    await removeSends(t)
    expect(await t.store.outbox.findByKey('k')).toMatchObject(known)
    t.clock.at += 1
    expect(await t.store.outbox.findByKey('k')).toBeUndefined()
    const queued = await add(t.store, [part('b')], { key: 'k' })
    expect(await t.store.outbox.findByKey('k')).toMatchObject({ id: queued.entry.id, mode: 'queue' })
    t.clock.at += dayMs
    await removeSends(t)
    expect(await t.store.outbox.findByKey('k')).toBeUndefined()
    expect(await t.store.outbox.list()).toHaveLength(1)
  })

  it('a key whose call certainly sent nothing is free', async t => {
    const one = await sending(t.store, 's', 'b', outgoing('a'), { key: 'k' })
    await t.store.outbox.settle(one, { status: 'refused', spent: true })
    expect(await t.store.outbox.findByKey('k')).toBeUndefined()
  })

  it('a call without progress for long is over, and its process cannot begin it any more', async t => {
    await using second = await t.second()
    const { entry } = await add(t.store, [{ kind: 'text' }], { mode: 'fail', key: 'k' })
    t.clock.at += 9 * 60_000
    await t.store.outbox.renew(entry.id)
    t.clock.at += 9 * 60_000
    expect(await second.store.outbox.findByKey('k')).toMatchObject({ ended: false })
    t.clock.at += 60_000
    await second.store.outbox.reap(0)
    expect(await t.store.outbox.getEntry(entry.id)).toBeDefined()
    await second.store.outbox.reap(1)
    expect(await t.store.outbox.getEntry(entry.id)).toBeUndefined()
    expect(await second.store.outbox.findByKey('k')).toBeUndefined()
    expect(await begin(t.store, idsOf(entry.parts), 'late')).toEqual({ go: 'gone' })
  })

  it('writes of one turn of the event loop share a commit; a failed one does not affect the others', async t => {
    const rules = { ...open, quota: 5 }
    for (let i = 0; i < 1000; i += 100)
      await add(
        t.store,
        Array.from({ length: 100 }, () => part('x')),
      )
    const writes = [
      add(t.store, [part('a')], { user: 'v' }),
      add(t.store, [part('too many')]),
      enqueue(t.store, Array(6).fill({ kind: 'text' }), { user: 'w', mode: 'fail', rules }),
      add(t.store, [part('b')], { user: 'w' }),
    ]
    const [a, tooMany, closed, b] = await Promise.allSettled(writes)
    expect(tooMany).toMatchObject({ status: 'rejected', reason: { code: 'quota_exhausted' } })
    expect(closed).toMatchObject({ value: { state: 'closed' } })
    expect([a!.status, b!.status]).toEqual(['fulfilled', 'fulfilled'])
    await t.reopen()
    expect((await t.store.outbox.list({ user_id: 'v' })).length).toBe(1)
    expect((await t.store.outbox.list({ user_id: 'w' })).length).toBe(1)
    expect((await t.store.outbox.list({ user_id: 'u' })).length).toBe(10)
  })

  it('calls of one turn count each other, whatever each of them asks', async t => {
    // Other sessions are lanes of their own: each is asked in another order.
    const orders = ['fail queue', 'queue fail', 'fail asked', 'asked fail queue', 'fail fail queue queue']
    for (const session of orders) {
      await add(t.store, [part('first')], { session })
      const calls = session.split(' ').map(kind => {
        if (kind === 'fail') return enqueue(t.store, [{ kind: 'text' }], { session, mode: 'fail' })
        return enqueue(t.store, [part('next')], { session, ...(kind === 'asked' && { asked: 'queue' }) })
      })
      const wait = (await Promise.all(calls)).map(one => 'verdict' in one && one.verdict === 'behind')
      expect([session, ...wait]).toEqual([session, ...session.split(' ').map(kind => kind !== 'fail')])
    }
  })

  it('calls of one turn do not pass a limit together', async t => {
    const many = Array.from({ length: 500 }, (_, nth) => nth)
    for (const half of ['a', 'b'])
      await add(
        t.store,
        many.map(nth => part(`${half}${nth}`)),
      )
    for (let nth = 0; nth < 100; nth++) await add(t.store, [part('a')], { user: `v${nth}`, asked: 'queue' })
    const none = [{ kind: 'text' }] as const
    const outcomes = await Promise.allSettled([
      enqueue(t.store, [...none], { mode: 'fail' }),
      enqueue(t.store, [part('over')]),
      enqueue(t.store, [...none], { mode: 'fail', user: 'v7' }),
      enqueue(t.store, [part('over')], { user: 'v7', asked: 'queue' }),
    ])
    const codes = outcomes.map(one => (one.status === 'rejected' ? one.reason.code : one.value.state))
    expect(codes).toEqual(['new', 'quota_exhausted', 'new', 'quota_exhausted'])
    expect(await t.store.outbox.getDepth()).toMatchObject({ messages: 1000 })
  })

  it('messages of one call that are settled in one turn: one of the results has its end', async t => {
    const { entry } = await add(t.store, [part('a'), part('b'), part('c')])
    const all: BegunMessage[] = []
    for (const { id } of entry.parts) all.push(await begun(t.store, [id], `sent ${id}`))
    const results = await Promise.all(
      all.map((one, nth) => t.store.outbox.settle(one, { ...accepted, message_id: `m${nth}` })),
    )
    const ends = results.map(({ entries: [own] }) => [own!.ended, ...own!.parts.map(({ status }) => status)])
    expect(ends).toEqual([
      [false, 'accepted', 'sending', 'sending'],
      [false, 'accepted', 'accepted', 'sending'],
      [true, 'accepted', 'accepted', 'accepted'],
    ])
  })

  it('a message that waits again has no slot and no reason; one that was taken for lost stays unknown', async t => {
    const paced = {
      ...open,
      pace: { perSecond: 1, perWindow: 9, windowMs: 60_000 },
    }
    await add(t.store, [part('a')])
    const error = { code: 'upstream_error', detail: 'try again' }
    const beginPaced = async () => {
      const began = await begin(t.store, idsOf(await next(t.store)), 'a', paced)
      if (began.go !== 'begun') throw new Error(began.go)
      return began.begun
    }
    await t.store.outbox.settle(await beginPaced(), { status: 'queued', spent: false, error })
    const [again] = await next(t.store)
    expect([again!.slot, again!.error]).toEqual([undefined, error])
    expect((await t.store.log.listAfter(0, { limit: 1 }))[0]).toMatchObject({ status: 'queued' })
    expect((await t.store.log.listAfter(0, { limit: 1 }))[0]!.reason).toBeUndefined()
    t.clock.at += 1000
    const lost = await beginPaced()
    expect(await t.store.outbox.reap(t.clock.at + 1)).toBe(1)
    await t.store.outbox.settle(lost, { status: 'queued', spent: false, error })
    expect(await rows(t.store)).toEqual([['a', 'unknown']])
    expect(await lanes(t.store)).toEqual([])
  })
})
