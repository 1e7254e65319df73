/** Times at which an agent is to do something: the commands, the turns, and what becomes of those that were missed. */
import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import type { AgentConfig } from '../../src/agent/config.ts'
import { textsFor } from '../../src/agent/texts.ts'
import type { NewTime } from '../../src/storage/agents.ts'
import { changeIn } from '../support/gateway.ts'
import { until } from '../support/until.ts'
import { startAgentProcess, untilReading } from './agent-process.ts'
import { PlayedBackend, type TestAgents, withAgents } from './support.ts'

const [minuteMs, hourMs, dayMs] = [60_000, 3_600_000, 86_400_000]
const config: Partial<AgentConfig> = { zone: 'UTC' }
const echo = () => new PlayedBackend(({ text }) => `did ${text}`)
const isStored = (agents: TestAgents, count: number) =>
  agents.until(`${count} times`, () => agents.count('agent_time') === count)
const dueAt = ({ rows }: TestAgents) =>
  rows<{ due_at: number | null }>('due_at FROM agent_time ORDER BY id').map(({ due_at }) => due_at)

/** Lets an agent set times as its owner says, and ends. */
async function withTimes(...said: string[]) {
  const agents = await withAgents()
  await using _first = await agents.start(echo(), config)
  for (const [nth, text] of said.entries()) {
    await agents.say(text)
    await isStored(agents, nth + 1)
    await agents.gets(nth + 1)
  }
  return agents
}

test('at its time the words are a turn, as if they had been written, marked, and never a command', async () => {
  await using agents = await withAgents()
  const { backend } = await agents.start(echo(), config)
  await agents.say('/in 30 min /stop')
  const [confirmation] = await agents.gets(1)
  const [due] = dueAt(agents)
  const id = agents.rows<{ id: number }>('id FROM agent_time')[0]!.id
  const shown = new Date(due!)
  expect(confirmation).toContain(`${shown.getUTCFullYear()}`)
  expect(confirmation).toContain(`${shown.toISOString().slice(11, 19).replace(/:00$/, '')} (UTC)`)
  expect(confirmation).toContain(
    new Intl.DateTimeFormat('en', { weekday: 'short', timeZone: 'UTC' }).format(shown),
  )
  expect(confirmation).toContain('UTC')
  expect(confirmation).toContain(`/cancel ${id}`)
  agents.library.clock.advance(29 * minuteMs - 1000)
  await agents.say('now')
  await agents.gets(2)
  expect(backend.prompts).toEqual(['now'])
  agents.library.clock.advance(2 * minuteMs)
  const texts = await agents.gets(3)
  expect(texts[2]).toStartWith('did [')
  expect(backend.prompts[1]).toMatch(/^\[.*\]\n\/stop$/)
  const turns = await agents.become('answered', 'answered')
  expect(turns.map(({ source }) => source)).toEqual(['message', 'time'])
  expect(agents.count('agent_time')).toBe(0)
})

test('a series goes on, in the conversation of its owner, over a restart and a rename', async () => {
  await using agents = await withTimes('every 60 min do it'.replace('every', '/every'))
  const backend = new PlayedBackend((_prompt, { agentSession = '0' }) => ({
    text: 'done',
    agentSession: `${Number(agentSession) + 1}`,
  }))
  const agent = await agents.start(backend, config)
  for (let nth = 1; nth <= 3; nth++) {
    agents.library.clock.advance(hourMs)
    await agents.gets(1 + nth)
    await agents.become(...Array(nth).fill('answered'))
    if (nth === 2) await agent.svc.renameSession({ old_name: 'default', new_name: 'renamed' })
  }
  expect(backend.runs.map(({ context }) => context.agentSession)).toEqual([undefined, '1', '2'])
  expect(dueAt(agents)[0]).toBeGreaterThan(agents.library.clock.now())
})

test('what came due while svc was away is done once if it is less than an hour late, else told once, in one message', async () => {
  await using agents = await withTimes(
    '/in 30 min late one',
    '/in 90 min late two',
    '/every 5h series',
    '/in 170 min in time',
  )
  const { clock } = agents.library
  clock.advance(3 * hourMs)
  const first = await agents.start(echo(), config)
  const texts = await agents.gets(6)
  const missed = texts.filter(text => text.includes('late one') && text.includes('late two'))
  expect(missed).toHaveLength(1)
  expect(missed[0]).not.toContain('in time')
  expect(first.backend.prompts).toEqual([expect.stringContaining('in time')])
  await agents.until('it is settled', () => agents.count('agent_time') === 1)
  await first.stop()
  // The series is 59 minutes late, then far too late and on time again.
  clock.advance(2 * hourMs + 59 * minuteMs)
  const second = await agents.start(echo(), config)
  await agents.gets(7)
  expect(second.backend.prompts).toEqual([expect.stringContaining('series')])
  await second.stop()
  clock.advance(14 * hourMs + 30 * minuteMs)
  const third = await agents.start(echo(), config)
  await agents.gets(9)
  expect(third.backend.prompts).toEqual([expect.stringContaining('series')])
  await third.stop()
  await agents.start(echo(), config)
  await agents.say('hello')
  expect(await agents.gets(10)).toHaveLength(10)
  expect((await agents.turns()).filter(({ source }) => source === 'time')).toHaveLength(3)
})

test('while its answer waits, a series pauses; the answer comes first when the owner writes, and it goes on', async () => {
  await using agents = await withTimes('/every 1440 min report')
  const { clock, sandbox } = agents.library
  const { backend } = await agents.start(echo(), config)
  const pass = async (days: number) => {
    clock.advance(days * dayMs)
    await sandbox.advance(days * dayMs)
    const now = clock.now()
    await agents.until('the time has passed', () => (dueAt(agents)[0] ?? 0) > now)
  }
  await pass(1.01)
  await agents.become('answered')
  expect(await agents.got()).toHaveLength(1)
  for (let day = 0; day < 3; day++) await pass(1)
  expect(backend.runs).toHaveLength(1)
  await agents.say('/times')
  const texts = await agents.gets(3)
  expect(texts[1]).toContain('report')
  expect(texts[1]).toStartWith('did [')
  await agents.say('back')
  await agents.gets(4)
  await pass(1)
  await agents.become('answered', 'answered', 'answered')
  expect(backend.prompts.map(text => text.includes('report'))).toEqual([true, false, true])
})

test('they are listed with their numbers and cancelled by them; what is not certain is asked back', async () => {
  await using agents = await withTimes('/at tomorrow 7:30 water', '定时 每个工作日8点 浇花')
  const { backend } = await agents.start(echo(), config)
  let count = 2
  const answers = async (text: string) => {
    await agents.say(text)
    count += 1
    return (await agents.gets(count))[count - 1]!
  }
  const [first, second] = agents
    .rows<{ id: number }>('id FROM agent_time ORDER BY due_at')
    .map(({ id }) => id)
  const list = (await answers('/times')).split('\n')
  expect(list.map(line => Number(/^\d+/.exec(line)?.[0])).sort()).toEqual([first!, second!].sort())
  expect(list.join()).toContain('water')
  for (const text of [
    '/at',
    '/at soon do it',
    '/at 2/3 9:00 do it',
    '/at next friday 9:00 do it',
    '/in 1h',
    '/every 5 min x',
    '/cancel',
    '/cancel 999999',
    '/cancel x',
  ])
    expect(await answers(text)).not.toContain('did')
  expect(agents.count('agent_time')).toBe(2)
  await answers(`/cancel ${first}`)
  await answers(`取消定时 ${second}`)
  expect(agents.count('agent_time')).toBe(0)
  await answers(`/cancel ${first}`)
  await answers('定时列表')
  expect(backend.runs).toEqual([])
})

test('only the owner sets times, and nobody sees those of another person', async () => {
  await using agents = await withTimes('/in 1h water')
  const friend = await agents.library.sandbox.addUser('friend')
  await agents.start(echo(), { ...config, allow: 'everyone' })
  const id = agents.rows<{ id: number }>('id FROM agent_time')[0]!.id
  for (const [nth, text] of ['/at 7:30 do it', '/times', `/cancel ${id}`].entries()) {
    await agents.say(text, friend)
    expect((await agents.gets(nth + 1, friend))[nth]).not.toContain('water')
  }
  expect(agents.count('agent_time')).toBe(1)
})

test('at most fifty', async () => {
  await using agents = await withTimes('/in 1h water')
  const svc = await agents.library.open({ store: true })
  const work = await svc.workAsAgent()
  const time: NewTime = {
    session: 'default',
    user_id: agents.owner,
    prompt: '',
    rule: { at: 4e12 },
    zone: 'UTC',
    due_at: 4e12,
    made_by: 'owner',
  }
  for (let nth = 1; nth < 50; nth++) await work.addTime({ ...time, prompt: `${nth}` })
  await agents.start(echo(), config)
  await agents.say('/in 2h one more')
  await agents.gets(2)
  await agents.say('/times')
  await agents.gets(3)
  expect(agents.count('agent_time')).toBe(50)
})

test('of two agents of one person in two processes the one that listens then does it', async () => {
  await using agents = await withTimes('/every 15 min do it')
  const backends = [echo(), echo()]
  for (const [nth, backend] of backends.entries())
    await agents.start(backend, { ...config, name: `agent${nth}` })
  for (let nth = 1; nth <= 6; nth++) {
    agents.library.clock.advance(15 * minuteMs)
    await agents.gets(1 + nth)
    await agents.become(...Array(nth).fill('answered'))
  }
  // While time jumps, the first one may seem to be away.
  const [, before = 0] = backends.map(({ runs }) => runs.length)
  expect(backends[0]!.runs.length + before).toBe(6)
  await agents.say('/use agent1')
  await agents.gets(8)
  agents.library.clock.advance(15 * minuteMs)
  await agents.gets(9)
  expect(backends.map(({ runs }) => runs.length)).toEqual([6 - before, before + 1])
})

test('one that names its agent is done by that one alone, or told with its name', async () => {
  await using agents = await withAgents()
  const early = await agents.start(echo(), { ...config, name: 'home' })
  const first = await agents.start(echo(), { ...config, name: 'first' })
  agents.library.clock.advance(6000)
  for (const [nth, text] of ['/use first', '@home /in 1h do it', '@home /in 10 min water'].entries()) {
    await agents.say(text)
    await agents.gets(nth + 1)
  }
  await early.stop()
  agents.library.clock.advance(1.5 * hourMs)
  await agents.say('hello')
  await agents.gets(4)
  const home = await agents.start(echo(), { ...config, name: 'home' })
  const texts = await agents.gets(6)
  const missed = texts.slice(4).find(text => text.includes('water'))
  expect(missed!.match(/\[home\]/g)).toHaveLength(1)
  expect(home.backend.prompts).toEqual([expect.stringContaining('do it')])
  expect(first.backend.prompts).toEqual(['hello'])
})

test('a process that is killed between a due time and its answer: each is answered, or told to be interrupted, once', async () => {
  await using agents = await withAgents()
  const svc = await agents.library.open({ store: true })
  const work = await svc.workAsAgent()
  {
    await using first = startAgentProcess(agents)
    await untilReading(agents, first)
  }
  let killed = 0
  for (const [round, dieAt] of [1, 2, 3, 4, 5, 7, 9, 12].entries()) {
    await agents.say('/help')
    const at = Date.now()
    await work.addTime({
      ...{ session: 'default', user_id: agents.owner, prompt: `round-${round}`, rule: { at } },
      ...{ zone: 'UTC', due_at: at, made_by: 'owner' },
    })
    const isOver = () =>
      agents.count("agent_turn WHERE source = 'time' AND ended_at IS NOT NULL") === round + 1
    {
      await using agent = startAgentProcess(agents, {}, dieAt)
      await until(
        `round ${round}`,
        60_000,
        () => !agent.isRunning || isOver(),
        () => agent.log,
      )
      if (agent.signal === 'SIGKILL') killed += 1
    }
    await using next = startAgentProcess(agents)
    await until(`round ${round} ends`, 60_000, isOver, () => next.log)
  }
  expect(killed).toBeGreaterThan(2)
  expect(agents.count('agent_time')).toBe(0)
  const turns = (await agents.turns()).filter(({ source }) => source === 'time')
  expect(turns).toHaveLength(8)
  const texts = await agents.got()
  const told = texts.filter(text => text.includes(textsFor('').interrupted)).length
  expect(told).toBe(turns.filter(({ status }) => status === 'interrupted').length)
  for (const round of turns.keys())
    expect(texts.join('\n').split(`round-${round}-0 `).length).toBeLessThanOrEqual(2)
}, 120_000)

test('a time that cannot be read holds up no turn and no other time; its owner is told once, and can cancel it', async () => {
  await using agents = await withTimes('/in 1h do this', '/in 1h do that', '/in 1h not yet', '/in 20 min go')
  {
    using db = new Database(join(agents.library.dir, 'messages.db'))
    db.run("UPDATE agent_time SET rule = '{', due_at = 1 WHERE prompt = 'do this'")
    db.run("UPDATE agent_time SET zone = 'Nowhere', due_at = 1 WHERE prompt = 'do that'")
    db.run("UPDATE agent_time SET rule = '{}' WHERE prompt = 'not yet'")
  }
  agents.library.clock.advance(25 * minuteMs)
  const { backend } = await agents.start(echo(), config)
  await agents.become('answered')
  expect(backend.prompts).toEqual([expect.stringContaining('go')])
  const told = (await agents.gets(7)).slice(4).filter(text => !text.startsWith('did'))
  expect(told.map(text => /do th\w+/.exec(text)?.[0]).sort()).toEqual(['do that', 'do this'])
  expect(agents.library.lines.join('')).toContain('cannot be read')
  await agents.say('/times')
  const [, , , , , , , list = ''] = await agents.gets(8)
  const end = textsFor('')
    .time.broken({ prompt: '', rule: { problem: '' } } as never)
    .slice(-20)
  expect(list.split('\n').filter(line => line.endsWith(end))).toHaveLength(3)
  await agents.say(`/cancel ${/^\d+/.exec(list)?.[0]}`)
  await agents.gets(9)
  expect(agents.count('agent_time')).toBe(2)
})

test('a list names agents where there are several, or another one than the chosen one has the time', async () => {
  await using agents = await withAgents()
  const first = await agents.start(echo(), { ...config, name: 'home' })
  let count = 0
  const ask = async (text: string) => {
    await agents.say(text)
    count += 1
    return (await agents.gets(count))[count - 1]!
  }
  expect(await ask('/in 1h one')).not.toContain('home')
  expect(await ask('@home /in 1h two')).not.toContain('home')
  await agents.start(echo(), { ...config, name: 'code' })
  agents.library.clock.advance(6000)
  expect(await ask('/in 2h three')).toContain('): three\n')
  expect(await ask('@code /in 2h four')).toContain('[code] four')
  await ask('/use code')
  const list = await ask('/times')
  for (const part of ['): one', '[home] two', '): three', '[code] four']) expect(list).toContain(part)
  expect(await ask(`/cancel ${/^\d+/.exec(list)?.[0]}`)).toContain('): one')
  await first.stop()
})

test('with an operator the owner sets times too, and others do not', async () => {
  await using agents = await withAgents()
  const [boss, friend] = [
    await agents.library.sandbox.addUser('boss'),
    await agents.library.sandbox.addUser('friend'),
  ]
  await agents.start(echo(), { ...config, allow: 'everyone', operator: boss })
  await agents.say('hello', boss)
  await agents.gets(1, boss)
  agents.library.clock.advance(6000)
  for (const [nth, user] of [agents.owner, friend, boss].entries()) {
    await agents.say(`/in 1h do it ${nth}`, user)
    await agents.gets(user === boss ? 2 : 1, user)
  }
  const users = agents.rows<{ peer: string }>('peer FROM agent_time ORDER BY id').map(({ peer }) => peer)
  expect(users).toEqual([agents.owner, boss])
})

test('what one agent missed and did not tell is told by the one that is chosen then', async () => {
  await using agents = await withTimes('/every 15 min do it')
  await agents.start(echo(), { ...config, name: 'code' })
  await agents.say('/use code')
  await agents.gets(2)
  const work = await (await agents.library.open({ store: true })).workAsAgent()
  const [time] = await work.listTimes({})
  // As an agent leaves it that dies before it tells.
  await work.passTime(time!, { due_at: time!.due_at, missed_at: time!.due_at })
  agents.library.clock.advance(1000)
  expect((await agents.gets(3))[2]).toContain('do it')
  await agents.until('it is noted', () => agents.count('agent_time WHERE missed_at IS NULL') === 1)
})

test('each time that is set is told, also beyond the answers that a message allows', async () => {
  await using agents = await withTimes('/in 1h first')
  const prompts = Array.from({ length: 13 }, (_, nth) => `time-${nth}.`)
  for (const prompt of prompts) await agents.say(`/in 2h ${prompt}`)
  await agents.start(echo(), config)
  await isStored(agents, 14)
  await agents.say('hello')
  await agents.until('all are told', async () => {
    const told = (await agents.got()).join('\n')
    return prompts.every(prompt => told.includes(prompt))
  })
})

test('what was missed is told once, also if the agent dies before that is noted, and another one goes on', async () => {
  await using agents = await withTimes('/in 10 min water')
  const { clock, dir } = agents.library
  clock.advance(2 * hourMs)
  const isKept = "BEFORE DELETE ON agent_time BEGIN SELECT RAISE(ABORT, 'not yet'); END"
  await changeIn(dir, `CREATE TRIGGER kept ${isKept}`)
  const home = await agents.start(echo(), { ...config, name: 'home' })
  await agents.gets(2)
  await home.stop()
  await changeIn(dir, 'DROP TRIGGER kept')
  await agents.start(echo(), { ...config, name: 'code' })
  await isStored(agents, 0)
  await agents.say('hello')
  await agents.until('it answers', async () => (await agents.got()).at(-1)?.includes('did hello'))
  expect((await agents.got()).filter(text => text.includes('water'))).toHaveLength(2)
})
