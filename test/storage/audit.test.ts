/** What every engine must do for the audit log (`src/storage/audit.ts`), and for who sent a message. */
import { expect } from 'bun:test'
import type { AuditLine } from '../../src/model/audit.ts'
import { sql } from '../../src/platform/sql.ts'
import type { NewEntry, NewPart } from '../../src/storage/outbox.ts'
import type { Store } from '../../src/storage/store.ts'
import { onEach } from './engines.ts'
import { byId, open, outgoing, sending } from './support.ts'

const key = { name: 'support', hash: '', grant: { rights: [] }, can: [], made_by: 'owner', created_at: 1 }
const waiting = (text: string): NewPart => ({ kind: 'text', waiting: { message: outgoing(text) } })
const entryOf = (made_by: string, parts: NewPart[], more: Partial<NewEntry> = {}): NewEntry => ({
  ...{ session: 's', bot_id: 'b', user: 'u', mode: 'queue', made_by, parts },
  ...more,
})
const line = { at: 1000, principal: 'key:k1', operation: 'logout' }
const all = (store: Store) => store.audit.list({ limit: 100, after: 0 })

onEach(it => {
  it('a line is there before the call ends, and its outcome and subject come later', async t => {
    await t.store.keys.add({ ...key, id: 'k1' })
    const id = await t.store.audit.add({ ...line, address: '10.0.0.1' })
    const own = { id, ...line, name: 'support', address: '10.0.0.1' }
    expect(await all(t.store)).toEqual([own])
    await t.store.audit.settle(id, 'done', 'wh_1')
    await t.store.audit.settle(id, 'done')
    expect(await all(t.store)).toEqual([{ ...own, outcome: 'done', subject: 'wh_1' }])
  })

  it('what is kept has a line when it changes, and none at first', async t => {
    const note = (subject: string) =>
      t.store.maintenance.noteRetention({ ...line, operation: 'set_retention', subject })
    for (const subject of ['days=1', 'days=1', 'days=2', 'days=2', 'days=1']) await note(subject)
    expect((await all(t.store)).map(({ subject }) => subject)).toEqual(['days=2', 'days=1'])
  })

  it('lines are found by who, what and when, newest first, or after an id oldest first', async t => {
    const { audit } = t.store
    const rows = [
      { ...line, at: 1, principal: 'owner' },
      { ...line, at: 2 },
      { ...line, at: 3, operation: 'login' },
      { ...line, at: 4, principal: 'panel:k1' },
      { ...line, at: 5, principal: 'key:k2' },
    ]
    const ids: number[] = []
    for (const one of rows) ids.push(await audit.add(one))
    const found = async (filter: Partial<Parameters<typeof audit.list>[0]>) =>
      (await audit.list({ limit: 100, ...filter })).map(({ at }) => at)
    expect(await found({})).toEqual([5, 4, 3, 2, 1])
    expect(await found({ limit: 2 })).toEqual([5, 4])
    expect(await found({ before: ids[2]! })).toEqual([2, 1])
    expect(await found({ after: ids[0]!, limit: 2 })).toEqual([2, 3])
    expect(await found({ since: 3 })).toEqual([5, 4, 3])
    expect(await found({ operations: ['login', 'send'] })).toEqual([3])
    expect(await found({ principals: ['owner'] })).toEqual([1])
    expect(await found({ principals: ['key:k1', 'panel:k1'] })).toEqual([4, 3, 2])
    expect(await found({ principals: ['key:k1', 'panel:k1'], after: 0, limit: 2 })).toEqual([2, 3])
    expect(await found({ principals: ['key:k1'], operations: ['logout'] })).toEqual([2])
    const many = Array.from({ length: 600 }, (_, nth) => `key:${nth}`)
    expect(await found({ principals: ['key:k1', ...many, 'key:k2'], since: 3 })).toEqual([5, 3])
    expect(await found({ principals: [] })).toEqual([])
  })

  it('lines of a long log are found by a filter without an index, in both directions', async t => {
    const { audit } = t.store
    await t.query(sql`INSERT INTO audit (at, principal, operation, address)
      WITH RECURSIVE line(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM line WHERE id < 30000)
      SELECT id, 'key:k1', 'logout', CASE WHEN id IN (2, 9000, 9001, 29999) THEN 'rare' END FROM line`)
    const found = async (filter: Partial<Parameters<typeof audit.list>[0]>) =>
      (await audit.list({ limit: 100, address: 'rare', ...filter })).map(({ at }) => at)
    const all = [29999, 9001, 9000, 2]
    const [{ id: first }] = (await audit.list({ limit: 1, after: 0 })) as [AuditLine]
    const idOf = (nth: number) => first - 1 + nth
    for (const own of [{}, { principals: ['key:k0', 'key:k1'] }]) {
      expect(await found(own)).toEqual(all)
      expect(await found({ ...own, after: 0 })).toEqual(all.toReversed())
      expect(await found({ ...own, limit: 2 })).toEqual([29999, 9001])
      expect(await found({ ...own, after: idOf(2), limit: 2 })).toEqual([9000, 9001])
      expect(await found({ ...own, since: 9001, until: 29999 })).toEqual([9001])
      expect(await found({ ...own, since: 3, before: idOf(9001) })).toEqual([9000])
      expect(await found({ ...own, since: 9000, after: idOf(1) })).toEqual([9000, 9001, 29999])
      expect(await found({ ...own, since: 30001 })).toEqual([])
    }
  })

  it('lines are found by subject, address, request and time', async t => {
    const { audit } = t.store
    const rows = [
      { at: 1, subject: 'work o1@im.wechat', address: '10.0.0.1', request_id: 'a-1' },
      { at: 2, subject: 'work_2 o1@im.wechat', address: '10.0.0.12' },
      { at: 3, subject: 'o1@im.wechat work' },
      { at: 4, subject: 'work 100%', request_id: 'a-11' },
      { at: 5 },
    ]
    for (const one of rows) await audit.add({ ...line, ...one })
    const found = async (filter: Partial<Parameters<typeof audit.list>[0]>) =>
      (await audit.list({ limit: 100, ...filter })).map(({ at }) => at)
    expect(await found({ subjects: ['work'] })).toEqual([4, 3, 1])
    expect(await found({ subjects: ['work', 'o1@im.wechat'] })).toEqual([3, 1])
    expect(await found({ subjects: ['work_2'] })).toEqual([2])
    expect(await found({ subjects: ['100%'] })).toEqual([4])
    expect(await found({ subjects: ['%'] })).toEqual([])
    expect(await found({ address: '10.0.0.1' })).toEqual([1])
    expect(await found({ request_id: 'a-1' })).toEqual([1])
    expect(await found({ since: 2, until: 4 })).toEqual([3, 2])
    expect(await found({ principals: [line.principal], subjects: ['work'], until: 4 })).toEqual([3, 1])
  })

  it('a decision is found by each message that it decided, beside the send', async t => {
    const { audit, outbox } = t.store
    const drafted = await outbox.enqueue(
      entryOf('key:k1', [waiting('a'), waiting('b')], { asked: 'queue' }),
      open,
    )
    if (drafted.state !== 'new') throw new Error(drafted.state)
    const ids = drafted.entry.parts.map(part => part.message!)
    const decision = { messages: ids, draft_by: 'key:k1', changed: 'text' as const }
    await audit.add({
      ...line,
      operation: 'approve_outbox',
      principal: 'owner',
      outcome: 'done',
      ...decision,
    })
    for (const id of ids) {
      const lines = await audit.list({ message: id, limit: 10 })
      expect(lines).toMatchObject([
        { operation: 'approve_outbox', principal: 'owner', ...decision },
        { operation: 'send', principal: 'key:k1', messages: [id] },
      ])
    }
    expect(await audit.list({ message: Number(`${ids[1]}0`), limit: 10 })).toEqual([])
    const { events } = await t.store.events.listAfter('', { types: ['audit.line'], limit: 9, hidden: true })
    expect(events.at(-1)?.data).toMatchObject(decision)
  })

  it('lines are found by how they ended, each in one group', async t => {
    const { audit } = t.store
    const groups = {
      done: ['done', 'accepted'],
      open: [undefined, 'queued', 'sending'],
      denied: ['denied'],
      failed: ['not_found', 'internal', 'refused', 'suspect', 'unknown'],
    }
    for (const outcome of Object.values(groups).flat())
      await audit.add({ ...line, ...(outcome && { outcome }) })
    const found = async (filter: Partial<Parameters<typeof audit.list>[0]>) =>
      (await audit.list({ limit: 100, after: 0, ...filter })).map(({ outcome }) => outcome)
    for (const [group, outcomes] of Object.entries(groups)) {
      const outcome = group as keyof typeof groups
      expect(await found({ outcome })).toEqual(outcomes)
      expect(await found({ outcome, principals: [line.principal], operations: [line.operation] })).toEqual(
        outcomes,
      )
      expect(await found({ outcome, principals: ['key:k2'] })).toEqual([])
    }
  })

  it('old lines go, and ids are not used again', async t => {
    const { audit, maintenance } = t.store
    await audit.add({ ...line, at: 1 })
    const last = await audit.add({ ...line, at: 2 })
    for (let more = true; more; ) more = await maintenance.removeOld('line', 2)
    expect((await all(t.store)).map(({ at }) => at)).toEqual([2])
    while (await maintenance.removeOld('line', 3));
    expect(await audit.add(line)).toBeGreaterThan(last)
  })

  it('a line is an event once it has an outcome, for readers that name the type', async t => {
    const { audit, events } = t.store
    const head = await events.getHead()
    const id = await audit.add(line)
    expect(await events.getHead()).toBe(head)
    const denied = { ...line, operation: 'send', outcome: 'denied' }
    const other = await audit.add(denied)
    t.clock.off = 5000
    await audit.settle(id, 'done')
    const listed = await events.listAfter(head, { types: ['audit.line'], limit: 10 })
    expect(listed.events.map(({ at, data, type }) => [type, data, at > t.clock.at])).toEqual([
      ['audit.line', { ...denied, id: other }, false],
      ['audit.line', { ...line, id, outcome: 'done' }, true],
    ])
    expect((await events.listAfter(head, { limit: 10 })).events).toEqual([])
    const hidden = await events.listAfter(head, { limit: 10, hidden: true })
    expect(hidden.events).toEqual(listed.events)
    expect(await t.store.backlog.countEvents(head)).toBe(0)
  })

  it('who waits for events hears of a line', async t => {
    const id = await t.store.audit.add(line)
    const heard = t.store.events.wait(await t.store.events.getHead(), 60_000, new AbortController().signal)
    await t.store.audit.settle(id, 'done')
    await heard
  })

  it('a send has a line from its row on, and the outcome is the status of the message', async t => {
    const { outbox } = t.store
    const begun = await sending(t.store, 's', 'b', outgoing('now'))
    const [first] = await all(t.store)
    expect(first).toEqual({
      ...{ id: first!.id, at: first!.at, principal: 'owner', operation: 'send' },
      ...{ subject: 's u', outcome: 'sending', messages: [begun.row] },
    })
    await outbox.settle(begun, { status: 'accepted', message_id: '7', spent: true })
    const queued = await outbox.enqueue(entryOf('key:k1', [waiting('a')], { origin: 'r-1 10.0.0.1' }), open)
    const outcomes = async () =>
      (await all(t.store)).map(one => [one.principal, one.outcome, one.request_id, one.address])
    expect(await outcomes()).toEqual([
      ['owner', 'accepted', undefined, undefined],
      ['key:k1', 'queued', 'r-1', '10.0.0.1'],
    ])
    await outbox.end((queued as { entry: { id: number } }).entry.id, { code: 'cancelled', detail: 'x' })
    expect((await outcomes())[1]).toEqual(['key:k1', 'refused', 'r-1', '10.0.0.1'])
    expect((await t.store.events.listAfter('', { types: ['audit.line'], limit: 9 })).events).toEqual([])
  })

  it('a row says who sent it, whatever becomes of it; joined texts keep their own', async t => {
    const { outbox } = t.store
    await t.store.keys.add({ ...key, id: 'k1' })
    const add = async (by: string, text: string) => {
      const added = await outbox.enqueue(entryOf(by, [waiting(text)], { origin: ' ::1' }), open)
      if (added.state !== 'new') throw new Error(added.state)
      return added.entry
    }
    const entries = [await add('key:k1', 'a'), await add('webhook:w1', 'b')]
    const senders = async () => {
      const rows = await Promise.all(entries.map(({ parts }) => byId(t.store, parts[0]!.message!)))
      return rows.map(row => [row?.sent_by, row?.sent_by_name])
    }
    const sent = [
      ['key:k1', 'support'],
      ['webhook:w1', undefined],
    ]
    expect(await senders()).toEqual(sent)
    const claimed = await outbox.claim(entries[0]!.parts[0]!.lane)
    const ids = claimed!.parts.map(({ id }) => id)
    const begun = await outbox.begin(ids, 'b', open, outgoing('ab'))
    if (begun.go !== 'begun') throw new Error(begun.go)
    expect(await senders()).toEqual(sent)
    await outbox.settle(begun.begun, { status: 'queued', spent: false })
    expect(await senders()).toEqual(sent)
    expect((await outbox.list()).map(one => [one.made_by, one.made_by_name])).toEqual(sent)
  })

  it('a part of a call that goes now gets its sender as it begins', async t => {
    const { outbox } = t.store
    const call = entryOf('key:k1', [{ kind: 'text' }], { mode: 'fail', origin: 'r-2 ::1' })
    const added = await outbox.enqueue(call, open)
    if (added.state !== 'new') throw new Error(added.state)
    const begun = await outbox.begin([added.entry.parts[0]!.id], 'b', open, outgoing('a'))
    if (begun.go !== 'begun') throw new Error(begun.go)
    expect((await byId(t.store, begun.begun.row))?.sent_by).toBe('key:k1')
    expect((await all(t.store)).map(one => [one.principal, one.request_id, one.address])).toEqual([
      ['key:k1', 'r-2', '::1'],
    ])
  })
})
