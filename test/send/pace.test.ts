/** What becomes of the pace when a machine stands still while sends wait for their turn. */
import { expect, test } from 'bun:test'
import { slotsIn, withGateway } from '../support/gateway.ts'

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
  await t.until('the others have their slots', () => slotsIn(t.dir) === 3)
  t.clock.advance(60_000)
  for (const count of [2, 3, 4]) {
    await t.until(`${count} are out`, () => t.requests('sendmessage') >= count)
    await Bun.sleep(200)
    expect(t.requests('sendmessage')).toBe(count)
    t.clock.advance(10_000)
  }
  expect((await Promise.all(sends)).map(({ status }) => status)).toEqual(Array(4).fill('accepted'))
})
