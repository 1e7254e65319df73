/** What every engine must do for the message log (`src/storage/store.ts`, `Storage.ingest`). */
import { expect, test } from 'bun:test'
import type { Store } from '../../src/storage/store.ts'
import { onEach } from './engines.ts'
import { byMessageId, insert, message, nameless, nthOf, outgoing, rename, sending } from './support.ts'

const all = async (store: Store) => await store.log.listAfter(0, { limit: 10_000 })

const add = async (...given: Parameters<typeof insert>) => (await insert(...given)).map(nthOf)

const again = (first: ReturnType<typeof message>, id: string) => ({ ...first, message_id: id })

onEach((it, openStore) => {
  it('a message is stored once, and again after a restart', async t => {
    const one = message('hello')
    expect(await add(t, [one])).toEqual([1])
    expect(await add(t, [one, message('next')])).toEqual(['duplicate', 2])
    await t.reopen()
    t.clock.at += 3_600_000
    expect(await add(t, [one])).toEqual(['duplicate'])
    expect(await all(t.store)).toHaveLength(2)
  })

  it('reading ends before the row that exceeds the limit, and returns the ids that were not read', async t => {
    const long = { raw: JSON.stringify('x'.repeat(1000)) }
    const four = [message('1', long), message('2', long), message('3'), message('4', long)]
    await insert(t, four)
    const read = async (rows: Promise<{ id: number }[]>) => (await rows).map(({ id }) => nthOf(id))
    expect(await read(t.store.log.listAfter(0, { limit: 9, characters: 1 }))).toEqual([1])
    expect(await read(t.store.log.listAfter(0, { limit: 9, characters: 2500 }))).toEqual([1, 2, 3])
    expect(await read(t.store.log.getByIds([4, 77, 3, 2].map(t.id), 1500))).toEqual([4, 3])
    expect(await read(t.store.log.getByIds([4, 77, 3, 2].map(t.id)))).toEqual([4, 3, 2])
    const names = four.map(one => one.message_id!)
    const all = await t.store.log.getByMessageIds([...names, 'nobody'])
    expect([all.rows.map(({ id }) => nthOf(id)), all.rest]).toEqual([[1, 2, 3, 4], []])
    const some = await t.store.log.getByMessageIds(['nobody', ...names], 1500)
    expect([some.rows.map(({ id }) => nthOf(id)), some.rest]).toEqual([[1], names.slice(1)])
    const page = await t.store.log.search({ limit: 9, offset: 0, characters: 1500 })
    expect([page.rows.map(({ id }) => nthOf(id)), nthOf(page.next_before), page.total]).toEqual([
      [4, 3],
      3,
      4,
    ])
  })

  it('the same id twice in one batch is one message', async t => {
    const one = message('hello')
    expect(await add(t, [one, one, message('x')])).toEqual([1, 'duplicate', 2])
  })

  test('duplicates use no row ids, so retention by count removes nothing too early', async () => {
    await using t = await openStore({ maxCount: 3 })
    const one = message('hello')
    for (let i = 0; i < 50; i++) await insert(t, [one])
    expect(await add(t, [message('x'), message('y')])).toEqual([2, 3])
    await t.store.maintenance.prune()
    expect(await all(t.store)).toHaveLength(3)
  })

  it('a received message is not lost because a sent one has its id', async t => {
    const begun = await sending(t.store, 's', 'bot', outgoing('out'))
    await t.store.outbox.settle(begun, { status: 'accepted', spent: true, message_id: '77' })
    expect(await add(t, [message('in', { message_id: '77' })], 's', 'bot')).toEqual([2])
    expect((await byMessageId(t.store, 'bot:77'))?.text).toBe('in')
  })

  it('messages without ids get derived ids; equal ones of a batch are all stored, a repeated batch stores none', async t => {
    const batch = [nameless('a'), nameless('b'), nameless('a'), nameless('a')]
    expect(await add(t, batch)).toEqual([1, 2, 3, 4])
    await t.reopen()
    expect(await add(t, batch)).toEqual(Array(4).fill('duplicate'))
    expect(await add(t, batch.slice(0, 1))).toEqual(['duplicate'])
    expect(await add(t, [...batch, nameless('a')])).toEqual([...Array(4).fill('duplicate'), 5])
  })

  it('a repeat under a new id in a later batch within 15 s counts as the same', async t => {
    const one = message('hello')
    await insert(t, [one])
    t.clock.at += 14_999
    expect(await add(t, [again(one, '5')])).toEqual(['duplicate'])
    t.clock.at += 2
    expect(await add(t, [again(one, '6')])).toEqual([2])
  })

  test.each([
    ['sender', { from_user: 'other' }],
    ['create time', { timestamp: 7 }],
    ['content', { contentHash: 'somethingelse' }],
  ])('with another %s it is another message', async (_, change) => {
    await using t = await openStore()
    const one = message('hello')
    await insert(t, [one])
    expect(await add(t, [{ ...again(one, '5'), ...change }])).toEqual([2])
  })

  it('a message to another bot is no repeat', async t => {
    const one = message('hello all')
    await insert(t, [one], 's1', 'bot1')
    expect(await add(t, [again(one, '5')], 's2', 'bot2')).toEqual([2])
  })

  it('a message whose time upstream did not state is never taken for a repeat', async t => {
    const one = message('hello', { timed: false })
    await insert(t, [one])
    expect(await add(t, [again(one, '5')])).toEqual([2])
  })

  it('two equal messages whose create time is a whole second are both real, in one batch or in two', async t => {
    const one = message('1', { timestamp: 1_800_000_007_000 })
    await insert(t, [one])
    t.clock.at += 1
    expect(await add(t, [again(one, '5')])).toEqual([2])
    expect(await add(t, [again(one, '6'), again(one, '7')])).toEqual([3, 4])
    // What comes under its own id a second time is still one.
    expect(await add(t, [one, again(one, '7')])).toEqual(['duplicate', 'duplicate'])
  })

  it('two equal messages in one batch are both real', async t => {
    const one = message('ok')
    expect(await add(t, [one, again(one, '5')])).toEqual([1, 2])
    expect(await add(t, [again(one, '6'), again(one, '7')])).toEqual(['duplicate', 'duplicate'])
  })

  it('a batch replayed with one more equal message brings one more, in either order', async t => {
    const one = message('ok')
    await insert(t, [one])
    expect(await add(t, [again(one, '5'), one])).toEqual([2, 'duplicate'])
    expect(await add(t, [one, again(one, '5'), again(one, '6')])).toEqual(['duplicate', 'duplicate', 3])
    // The same new id twice is one repeat, not a reason to believe in a second message.
    expect(await add(t, [again(one, '7'), again(one, '7')])).toEqual(['duplicate', 'duplicate'])
  })

  it('1,000 messages of every kind of text in one batch come out byte-exact and in order', async t => {
    const odd = [
      '',
      'a',
      '中',
      '👨‍👩‍👧',
      'null',
      'O\'Brien "x"',
      'a\0b',
      '\ud800',
      '\udc00x',
      '%_\\',
      '\u202e',
      '\ue000',
      'ſİı',
    ]
    const batch = Array.from({ length: 1000 }, (_, i) => {
      const text = `${odd[i % odd.length]}${i % 7 === 0 ? i : ''}`
      return message(text, {
        message_id: String(18446744073709551615n - BigInt(i)),
        from_user: `u${i % 5}\u4e2d@im.wechat`,
        raw: `{"message_id":${18446744073709551615n - BigInt(i)},"text":${JSON.stringify(text)},"emoji":"👍🏽"}`,
      })
    })
    expect(await add(t, batch)).toEqual(batch.map((_, i) => i + 1))
    await t.reopen()
    const rows = await t.store.log.listAfter(0, { limit: 1000, direction: 'received' })
    expect(rows.map(row => row.raw)).toEqual(batch.map(one => one.raw))
    expect(rows.map(row => row.message_id)).toEqual(batch.map(one => one.message_id!))
    expect(rows.map(row => row.from_user)).toEqual(batch.map(one => one.from_user))
  })

  it('a megabyte of text is kept whole and found', async t => {
    const text = `${'长文本 long '.repeat(100_000)}针`
    const raw = JSON.stringify({ text })
    await insert(t, [message(text, { raw })])
    expect(
      (await byMessageId(t.store, (await t.store.log.listAfter(0, { limit: 1 }))[0]!.message_id))?.raw,
    ).toBe(raw)
    const found = await t.store.log.search({ text_contains: 'LONG 针', limit: 5, offset: 0 })
    expect(found.rows.map(row => nthOf(row.id))).toEqual([1])
  })

  it('an id with a lone surrogate or NUL is stored once and blocks nobody', async t => {
    for (const id of ['x\ud800y', 'n\0ul']) {
      const one = message('odd', { message_id: id })
      expect(await add(t, [one])).toEqual([expect.any(Number)])
      t.clock.at += 60_000
      expect(await add(t, [one])).toEqual(['duplicate'])
    }
  })

  it('a sent message has a local id until upstream returns one, and keeps it if that id is taken', async t => {
    const a = await sending(t.store, 's', 'bot', outgoing('c1'))
    const b = await sending(t.store, 's', 'bot', outgoing('c2'))
    expect(await byMessageId(t.store, 'local:c1')).toMatchObject({
      direction: 'sent',
      status: 'sending',
      from_user: 'bot',
    })
    const accepted = { status: 'accepted', spent: true, message_id: '5' } as const
    await t.store.outbox.settle(a, accepted)
    await t.store.outbox.settle(b, accepted)
    expect((await byMessageId(t.store, '5'))?.id).toBe(a.row)
    expect(await byMessageId(t.store, 'local:c2')).toMatchObject({ id: b.row, status: 'accepted' })
  })

  it('rows follow a renamed session; a new session of the old name has its own', async t => {
    await insert(t, [message('1')], 'old')
    await rename(t, 'old', 'new')
    await insert(t, [message('2')], 'old')
    await insert(t, [message('3')], 'new')
    await rename(t, 'old', 'New')
    await insert(t, [message('4')], 'other')
    const names = async (session: string) =>
      (await t.store.log.listAfter(0, { limit: 9, session })).map(row => row.text)
    expect(await names('new')).toEqual(['1', '2', '3'])
    expect(await names('NEW')).toEqual(['1', '2', '3'])
    expect(await names('old')).toEqual([])
    expect(
      (await t.store.log.search({ session: 'new', limit: 9, offset: 0 })).rows.map(row => row.text),
    ).toEqual(['3', '2', '1'])
  })
})
