/** What an agent repeats in the background is registered, so that status and doctor tell when it fails. */
import { expect, test } from 'bun:test'
import { Tasks } from '../../src/platform/tasks.ts'
import { changeIn } from '../support/gateway.ts'
import { PlayedBackend, withAgents } from './support.ts'

test('an agent that cannot look for turns, or cannot finish one, is told as a failing task', async () => {
  await using t = await withAgents()
  const { clock, dir } = t.library
  const tasks = new Tasks(clock)
  await t.start(new PlayedBackend(({ text }) => `You said: ${text}`), {}, { tasks })
  const failing = () => tasks.listFailing().find(({ name }) => name === 'agent:agent')?.error
  const becomes = (what: string, isSo: (error: string | undefined) => boolean) =>
    t.until(what, () => {
      clock.advance(1000)
      return isSo(failing())
    })
  await t.say('first')
  await t.gets(1)
  expect(tasks.list().map(({ name }) => name)).toContain('agent:agent')
  expect(failing()).toBeUndefined()

  await changeIn(dir, 'ALTER TABLE agent_question RENAME TO away')
  await becomes('it is told', error => error?.includes('agent_question') === true)
  await changeIn(dir, 'ALTER TABLE away RENAME TO agent_question')
  await becomes('it works again', error => error === undefined)

  await changeIn(
    dir,
    `CREATE TRIGGER broken BEFORE UPDATE ON agent_turn BEGIN SELECT RAISE(ABORT, 'not written'); END`,
  )
  await t.say('second')
  await becomes('the turn is told', error => error?.includes('not written') === true)
  expect(failing()).toMatch(/^default: /)
  await changeIn(dir, 'DROP TRIGGER broken')
  await becomes('the turn was finished', error => error === undefined)
  await t.until('it is answered', async () => (await t.got()).at(-1) === 'You said: second')
})
