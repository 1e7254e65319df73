/** What becomes of the pace when a machine stands still while sends wait for their turn. */
import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { failure } from '../support/failure.ts'
import { slotsIn, withGateway } from '../support/gateway.ts'
import { nothingWaits, pass, sent, write } from '../support/waiting.ts'

const file = {
  kind: 'image' as const,
  data: 'iVBORw0KGgoAAAANSUhEUgAAAEAAAABAAQMAAACQp+OdAAAAA1BMVEUHwWA9ZqwIAAAAD0lEQVR42mNgGAWjgHwAAAJAAAGjoZbZAAAAAElFTkSuQmCC',
}
const pace = { perSecond: 1000, perWindow: 2, windowMs: 300_000 }

test('turns that were missed while the machine stood still are not made up for all at once', async () => {
  await using t = await withGateway({
    config: { pace: { perSecond: 0.1, perWindow: 10, windowMs: 300_000 } },
  })
  const { bot_id } = t.bots.get('default')!
  const users: string[] = []
  for (const name of ['a', 'b', 'c', 'd']) users.push(await t.sandbox.addUser(name))
  for (const from of users) await t.sandbox.say('hi', { from, to: bot_id })
  await t.receive(users.length)
  // The first goes at once, each other ten seconds after the one before.
  const sends = users.map((to, n) => t.send({ to, text: `${n}` }))
  await t.until('the first is out', () => t.requests('sendmessage') === 1)
  await t.until('the others have their slots', async () => (await slotsIn(t.dir)) === 3)
  t.clock.advance(60_000)
  for (const count of [2, 3, 4]) {
    await t.until(`${count} are out`, () => t.requests('sendmessage') >= count)
    await t.until(
      'the others have later slots',
      async () => (await slotsIn(t.dir, t.clock.now())) === 4 - count,
    )
    expect(t.requests('sendmessage')).toBe(count)
    t.clock.advance(10_000)
  }
  expect((await Promise.all(sends)).map(({ status }) => status)).toEqual(Array(4).fill('accepted'))
})

test('of those who wait for a slot the one who waits longest gets it, though others go on queuing', async () => {
  await using t = await withGateway({
    config: { pace: { perSecond: 0.1, perWindow: 1000, windowMs: 300_000 } },
  })
  const { bot_id } = t.bots.get('default')!
  const users: string[] = []
  for (const name of ['a', 'b', 'c', 'd', 'e']) users.push(await t.sandbox.addUser(name))
  for (const from of users) await t.sandbox.say('hi', { from, to: bot_id })
  await t.receive(users.length)
  const last = users.at(-1)!
  // Too long to go with another one.
  const text = 'x'.repeat(9000)
  const sends: Promise<unknown>[] = []
  const queue = async (to: string) => {
    const before = sends.length
    sends.push(t.send({ to, text, when_closed: 'queue' }))
    await t.until('queued', async () => (await sent(t)).length > before)
  }
  for (const user of users) await queue(user)
  for (let round = 0; round < 3; round++) for (const user of users.slice(0, -1)) await queue(user)
  await t.until('the first is out, three have a slot', async () => (await slotsIn(t.dir)) === 3)
  const order = async () =>
    (await t.sandbox.messages({ from: 'bot', limit: 200 })).map(({ user_id }) => users.indexOf(user_id))
  for (let count = 2; !(await order()).includes(users.indexOf(last)); count++) {
    expect(await order()).toHaveLength(count - 1)
    expect(count).toBeLessThan(8)
    t.clock.advance(9000)
    await t.until(`${count} are out`, async () => (await order()).length >= count)
    // The next look, which gives the slot that is free.
    t.clock.advance(1000)
    await t.until('again three have a slot', async () => (await slotsIn(t.dir)) === 3)
  }
})

test('what waits for the pace goes by the pace of the service that runs', async () => {
  await using t = await withGateway({ config: { pace } })
  await write(t)
  for (const waits_for of [undefined, undefined, 'pace'] as const)
    expect((await t.send({ text: 'x', when_closed: 'queue' })).waits_for).toBe(waits_for)
  t.clock.advance(1000)
  await write(t)
  await t.gateway.close()
  await using again = await t.beside()
  await nothingWaits(again)
  expect(t.requests('sendmessage')).toBe(3)
})

test('what waits for the pace goes once another process gives a slot back', async () => {
  await using t = await withGateway({ config: { pace: { ...pace, perWindow: 1 } } })
  await write(t)
  for (const waits_for of [undefined, 'pace'] as const)
    expect((await t.send({ text: 'x', when_closed: 'queue' })).waits_for).toBe(waits_for)
  using db = new Database(join(t.dir, 'messages.db'))
  db.run('DELETE FROM turn')
  await nothingWaits(t)
  expect(t.requests('sendmessage')).toBe(2)
})

test('who never wrote is told that, not that it went too fast', async () => {
  await using t = await withGateway({ config: { pace } })
  const to = 'nobody@im.wechat'
  for (let tries = 0; tries < pace.perWindow; tries++)
    expect(await failure(t.send({ to, text: 'x' }))).toMatchObject({ code: 'invalid_arguments' })
  expect(await failure(t.send({ to, text: 'x' }))).toMatchObject({ code: 'window_closed' })
  expect(await t.send({ to, text: 'x', when_closed: 'queue' })).toMatchObject({
    status: 'queued',
    waits_for: 'user',
  })
  expect(t.requests('sendmessage')).toBe(pace.perWindow)
})

for (const media of [[], [file]])
  test(`what has a slot goes at its time after a restart, ${media.length > 0 ? 'with a file' : 'as a text'}`, async () => {
    const config = { pace: { ...pace, perWindow: 1 } }
    await using t = await withGateway({ config })
    await write(t)
    const text = media.length > 0 ? '' : 'x'
    expect((await t.send({ text: 'first', when_closed: 'queue' })).status).toBe('accepted')
    expect((await t.send({ text, media, when_closed: 'queue' })).waits_for).toBe('pace')
    await pass(t, pace.windowMs - 20_000)
    await t.until('it has a slot', async () => (await slotsIn(t.dir)) === 1)
    await t.gateway.close()
    await using again = await t.beside({ config })
    await pass(again, 20_000)
    await nothingWaits(again)
    expect(t.requests('sendmessage')).toBe(2)
  }, 120_000)
