/** A whole conversation with a program of the Agent Client Protocol: turns, questions and stops, on the simulated WeChat. */
import { expect, test } from 'bun:test'
import { withAcp } from './acp.ts'

test('an approval goes on in the same session, and its code is worth nothing later', async () => {
  await using t = await withAcp()
  await t.say('permit')
  const [, code] = await t.gets(/^(\w{4}) 1 = /m)
  await t.say('permission granted')
  await t.say(`${code} 1`)
  await t.gets(/^yes$/)
  await t.say(`${code} 1`)
  await t.gets(/No open question/)
  await t.say('prompts')
  await t.gets(/^\["permit","permission granted","prompts"\]$/)
})

test("a question of another user's turn reaches the owner alone", async () => {
  await using t = await withAcp()
  await t.say('say hello')
  await t.gets(/^hello$/)
  await t.say('permit', t.guest)
  const [, code] = await t.gets(/^(\w{4}) 1 = /m)
  expect((await t.got()).at(-1)).toContain(t.guest)
  await t.say(`${code} 1`, t.guest)
  await t.say(`${code} 3`)
  await t.gets(/^no$/, t.guest)
  expect(await t.got(t.guest)).toEqual(['no'])
})

test('a stop cancels the turn and what it asks; the session lives on, also after a restart', async () => {
  await using t = await withAcp()
  await t.say('permit')
  await t.gets(/^(\w{4}) 1 = /m)
  await t.say('/stop')
  await t.gets(/Stopped/)
  expect(await t.svc.agents.questions()).toEqual([])
  await t.say('prompts')
  await t.gets(/^\["permit","prompts"\]$/)
  await t.restart()
  await t.say('prompts')
  await t.gets(/^\["permit","prompts","prompts"\]$/)
})
