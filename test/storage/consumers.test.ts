/** What every engine must do for readers of the log (`src/storage/store.ts`). */
import { describe, expect, test } from 'bun:test'
import { maxReaders } from '../../src/storage/events.ts'
import type { NewKey } from '../../src/storage/keys.ts'
import { dayMs } from '../../src/storage/retention.ts'
import type { ConsumerClaim, Store } from '../../src/storage/store.ts'
import { failure, fieldsOf } from '../support/failure.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { onEach } from './engines.ts'
import { insert, message, nthOf, outgoing, type Running, rename, sending } from './support.ts'

const ids = (claim: ConsumerClaim | undefined) => claim?.rows.map(row => nthOf(row.id)) ?? []
const add = async (t: Running, count: number, session = 's') =>
  await insert(
    t,
    Array.from({ length: count }, (_, i) => message(`${session} ${i}`)),
    session,
  )

const refused = async (work: Promise<unknown>) => expect(fieldsOf(await failure(work))).toEqual(['ack'])

const never = () => new AbortController().signal

onEach((it, openStore) => {
  it('the default consumer begins at the beginning, another one at the end', async t => {
    await add(t, 3)
    expect(await t.store.consumers.claim('late', { limit: 10 })).toBeUndefined()
    expect(ids(await t.store.consumers.claim('default', { limit: 10 }))).toEqual([1, 2, 3])
    await add(t, 1)
    expect(ids(await t.store.consumers.claim('late', { limit: 10 }))).toEqual([4])
  })

  it('a registered consumer starts after all delivered rows, `default` at the beginning', async t => {
    const { consumers } = t.store
    await add(t, 3)
    await consumers.register('first')
    expect(ids(await consumers.claim('first', { limit: 2 }))).toEqual([1, 2])
    for (const name of ['second', 'default']) await consumers.register(name)
    await add(t, 1)
    await consumers.register('second')
    expect(ids(await consumers.claim('second', { limit: 10 }))).toEqual([3, 4])
    expect(ids(await consumers.claim('default', { limit: 10 }))).toEqual([1, 2, 3, 4])
    expect(ids(await consumers.claim('first', { limit: 10 }))).toEqual([3, 4])
  })

  it('a consumer registered after a row gets what comes after it, also `default`, and one that is there stays', async t => {
    const { consumers } = t.store
    await add(t, 3)
    for (const name of ['aside', 'default']) {
      await consumers.register(name, { after: t.id(1) })
      await consumers.register(name, { after: t.id(3) })
      expect(ids(await consumers.claim(name, { limit: 10 }))).toEqual([2, 3])
    }
  })

  it('the consumers of a key and the keys around it have a bounded number of places; one that is idle gives its own', async t => {
    const { backlog, consumers, acknowledgements } = t.store
    const key = (id: string, made_by: string): NewKey => ({
      ...{ id, name: id, hash: id, grant: { rights: ['recv'] }, can: [], made_by, created_at: 1 },
    })
    for (const one of [key('top', 'owner'), key('child', 'key:top'), key('grand', 'panel:child')])
      await t.store.keys.add(one)
    await add(t, 1)
    await consumers.claim('top/default', { limit: 1 })
    await acknowledgements.readAfter('child/acks', 0, { limit: 1 })
    t.clock.at += dayMs
    for (let nth = 2; nth < maxReaders; nth++)
      await consumers.register(`${['top', 'child', 'grand'][nth % 3]}/${nth}`)
    await t.store.keys.add(key('again', 'key:top'))
    const all = [...['top', 'child', 'grand', 'again'].map(id => `${id}/more`)]
    for (const name of all)
      for (const work of [
        () => consumers.claim(name, { limit: 1 }),
        () => consumers.register(name, { atEnd: true }),
        () => acknowledgements.readAfter(name, 0, { limit: 1 }),
      ])
        expect(await failure(work() as Promise<unknown>)).toMatchObject({
          code: 'rate_limited',
          retryAfter: (29 * dayMs) / 1000,
        })
    expect(await backlog.listLags(2 * maxReaders)).toHaveLength(maxReaders)
    // Who has a place reads on, and nobody else is concerned.
    await consumers.claim('top/default', { limit: 1 })
    for (const name of ['mine', 'stranger/more', 'default']) await consumers.claim(name, { limit: 1 })
    t.clock.at += 29 * dayMs
    await acknowledgements.readAfter('again/more', 0, { limit: 1 })
    expect(await failure(consumers.claim('child/more', { limit: 1 }))).toMatchObject({ code: 'rate_limited' })
    expect((await backlog.listLags(2 * maxReaders)).map(({ consumer }) => consumer)).not.toContain(
      'child/acks',
    )
  })

  it('a consumer registered at the end gets what comes then, and one that is there stays where it is', async t => {
    const { consumers } = t.store
    await add(t, 3)
    for (const name of ['late', 'default']) await consumers.register(name, { atEnd: true })
    await add(t, 1)
    await consumers.register('late', { atEnd: true })
    expect(ids(await consumers.claim('late', { limit: 10 }))).toEqual([4])
    expect(ids(await consumers.claim('default', { limit: 10 }))).toEqual([1, 2, 3, 4])
  })

  it('a removed lease has no effect; an expired one stays valid until its rows are claimed; names are case-sensitive', async t => {
    await add(t, 1)
    const { consumers } = t.store
    const { lease } = (await consumers.claim('default', { limit: 1 }))!
    expect(await consumers.claim('Default', { limit: 1 })).toBeUndefined()
    t.clock.at += 30_001
    await consumers.renew(lease)
    expect(await consumers.claim('default', { limit: 1 })).toBeUndefined()
    await consumers.ack(lease)
    for (const verb of ['ack', 'nack', 'renew'] as const) await consumers[verb](lease)
    await consumers.giveBack({ lease, redelivered: new Set() }, 0)
    expect(await consumers.claim('default', { limit: 1 })).toBeUndefined()
    expect(await t.store.backlog.countWaiting('default', { limit: 1 })).toBe(0)
  })

  it('confirmed rows are not redelivered, in this process or the next', async t => {
    await add(t, 3)
    await t.store.consumers.ack((await t.store.consumers.claim('default', { limit: 2 }))!.lease)
    await t.reopen()
    t.clock.at += 60_000
    const rest = (await t.store.consumers.claim('default', { limit: 10 }))!
    expect(ids(rest)).toEqual([3])
    expect(rest.redelivered.size).toBe(0)
    await t.store.consumers.ack(rest.lease)
    expect(await t.store.consumers.claim('default', { limit: 10 })).toBeUndefined()
  })

  it('a bot does not receive its own messages', async t => {
    await sending(t.store, 's', 'b', outgoing('1'))
    await add(t, 1)
    await sending(t.store, 's', 'b', outgoing('2'))
    expect(ids(await t.store.consumers.claim('default', { limit: 10 }))).toEqual([2])
    expect(await t.store.consumers.claim('default', { limit: 10 })).toBeUndefined()
    expect(await t.store.consumers.claim('default', { limit: 10, session: 's' })).toBeUndefined()
  })

  it('parallel calls never get the same row', async t => {
    await add(t, 25)
    const claims = await Promise.all(
      Array.from({ length: 4 }, () => t.store.consumers.claim('default', { limit: 10 })),
    )
    expect(claims.flatMap(ids).sort((a, b) => a - b)).toEqual(Array.from({ length: 25 }, (_, i) => i + 1))
  })

  it('abandoned rows are redelivered, marked, before newer ones; new rows are not marked', async t => {
    await add(t, 4)
    const first = (await t.store.consumers.claim('default', { limit: 2 }))!
    expect(await t.store.backlog.findConsumersToRedeliver()).toEqual(new Set())
    await t.store.consumers.nack(first.lease)
    expect(await t.store.backlog.findConsumersToRedeliver()).toEqual(new Set(['default']))
    const again = (await t.store.consumers.claim('default', { limit: 1 }))!
    expect([...again.redelivered].map(nthOf)).toEqual([1])
    // The lease of which one row was taken is still the first one's for the other.
    await t.store.consumers.ack(first.lease)
    expect(await t.store.backlog.findConsumersToRedeliver()).toEqual(new Set())
    await t.store.consumers.nack(again.lease)
    expect(ids(await t.store.consumers.claim('default', { limit: 10 }))).toEqual([1])
    const rest = (await t.store.consumers.claim('default', { limit: 10 }))!
    expect(ids(rest)).toEqual([3, 4])
    expect(rest.redelivered.size).toBe(0)
  })

  it('returned rows of a claim are redelivered before newer ones, marked only if they were delivered before', async t => {
    await add(t, 6)
    const first = (await t.store.consumers.claim('default', { limit: 4 }))!
    await t.store.consumers.giveBack(first, t.id(3))
    expect([...(await t.store.backlog.findConsumersToRedeliver())]).toEqual(['default'])
    expect(await t.store.backlog.countWaiting('default', { limit: 9 })).toBe(4)
    await t.store.consumers.nack(first.lease)
    const again = (await t.store.consumers.claim('default', { limit: 9 }))!
    expect(ids(again)).toEqual([1, 2, 3, 4])
    expect([...again.redelivered].map(nthOf).sort()).toEqual([1, 2])
    await t.store.consumers.giveBack(again, t.id(2))
    await t.store.consumers.ack(again.lease)
    const third = (await t.store.consumers.claim('default', { limit: 9 }))!
    expect(ids(third)).toEqual([2, 3, 4])
    expect([...third.redelivered].map(nthOf)).toEqual([2])
    await t.store.consumers.giveBack(third, 0)
    // Nothing of it is left to be confirmed.
    await t.store.consumers.ack(third.lease)
    expect(ids(await t.store.consumers.claim('default', { limit: 9 }))).toEqual([2, 3, 4])
    expect(ids(await t.store.consumers.claim('default', { limit: 9 }))).toEqual([5, 6])
  })

  it('rows that were written three times and never confirmed count as read; rows that were not written do not', async t => {
    await add(t, 3)
    /** Takes rows as a reader that leaves: it got the answer, or not. Returns ids, and whether they count as read. */
    const take = async (limit: number, isWritten: boolean) => {
      const claim = (await t.store.consumers.claim('default', { limit }))!
      const isRead = isWritten && (await t.store.consumers.recordHandOut(claim.lease))
      await t.store.consumers.nack(claim.lease)
      return [ids(claim), isRead]
    }
    for (let at = 0; at < 5; at++) expect(await take(2, false)).toEqual([[1, 2], false])
    expect(await take(2, true)).toEqual([[1, 2], false])
    expect(await take(1, true)).toEqual([[1], false])
    await t.reopen()
    // The count of each row is its own: 1 has had two hand-outs, 2 one, 3 none.
    expect(await take(9, true)).toEqual([[2], false])
    expect(await take(9, true)).toEqual([[1, 2], true])
    expect(await t.store.backlog.countWaiting('default', { limit: 9 })).toBe(1)
    expect(await take(9, true)).toEqual([[3], false])
    const last = (await t.store.consumers.claim('default', { limit: 9 }))!
    expect([ids(last), [...last.redelivered].map(nthOf)]).toEqual([[3], [3]])
    await t.store.consumers.giveBack(last, t.id(3))
    expect(await take(9, true)).toEqual([[3], false])
    expect(await take(9, true)).toEqual([[3], true])
    expect(await t.store.consumers.claim('default', { limit: 9 })).toBeUndefined()
    expect([
      await t.store.consumers.recordHandOut(last.lease),
      await t.store.backlog.findConsumersToRedeliver(),
    ]).toEqual([false, new Set()])
  })

  it('a claim ends before the row that exceeds the limit, and always has one row', async t => {
    const long = { raw: JSON.stringify('x'.repeat(1000)) }
    await insert(t, [message('1', long), message('2'), message('3', long)])
    expect(ids(await t.store.consumers.claim('default', { limit: 9, characters: 10 }))).toEqual([1])
    expect(ids(await t.store.consumers.claim('default', { limit: 9, characters: 500 }))).toEqual([2])
    expect(ids(await t.store.consumers.claim('default', { limit: 9, characters: 500 }))).toEqual([3])
  })

  it('an expired lease is claimed in parts of the requested size, and a late acknowledgement does no harm', async t => {
    await add(t, 1000)
    const slow = (await t.store.consumers.claim('default', { limit: 1000 }))!
    expect(await t.store.consumers.claim('default', { limit: 10 })).toBeUndefined()
    t.clock.at += 30_001
    const piece = (await t.store.consumers.claim('default', { limit: 10 }))!
    expect(ids(piece)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    expect(piece.redelivered.size).toBe(10)
    await t.store.consumers.nack(piece.lease)
    // The slow one arrives after all: what nobody else has taken meanwhile is done.
    await t.store.consumers.ack(slow.lease)
    expect(ids(await t.store.consumers.claim('default', { limit: 1000 }))).toEqual(ids(piece))
  })

  it('the lag of a consumer is its undelivered rows; with many consumers, those that read last are returned', async t => {
    await add(t, 2)
    const lags = async (most = 9) =>
      new Map((await t.store.backlog.listLags(most)).map(({ consumer, messages }) => [consumer, messages]))
    expect(await lags()).toEqual(new Map())
    await t.store.consumers.claim('late', { limit: 1 })
    t.clock.at += 2 * 60 * 60_000
    await t.store.consumers.claim('default', { limit: 1 })
    await sending(t.store, 's', 'b', outgoing('1'))
    await add(t, 3)
    expect(await lags()).toEqual(new Map(Object.entries({ default: 4, late: 3 })))
    expect(await lags(1)).toEqual(new Map([['default', 4]]))
    await t.store.consumers.claim('default', { limit: 9 })
    await t.store.acknowledgements.readAfter('late', 0, { limit: 1 })
    await t.store.acknowledgements.markHandedOut('late', t.id(4))
    await t.store.acknowledgements.readAfter('late', t.id(4), { limit: 1 })
    expect(await lags()).toEqual(new Map(Object.entries({ default: 0, late: 2 })))
  })

  it('an acknowledgement without rows hands out nothing', async t => {
    const { acknowledgements } = t.store
    const read = async (ack: number, limit: number, more = {}) =>
      (await acknowledgements.readAfter('default', ack, { limit, ...more })).rows.map(({ id }) => nthOf(id))
    await add(t, 3)
    expect(await read(0, 2)).toEqual([1, 2])
    await acknowledgements.markHandedOut('default', t.id(2))
    for (const more of [{}, { session: 's' }, { scope: { users: ['u@im.wechat'] } }])
      expect(await read(t.id(1), 0, more)).toEqual([])
    expect(await read(0, 9)).toEqual([2, 3])
  })

  it('a removed consumer leaves nothing, and its name is a new one', async t => {
    const { acknowledgements, backlog, consumers } = t.store
    await add(t, 3)
    for (const name of ['default', 'other']) await consumers.register(name)
    const { lease } = (await consumers.claim('default', { limit: 1 }))!
    await consumers.claim('default', { limit: 1, session: 's' })
    await acknowledgements.readAfter('acks', 0, { limit: 9 })
    expect(await consumers.remove('nobody')).toBe(false)
    for (const name of ['default', 'acks']) expect(await consumers.remove(name)).toBe(true)
    expect((await backlog.listLags(9)).map(({ consumer }) => consumer)).toEqual(['other'])
    // What was under way then does nothing any more.
    await consumers.nack(lease)
    await acknowledgements.markHandedOut('acks', t.id(3))
    await add(t, 1)
    expect(ids(await consumers.claim('default', { limit: 9 }))).toEqual([1, 2, 3, 4])
    expect((await acknowledgements.readAfter('acks', 0, { limit: 9 })).rows).toEqual([])
    expect(ids(await consumers.claim('other', { limit: 9 }))).toEqual([1, 2, 3, 4])
  })

  it('the readers of a revoked key, and of those it made, end with it, and none is added later', async t => {
    const { acknowledgements, backlog, consumers, events, keys } = t.store
    const grant = { rights: ['recv'] } as const
    for (const [id, made_by] of [
      ['aa', 'owner'],
      ['bb', 'key:aa'],
      ['cc', 'owner'],
    ])
      await keys.add({ id: id!, name: id!, hash: id!, grant, can: [], made_by: made_by!, created_at: 1 })
    await add(t, 2)
    const names = ['aa/default', 'aa/acks', 'bb/x', 'cc/x', 'aa', 'x']
    for (const name of names) await consumers.register(name)
    await acknowledgements.readAfter('aa/acks', 0, { limit: 9 })
    const { lease } = (await consumers.claim('aa/default', { limit: 1 }))!
    const head = await events.getHead()
    for (const name of ['aa/e', 'cc/e', 'e']) await events.setPosition(name, head)
    expect((await keys.revoke('aa', 7)).sort()).toEqual(['aa', 'bb'])
    const left = (await backlog.listLags(9)).map(({ consumer }) => consumer)
    expect(left.sort()).toEqual(['aa', 'cc/x', 'x'])
    expect((await backlog.listReaderLags(9)).map(({ reader }) => reader).sort()).toEqual(['cc/e', 'e'])
    await consumers.ack(lease)
    for (const work of [
      () => consumers.claim('aa/default', { limit: 1 }),
      () => consumers.register('bb/new'),
      () => acknowledgements.readAfter('aa/acks', 0, { limit: 1 }),
    ])
      expect(await failure(work() as Promise<unknown>)).toMatchObject({ code: 'unauthorized' })
    expect(await backlog.listLags(9)).toHaveLength(3)
  })

  it('lags are listed of one key, and of those that read lately', async t => {
    const { acknowledgements, backlog, consumers } = t.store
    await add(t, 2)
    await consumers.register('old')
    t.clock.at += 8 * dayMs
    await acknowledgements.readAfter('k/acks', 0, { limit: 1 })
    await consumers.claim('kk/default', { limit: 1 })
    const since = t.clock.at - 7 * dayMs
    expect((await backlog.listLags(9, { since })).map(({ consumer }) => consumer).sort()).toEqual([
      'k/acks',
      'kk/default',
    ])
    expect(await backlog.listLags(9, { of: 'k' })).toEqual([
      { consumer: 'k/acks', messages: 0, seen_at: t.clock.at, acknowledges: true },
    ])
    // It is there again when it reads again, with all that it has not read.
    await consumers.claim('old', { limit: 1 })
    expect(await backlog.listLags(9, { since })).toHaveLength(3)
  })

  it('rows read from a single session, and imported messages, do not count as lag', async t => {
    const { acknowledgements, backlog, consumers, intake } = t.store
    const lag = async (name: string) =>
      (await backlog.listLags(9)).find(({ consumer }) => consumer === name)?.messages
    await consumers.claim('default', { limit: 1 })
    await intake.add([{ ...message('old'), session: 's', bot_id: 'b', direction: 'received' }])
    expect(await lag('default')).toBe(0)
    await insert(t, [message('1'), message('2')])
    await insert(t, [message('3')], 'other')
    await consumers.claim('default', { limit: 1, session: 's' })
    expect(await lag('default')).toBe(2)
    expect(await backlog.countWaiting('default', { limit: 9 })).toBe(2)
    await acknowledgements.readAfter('acks', 0, { limit: 9 })
    await insert(t, [message('4'), message('5')])
    const { rows } = await acknowledgements.readAfter('acks', 0, { limit: 9 })
    await acknowledgements.markHandedOut('acks', rows[0]!.id)
    expect([await backlog.countWaiting('acks', { limit: 9 }), await lag('acks')]).toEqual([2, 2])
    await acknowledgements.readAfter('acks', rows[0]!.id, { limit: 9 })
    expect([await backlog.countWaiting('acks', { limit: 9 }), await lag('acks')]).toEqual([1, 1])
    await insert(t, [message('6'), message('7')], 'other')
    const apart = await acknowledgements.readAfter('acks', 0, { limit: 9, session: 'other' })
    await acknowledgements.markHandedOut('acks', apart.rows[1]!.id, 'other')
    await acknowledgements.readAfter('acks', apart.rows[0]!.id, { limit: 9, session: 'other' })
    expect([await backlog.countWaiting('acks', { limit: 9 }), await lag('acks')]).toEqual([2, 2])
    await consumers.claim('default', { limit: 9 })
    await acknowledgements.readAfter('default', 0, { limit: 9 })
    expect([await backlog.countWaiting('default', { limit: 9 }), await lag('default')]).toEqual([7, 7])
  })

  it('a lease lapses although the clock was set back', async t => {
    await add(t, 1)
    await t.store.consumers.claim('default', { limit: 1 })
    t.clock.at -= 24 * 3_600_000
    expect(ids(await t.store.consumers.claim('default', { limit: 1 }))).toEqual([1])
  })

  test('rows that retention removed while they were leased are forgotten', async () => {
    await using t = await openStore({ maxCount: 1 })
    await add(t, 3)
    const claim = (await t.store.consumers.claim('default', { limit: 3 }))!
    await t.store.maintenance.prune()
    await t.store.consumers.nack(claim.lease)
    expect(ids(await t.store.consumers.claim('default', { limit: 3 }))).toEqual([3])
  })

  it('reading single sessions and all sessions, mixed at random, returns each row once', async t => {
    let seed = 3
    const random = (below: number) => {
      seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
      return Math.floor((seed / 2 ** 32) * below)
    }
    const got: number[] = []
    let stored = 0
    for (let step = 0; step < 400; step++) {
      const act = random(10)
      if (act < 4) stored += (await add(t, 1 + random(4), `s${random(5)}`)).length
      else {
        const session = act < 8 ? { session: `s${random(5)}` } : {}
        const claim = await t.store.consumers.claim('default', { limit: 1 + random(6), ...session })
        if (!claim) continue
        if (session.session) expect(claim.rows.every(row => row.session === session.session)).toBe(true)
        expect(ids(claim)).toEqual(ids(claim).toSorted((a, b) => a - b))
        if (random(4) === 0) await t.store.consumers.nack(claim.lease)
        else {
          await t.store.consumers.ack(claim.lease)
          got.push(...ids(claim))
        }
      }
    }
    for (let rounds = 0; rounds < 1000; rounds++) {
      const claim = await t.store.consumers.claim('default', { limit: 50 })
      if (!claim) break
      await t.store.consumers.ack(claim.lease)
      got.push(...ids(claim))
    }
    expect(got.sort((a, b) => a - b)).toEqual(Array.from({ length: stored }, (_, i) => i + 1))
  })

  it('a session read alone keeps its order if several sessions had its name', async t => {
    await add(t, 1, 'a')
    await rename(t, 'a', 'b')
    await add(t, 1, 'a')
    await rename(t, 'a', 'b')
    await insert(t, [message('x')], 'b')
    expect(ids(await t.store.consumers.claim('default', { limit: 2, session: 'b' }))).toEqual([1, 2])
    expect(ids(await t.store.consumers.claim('default', { limit: 2, session: 'B' }))).toEqual([3])
  })

  describe('a consumer that acknowledges', () => {
    /** What a call is given, and marks as handed out. */
    const next = async (store: Store, consumer: string, ack: number, session?: string) => {
      const wanted = { limit: 10, ...(session !== undefined && { session }) }
      const { rows, redelivered } = await store.acknowledgements.readAfter(consumer, ack, wanted)
      const last = rows.at(-1)
      if (last) await store.acknowledgements.markHandedOut(consumer, last.id, session)
      return rows.map(({ id }) => (redelivered.has(id) ? -nthOf(id) : nthOf(id)))
    }

    it('gets unacknowledged rows again, marked, and nothing else moves it', async t => {
      await add(t, 3)
      expect(await next(t.store, 'default', 0)).toEqual([1, 2, 3])
      expect(await next(t.store, 'default', 0)).toEqual([-1, -2, -3])
      await add(t, 1)
      expect(await next(t.store, 'default', t.id(2))).toEqual([-3, 4])
      await t.reopen()
      t.clock.at += 60_000
      await using other = await t.second()
      expect(await next(other.store, 'default', 0)).toEqual([-3, -4])
      expect(await next(t.store, 'default', t.id(4))).toEqual([])
      // What came before is dealt with, whoever says less now.
      expect(await next(other.store, 'default', t.id(1))).toEqual([])
    })

    it('starts at the end of the log with a new name, and continues at its position with a known one', async t => {
      await add(t, 2)
      expect(await next(t.store, 'new', 0)).toEqual([])
      await t.store.consumers.ack((await t.store.consumers.claim('default', { limit: 1 }))!.lease)
      // Handed out, and not confirmed when it changes over.
      await t.store.consumers.claim('default', { limit: 1 })
      await add(t, 1)
      expect(await next(t.store, 'new', 0)).toEqual([3])
      expect(await next(t.store, 'default', 0)).toEqual([-2, 3])
      expect([...(await t.store.backlog.findConsumersToRedeliver())]).toEqual([])
    })

    it('may acknowledge delivered rows, and nothing beyond', async t => {
      await add(t, 3)
      const beyond = (ack: number) =>
        refused(t.store.acknowledgements.readAfter('default', ack, { limit: 1 }))
      await beyond(t.id(1))
      // It was refused, so the consumer is as it was.
      expect(ids(await t.store.consumers.claim('default', { limit: 1 }))).toEqual([1])
      const { rows } = await t.store.acknowledgements.readAfter('default', 0, { limit: 2 })
      expect(rows.map(({ id }) => nthOf(id))).toEqual([1, 2])
      // Read, and shown to nobody yet.
      await beyond(t.id(2))
      await t.store.acknowledgements.markHandedOut('default', t.id(2))
      await beyond(t.id(3))
      expect(await next(t.store, 'default', t.id(2))).toEqual([3])
      await beyond(Number.MAX_SAFE_INTEGER)
    })

    it('is rejected without an acknowledgement; others work as before', async t => {
      await add(t, 2)
      expect(await next(t.store, 'default', 0)).toEqual([1, 2])
      await refused(t.store.consumers.claim('default', { limit: 1 }))
      await refused(t.store.consumers.claim('default', { limit: 1, session: 's' }))
      expect(await t.store.consumers.claim('late', { limit: 1 })).toBeUndefined()
      await add(t, 1)
      expect(ids(await t.store.consumers.claim('late', { limit: 1 }))).toEqual([3])
    })

    it('acknowledges for a session only what it read from that session', async t => {
      for (const session of ['a', 'b', 'a', 'b']) await add(t, 1, session)
      expect(await next(t.store, 'default', 0, 'a')).toEqual([1, 3])
      // Row 2 was never handed out.
      await refused(t.store.acknowledgements.readAfter('default', t.id(3), { limit: 9 }))
      expect(await next(t.store, 'default', t.id(3), 'A')).toEqual([])
      expect(await next(t.store, 'default', 0)).toEqual([2, 4])
      expect(await next(t.store, 'default', t.id(2), 'b')).toEqual([-4])
      expect(await next(t.store, 'default', 0)).toEqual([-4])
      await rename(t, 'b', 'c')
      expect(await next(t.store, 'default', 0, 'c')).toEqual([-4])
      expect(await next(t.store, 'default', t.id(4))).toEqual([])
      await add(t, 1, 'a')
      expect(await next(t.store, 'default', 0, 'a')).toEqual([5])
    })
  })

  it('a wait ends every second while rows are leased, since a lease expires without a signal', async t => {
    await add(t, 1)
    await t.store.consumers.claim('default', { limit: 1 })
    using watch = stopwatch()
    await t.store.log.wait(t.id(1), 60_000, never())
    expect(watch.ms).toBeLessThan(5000)
  })

  it('three thousand waits leave no listeners, and closing ends the remaining waits', async t => {
    let listeners = 0
    const { signal } = new AbortController()
    const counted = new Proxy(signal, {
      get(target, key) {
        if (key === 'addEventListener') listeners++
        if (key === 'removeEventListener') listeners--
        const value = Reflect.get(target, key, target)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    for (let round = 0; round < 30; round++) {
      const waits = Array.from({ length: 100 }, () => t.store.log.wait(t.id(round), 60_000, counted))
      expect(listeners).toBe(100)
      await add(t, 1)
      await Promise.all(waits)
    }
    expect(listeners).toBe(0)
    const last = t.store.log.wait(t.id(30), 60_000, counted)
    await t.storage.close()
    await last
    expect(listeners).toBe(0)
    expect(await failure(t.store.log.getHead())).toBeInstanceOf(Error)
  })
})
