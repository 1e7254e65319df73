import { expect, test } from 'bun:test'
import { openDatabase } from '../../src/platform/sqlite.ts'
import type { Store } from '../../src/storage/store.ts'
import { failure } from '../support/failure.ts'
import { given } from '../support/given.ts'
import { onEach } from './engines.ts'
import {
  byMessageId,
  inOtherProcess,
  insert,
  message,
  nameless,
  openStore,
  outgoing,
  sending,
} from './support.ts'

const it = given(openStore)

const all = async (store: Store) => await store.log.after(0, { limit: 10_000 })

const again = (first: ReturnType<typeof message>, id: string) => ({ ...first, message_id: id })

onEach((it, openStore) => {
  it('a message is stored once, and again after a restart', async t => {
    const one = message('hello')
    expect(await insert(t.store, [one])).toEqual([1])
    expect(await insert(t.store, [one, message('next')])).toEqual(['duplicate', 2])
    await t.reopen()
    t.clock.at += 3_600_000
    expect(await insert(t.store, [one])).toEqual(['duplicate'])
    expect(await all(t.store)).toHaveLength(2)
  })

  it('reading ends before the row that would be too much, and says what was not looked up', async t => {
    const long = { raw: JSON.stringify('x'.repeat(1000)) }
    const four = [message('1', long), message('2', long), message('3'), message('4', long)]
    await insert(t.store, four)
    const read = async (rows: Promise<{ id: number }[]>) => (await rows).map(({ id }) => id)
    expect(await read(t.store.log.after(0, { limit: 9, characters: 1 }))).toEqual([1])
    expect(await read(t.store.log.after(0, { limit: 9, characters: 2500 }))).toEqual([1, 2, 3])
    expect(await read(t.store.log.byIds([4, 77, 3, 2], 1500))).toEqual([4, 3])
    expect(await read(t.store.log.byIds([4, 77, 3, 2]))).toEqual([4, 3, 2])
    const names = four.map(one => one.message_id!)
    const all = await t.store.log.byMessageIds([...names, 'nobody'])
    expect([all.rows.map(({ id }) => id), all.rest]).toEqual([[1, 2, 3, 4], []])
    const some = await t.store.log.byMessageIds(['nobody', ...names], 1500)
    expect([some.rows.map(({ id }) => id), some.rest]).toEqual([[1], names.slice(1)])
    const page = await t.store.log.history({ limit: 9, offset: 0, characters: 1500 })
    expect([page.rows.map(({ id }) => id), page.next_before, page.total]).toEqual([[4, 3], 3, 4])
  })

  it('the same id twice in one batch is one message', async t => {
    const one = message('hello')
    expect(await insert(t.store, [one, one, message('x')])).toEqual([1, 'duplicate', 2])
  })

  test('duplicates burn no row ids, so retention by count removes nothing too early', async () => {
    await using t = await openStore({ maxCount: 3 })
    const one = message('hello')
    for (let i = 0; i < 50; i++) await insert(t.store, [one])
    expect(await insert(t.store, [message('x'), message('y')])).toEqual([2, 3])
    await t.store.upkeep.prune()
    expect(await all(t.store)).toHaveLength(3)
  })

  it('a received message is not lost because a sent one has its id', async t => {
    const begun = await sending(t.store, 's', 'bot', outgoing('out'))
    await t.store.outbox.settle(begun, { status: 'accepted', spent: true, message_id: '77' })
    expect(await insert(t.store, [message('in', { message_id: '77' })], 's', 'bot')).toEqual([2])
    expect((await byMessageId(t.store, 'bot:77'))?.text).toBe('in')
  })

  it('messages without ids get derived ones; equal ones of a batch are all real, and the batch again none', async t => {
    const batch = [nameless('a'), nameless('b'), nameless('a'), nameless('a')]
    expect(await insert(t.store, batch)).toEqual([1, 2, 3, 4])
    await t.reopen()
    expect(await insert(t.store, batch)).toEqual(Array(4).fill('duplicate'))
    expect(await insert(t.store, batch.slice(0, 1))).toEqual(['duplicate'])
    expect(await insert(t.store, [...batch, nameless('a')])).toEqual([...Array(4).fill('duplicate'), 5])
  })

  it('a repeat under a new id in a later batch within 15 s counts as the same', async t => {
    const one = message('hello')
    await insert(t.store, [one])
    t.clock.at += 14_999
    expect(await insert(t.store, [again(one, '5')])).toEqual(['duplicate'])
    t.clock.at += 2
    expect(await insert(t.store, [again(one, '6')])).toEqual([2])
  })

  test.each([
    ['sender', { from_user: 'other' }],
    ['create time', { timestamp: 7 }],
    ['content', { contentHash: 'somethingelse' }],
  ])('with another %s it is another message', async (_, change) => {
    await using t = await openStore()
    const one = message('hello')
    await insert(t.store, [one])
    expect(await insert(t.store, [{ ...again(one, '5'), ...change }])).toEqual([2])
  })

  it('a message to another bot is no repeat', async t => {
    const one = message('hello all')
    await insert(t.store, [one], 's1', 'bot1')
    expect(await insert(t.store, [again(one, '5')], 's2', 'bot2')).toEqual([2])
  })

  it('a message whose time upstream did not state is never taken for a repeat', async t => {
    const one = message('hello', { timed: false })
    await insert(t.store, [one])
    expect(await insert(t.store, [again(one, '5')])).toEqual([2])
  })

  it('two equal messages whose create time is a whole second are both real, in one batch or in two', async t => {
    const one = message('1', { timestamp: 1_800_000_007_000 })
    await insert(t.store, [one])
    t.clock.at += 1
    expect(await insert(t.store, [again(one, '5')])).toEqual([2])
    expect(await insert(t.store, [again(one, '6'), again(one, '7')])).toEqual([3, 4])
    // What comes under its own id a second time is still one.
    expect(await insert(t.store, [one, again(one, '7')])).toEqual(['duplicate', 'duplicate'])
  })

  it('two equal messages in one batch are both real', async t => {
    const one = message('ok')
    expect(await insert(t.store, [one, again(one, '5')])).toEqual([1, 2])
    expect(await insert(t.store, [again(one, '6'), again(one, '7')])).toEqual(['duplicate', 'duplicate'])
  })

  it('a batch replayed with one more equal message brings one more, in either order', async t => {
    const one = message('ok')
    await insert(t.store, [one])
    expect(await insert(t.store, [again(one, '5'), one])).toEqual([2, 'duplicate'])
    expect(await insert(t.store, [one, again(one, '5'), again(one, '6')])).toEqual([
      'duplicate',
      'duplicate',
      3,
    ])
    // The same new id twice is one repeat, not a reason to believe in a second message.
    expect(await insert(t.store, [again(one, '7'), again(one, '7')])).toEqual(['duplicate', 'duplicate'])
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
    expect(await insert(t.store, batch)).toEqual(batch.map((_, i) => i + 1))
    await t.reopen()
    const rows = await t.store.log.after(0, { limit: 1000, direction: 'received' })
    expect(rows.map(row => row.raw)).toEqual(batch.map(one => one.raw))
    expect(rows.map(row => row.message_id)).toEqual(batch.map(one => one.message_id!))
    expect(rows.map(row => row.from_user)).toEqual(batch.map(one => one.from_user))
  })

  it('a megabyte of text is kept whole and found', async t => {
    const text = `${'长文本 long '.repeat(100_000)}针`
    const raw = JSON.stringify({ text })
    await insert(t.store, [message(text, { raw })])
    expect((await byMessageId(t.store, (await t.store.log.after(0, { limit: 1 }))[0]!.message_id))?.raw).toBe(
      raw,
    )
    const found = await t.store.log.history({ text_contains: 'LONG 针', limit: 5, offset: 0 })
    expect(found.rows.map(row => row.id)).toEqual([1])
  })

  it('an id with a lone surrogate or NUL is stored once and blocks nobody', async t => {
    for (const id of ['x\ud800y', 'n\0ul']) {
      const one = message('odd', { message_id: id })
      expect(await insert(t.store, [one])).toEqual([expect.any(Number)])
      t.clock.at += 60_000
      expect(await insert(t.store, [one])).toEqual(['duplicate'])
    }
  })

  it('a sent message is local until upstream names it, and keeps its local id when the name is taken', async t => {
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
    await insert(t.store, [message('1')], 'old')
    await t.store.upkeep.renameSession('old', 'new')
    await insert(t.store, [message('2')], 'old')
    await insert(t.store, [message('3')], 'new')
    await t.store.upkeep.renameSession('old', 'New')
    await insert(t.store, [message('4')], 'other')
    const names = async (session: string) =>
      (await t.store.log.after(0, { limit: 9, session })).map(row => row.text)
    expect(await names('new')).toEqual(['1', '2', '3'])
    expect(await names('NEW')).toEqual(['1', '2', '3'])
    expect(await names('old')).toEqual([])
    expect(
      (await t.store.log.history({ session: 'new', limit: 9, offset: 0 })).rows.map(row => row.text),
    ).toEqual(['3', '2', '1'])
  })
})

// Of SQLite alone: other processes, its log, its file.

it("another bot's other message under the same id is kept under its bot's name, and warned of", async t => {
  const id = '18446744073709551615'
  await insert(t.store, [message('one', { message_id: id })], 's', 'bot1')
  const two = message('two', { message_id: id })
  expect(await insert(t.store, [two], 's2', 'bot2')).toEqual([2])
  expect(await insert(t.store, [two], 's2', 'bot2')).toEqual(['duplicate'])
  expect((await byMessageId(t.store, id))?.text).toBe('one')
  expect((await byMessageId(t.store, `bot2:${id}`))?.text).toBe('two')
  expect(t.lines.filter(line => line.includes('WARNING') && line.includes(id))).toHaveLength(1)
  // The same content is the same message.
  expect(await insert(t.store, [message('one', { message_id: id })], 's3', 'bot3')).toEqual(['duplicate'])
})

it('a repeat under a new id is known after a restart, and when another process stored the first', async t => {
  const one = message('hello')
  await insert(t.store, [one])
  await t.reopen()
  expect(await insert(t.store, [again(one, '5')])).toEqual(['duplicate'])

  const two = { ...message('from afar'), timestamp: 42 }
  t.clock.at = Date.now()
  const told = await inOtherProcess(
    t.path,
    `const store = await open(); console.log(JSON.stringify(await store.intake.insertReceived('s', 'b', [${JSON.stringify(two)}]))); await store.upkeep.close()`,
  )
  expect(JSON.parse(told)).toEqual([2])
  expect(await insert(t.store, [again(two, '6')])).toEqual(['duplicate'])
})

it('a batch that fails in the middle leaves nothing, and its messages are stored at the next try', async t => {
  const batch = [message('a'), message('b'), message('c')]
  const db = await openDatabase(t.path)
  db.exec(
    `CREATE TRIGGER stop BEFORE INSERT ON message WHEN NEW.text = 'c' BEGIN SELECT RAISE(ABORT, 'no'); END`,
  )
  expect(await failure(insert(t.store, batch))).toMatchObject({ message: 'no' })
  expect(await t.store.log.head()).toBe(0)
  expect((await t.store.log.history({ text_contains: 'a', limit: 5, offset: 0 })).total).toBe(0)
  db.exec('DROP TRIGGER stop')
  db.close()
  expect(await insert(t.store, batch)).toEqual([1, 2, 3])
})

it('a killed process leaves a whole batch or none of it', async t => {
  const body = `
    const store = await open()
    for (let n = 0; ; n++) { if (n === 20) console.log('ready'); await 0; await store.intake.insertReceived('s', 'b', Array.from({ length: 10 }, (_, i) => ({ message_id: 'm' + (n * 10 + i), derived_id: '', from_user: 'u', msg_type: 'TEXT', text: 't' + i, timestamp: n, timed: true, contentHash: 'h' + n + i, raw: '{}' }))) }`
  await inOtherProcess(t.path, body, 'SIGKILL')
  const rows = await t.store.log.after(0, { limit: 100_000 })
  expect(rows.length).toBeGreaterThanOrEqual(200)
  expect(rows.length % 10).toBe(0)
  expect(rows.map(row => row.message_id)).toEqual(rows.map((_, i) => `m${i}`))
})

it('who wrote to which session is known at once, whichever process stored it', async t => {
  const from = { from_user: 'u@im.wechat' }
  expect([...(await t.store.conversations.sessionsOf('u@im.wechat'))]).toEqual([])
  await insert(t.store, [message('1', from)], 'one')
  expect([...(await t.store.conversations.sessionsOf('u@im.wechat'))]).toEqual(['one'])
  const other = JSON.stringify(message('2', from))
  await inOtherProcess(
    t.path,
    `const there = await open(); await there.intake.insertReceived('two', 'b2', [${other}])`,
  )
  expect([...(await t.store.conversations.sessionsOf('u@im.wechat'))].sort()).toEqual(['one', 'two'])
  await t.store.upkeep.renameSession('one', 'three')
  expect([...(await t.store.conversations.sessionsOf('u@im.wechat'))].sort()).toEqual(['three', 'two'])
})
