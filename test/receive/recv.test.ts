import { describe, expect, test } from 'bun:test'
import { rm } from 'node:fs/promises'
import { configFromValues } from '../../src/config.ts'
import { openGateway } from '../../src/gateway/gateway.ts'
import { type Call, createDirectCall, Delivery } from '../../src/model/call.ts'
import type { Message, RecvRequest } from '../../src/model/message.ts'
import { silentLog } from '../../src/platform/log.ts'
import { pollLockNote } from '../faults/support/program.ts'
import { testClock } from '../support/clock.ts'
import { codeOf, failure, fieldsOf } from '../support/failure.ts'
import { folderOfTest } from '../support/folder.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { given } from '../support/given.ts'
import { withLibrary } from '../support/library.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { until } from '../support/until.ts'

const it = given(withGateway)

const texts = (messages: { text: string }[]) => messages.map(message => message.text)
const asked = (more: Partial<RecvRequest> = {}): RecvRequest => ({
  ...{ timeout: 30, limit: 100, consumer: 'default' },
  ...more,
})

describe('a reader of one session', () => {
  const withTwo = () => withGateway({ sessions: ['default', 'other'] })
  /** Returns when calls that began before this one have read once. */
  async function haveRead(t: TestGateway) {
    for (let times = 0; times < 3; times++) await t.recv({ session: 'default', timeout: 0, after: 0 })
  }
  /** Renames the session, and gives its name to the other account. */
  async function swap(t: TestGateway) {
    await haveRead(t)
    const { accounts } = t.gateway
    await accounts.rename('default', 'shop')
    await accounts.rename('other', 'default')
  }
  async function sayBoth(t: TestGateway) {
    const [first, second] = [...t.bots.values()]
    await t.sandbox.say('not mine', { from: second!.user_id, to: second!.bot_id })
    await t.sandbox.say('mine', { from: first!.user_id, to: first!.bot_id })
  }

  for (const [how, more] of [
    ['a consumer', {}],
    ['after', { after: 0 }],
    ['ack', { ack: 0, consumer: 'acks' }],
  ] as const)
    test(`waits on after a rename, and not for the account that got the name: ${how}`, async () => {
      await using t = await withTwo()
      const waiting = t.recv({ session: 'default', timeout: 30, ...more })
      await swap(t)
      await sayBoth(t)
      expect(await waiting).toMatchObject([{ text: 'mine', session: 'shop' }])
    })

  test('that follows it goes on after a rename, and so do its events', async () => {
    await using t = await withTwo()
    const stop = new AbortController()
    const next = async (...ways: AsyncGenerator<unknown, void, void>[]) =>
      Promise.all(ways.map(async way => (await way.next()).value))
    const { events, inbox } = t.gateway
    const { cursor } = await events.readPage('', { session: 'default', limit: 100 })
    const found = next(
      inbox.follow({ session: 'default' }, stop.signal),
      inbox.follow({ session: 'default', consumer: 'mine' }, stop.signal),
      events.follow(cursor, { session: 'default', types: ['message.received'] }, stop.signal),
    )
    await swap(t)
    await sayBoth(t)
    expect(await found).toMatchObject([{ text: 'mine' }, { text: 'mine' }, { data: { text: 'mine' } }])
    stop.abort()
  })

  for (const swapped of [false, true])
    test(`is woken by a message after another process renamed it${swapped ? ' and gave away its name' : ''}`, async () => {
      await using t = await withTwo()
      // Both names are known as those of sessions with messages.
      for (const { user_id, bot_id } of t.bots.values())
        await t.sandbox.say('before', { from: user_id, to: bot_id })
      await t.receive(2)
      await using beside = await t.beside()
      const waiting = beside.recv({ session: 'default', timeout: 30, after: await t.gateway.inbox.getHead() })
      await haveRead(beside)
      using watch = stopwatch()
      const { accounts } = t.gateway
      await accounts.rename('default', 'shop')
      if (swapped) {
        await accounts.rename('other', 'default')
        await accounts.rename('shop', 'other')
      }
      const [first] = [...t.bots.values()]
      await t.sandbox.say('mine', { from: first!.user_id, to: first!.bot_id })
      expect(await waiting).toMatchObject([{ text: 'mine', session: swapped ? 'other' : 'shop' }])
      expect(watch.ms).toBeLessThan(15_000)
    })

  for (const isBeside of [false, true])
    test(`follows it between its own reads ${isBeside ? 'beside the process that polls' : 'where it polls itself'}`, async () => {
      await using t = await withLibrary({ sessions: ['default', 'other'] })
      const [svc, other] = [await t.open({ store: true }), await t.open({ store: true })]
      if (isBeside) {
        void other.runBackground()
        await t.until('it polls', () => t.requests('getupdates') >= 2)
      }
      const waiting = svc.recv({ session: 'default', timeout: 30 })
      await t.until('it polls', () => t.requests('getupdates') >= 2)
      await svc.history({ session: 'default' })
      await other.renameSession({ old_name: 'default', new_name: 'shop' })
      await other.renameSession({ old_name: 'other', new_name: 'default' })
      const [first, second] = [...t.bots.values()]
      await t.sandbox.say('not mine', { from: second!.user_id, to: second!.bot_id })
      await t.sandbox.say('mine', { from: first!.user_id, to: first!.bot_id })
      expect(await waiting).toMatchObject([{ text: 'mine', session: 'shop' }])
    })
})

describe('recv', () => {
  it('a wait ends at its time, and wakes as soon as a message is there', async t => {
    const began = performance.now()
    expect(await t.recv({ timeout: 0.1 })).toEqual([])
    expect(performance.now() - began).toBeGreaterThanOrEqual(95)

    const took: number[] = []
    for (let i = 0; i < 20; i++) {
      const waiting = t.recv({ timeout: 30 })
      using watch = stopwatch()
      await t.sandbox.say(`${i}`)
      expect(texts(await waiting)).toEqual([`${i}`])
      took.push(watch.ms)
    }
    expect(took.sort((a, b) => a - b)[10]).toBeLessThan(500)
  })

  it('a message that was written three times and never confirmed is in the log, and does not come again', async t => {
    await t.sandbox.say('the door bell rang')
    await t.until('it is stored', async () => (await t.gateway.inbox.getHead()) === 1)
    /** Reads as a client does that always leaves without a sign of life. */
    const leave = async () => {
      const delivery = new Delivery()
      const onDelivered: Call['onDelivered'] = (listener, written) => delivery.onDelivered(listener, written)
      const messages = await t.gateway.inbox.recv(asked({ timeout: 0 }), {
        ...createDirectCall(),
        onDelivered,
      })
      delivery.reportWritten()
      delivery.report(false)
      return messages
    }
    const seen: (boolean | undefined)[] = []
    await until('it is given up', 30_000, async () => {
      seen.push(...(await leave()).map(({ redelivered }) => redelivered))
      return t.lines.some(line => /\bfirst=1\b/.test(line))
    })
    expect(seen).toEqual([undefined, true, true])
    expect(await t.recv({ timeout: 0 })).toEqual([])
  })

  it('an answer stops at 4 MiB, and the rest comes with the next calls', async t => {
    const most = 4 * 1024 * 1024
    const huge = `huge${'€'.repeat(1_500_000)}`
    await t.sandbox.bulk(16, `n{n} ${'€'.repeat(100_000)}`)
    await t.sandbox.say(huge)
    await t.sandbox.bulk(14, `m{n} ${'€'.repeat(100_000)}`)
    const page = (filter: object) => t.gateway.history.page({ limit: 200, offset: 0, ...filter })
    await t.until('all stored', async () => (await page({ limit: 1 })).total === 31)
    const all = Array.from({ length: 31 }, (_, at) => at + 1)
    const size = (messages: readonly unknown[]) => Buffer.byteLength(JSON.stringify(messages))
    const ids = (messages: readonly { id: number }[]) => messages.map(({ id }) => id)
    const gathered = async (next: (last: number) => Promise<Message[]>) => {
      const found: number[] = []
      for (let calls = 0; calls < 32; calls++) {
        const messages = await next(found.at(-1) ?? 0)
        if (messages.length === 0) break
        if (messages.length > 1) expect(size(messages)).toBeLessThanOrEqual(most)
        found.push(...ids(messages))
      }
      return found
    }
    const none = { timeout: 0, limit: 1000 }
    expect(size(await t.recv({ ...none, after: 0 }))).toBeGreaterThan(most / 2)
    expect(await gathered(after => t.recv({ ...none, after }))).toEqual(all)
    expect(await gathered(after => t.recv({ ...none, after, session: 'default' }))).toEqual(all)
    expect(await gathered(() => t.recv(none))).toEqual(all)

    let offset = 0
    const byOffset = await gathered(async () => {
      const found = await page({ offset })
      offset += found.limit
      return found.messages
    })
    expect(byOffset.reverse()).toEqual(all)
    const byRow = await gathered(async last =>
      last === 1 ? [] : (await page(last ? { before: last } : {})).messages,
    )
    expect(byRow.reverse()).toEqual(all)
  })

  it('what lapsed comes again within 4 MiB too, and nothing is lost', async t => {
    await t.sandbox.bulk(20, `n{n} ${'€'.repeat(100_000)}`)
    await t.until(
      'all stored',
      async () => (await t.gateway.history.page({ limit: 9, offset: 0 })).total === 20,
    )
    const calls = [createDirectCall(), createDirectCall()]
    for (const call of calls) await t.gateway.inbox.recv(asked({ limit: 1000 }), call)
    for (const call of calls) call.done(false)
    const found: Message[] = []
    for (let tries = 0; tries < 21 && found.length < 20; tries++)
      found.push(...(await t.recv({ timeout: 0, limit: 1000 })))
    expect(found.map(({ id }) => id).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 20 }, (_, at) => at + 1),
    )
    expect(found.filter(({ redelivered }) => redelivered).length).toBeGreaterThan(9)
  })

  it('an answer is made of so much that is stored, however little of it is shown, and nothing is passed over', async t => {
    const from_user_id = t.bots.get('default')!.user_id
    const long = 300_000
    const heavy = 12
    const raw = (message_id: string, item: object) =>
      t.sandbox.raw({ message_id, from_user_id, message_type: 1, item_list: [item] })
    // Twelve of which next to nothing is shown, and twelve that quote one of those each.
    for (let n = 1; n <= heavy; n++)
      await raw(`74600000000000001${n + 10}`, { type: 99, odd: 'x'.repeat(long) })
    for (let n = 1; n <= heavy; n++)
      await raw(`74600000000000002${n + 10}`, {
        ...{ type: 1, text_item: { text: `${n}` } },
        ref_msg: { svr_id: `74600000000000001${n + 10}` },
      })
    const all = Array.from({ length: 2 * heavy }, (_, at) => at + 1)
    const page = (filter: object) => t.gateway.history.page({ limit: 200, offset: 0, ...filter })
    await t.until('all stored', async () => (await page({ limit: 1 })).total === all.length)
    const most = Math.ceil((2 * 1024 * 1024) / long)
    const gathered = async (next: (last: number) => Promise<Message[]>) => {
      const found: number[] = []
      for (let calls = 0; calls <= all.length; calls++) {
        const messages = await next(found.at(-1) ?? 0)
        if (messages.length === 0) break
        expect(messages.length).toBeLessThanOrEqual(most)
        expect(messages.some(({ redelivered }) => redelivered)).toBe(false)
        found.push(...messages.map(({ id }) => id))
      }
      return found
    }
    const none = { timeout: 0, limit: 1000 }
    expect(await gathered(after => t.recv({ ...none, after }))).toEqual(all)
    expect(await gathered(() => t.recv(none))).toEqual(all)
    const byRow = await gathered(async last =>
      last === 1 ? [] : (await page(last ? { before: last } : {})).messages,
    )
    expect(byRow.reverse()).toEqual(all)
  })

  it('after reads and moves nothing; consumers take nothing from each other', async t => {
    expect(await t.recv({ timeout: 0, consumer: 'late' })).toEqual([])
    await t.sandbox.say('a')
    const [a] = await t.recv({ after: 0 })
    await t.sandbox.say('b')
    expect(texts(await t.recv({ after: a!.id }))).toEqual(['b'])
    expect(texts(await t.recv({ after: a!.id }))).toEqual(['b'])
    expect(texts(await t.receive(2))).toEqual(['a', 'b'])
    expect(texts(await t.receive(2, { consumer: 'late' }))).toEqual(['a', 'b'])
    // A new name starts at the end of the log.
    expect(await t.recv({ timeout: 0, consumer: 'new' })).toEqual([])
  })

  it('with ack a message comes until it is acknowledged, and nothing else moves the consumer', async t => {
    const own = { consumer: 'bot', timeout: 0 }
    expect(await t.recv({ ...own, ack: 0 })).toEqual([])
    const waiting = [1, 2].map(() => t.recv({ ...own, ack: 0, timeout: 30 }))
    await t.sandbox.say('a')
    const [first, second] = await Promise.all(waiting)
    // Each call is given what is not acknowledged.
    expect(texts(first!)).toEqual(['a'])
    expect(texts(second!)).toEqual(['a'])
    const a = first![0]!
    await t.sandbox.say('b')
    expect(texts(await t.recv({ ...own, ack: a.id, timeout: 30 }))).toEqual(['b'])
    const [again] = await t.recv({ ...own, ack: a.id })
    expect([again!.text, again!.redelivered]).toEqual(['b', true])
    // What is not shown for want of room may not be acknowledged.
    await t.sandbox.bulk(2, `n{n} ${'€'.repeat(1_000_000)}`)
    await t.until(
      'all stored',
      async () => (await t.gateway.history.page({ limit: 9, offset: 0 })).total === 4,
    )
    const shown = await t.recv({ ...own, ack: again!.id })
    expect(shown.length).toBe(1)
    const beyond = await failure(t.recv({ ...own, ack: shown[0]!.id + 1 }))
    expect(fieldsOf(beyond)).toEqual(['ack'])
    expect(fieldsOf(await failure(t.recv(own)))).toEqual(['ack'])
    expect(texts(await t.recv({ ...own, after: 0, limit: 2 }))).toEqual(['a', 'b'])
    const rest = await t.recv({ ...own, ack: shown[0]!.id })
    expect(rest.map(({ redelivered }) => redelivered)).toEqual([undefined])
    expect(await t.recv({ ...own, ack: rest[0]!.id })).toEqual([])
    // Others are as before.
    expect(texts(await t.recv({ timeout: 0, limit: 2 }))).toEqual(['a', 'b'])
  })

  test('a session is read alone, in any spelling; one that does not exist is an error at once', async () => {
    await using t = await withGateway({ sessions: ['Work', 'home'] })
    const [work, home] = [t.bots.get('Work')!, t.bots.get('home')!]
    await t.sandbox.say('to work', { to: work.bot_id, from: work.user_id })
    await t.sandbox.say('to home', { to: home.bot_id, from: home.user_id })
    expect(texts(await t.recv({ session: 'home' }))).toEqual(['to home'])
    expect(texts(await t.recv({ session: 'WORK' }))).toEqual(['to work'])
    expect(texts((await t.gateway.history.page({ session: 'wORK', limit: 9, offset: 0 })).messages)).toEqual([
      'to work',
    ])
    using watch = stopwatch()
    expect(await codeOf(t.recv({ session: 'wrok', timeout: 300 }))).toBe('session_not_found')
    expect(watch.ms).toBeLessThan(5000)
    expect(await failure(t.recv({ session: '../x' }))).toMatchObject({ code: 'invalid_arguments' })
  })

  it('a call that is aborted leases nothing', async t => {
    const leaving = new AbortController()
    const waiting = t.recv({ timeout: 60 }, leaving.signal)
    leaving.abort()
    expect(await waiting).toEqual([])
    await t.sandbox.say('for the next one')
    expect(await t.recv({}, AbortSignal.abort())).toEqual([])
    const [message] = await t.recv()
    expect(message).toMatchObject({ text: 'for the next one' })
    expect(message).not.toHaveProperty('redelivered')
  })

  it('what was not written to the caller comes again, marked', async t => {
    await t.sandbox.say('once more')
    const call = createDirectCall()
    expect(texts(await t.gateway.inbox.recv(asked(), call))).toEqual(['once more'])
    // Leased: nobody else gets it meanwhile.
    expect(await t.recv({ timeout: 0 })).toEqual([])
    const waiting = t.recv()
    call.done(false)
    expect(await waiting).toMatchObject([{ text: 'once more', redelivered: true }])
    expect(await t.recv({ timeout: 0 })).toEqual([])
  })

  it('closing ends a wait with an empty answer', async t => {
    const waiting = t.recv({ timeout: 300 })
    await t.gateway.close()
    expect(await waiting).toEqual([])
    expect(await failure(t.recv())).toMatchObject({ code: 'shutting_down' })
  })
})

test('where the call polls by itself, a data directory that was removed is store_unavailable too', async () => {
  const dir = folderOfTest()
  const config = configFromValues({ basePath: dir, upstreamUrl: 'http://127.0.0.1:9' })
  const clock = testClock()
  const opened = { config, log: silentLog, version: '0', oneShot: true, clock }
  await using gateway = await openGateway(opened)
  const waiting = failure(gateway.inbox.recv(asked({ timeout: 60 }), createDirectCall()))
  await until('it polls', 30_000, () => pollLockNote(dir))
  expect(Bun.peek.status(waiting)).toBe('pending')
  await rm(dir, { recursive: true })
  await until('it is noticed', 30_000, () => {
    clock.advance(100)
    return Bun.peek.status(waiting) !== 'pending'
  })
  // The one that polls already, and one that would have to begin.
  expect(await waiting).toMatchObject({ code: 'store_unavailable' })
  expect(await codeOf(gateway.inbox.recv(asked({ timeout: 0 }), createDirectCall()))).toBe(
    'store_unavailable',
  )
})
