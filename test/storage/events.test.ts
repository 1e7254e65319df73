/** The event log: one order, nothing missed, nothing twice, whatever is filtered. */
import { expect, test } from 'bun:test'
import {
  cursorNumberOf,
  type EventFilter,
  type LoggedEvent,
  maxReaders,
  type NewEvent,
  readerIdleMs,
} from '../../src/storage/events.ts'
import type { SentMessage } from '../../src/storage/messages.ts'
import type { Store } from '../../src/storage/store.ts'
import { failure } from '../support/failure.ts'
import { onEach } from './engines.ts'
import { insert, message, open, type Running, rename, sending } from './support.ts'

const day = 24 * 3_600_000
const told = (session: string, status: string): NewEvent => ({
  type: 'session.status',
  session,
  data: { name: session, status },
})
const receive = async (t: Running, text: string, user = 'u', session = 's') =>
  (await insert(t, [message(text, { from_user: user })], session))[0] as number

const out = (client_id: string, to_user = 'u'): SentMessage => ({
  client_id,
  to_user,
  msg_type: 'TEXT',
  text: client_id,
  timestamp: 1,
  raw: '{}',
})
const refused = { code: 'window_closed', detail: 'too late' }

/** Everything after a cursor, page by page. */
async function all({ events }: Store, cursor = '', wanted: Partial<EventFilter> = {}, limit = 100) {
  const found: LoggedEvent[] = []
  for (let from = cursor; ; ) {
    const page = await events.listAfter(from, { limit, ...wanted })
    expect(page.events.length).toBeLessThanOrEqual(limit)
    found.push(...page.events)
    if (page.cursor === from) return found
    from = page.cursor
  }
}
const inShort = (events: LoggedEvent[]) =>
  events.map(({ data, message: row, status, type }) =>
    [type.split('.')[0], row, status, (data as { status?: string } | undefined)?.status]
      .filter(part => part !== undefined)
      .join(' '),
  )

onEach((it, openStore) => {
  it('events are in the order in which they happened, each with its own id', async t => {
    const { events, outbox } = t.store
    await events.append([told('s', 'connected')])
    const row = await receive(t, 'hi')
    const begun = await sending(t.store, 's', 'b', out('c1'))
    t.clock.at += 500
    await outbox.settle(begun, { status: 'accepted', message_id: '77', spent: true })
    await events.append([told('s', 'expired'), { type: 'endpoint.disabled', data: { id: 'e' } }])
    await receive(t, 'again')
    const found = await all(t.store)
    for (const [nth, { cursor }] of found.entries())
      expect(await t.store.backlog.countEvents(cursor)).toBe(found.length - 1 - nth)
    expect(await t.store.backlog.countEvents('')).toBe(found.length)
    expect(inShort(found)).toEqual([
      'session connected',
      `message ${row}`,
      `message ${begun.row} accepted`,
      'session expired',
      'endpoint',
      `message ${begun.row + 1}`,
    ])
    const cursors = ['', ...found.map(({ cursor }) => cursor)]
    for (const [nth, cursor] of cursors.entries())
      expect(cursors.map(other => Math.sign(cursorNumberOf(other) - cursorNumberOf(cursor)))).toEqual(
        cursors.map((_, other) => Math.sign(other - nth)),
      )
    for (const { cursor } of found) expect(cursor).toMatch(/^[\w-]{1,40}$/)
    expect(found.map(({ at }) => at - t.clock.at)).toEqual([-500, -500, 0, 0, 0, 0])
    expect(found.map(({ type }) => type).slice(1, 4)).toEqual([
      ...(['message.received', 'message.status', 'session.status'] as const),
    ])
    await t.reopen()
    expect(await all(t.store)).toEqual(found)
  })

  it('each status change of a sent message is an event, with the reason', async t => {
    const { events, outbox } = t.store
    const start = await events.getHead()
    const parts = [{ kind: 'text', waiting: { message: out('w1') } }] as const
    const call = { session: 's', bot_id: 'b', user: 'u', mode: 'queue', made_by: 'owner', parts } as const
    const first = await outbox.enqueue(call, open)
    if (first.state !== 'new') throw new Error(first.state)
    const row = first.entry.parts[0]!.message!
    const began = await outbox.begin([first.entry.parts[0]!.id], 'b', open, out('w1'))
    if (began.go !== 'begun') throw new Error(began.go)
    await outbox.settle(began.begun, { status: 'queued', spent: true })
    await outbox.end(first.entry.id, { ...refused, quote: 'not on a Sunday' })
    const asked = await outbox.enqueue(
      { ...call, asked: 'queue', parts: [{ kind: 'text', waiting: { message: out('w2') } }] },
      open,
    )
    if (asked.state !== 'new') throw new Error(asked.state)
    await outbox.approve(asked.entry.id, open, 'panel')
    expect(inShort(await all(t.store, start))).toEqual([
      ...[`message ${row} queued`, `message ${row} queued`, `message ${row} refused`],
      // Waits for a yes, then for its user.
      ...[`message ${row + 1} queued`, `message ${row + 1} queued`],
    ])
    expect(inShort(await all(t.store, start, { hidden: true }))).toContain(`message ${row} sending`)
    expect((await t.store.log.getByIds([row]))[0]).toMatchObject({
      reason_code: 'window_closed',
      reason_quote: 'not on a Sunday',
    })
  })

  it('imported messages are no events', async t => {
    const past = message('old')
    await t.store.intake.add([
      { ...past, session: 's', bot_id: 'b', direction: 'received' },
      { ...message('answer'), session: 's', bot_id: 'b', direction: 'sent' },
    ])
    expect(await all(t.store)).toEqual([])
    expect(inShort(await all(t.store, '', { hidden: true }))).toEqual([
      `message ${t.id(1)}`,
      `message ${t.id(2)}`,
    ])
    expect(await t.store.backlog.countEvents('')).toBe(0)
    await receive(t, 'new')
    expect(await t.store.backlog.countEvents('')).toBe(1)
    expect(inShort(await all(t.store))).toEqual([`message ${t.id(3)}`])
  })

  test('pages of any filter, cut anywhere, together equal the filtered log, with the same ids', async () => {
    let seed = 7
    const below = (most: number) => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
      return Math.floor((seed / 2_147_483_648) * most)
    }
    const pick = <T>(from: readonly T[]): T => from[below(from.length)]!
    for (let round = 0; round < 6; round++) {
      await using t = await openStore()
      /** By row id, or by the text of a session event: what the filter goes by. */
      const known = new Map<unknown, { session: string; user?: string }>()
      for (let nth = 0; nth < 25; nth++) {
        const of = { session: pick(['s', 'Größe']), user: pick(['u', 'v']) }
        const what = below(4)
        if (what < 2) known.set(await receive(t, `${nth}`, of.user, of.session), of)
        else if (what === 2) {
          known.set(`at ${nth}`, { session: of.session })
          await t.store.events.append([told(of.session, `at ${nth}`)])
        } else {
          const begun = await sending(t.store, of.session, 'b', out(`c${nth}`, of.user))
          await t.store.outbox.settle(begun, { status: pick(['accepted', 'refused'] as const), spent: true })
          known.set(begun.row, of)
        }
      }
      const whole = await all(t.store)
      for (let filter = 0; filter < 5; filter++) {
        const from = below(3) === 0 ? '' : pick(whole).cursor
        const types = ['message.received', 'message.status', 'session.status'] as const
        const wanted: Partial<EventFilter> = {
          ...(below(2) && { types: [pick(types), pick(types)] }),
          ...(below(2) && { session: pick(['s', 'gRÖßE']) }),
          ...(below(2) && { user: pick(['u', 'v', 'nobody']) }),
        }
        const left = whole
          .slice(whole.findIndex(({ cursor }) => cursor === from) + 1)
          .filter(({ data, message: row, type }) => {
            const of = known.get(row ?? (data as { status: string }).status)!
            return (
              wanted.types?.includes(type) !== false &&
              (wanted.session ?? of.session).toLowerCase() === of.session.toLowerCase() &&
              (wanted.user === undefined || wanted.user === of.user)
            )
          })
        expect(await all(t.store, from, wanted, 1 + below(5))).toEqual(left)
      }
    }
  })

  it('events of one user are found among any number of others, each once', async t => {
    const said = (text: string, from_user: string, count = 1) =>
      insert(
        t,
        Array.from({ length: count }, () => message(text, { from_user })),
      )
    const send = async (client_id: string, user: string) =>
      t.store.outbox.settle(await sending(t.store, 's', 'b', out(client_id, user)), {
        status: 'accepted',
        spent: true,
      })
    await said('first', 'ann')
    await said('x', 'bob', 6000)
    await said('second', 'ann')
    const page = await t.store.events.listAfter('', { limit: 9, user: 'ann' })
    expect(page.events).toHaveLength(2)
    for (const nth of ['1', '2', '3']) await send(nth, 'bob')
    await send('4', 'ann')
    await said('third', 'ann')
    expect(inShort(await all(t.store, '', { user: 'ann' }))).toEqual([
      `message ${t.id(1)}`,
      `message ${t.id(6002)}`,
      `message ${t.id(6006)} accepted`,
      `message ${t.id(6007)}`,
    ])
  })

  it('a string that is not a cursor is rejected', async t => {
    for (const cursor of ['x', '12', "'", '-1', 'a-', 'a b-1', `${'a'.repeat(41)}-1`, '0-9999999999999999'])
      for (const asked of [
        t.store.events.listAfter(cursor, { limit: 1 }),
        t.store.events.setPosition('bot', cursor),
      ])
        expect(await failure(asked)).toMatchObject({ code: 'invalid_arguments' })
  })

  it('a cursor of another store continues with the oldest stored event, and sets gone', async t => {
    await using other = await openStore()
    const row = await receive(t, '1')
    for (const cursor of [await other.store.events.getHead(), 'x-1', '0-0']) {
      const page = await t.store.events.listAfter(cursor, { limit: 9 })
      expect([page.gone, inShort(page.events)]).toEqual([true, [`message ${row}`]])
      expect(await t.store.events.listAfter(page.cursor, { limit: 9 })).toEqual({
        events: [],
        cursor: page.cursor,
      })
      await t.store.events.setPosition('bot', cursor)
      const place = (await t.store.events.getPosition('bot'))!
      expect(inShort(await all(t.store, place))).toEqual([`message ${row}`])
    }
  })

  it('a name that a session has or had narrows to it', async t => {
    const start = await t.store.events.getHead()
    await receive(t, 'before')
    await t.store.events.append([told('s', 'connected')])
    await rename(t, 's', 'new')
    await receive(t, 'after', 'u', 'new')
    expect(await all(t.store, start, { session: 'NEW' })).toHaveLength(2)
    // What was told of the session itself keeps its name.
    expect(inShort(await all(t.store, start, { session: 's' }))).toEqual(['session connected'])
  })

  it('the end at a given time: later events come after it', async t => {
    const { events } = t.store
    expect(await all(t.store, await events.getHead(t.clock.at))).toEqual([])
    await receive(t, 'one')
    await events.append([told('s', 'lapsed')])
    t.clock.at += 1000
    const since = t.clock.at
    await receive(t, 'two')
    await events.append([told('s', 'connected')])
    expect(inShort(await all(t.store, await events.getHead(since)))).toEqual([
      `message ${t.id(2)}`,
      'session connected',
    ])
    expect(await all(t.store, await events.getHead(since - 1000))).toHaveLength(4)
    expect(await events.getHead(since + 1)).toBe(await events.getHead())
  })

  it('the position before all events has a cursor that is not empty', async t => {
    const first = await t.store.events.getHead(1)
    await receive(t, '1')
    expect(first).not.toBe('')
    expect(await t.store.events.getHead(1)).toBe(first)
    expect(inShort(await all(t.store, first))).toEqual([`message ${t.id(1)}`])
    await t.store.events.append([{ type: 'session.status', session: 'Shop', data: {} }])
    expect((await t.store.events.listAfter(first, { limit: 9, session: 'sHOP' })).events).toHaveLength(1)
  })

  test('events that retention removed are reported as gone, and the reader continues with the oldest', async () => {
    await using t = await openStore({ maxAgeDays: 30 })
    const { events } = t.store
    await events.append([told('left', 'connected')])
    const early = await events.getHead()
    const first = await receive(t, 'old')
    await t.store.outbox.settle(await sending(t.store, 's', 'b', out('c1')), {
      status: 'accepted',
      spent: true,
    })
    await events.append([told('s', 'expired'), { type: 'endpoint.disabled', data: {} }])
    await receive(t, 'old too')
    await events.append([told('s', 'connected')])
    t.clock.at += 20 * day
    const late = await receive(t, 'new')
    const end = await events.getHead()
    t.clock.at += 11 * day
    await t.store.maintenance.prune()
    const page = await events.listAfter(early, { limit: 10 })
    expect(page.gone).toBe(true)
    expect(inShort(page.events)).toEqual(['session connected', `message ${late}`])
    // The newest of each session is kept.
    const whole = await events.listAfter('', { limit: 10 })
    expect(whole.gone).toBeUndefined()
    expect(inShort(whole.events)).toEqual(['session connected', 'session connected', `message ${late}`])
    expect(await events.listAfter(end, { limit: 10 })).toEqual({ events: [], cursor: end })
    expect(first).toBeLessThan(late)
    t.clock.at += 60 * day
    await t.store.maintenance.prune()
    expect(await events.getHead()).toBe(end)
    expect(await events.listAfter(end, { limit: 10 })).toEqual({ events: [], cursor: end })
    const next = await receive(t, 'after all')
    expect(inShort((await events.listAfter(end, { limit: 10 })).events)).toEqual([`message ${next}`])
  })

  it('an append with a comparison appends nothing if another one was faster', async t => {
    const { events } = t.store
    const seen = await events.getHead()
    expect(await events.append([told('s', 'expired')], seen)).toBe(true)
    expect(await events.append([told('other', 'expired'), told('S', 'connected')], seen)).toBe(false)
    expect(await events.append([told('other', 'expired')], seen)).toBe(true)
    const then = await events.getHead()
    // What is written of its messages is nothing that it was compared with.
    await receive(t, 'meanwhile')
    expect(await events.append([told('s', 'connected')], then)).toBe(true)
    expect(await all(t.store)).toHaveLength(4)
    expect(inShort(await all(t.store, '', { user: 'u' }))).toEqual([`message ${t.id(1)}`])
  })

  it('readers keep their places', async t => {
    const { events } = t.store
    const first = await events.getHead()
    await receive(t, '1')
    const second = await events.getHead()
    await events.setPosition('bot', first)
    await events.setPosition('bot', second)
    await events.setPosition('hook', second)
    await events.setPosition('hook', first)
    await t.reopen()
    const found = await Promise.all(['bot', 'hook', 'nobody'].map(name => t.store.events.getPosition(name)))
    expect(found).toEqual([second, first, undefined])
  })

  it('the events after the position of each reader are counted', async t => {
    const { events } = t.store
    const first = await events.getHead()
    await receive(t, '1')
    await events.setPosition('behind', first)
    const second = await events.getHead()
    await events.setPosition('bot', second)
    expect(await t.store.backlog.listReaderLags(9)).toEqual([
      { reader: 'bot', events: 0 },
      { reader: 'behind', events: 1 },
    ])
    expect(await t.store.backlog.listReaderLags(1)).toHaveLength(1)
  })

  it('with too many readers, the one idle longest loses its position after a week, and gets gone', async t => {
    const { events } = t.store
    const first = await events.getHead()
    const row = await receive(t, '1')
    const second = await events.getHead()
    // Furthest behind is not unseen for longest.
    await events.setPosition('unseen', second)
    await events.setPosition('asks', second)
    t.clock.at += day
    await events.setPosition('behind', first)
    for (let nth = 3; nth < maxReaders; nth++) await events.setPosition(`other ${nth}`, second)
    t.clock.at += 5 * day
    expect(await events.getPosition('asks')).toBe(second)
    expect(await failure(events.setPosition('one too many', first))).toMatchObject({
      code: 'rate_limited',
      retryAfter: (readerIdleMs - 6 * day) / 1000,
    })
    // Nobody lost anything, and who has a place moves.
    expect(await events.getPosition('one too many')).toBeUndefined()
    await events.setPosition('behind', first)
    t.clock.at += 1.5 * day
    await events.setPosition('one too many', first)
    const found = await Promise.all(
      ['asks', 'behind', 'other 3', 'one too many'].map(name => events.getPosition(name)),
    )
    expect(found).toEqual([second, first, second, first])
    expect(await t.store.backlog.listReaderLags(2 * maxReaders)).toHaveLength(maxReaders)
    const lost = await events.listAfter((await events.getPosition('unseen'))!, { limit: 9 })
    expect([lost.gone, inShort(lost.events)]).toEqual([true, [`message ${row}`]])
    await t.reopen()
    expect(
      (await t.store.events.listAfter((await t.store.events.getPosition('unseen'))!, { limit: 9 })).gone,
    ).toBe(true)
  })

  it('the readers of a key take no place of others', async t => {
    const { events } = t.store
    const head = await events.getHead()
    for (let nth = 0; nth < maxReaders; nth++) await events.setPosition(`k3v9x2ab/${nth}`, head)
    expect(await failure(events.setPosition('k3v9x2ab/more', head))).toMatchObject({ code: 'rate_limited' })
    // The keys that it made take none besides.
    const made = { name: 'made', hash: '', grant: { rights: [] }, can: [], created_at: 1 }
    await t.store.keys.add({ ...made, id: 'below', made_by: 'key:k3v9x2ab' })
    expect(await failure(events.setPosition('below/more', head))).toMatchObject({ code: 'rate_limited' })
    for (const reader of ['bot', 'aaaaaaaa/bot']) {
      await events.setPosition(reader, head)
      expect(await events.getPosition(reader)).toBe(head)
    }
  })

  it('a wait ends with each kind of event, also from another process', async t => {
    await using other = await t.second()
    const { signal } = new AbortController()
    const wakes = async (by: (one: Running) => Promise<unknown>, one: Running) => {
      const seen = await t.store.events.getHead()
      const woken = t.store.events.wait(seen, 60_000, signal)
      await by(one)
      await woken
      expect(await t.store.events.getHead()).not.toBe(seen)
      // It is there already.
      await t.store.events.wait(seen, 60_000, signal)
    }
    let nth = 0
    for (const process of [t, other]) {
      await wakes(one => receive(one, `${nth++}`), process)
      await wakes(one => sending(one.store, 's', 'b', out(`c${nth++}`)), process)
      await wakes(one => one.store.events.append([told('s', `${nth++}`)]), process)
    }
    await t.store.events.wait(await t.store.events.getHead(), 60_000, AbortSignal.abort())
  })

  it('a cursor beyond the end, as after a restore, continues with the oldest event and sets gone', async t => {
    const row = await receive(t, 'x')
    const end = await t.store.events.getHead()
    const page = await t.store.events.listAfter(end.replace(/\d$/, '9'), { limit: 5 })
    expect([page.gone, inShort(page.events), page.cursor]).toEqual([true, [`message ${row}`], end])
  })
})
