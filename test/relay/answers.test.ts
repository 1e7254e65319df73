/** Which messages are for a program, and how much it may send. */
import { expect } from 'bun:test'
import { given } from '../support/given.ts'
import { withRelay } from './driver.ts'
import { relayProgram } from './protocol.ts'

const it = given(withRelay)

it('a called program gets what names it or quotes its answer, and passes over the rest', async ({
  t,
  add,
}) => {
  const [called, all] = [await add('Helper', { answers: 'called' }), await add('all')]
  await t.sandbox.say('not for it')
  await t.sandbox.say('helpers are others')
  await t.sandbox.say('@helper do this')
  const got = await called.read(1)
  expect(got.map(({ item_list }) => item_list[0].text_item.text)).toEqual(['@helper do this'])
  expect(await all.read(3)).toHaveLength(3)
  const { body } = await called.say('done')
  const other = await all.say('mine')
  await t.sandbox.say('quotes the other', { quote: other.body.message_id, how: 'id' })
  await t.sandbox.say('quotes it', { quote: body.message_id, how: 'id' })
  await t.sandbox.say('Helper你好')
  const more = await called.read(2)
  expect(more.map(({ item_list }) => item_list[0].text_item.text)).toEqual(['quotes it', 'Helper你好'])
})

it('a program with a share sends that many to a message of a person, whatever others send', async ({
  t,
  add,
}) => {
  const [two, all] = [await add('two', { answers: '2' }), await add('all')]
  for (const round of [1, 2]) {
    await t.sandbox.say(`round ${round}`)
    await two.read(1)
    expect((await all.say('beside')).body.ret).toBe(0)
    const answers = await Promise.all(
      [1, 2, 3].map(nth => two.say(`${nth}`, { client_id: `${round} ${nth}` })),
    )
    // They may come in any order.
    expect(answers.map(({ body }) => body.ret).sort()).toEqual([-2, 0, 0])
    // What was sent is answered again as it was.
    const sent = answers.findIndex(({ body }) => body.ret === 0)
    const again = await two.say(`${sent + 1}`, { client_id: `${round} ${sent + 1}` })
    expect(again.body).toEqual(answers[sent]!.body)
  }
  expect(await t.sandbox.messages({ from: 'bot' })).toHaveLength(6)
})

it('a long text counts as the messages that it becomes', async ({ t, add }) => {
  const two = await add('two', { answers: '2' })
  await t.sandbox.say('tell me all')
  await two.read(1)
  expect((await two.say('long '.repeat(8000))).body.ret).toBe(-2)
  expect((await two.say('long '.repeat(6000))).body.ret).toBe(0)
  expect(await t.sandbox.messages({ from: 'bot' })).toHaveLength(2)
})

it('a call that asks again for a message on its way is never told that it was not sent', async ({
  t,
  add,
}) => {
  const { sandbox, clock, dir } = t
  const one = await add('one')
  await using beside = await withRelay({ sandbox, clock, dir, sessions: [] })
  const other = relayProgram(beside.url, one.id, one.token, t.bots.get('default')!.user_id)
  await sandbox.say('hi')
  await one.read(1)
  const answered = Promise.withResolvers<void>()
  await sandbox.fail('sendmessage', 'slow', { until: answered.promise, times: 1 })
  const first = one.say('answer', { client_id: 'c1' })
  await t.until('it is on its way', async () => t.requests('sendmessage') > 0)
  const again = one.say('answer', { client_id: 'c1' })
  expect(await t.hurry(other.say('answer', { client_id: 'c1' }))).toMatchObject({ status: 503 })
  answered.resolve()
  for (const { body } of await Promise.all([first, again])) expect(body.ret).not.toBe(-2)
  for (const program of [one, other])
    expect((await program.say('answer', { client_id: 'c1' })).body.ret).toBe(0)
  expect(await sandbox.messages({ from: 'bot' })).toHaveLength(1)
})
