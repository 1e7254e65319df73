/** Agents that stop and start again, and several processes of one agent. */
import { expect, test } from 'bun:test'
import type { AgentConfig } from '../../src/agent/config.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { PlayedBackend, type RunningAgent, type TestAgents, withAgents } from './support.ts'

/** Waits until an agent has taken so many messages, and lets the pause pass after which they are a turn. */
async function gathered({ library, until }: TestAgents, agent: RunningAgent, count: number): Promise<void> {
  await until('they were taken', () => agent.taken === count)
  library.clock.advance(10_000)
}

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
  const first = await agents.start(new PlayedBackend(), { gatherMs: 30_000 })
  await agents.library.sandbox.media('file', 'some text', { name: 'notes.txt' })
  await agents.say('read this')
  await gathered(agents, first, 2)
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
  const second = await agents.start(new PlayedBackend(() => 'both'), { gatherMs: 30_000 })
  await gathered(agents, second, 2)
  expect(await agents.gets(1)).toEqual(['both'])
  expect(second.backend.prompts).toEqual(['one\ntwo'])
})

/** An agent that was away while the owner wrote, at these times before now (ms). */
async function withBacklog(
  config: Partial<AgentConfig>,
  ...written: [agoMs: number, text: string, from?: string][]
) {
  const agents = await withAgents()
  const { clock, sandbox } = agents.library
  await agents.start().then(first => first.stop())
  const [[longestMs = 0] = []] = written
  clock.advance(longestMs)
  let agoMs = longestMs
  for (const [ms, text, from] of written) {
    if (ms < agoMs) await sandbox.advance(agoMs - ms)
    agoMs = ms
    await agents.say(text, from)
  }
  await sandbox.advance(agoMs)
  const agent = await agents.start(new PlayedBackend(({ text }) => `to ${text}`), {
    gatherMs: 30_000,
    ...config,
  })
  await gathered(agents, agent, written.length)
  return { agents, agent }
}

test('after downtime what was written apart is a turn each, in order', async () => {
  const { agents, agent } = await withBacklog(
    {},
    [960_000, 'door bell'],
    [600_000, 'photo'],
    [5000, 'backup'],
    [5000, 'now'],
  )
  await using _ = agents
  expect(await agents.gets(3)).toEqual(['to door bell', 'to photo', 'to backup\nnow'])
  expect(agent.backend.prompts).toEqual(['door bell', 'photo', 'backup\nnow'])
})

test('with skipOlderMs what is older is left out, commands too, and that is said once', async () => {
  const { agents, agent } = await withBacklog(
    { skipOlderMs: 600_000 },
    [3_600_000, '门铃'],
    [3_000_000, '/new'],
    [2_000_000, '照片'],
    [5000, '备份'],
  )
  await using _ = agents
  const texts = await agents.gets(2)
  expect(texts).toHaveLength(2)
  expect(texts[0]).toMatch(/10.*\p{Script=Han}/u)
  expect(texts[1]).toBe('to 备份')
  expect(agent.backend.prompts).toEqual(['备份'])
  await agents.say('还有')
  await gathered(agents, agent, 5)
  expect((await agents.gets(3))[2]).toBe('to 还有')
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

test('what another agent handled while one was away is not a turn again', async () => {
  await using agents = await withAgents()
  const mum = await agents.library.sandbox.addUser('mum')
  const answer = (name: string) => new PlayedBackend(({ text }) => `${name}: ${text}`)
  await (await agents.start(answer('a'), { name: 'a' })).stop()
  const second = await agents.start(answer('b'), { name: 'b' })
  for (const [nth, text] of ['one', 'two', '/help', '/agents'].entries()) {
    await agents.say(text)
    await agents.gets(nth + 1)
  }
  await agents.say('for the first one', mum)
  await agents.until('it was told', () => agents.count('agent_turn') === 3)
  await agents.until('all is settled', () => agents.count('lease') === 0)
  await second.stop()
  await agents.say('three')
  await agents.until('it is stored', () => agents.count('message WHERE sent = 0') === 6)
  const first = await agents.start(answer('a'), { name: 'a', allow: [mum] })
  await agents.until('it answered', () => first.backend.runs.length === 2)
  await agents.until('all is settled', () => agents.count('lease') === 0)
  expect(first.backend.prompts.toSorted()).toEqual(['for the first one', 'three'])
  // Four answers of the other one, what tells of the stranger, and one answer.
  expect(await agents.got()).toHaveLength(6)
})
