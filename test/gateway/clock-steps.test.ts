import { describe, expect, test } from 'bun:test'
import { createDirectCall } from '../../src/model/call.ts'
import { owner } from '../../src/model/principal.ts'
import { failure } from '../support/failure.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { given } from '../support/given.ts'

const it = given(withGateway)

const dayMs = 24 * 3_600_000
const yearsMs = 3650 * dayMs
const texts = (messages: { text: string }[]) => messages.map(message => message.text)
const context = (t: TestGateway) => t.right()

/** The user writes, while a poll has been held for a moment: so the message is new, whatever clock dated it. */
async function write(t: TestGateway, words: string): Promise<void> {
  const token = (await context(t))?.token
  await t.until('a held poll', () => t.sandbox.world.core.stats.polls_now === 1)
  t.clock.advance(5000)
  await t.sandbox.say(words)
  expect(texts(await t.receive(1))).toEqual([words])
  await t.until('the token that came with it', async () => (await context(t))?.token !== token)
}

/** The user writes, the bot reads and answers. */
async function exchange(t: TestGateway, words: string): Promise<void> {
  await write(t, words)
  expect(await t.send({ text: `answer to ${words}` })).toMatchObject({ success: true, status: 'accepted' })
}

it('our clock is ahead of upstream’s: when the user wrote is known all the same, and what waits for it goes out', async t => {
  t.clock.step(60_000)
  await write(t, 'hi')
  const { received_at, first_seen } = (await context(t))!
  expect(Math.abs(received_at! - t.clock.now())).toBeLessThan(30_000)
  expect(first_seen).toBe(received_at!)
  t.clock.advance(dayMs + 60_000)
  await t.sandbox.advance(dayMs + 60_000)
  expect(await t.send({ text: 'later', when_closed: 'queue' })).toMatchObject({ status: 'queued' })
  await write(t, 'again')
  await t.until('what waited is out', () => t.requests('sendmessage') === 1)
})

test('a backlog over a slow line is as old as upstream says', async () => {
  const hourMs = 3_600_000
  await using t = await withGateway({ start: false })
  await t.sandbox.say('hours ago')
  for (const clock of [t.clock, t.sandbox]) await clock.advance(20 * hourMs)
  // The line takes longer than an answer that nothing held.
  const { promise: over, resolve } = Promise.withResolvers<void>()
  await t.sandbox.fail('getupdates', 'slow', { until: over })
  await t.gateway.start()
  await t.until('asked', () => t.requests('getupdates') === 1)
  t.clock.advance(1000)
  resolve()
  expect(texts(await t.receive(1))).toEqual(['hours ago'])
  const { received_at } = await t.until('the context', () => context(t))
  expect(Math.abs(t.clock.now() - received_at! - 20 * hourMs)).toBeLessThan(hourMs)
})

describe('a clock on the wall that is set', () => {
  for (const [name, ms] of [
    ['a day ahead', dayMs],
    ['a day back', -dayMs],
    ['ten years ahead', yearsMs],
    ['ten years back', -yearsMs],
  ] as const) {
    it(`${name}, and right again: everything is received, answered and read once, by two consumers`, async t => {
      await t.recv({ consumer: 'other', timeout: 0 })
      await exchange(t, 'before')
      t.clock.step(ms)
      await exchange(t, 'meanwhile 1')
      await exchange(t, 'meanwhile 2')
      t.clock.step(-ms)
      await exchange(t, 'after')
      expect(texts(await t.receive(4, { consumer: 'other' }))).toEqual([
        'before',
        'meanwhile 1',
        'meanwhile 2',
        'after',
      ])
      for (const consumer of ['default', 'other']) expect(await t.recv({ consumer, timeout: 0 })).toEqual([])
      const page = await t.gateway.history.page({ limit: 50, offset: 0 })
      expect(page.total).toBe(8)
      expect((await t.sandbox.messages({ from: 'bot' })).length).toBe(4)
      expect(t.sandbox.pollsAtOnce[t.bots.get('default')!.bot_id]).toBe(1)
      expect((await t.gateway.health()).status).toBe('ok')
    })

    test(`${name}, and right again: the quota begins anew with each message, the newest token answers`, async () => {
      await using t = await withGateway({ switches: { quota: 10 } })
      t.clock.step(ms)
      for (const round of [1, 2]) {
        await write(t, `round ${round}`)
        expect((await context(t))?.used).toBe(0)
        const token = (await context(t))?.token
        for (let n = 0; n < 10; n++) {
          expect(await t.send({ text: `${round}.${n}` })).toMatchObject({ status: 'accepted' })
        }
        expect(await failure(t.send({ text: 'one too many' }))).toMatchObject({ code: 'quota_exhausted' })
        expect((await context(t))?.token).toBe(token!)
        t.clock.step(-ms)
      }
    })

    it(`${name}: what is read and not confirmed comes again, marked, and nothing is left out`, async t => {
      for (const text of ['a', 'b', 'c']) await t.sandbox.say(text)
      const claimed = await t.until('all stored', async () => {
        const { total } = await t.gateway.history.page({ limit: 50, offset: 0 })
        return total === 3
      })
      expect(claimed).toBe(true)
      const gone = new AbortController()
      const call = createDirectCall({ signal: gone.signal })
      const first = await t.gateway.inbox.recv({ timeout: 0, limit: 2, consumer: 'default' }, call)
      expect(texts(first)).toEqual(['a', 'b'])
      t.clock.step(ms)
      // Its reader is cut off in the middle of the answer.
      call.done(false)
      const again = await t.receive(3)
      expect(texts(again)).toEqual(['a', 'b', 'c'])
      expect(again.map(message => message.redelivered ?? false)).toEqual([true, true, false])
      t.clock.step(-ms)
      expect(await t.recv({ timeout: 0 })).toEqual([])
    })

    it(`${name}: a send that waits still waits, and goes out once when its user writes`, async t => {
      await write(t, 'hello')
      for (let n = 0; n < 10; n++) await t.send({ text: `${n}` })
      const queued = await t.send({ text: 'waiting', when_closed: 'queue' })
      expect(queued.status).toBe('queued')
      t.clock.step(ms)
      // Longer than the looks after the outbox and the pruning of the store are apart.
      for (let n = 0; n < 25; n++) {
        t.clock.advance(30_000)
        await new Promise(resolve => setTimeout(resolve, 5))
      }
      t.clock.step(-ms)
      expect(await t.gateway.outbox.list(owner)).toHaveLength(1)
      expect((await t.gateway.history.page({ limit: 50, offset: 0 })).total).toBe(12)
      await write(t, 'I am back')
      await t.sandbox.seen(messages => messages.some(({ items }) => items[0]?.text === 'waiting'))
      await t.until('settled', async () => (await t.gateway.outbox.list(owner)).length === 0)
      const sent = (await t.sandbox.messages({ from: 'bot' })).map(({ items }) => items[0]?.text)
      expect(sent.filter(text => text === 'waiting')).toHaveLength(1)
    })
  }

  it('ten years ahead: a refusal of then does not hold what waits when the clock is right again', async t => {
    t.clock.step(yearsMs)
    await write(t, 'hello')
    for (let n = 0; n < 10; n++) await t.send({ text: `${n}` })
    await t.send({ text: 'waiting', when_closed: 'queue' })
    await t.sandbox.fail('sendmessage', 'ret', { times: 1, code: -2, delay_ms: 0 })
    const refused = t.requests('sendmessage')
    await write(t, 'one')
    // The hold is written when the answer is here, later than the request is counted.
    await t.until(
      'it is held',
      async () =>
        (await t.gateway.outbox.list(owner))[0]?.waits_for === 'refusal' &&
        t.requests('sendmessage') > refused,
    )
    t.clock.step(-yearsMs)
    await write(t, 'two')
    await t.sandbox.seen(messages => messages.some(({ items }) => items[0]?.text === 'waiting'))
  })
})
