/** Guests of an agent: people who joined by an invitation. */
import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { Talkers } from '../../src/agent/talkers.ts'
import type { NewInvitationInput } from '../../src/index.ts'
import { codeOf } from '../support/failure.ts'
import { PlayedBackend, playedAgent, type TestAgents, withAgents } from './support.ts'

/** A person joins by an invitation to this agent. @returns the id of the person */
async function joined(
  agents: TestAgents,
  name: string,
  invitation: Partial<NewInvitationInput> = {},
): Promise<string> {
  const { clock, open, other, sandbox } = agents.library
  const svc = await open({ store: true })
  if ((await svc.keys.list()).length === 0) await svc.keys.add({ name: 'first', can: ['read'] })
  const { id } = await svc.invitations.add(name, invitation)
  const bot = sandbox.bot(await sandbox.addUser(name))
  await other.sessions.save(name, { ...bot, invitation: id, cursor: '', created_at: clock.now() + 10 })
  return bot.user_id
}

const named = { name: 'home' }
const settled = (agents: TestAgents, count: number) =>
  agents.until('all was read', () => agents.count('lease') === 0 && agents.count('message') >= count)

test('programs of a guest’s agent cannot call svc as its owner: without any key there is no such invitation', async () => {
  await using agents = await withAgents()
  const svc = await agents.library.open({ store: true })
  const invite = (input: Partial<NewInvitationInput>) => svc.invitations.add('mum', input)
  expect(await codeOf(invite({ agent: 'home' }))).toBe('invalid_arguments')
  expect(await svc.invitations.list()).toEqual([])
  const names = [await invite({ agent: 'home', trusted: true }), await invite({})].map(({ name }) => name)
  await svc.keys.add({ name: 'first', can: ['read'] })
  expect([...names, (await invite({ agent: 'home' })).name]).toEqual(['mum', 'mum', 'mum'])
})

test('whoever invites learns whether the agent runs that is to answer', async () => {
  await using agents = await withAgents()
  const svc = await agents.library.open({ store: true })
  const runs = async (agent?: string) =>
    (await svc.invitations.add('mum', agent ? { agent, trusted: true } : {})).agent_runs
  expect(await runs('home')).toBe(false)
  await agents.start(new PlayedBackend(), named)
  await agents.until('it runs', () => runs('home'))
  expect([await runs('hmoe'), await runs()]).toEqual([false, undefined])
})

describe('a guest', () => {
  test('is answered by the agent that the invitation names, isolated, in a folder of the own', async () => {
    await using agents = await withAgents()
    const { dir } = agents.library
    const mum = await joined(agents, 'mum', { agent: 'home' })
    const friend = await joined(agents, 'friend', { agent: 'home', trusted: true })
    const { backend } = await agents.start(new PlayedBackend(), { ...named, folder: dir })
    for (const [nth, user] of [mum, friend, agents.owner].entries()) {
      await agents.say(`from ${nth}`, user)
      await agents.until('a turn runs', () => backend.runs.length === nth + 1)
      backend.runs[nth]?.answer(`to ${nth}`)
      expect(await agents.gets(1, user)).toEqual([`to ${nth}`])
    }
    const places = backend.runs.map(({ context: { folder, isolatedFrom } }) => [folder, isolatedFrom])
    const own = join(agents.folders, 'home')
    expect(places).toEqual([
      [expect.stringMatching(new RegExp(`^${own}/\\w{16}$`)), dir],
      [expect.stringMatching(new RegExp(`^${own}/\\w{16}$`)), undefined],
      [dir, undefined],
    ])
    expect(places[0]![0]).not.toBe(places[1]![0])
  })

  test('is answered by no other agent, however it was started; nobody is told of it', async () => {
    await using agents = await withAgents()
    const mum = await joined(agents, 'mum', { agent: 'other' })
    const alone = await joined(agents, 'alone')
    const started = [
      await agents.start(new PlayedBackend(() => 'no'), { name: 'plain' }),
      await agents.start(new PlayedBackend(() => 'no'), { name: 'all', allow: 'everyone' }),
      await agents.start(new PlayedBackend(() => 'no'), {
        name: 'allows',
        allow: [mum, 'mum', alone, 'alone'],
      }),
      await agents.start(new PlayedBackend(() => 'no'), { name: 'users', users: { [mum]: {}, alone: {} } }),
      await agents.start(new PlayedBackend(() => 'no'), { name: 'here', session: 'mum' }),
      await agents.start(new PlayedBackend(() => 'no'), { name: 'operated', operator: 'mum' }),
    ]
    for (const text of ['hello', '/status', '/new', '/use home', 'yes', 'A4RN 1']) {
      await agents.say(text, mum)
      await agents.say(text, alone)
    }
    await settled(agents, 12)
    await agents.say('mine')
    await agents.gets(1)
    const prompts = started.flatMap(({ backend }) => backend.prompts)
    expect(new Set(prompts)).toEqual(new Set(['mine']))
    expect([await agents.got(mum), await agents.got(alone)]).toEqual([[], []])
    expect([await agents.turns(mum), await agents.turns(alone)]).toEqual([[], []])
  })

  test('has a limit of turns for each person and day, beside that of the agent', async () => {
    await using agents = await withAgents()
    const mum = await joined(agents, 'mum', { agent: 'home', turns_per_day: 2 })
    const friend = await joined(agents, 'friend', { agent: 'home', turns_per_day: 2 })
    const config = { ...named, operator: agents.owner }
    const { backend } = await agents.start(new PlayedBackend(({ text }) => `to ${text}`), config)
    await agents.say('first')
    await agents.gets(1)
    agents.library.clock.advance(6000)
    for (let nth = 1; nth <= 3; nth++) {
      await agents.say(`${nth}`, mum)
      await agents.gets(nth, mum)
    }
    await agents.say('/new', mum)
    await agents.gets(4, mum)
    await agents.say('again', mum)
    await agents.gets(5, mum)
    expect(backend.prompts).toEqual(['first', '1', '2'])
    await agents.say('mine', friend)
    expect(await agents.gets(1, friend)).toEqual(['to mine'])
    // The operator is not told: each of many guests would take one of the answers.
    expect(await agents.got()).toEqual(['to first'])
  })

  test('leaves turns to others, however many guests write at the same time', async () => {
    await using agents = await withAgents()
    const names = ['one', 'two', 'three', 'four', 'five']
    const guests = await Promise.all(names.map(name => joined(agents, name, { agent: 'home' })))
    const { backend } = await agents.start(new PlayedBackend(), named)
    for (const guest of guests) await agents.say('work long', guest)
    await agents.until('the guests have their share', () => backend.runs.length === 4)
    await agents.say('mine')
    await agents.until('a turn is left', () => backend.prompts.includes('mine'))
    expect(backend.runs).toHaveLength(5)
    for (const run of [...backend.runs]) run.answer('done')
    await agents.until('the last guest has a turn', () => backend.runs.length === 6)
    backend.runs[5]?.answer('done')
    expect(await agents.gets(1)).toEqual(['done'])
  })

  test('decides nothing, also not by a name: only an operator does, or the panel', async () => {
    await using agents = await withAgents()
    const { clock } = agents.library
    const mum = await joined(agents, 'mum', { agent: 'home' })
    const { svc } = await agents.start(new PlayedBackend(() => 'hi'), named)
    await agents.say('hello', mum)
    await agents.say('hello')
    await Promise.all([agents.gets(1, mum), agents.gets(1)])
    await svc.nameUser(mum, 'mum')
    const work = await svc.workAsAgent()
    const decides = (operator?: string) => {
      const config = { ...playedAgent, ...named, operator }
      return new Talkers({ svc, work, config, agents: [config], clock }).findOperator('mum')
    }
    expect(await decides()).toBeUndefined()
    expect(await decides('mum')).toBeUndefined()
    expect(await decides(agents.owner)).toEqual({ session: 'default', user_id: agents.owner })
  })

  test('who was erased is not known, and gets no answer, also after the next message', async () => {
    await using agents = await withAgents()
    const mum = await joined(agents, 'mum', { agent: 'home' })
    const { backend, svc } = await agents.start(new PlayedBackend(() => 'hi'), named)
    await agents.say('hello', mum)
    await agents.gets(1, mum)
    await svc.forget(mum)
    // What is known of people is read again after some seconds.
    agents.library.clock.advance(6000)
    await agents.say('again', mum)
    await agents.until('it was read', () => agents.count('lease') === 0 && agents.count('message') === 3)
    await agents.say('mine')
    await agents.gets(1)
    expect(backend.prompts).toEqual(['hello', 'mine'])
    const { invitation, user_id } = (await svc.sessions()).find(({ name }) => name === 'mum')!
    expect([typeof invitation, user_id]).toEqual(['string', undefined])
  })
})
