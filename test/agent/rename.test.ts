/** Sessions that are renamed, or logged in, while an agent runs. */
import { expect, test } from 'bun:test'
import { PlayedBackend, withAgents } from './support.ts'

test('a session that is renamed in the middle of a turn: the turn ends, and what comes is answered', async () => {
  await using t = await withAgents()
  const backend = new PlayedBackend()
  const agent = await t.start(backend)
  const { clock } = t.library
  /** Waits for that turn, while time passes. */
  const runs = (count: number) =>
    t.until(`turn ${count}`, () => {
      clock.advance(100)
      return backend.runs.length === count
    })
  await t.say('one')
  await runs(1)
  await agent.svc.renameSession({ old_name: 'default', new_name: 'shop' })
  await t.say('two')
  backend.runs[0]!.answer('first')
  await runs(2)
  backend.runs[1]!.answer('second')
  await t.say('three')
  await runs(3)
  backend.runs[2]!.answer('third')
  await t.until('all answers', async () => {
    clock.advance(100)
    return (await t.got()).length === 3
  })
  expect(await t.got()).toEqual(['first', 'second', 'third'])
  expect(backend.prompts).toEqual(['one', 'two', 'three'])
  expect(await t.become('answered', 'answered', 'answered')).toMatchObject([
    { session: 'shop' },
    { session: 'shop' },
    { session: 'shop' },
  ])
})
