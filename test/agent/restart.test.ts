/** Agents that stop and start again, and several processes of one agent. */
import { expect, test } from 'bun:test'
import { stopwatch } from '../support/stopwatch.ts'
import { PlayedBackend, withAgents } from './support.ts'

test('it stops although the agent does not, and tells the user at the next start what it did not finish', async () => {
  await using agents = await withAgents()
  const first = await agents.start()
  first.backend.isStubborn = true
  await agents.say('做点什么')
  await agents.until('a turn runs', () => first.backend.runs.length === 1)
  {
    using watch = stopwatch()
    await first.stop()
    expect(watch.ms).toBeLessThan(8000)
  }
  expect(first.backend.isClosed).toBe(true)
  await agents.become('running')
  const { backend } = await agents.start(new PlayedBackend(() => 'hi'))
  const [apology] = await agents.gets(1)
  expect(apology).toMatch(/\p{Script=Han}/u)
  await agents.say('你好')
  expect((await agents.gets(2))[1]).toBe('hi')
  await agents.become('interrupted', 'answered')
  expect(backend.prompts).toEqual(['你好'])
})

test('with resumeTurns the turn runs again, with the files of its messages', async () => {
  await using agents = await withAgents()
  const first = await agents.start(new PlayedBackend(), { gatherMs: 2000 })
  await agents.library.sandbox.media('file', 'some text', { name: 'notes.txt' })
  await agents.say('read this')
  await agents.until('a turn runs', () => first.backend.runs.length === 1)
  await first.stop()
  const { backend } = await agents.start(new PlayedBackend(() => 'read'), { resumeTurns: true })
  expect(await agents.gets(1)).toEqual(['read'])
  await agents.become('answered')
  expect(backend.runs[0]?.prompt.files).toMatchObject([{ kind: 'file', type: 'text/plain' }])
  expect(backend.prompts[0]).toEndWith('read this')
})

test('messages that were being gathered come again after a restart', async () => {
  await using agents = await withAgents()
  const first = await agents.start(new PlayedBackend(), { gatherMs: 30_000 })
  await agents.say('one')
  await agents.say('two')
  await agents.until('they were read', () => agents.count('lease') === 2)
  await first.stop()
  expect(await agents.turns()).toEqual([])
  const { backend } = await agents.start(new PlayedBackend(() => 'both'), { gatherMs: 200 })
  expect(await agents.gets(1)).toEqual(['both'])
  expect(backend.prompts).toEqual(['one\ntwo'])
})

test('of two processes one works; the other goes on when it ends', async () => {
  await using agents = await withAgents()
  const first = await agents.start(new PlayedBackend(({ text }) => `first ${text}`))
  const second = await agents.start(new PlayedBackend(({ text }) => `second ${text}`))
  for (let nth = 0; nth < 5; nth++) {
    await agents.say(`message ${nth}`)
    await agents.gets(nth + 1)
  }
  await first.stop()
  for (let nth = 5; nth < 8; nth++) {
    await agents.say(`message ${nth}`)
    await agents.gets(nth + 1)
  }
  expect(first.backend.runs.length).toBe(5)
  expect(await agents.got()).toEqual(
    Array.from({ length: 8 }, (_, nth) => `${nth < 5 ? 'first' : 'second'} message ${nth}`),
  )
  expect(second.backend.runs.length).toBe(3)
})
