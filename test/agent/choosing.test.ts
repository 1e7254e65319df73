/** A person with several agents: which one gets a message, and what the person reads of the others. */
import { describe, expect, test } from 'bun:test'
import { runAgent } from '../../src/agent/agent.ts'
import { Choosing, type ChoosingPorts, chooseAgent, type Facts } from '../../src/agent/choosing.ts'
import { findCommand, findName, guessName, readMention, withoutMention } from '../../src/agent/commands.ts'
import type { AgentConfig, BackendConfig } from '../../src/agent/config.ts'
import { describeBackend } from '../../src/agent/config.ts'
import { textsFor } from '../../src/agent/texts.ts'
import { silentLog } from '../../src/platform/log.ts'
import { Tasks } from '../../src/platform/tasks.ts'
import { PlayedBackend, playedAgent, type TestAgents, textOf, withAgents } from './support.ts'

const [home, code, away] = [
  { name: 'home', isRunning: true },
  { name: 'code', isRunning: true },
  { name: 'away', isRunning: false },
]
const cases: readonly (readonly [what: string, facts: Partial<Facts>, agent: string | undefined])[] = [
  ['the first that runs', {}, 'home'],
  ['the first that runs, in their order', { agents: [away!, code!, home!] }, 'code'],
  ['the first, if none runs', { agents: [away!] }, 'away'],
  ['none', { agents: [] }, undefined],
  ['the chosen one', { chosen: 'code' }, 'code'],
  ['the chosen one, also if it is away', { chosen: 'away' }, 'away'],
  ['no chosen one that the person may not use any more', { chosen: 'gone' }, 'home'],
  ['the one that is quoted, before the chosen one', { chosen: 'away', quoted: 'code' }, 'code'],
  ['no quoted one that is none of them', { chosen: 'code', quoted: 'svc.agents' }, 'code'],
  ['the one that is named, before all others', { named: 'code', quoted: 'home', chosen: 'away' }, 'code'],
  ['one that is named and away', { named: 'away', chosen: 'code' }, 'away'],
  [
    'one that has read it, before the first that runs',
    { agents: [home!, { ...away!, hasRead: true }] },
    'away',
  ],
  [
    'not one that has read it, if another one is chosen',
    { agents: [home!, { ...away!, hasRead: true }], chosen: 'home' },
    'home',
  ],
]
test.each(cases)('a message goes to %s', (_, facts, agent) => {
  expect(chooseAgent({ agents: [home!, code!, away!], ...facts })).toBe(agent)
})

test.each([
  ['@code fix it', 'code', 'fix it'],
  ['＠ＣＯＤＥ　fix it', 'code', 'fix it'],
  ['  @Code: fix it', 'code', 'fix it'],
  ['@code，修一下', 'code', '修一下'],
  ['@code修一下', 'code', '修一下'],
  ['@code. Fix\nit', 'code', 'Fix\nit'],
  ['@code', 'code', ''],
  ['@my-bot hi', 'my-bot', 'hi'],
  ['@code /stop', 'code', '/stop'],
  ['@code-review this', undefined, undefined],
  ['@code/main.ts', undefined, undefined],
  ['@code.ts', undefined, undefined],
  ['@code\\main', undefined, undefined],
  ['@codex hi', undefined, undefined],
  ['@cod hi', undefined, undefined],
  ['code, fix it', undefined, undefined],
  ['ask @code', undefined, undefined],
  ['@ code', undefined, undefined],
  ['me@code', undefined, undefined],
  ['@code@example.com', undefined, undefined],
])('"%s" names %p', (text, name, rest) => {
  expect(readMention(text, ['home', 'code', 'my-bot']) as unknown).toEqual(name && { name, rest })
  expect(withoutMention(text, 'code')).toBe(name === 'code' && rest ? rest : text)
})

test('a name is found whatever its case and width, and one typing error is seen', () => {
  const names = ['home', 'Code', 'work', 'word', 'a1']
  const found = ['HOME', 'ｃｏｄｅ', ' “code” ', '@work', 'cod', ''].map(word => findName(word, names))
  expect(found).toEqual(['home', 'Code', 'Code', 'work', undefined, undefined])
  const guesses = [
    ...[
      ['hoem', 'home'],
      ['hom', 'home'],
      ['hhome', 'home'],
      ['hone', 'home'],
      ['CDOE', 'Code'],
      ['ode', 'Code'],
    ],
    // Two errors, two names, a name that is too short, and nothing.
    ...[['heom2'], ['worx'], ['wor'], ['b1'], [''], ['x']],
  ] as [string, string | undefined][]
  expect(guesses.map(([word]) => guessName(word, names))).toEqual(guesses.map(([, name]) => name))
})

// As people write on other bridges too: cc-connect, OpenClaw, WeiClaw.
test.each([
  ['/agents', 'agents', ''],
  ['/agent', 'use', ''],
  ['/agent codex', 'use', 'codex'],
  ['／ＵＳＥ　codex', 'use', 'codex'],
  ['换用 codex', 'use', 'codex'],
  ['/use', 'use', ''],
  ['换用', undefined, undefined],
  ['换用codex', undefined, undefined],
  ['use codex', undefined, undefined],
  ['/users', undefined, undefined],
  ['/claude hi', undefined, undefined],
])('"%s" is the command %p', (text, word, rest) => {
  const found = findCommand(text)
  expect([found?.word, found?.rest] as unknown[]).toEqual([word, rest])
})

test('what an agent is called for others has no secret in it', () => {
  const command = (...words: string[]): BackendConfig => ({ kind: 'command', command: words })
  const key = `sk-${'a1B2'.repeat(8)}`
  const described = [
    command('/usr/local/bin/claude', '-p', '--mcp', key),
    command('bot', key),
    command('bot', '--key=secret'),
    command('npx', '@agentclientprotocol/claude-agent-acp'),
    { kind: 'openai', url: `http://me:${key}@127.0.0.1:11434/v1`, model: 'qwen3' } as const,
  ].map(describeBackend)
  expect(described).toEqual([
    'claude -p',
    'bot …',
    'bot',
    'npx @agentclientprotocol/claude-agent-acp',
    'qwen3, 127.0.0.1:11434',
  ])
})

const answer = (name: string) => new PlayedBackend(({ text }) => `${name} got ${text}`)
const named = (name: string, more: Partial<AgentConfig> = {}): AgentConfig => ({
  ...playedAgent,
  name,
  ...more,
})

/** Waits until all messages were read to the end by every agent. */
const settled = (agents: TestAgents, messages: number) =>
  agents.until(
    'all is settled',
    () => agents.count('message WHERE sent = 0') === messages && agents.count('lease') === 0,
  )

/** Waits until an agent has read so many messages to the end. */
const settledBy = ({ count, library, until }: TestAgents, name: string, messages: number) =>
  until('it has read all', async () => {
    const work = await (await library.open({ store: true })).workAsAgent()
    return count('message WHERE sent = 0') === messages && (await work.listMissed(name)).length === 0
  })

/** Time passes. Agents know each other after five seconds, and are away after a minute in which they do nothing. */
async function passed({ library: { clock, sandbox } }: TestAgents, ms: number) {
  clock.advance(ms)
  await sandbox.advance(ms)
}

/** Two agents, each in a process of its own or both in one, as far as svc can tell. */
async function withTwo(where: 'one process' | 'two processes', more: Partial<AgentConfig> = {}) {
  const agents = await withAgents()
  const all = ['home', 'code'].map(name => named(name, more))
  const [first, second] = [answer('home'), answer('code')]
  const ports = where === 'one process' ? { agents: all } : {}
  const running = [await agents.start(first, all[0], ports), await agents.start(second, all[1], ports)]
  await passed(agents, 6000)
  let texts = 0
  /** Says something. @returns what came by it */
  const say = async (text: string, from?: string, count = 1) => {
    await agents.say(text, from)
    texts += count
    return (await agents.gets(texts, from)).slice(texts - count).join('\n')
  }
  return { agents, running, backends: [first, second] as const, say }
}

test('a message that another agent gets just as it is asked what it has read stays open', async () => {
  const asked = Promise.withResolvers<[]>()
  const agents = [home!, code!].map(one => ({ ...one, since: 0, commands: true }))
  const choosing = new Choosing({
    config: { name: 'home' },
    clock: { monotonic: () => 0 },
    people: {
      listAgents: async () => agents,
      findAgents: async () => ({ standing: 'allowed', agents }),
      findChosen: async () => 'code',
    },
    work: { listMissed: () => asked.promise },
    findAsker: async () => undefined,
  } as unknown as ChoosingPorts)
  const settled: [id: number, read: boolean][] = []
  const leave = (id: number) => {
    const settle = async (read: boolean) => void settled.push([id, read])
    const message = { id, session: 's', from_user: 'u', text: 'hi', items: [] }
    return choosing.leave({ message, settle } as never, 'code')
  }
  await leave(1)
  const looking = choosing.look(() => {})
  await leave(2)
  asked.resolve([])
  await looking
  expect(settled).toEqual([[1, true]])
  await choosing.look(() => {})
  expect(settled).toEqual([
    [1, true],
    [2, true],
  ])
})

describe.each(['one process', 'two processes'] as const)('two agents in %s', where => {
  test('the first one answers, until another one is chosen; one is asked once by its name', async () => {
    const { agents, backends, running, say } = await withTwo(where)
    await using _ = agents
    expect(await say('one')).toBe('home got one')
    expect(await say('@code two')).toBe('[code]\ncode got two')
    expect(await say('three')).toBe('home got three')
    expect(await say('/USE Code')).toContain('code')
    expect(await say('four')).toBe('code got four')
    expect(await say('＠ＨＯＭＥ：five')).toBe('[home]\nhome got five')
    expect(await say('@file.ts six')).toBe('code got @file.ts six')
    expect(await say('/use hmoe')).toContain('/use home')
    expect(await say('seven')).toBe('code got seven')
    expect(await say('/use nobody')).toContain('nobody')
    await settled(agents, 10)
    expect(backends.map(({ prompts }) => prompts)).toEqual([
      ['one', 'three', 'five'],
      ['two', 'four', '@file.ts six', 'seven'],
    ])
    const { svc } = running[0]!
    const chosen = (await svc.agents.conversations()).map(one => [one.agent, one.chosen])
    expect(new Map(chosen as [string, boolean][])).toEqual(
      new Map([
        ['home', undefined],
        ['code', true],
      ] as never),
    )
    const lines = await svc.audit({ operation: 'choose_agent' })
    expect(lines.map(({ subject }) => subject)).toEqual([`code ${agents.owner} default`])
    expect(await agents.got()).toHaveLength(10)
  })

  test('they are listed once, with the chosen one and what each is', async () => {
    const { agents, say } = await withTwo(where)
    await using _ = agents
    const lines = (text: string) => text.split('\n').slice(0, 2)
    expect(lines(await say('/agents'))).toEqual(['→ home: none', 'code: none'])
    await say('/use code')
    expect(lines(await say('@home /agents'))).toEqual(['home: none', '→ code: none'])
    await settled(agents, 3)
    expect(await agents.got()).toHaveLength(3)
  })

  test('a message that quotes an answer goes to the agent that wrote it, however WeChat tells what is quoted', async () => {
    const { agents, backends, say } = await withTwo(where)
    await using _ = agents
    const { sandbox } = agents.library
    await say('@code one')
    await passed(agents, 10_000)
    await say('two')
    const sent = await sandbox.messages({ user: agents.owner, from: 'bot' })
    const ofCode = sent.find(one => textOf(one).includes('code got'))!.message_id
    // By its time alone an answer that comes at once is not told from the question.
    const forms = ['id', 'partial', 'full', 'type0'] as const
    for (const [nth, how] of forms.entries()) {
      await passed(agents, 10_000)
      await sandbox.say(`and ${how}?`, { quote: ofCode, how })
      await agents.gets(nth + 3)
    }
    await sandbox.say('@home you', { quote: ofCode })
    await agents.gets(7)
    await settled(agents, 7)
    const last = backends.map(({ prompts }) => prompts.map(text => text.split('\n').at(-1)))
    expect(last).toEqual([
      ['two', 'you'],
      ['one', ...forms.map(how => `and ${how}?`)],
    ])
  })

  test('a picture goes along with the name right before it', async () => {
    const { agents, backends } = await withTwo(where, { gatherMs: 30_000 })
    await using _ = agents
    const { clock, sandbox } = agents.library
    await sandbox.say('@code what is this?')
    await sandbox.media('file', 'some text', { name: 'a.txt' })
    await sandbox.media('file', 'more text', { name: 'b.txt' })
    const text = 'and home, what do you do?'
    await sandbox.say(text)
    await agents.until('all was read', () => agents.count('lease') === 8)
    clock.advance(10_000)
    await agents.gets(2)
    await settled(agents, 4)
    expect(backends[0].prompts).toEqual([text])
    expect(backends[1].runs.map(({ prompt }) => prompt.files.map(({ name }) => name))).toEqual([
      ['a.txt', 'b.txt'],
    ])
    expect(backends[1].prompts[0]).toStartWith('what is this?\n')
  })

  test('a command after a name is for that agent; /stop without one stops both, and says so once', async () => {
    await using agents = await withAgents()
    const all = ['home', 'code'].map(name => named(name))
    const ports = where === 'one process' ? { agents: all } : {}
    const [home, code] = [new PlayedBackend(), new PlayedBackend()]
    await agents.start(home, all[0], ports)
    await agents.start(code, all[1], ports)
    agents.library.clock.advance(6000)
    const work = async () => {
      const before = home.runs.length + code.runs.length
      await agents.say('@home work')
      await agents.say('@code work')
      await agents.until('both work', () => home.runs.length + code.runs.length === before + 2)
    }
    const areStopped = () => [home, code].map(({ runs }) => runs.at(-1)!.context.signal.aborted)
    await work()
    await agents.say('@code /stop')
    await agents.gets(1)
    expect(areStopped()).toEqual([false, true])
    home.runs[0]!.answer('done')
    await agents.gets(2)
    await work()
    await agents.say('/stop')
    await agents.until('both were stopped', () => areStopped().every(Boolean))
    await agents.gets(3)
    await settled(agents, 6)
    expect(await agents.turns()).toHaveLength(4)
    expect((await agents.turns()).map(({ status }) => status).sort()).toEqual([
      'answered',
      'stopped',
      'stopped',
      'stopped',
    ])
    await agents.say('@code /new')
    await agents.gets(4)
    await settled(agents, 7)
    expect([home, code].flatMap(({ prompts }) => prompts)).toEqual(['work', 'work', 'work', 'work'])
  })

  test('an answer to a question goes to the agent that asks, whoever is chosen, and is no prompt', async () => {
    await using agents = await withAgents()
    const all = ['home', 'code'].map(name => named(name))
    const { start } = startWithQuestions(agents, where === 'one process' ? all : undefined)
    const [home, code] = [new PlayedBackend(), new PlayedBackend()]
    await start(home, all[0]!)
    await start(code, all[1]!)
    agents.library.clock.advance(6000)
    const options = [
      { id: 'yes', name: 'Allow', kind: 'allow_once' },
      { id: 'no', name: 'Reject', kind: 'reject_once' },
    ] as const
    const answers: string[] = []
    for (const [nth, text] of ['no', 'code', '不'].entries()) {
      await agents.say('@code work')
      await agents.until('it works', () => code.runs.length === nth + 1)
      const asked = code.runs[nth]!.context.ask({ text: 'delete it', options: [...options] })
      const shown = (await agents.gets(2 * nth + 1)).at(-1)!
      const [, word = ''] = /^([A-Z2-9]{4}) 1 = /m.exec(shown) ?? []
      await agents.say(text === 'code' ? `${word} 1` : text)
      answers.push(await asked)
      code.runs[nth]!.answer('done')
      await agents.gets(2 * nth + 2)
    }
    expect(answers).toEqual(['no', 'yes', 'no'])
    await settled(agents, 6)
    expect([home.prompts, code.prompts]).toEqual([[], ['work', 'work', 'work']])
    expect(await agents.got()).toHaveLength(6)
  })

  test('a guest has the agent of the invitation alone, whatever the guest writes', async () => {
    const { agents, backends, running } = await withTwo(where)
    await using _ = agents
    const { clock, other, sandbox } = agents.library
    const { svc } = running[0]!
    await svc.keys.add({ name: 'first', can: ['read'] })
    const { id } = await svc.invitations.add('mum', { agent: 'code' })
    const bot = sandbox.bot(await sandbox.addUser('mum'))
    await other.sessions.save('mum', { ...bot, invitation: id, cursor: '', created_at: clock.now() + 10 })
    const got: string[] = []
    for (const [nth, text] of ['hi', '@home hi', '/use home', '/agents', 'again'].entries()) {
      await agents.say(text, bot.user_id)
      got.push((await agents.gets(nth + 1, bot.user_id))[nth]!)
    }
    expect(got).toEqual([
      'code got hi',
      'code got @home hi',
      expect.any(String),
      '→ code: none',
      'code got again',
    ])
    await settled(agents, 5)
    expect(backends[0].prompts).toEqual([])
  })
})

test('an operator answers in another session, where another agent listens', async () => {
  await using agents = await withAgents({ sessions: ['default', 'shop'] })
  const [own, shop] = [...agents.library.bots.values()]
  const { start } = startWithQuestions(agents)
  const [home, code] = [answer('home'), new PlayedBackend()]
  await start(home, named('home', { session: 'default' }))
  await agents.library.sandbox.say('hi', { from: own!.user_id, to: own!.bot_id })
  await agents.gets(1, own!.user_id)
  await start(code, named('code', { session: 'shop', operator: own!.user_id }))
  await passed(agents, 6000)
  await agents.library.sandbox.say('work', { from: shop!.user_id, to: shop!.bot_id })
  await agents.until('it works', () => code.runs.length === 1)
  const options = [
    { id: 'yes', name: 'Allow', kind: 'allow_once' },
    { id: 'no', name: 'Reject', kind: 'reject_once' },
  ] as const
  const asked = code.runs[0]!.context.ask({ text: 'delete it', options: [...options] })
  const [, shown = ''] = await agents.gets(2, own!.user_id)
  const [, word] = /^([A-Z2-9]{4}) 1 = /m.exec(shown) ?? []
  await agents.library.sandbox.say(`${word} 1`, { from: own!.user_id, to: own!.bot_id })
  expect(await asked).toBe('yes')
  code.runs[0]!.answer('done')
  await agents.gets(1, shop!.user_id)
  await settled(agents, 3)
  expect(home.prompts).toEqual(['hi'])
  // The greeting, the question, and what came of it.
  expect(await agents.gets(3, own!.user_id)).toHaveLength(3)
})

test('an agent that is chosen and away is said to be, once, and answers what it got when it is back', async () => {
  const { agents, backends, running, say } = await withTwo('two processes')
  await using _ = agents
  const { clock } = agents.library
  await say('/use code')
  await running[1]!.stop()
  await agents.say('one')
  await agents.say('two')
  await agents.until('they were left', () => agents.count('lease') === 2)
  clock.advance(16_000)
  const [, notice] = await agents.gets(2)
  expect(notice).toContain('code')
  expect(notice).toContain('/use home')
  await agents.say('three')
  await agents.until('it was left', () => agents.count('lease') === 1)
  clock.advance(16_000)
  await agents.until('it was not told again', () => agents.count('lease') === 0)
  await agents.say('@home four')
  expect((await agents.gets(3))[2]).toBe('[home]\nhome got four')
  // A command that is of no agent is done by one that runs, and not again later.
  await agents.say('/times')
  const before = (await agents.gets(4)).length
  await agents.start(backends[1], named('code'))
  // They may be one turn or several.
  const asked = () => backends[1].prompts.join('\n')
  await agents.until('it has answered all', () => asked().includes('three'))
  expect(asked()).toBe('one\ntwo\nthree')
  const notices = async () => (await agents.got()).filter(text => text.includes('/use home'))
  expect(await notices()).toHaveLength(1)
  await agents.become(...(await agents.turns()).map(() => 'answered' as const))
  expect(await agents.got()).toHaveLength(before + (await agents.turns()).length - 1)
  expect(backends[0].prompts).toEqual(['four'])
})

test('each absence of a chosen agent is told, once', async () => {
  const { agents, backends, running, say } = await withTwo('two processes')
  await using _ = agents
  const notices = async () => (await agents.got()).filter(text => text.includes('/use home')).length
  await say('/use code')
  let code = running[1]!
  for (const nth of [1, 2, 3]) {
    await code.stop()
    for (const text of ['one', 'two']) {
      await agents.say(`${text} ${nth}`)
      await agents.until('it was left', () => agents.count('lease') === 1)
      agents.library.clock.advance(16_000)
      await agents.until('it was read', () => agents.count('lease') === 0)
    }
    expect(await notices()).toBe(nth)
    code = await agents.start(backends[1], named('code'))
    await agents.until('it has answered', () => backends[1].prompts.join().includes(`two ${nth}`))
    await settled(agents, 1 + 2 * nth)
  }
})

test('a command for an agent that is away is answered at once by one that runs, and not again', async () => {
  const agents = await withAgents()
  await using _ = agents
  const session = (name: string) =>
    new PlayedBackend(({ text }, { agentSession = text }) => ({
      text: `${name} got ${text} in ${agentSession}`,
      agentSession,
    }))
  const [home, code] = [session('home'), session('code')]
  await agents.start(home, named('home'))
  const running = await agents.start(code, named('code'))
  await passed(agents, 6000)
  let count = 0
  const say = async (text: string) => {
    await agents.say(text)
    count += 1
    const got = await agents.gets(count)
    agents.library.clock.advance(60_000)
    return got[count - 1]!
  }
  const texts = textsFor('')
  const isAway = texts.agents.away('code', 'home')
  const isUndone = texts.agents.undone('code', 'home')
  await say('/use code')
  await say('one')
  await say('/new')
  await say('two')
  await running.stop()
  expect(await say('/status')).toBe(isAway)
  for (const text of ['/new', '/model', '/resume 1', '/more', '@code /new', '@code /stop'])
    expect(await say(text)).toBe(isUndone)
  expect(await say('@code /status')).toBe(isAway)
  expect(await say('/stop')).toContain(isAway)
  const listed = (await say('/sessions')).split('\n')
  expect(listed.map(line => line.slice(0, 6))).toEqual(['1. two', '2. one', expect.any(String)])
  expect(await say('@home hi')).toContain('home got hi')
  await say('@code /in 3h do it')
  expect(agents.rows<{ agent: string }>('agent FROM agent_time')).toEqual([{ agent: 'code' }])
  expect(await say('/help')).toContain('/stop')
  await agents.start(code, named('code'))
  await agents.until('all is read', () => agents.count('lease') === 0)
  expect(await say('/resume 2')).toContain('one')
  expect(await say('three')).toBe('code got three in one')
  expect(await agents.got()).toHaveLength(count)
  expect(home.prompts).toEqual(['hi'])
})

test('what another agent took is not told by one that missed it', async () => {
  const { agents, running, say } = await withTwo('two processes')
  await using _ = agents
  await running[0]!.stop()
  expect(await say('one')).toBe('code got one')
  await say('@code two')
  await running[1]!.stop()
  await passed(agents, 20 * 60_000)
  const back = await agents.start(answer('home'), named('home', { skipOlderMs: 60_000 }))
  await settledBy(agents, 'home', 2)
  expect(back.backend.prompts).toEqual([])
  expect(await agents.got()).toHaveLength(2)
})

test('what two agents find too old is told once', async () => {
  const { agents, running } = await withTwo('two processes')
  await using _ = agents
  for (const one of running) await one.stop()
  await agents.say('one')
  await passed(agents, 20 * 60_000)
  // Each begins before the other one has ended its pause.
  const old = { skipOlderMs: 60_000, gatherMs: 1000 }
  await agents.start(answer('code'), named('code', old))
  await agents.start(answer('home'), named('home', old))
  await agents.until('both have it', () => agents.count('lease') === 2)
  await passed(agents, 2000)
  await settled(agents, 1)
  expect(await agents.got()).toHaveLength(1)
})

test('an agent that is not chosen any more says by its name that messages are too old', async () => {
  const { agents, running, say } = await withTwo('two processes')
  await using _ = agents
  await say('/use code')
  await running[1]!.stop()
  await agents.say('one')
  await agents.until('it was left', () => agents.count('lease') === 1)
  await passed(agents, 20 * 60_000)
  await agents.gets(2)
  await say('/use home', undefined, 2)
  await agents.start(answer('code'), named('code', { skipOlderMs: 60_000 }))
  expect((await agents.gets(4))[3]).toStartWith('[code] ')
})

test('a short absence is not told', async () => {
  const { agents, backends, running, say } = await withTwo('two processes')
  await using _ = agents
  await say('/use code')
  await running[1]!.stop()
  await agents.say('one')
  await agents.until('it was left', () => agents.count('lease') === 1)
  agents.library.clock.advance(10_000)
  await agents.start(backends[1], named('code'))
  expect((await agents.gets(2))[1]).toBe('code got one')
  await settled(agents, 2)
  expect(await agents.got()).toHaveLength(2)
})

test('without a choice the next agent answers while the first one is away', async () => {
  const { agents, running, say } = await withTwo('two processes')
  await using _ = agents
  expect(await say('one')).toBe('home got one')
  await running[0]!.stop()
  expect(await say('two')).toBe('code got two')
  await agents.start(answer('home'), named('home'))
  agents.library.clock.advance(6000)
  expect(await say('three')).toBe('home got three')
  await settled(agents, 3)
  expect(await agents.got()).toHaveLength(3)
})

test('the order of a file is the order of its agents, whichever ran first', async () => {
  await using agents = await withAgents()
  await (await agents.start(answer('home'), named('home'))).stop()
  const all = [named('family'), named('home')]
  await agents.start(answer('home'), all[1], { agents: all })
  await agents.start(answer('family'), all[0], { agents: all })
  await passed(agents, 6000)
  await agents.say('hi')
  expect(await agents.gets(1)).toEqual(['family got hi'])
})

test('whom one agent of a file names has no other one of it that does not', async () => {
  await using agents = await withAgents({ sessions: ['default', 'mum'] })
  const [, mum] = [...agents.library.bots.values()]
  const kid = await agents.library.sandbox.addUser('kid')
  const all = [
    named('family', { session: 'mum' }),
    named('small', { users: { [kid]: {} } }),
    named('home', { allow: 'everyone' }),
    named('code'),
  ]
  for (const config of all) await agents.start(answer(config.name), config, { agents: all })
  // An agent of its own process knows that too.
  await agents.start(answer('other'), named('other', { session: 'default' }))
  await passed(agents, 6000)
  const say = async (text: string, from: string, to: string) => {
    await agents.library.sandbox.say(text, { from, to })
    return (await agents.gets(1, from))[0]!.split('\n').map(line => line.split(':')[0])
  }
  const [own] = [...agents.library.bots.values()]
  expect(await say('/agents', mum!.user_id, mum!.bot_id)).toEqual(['→ family'])
  expect(await say('/agents', kid, own!.bot_id)).toEqual(['→ small'])
  expect((await say('/agents', own!.user_id, own!.bot_id)).slice(0, 3)).toEqual(['→ home', 'code', 'other'])
  const friend = await agents.library.sandbox.addUser('friend')
  expect(await say('/agents', friend, own!.bot_id)).toEqual(['→ home'])
})

test('an agent of another person’s settings does not count: strangers stay strangers, and are told of once', async () => {
  const { agents, say } = await withTwo('two processes')
  await using _ = agents
  await say('hi')
  const friend = await agents.library.sandbox.addUser('friend')
  await agents.start(answer('open'), named('open', { users: { [friend]: {} } }))
  const other = await agents.library.sandbox.addUser('other')
  await agents.say('@home hi', friend)
  expect(await agents.gets(1, friend)).toEqual(['open got @home hi'])
  await agents.say('hi', other)
  await agents.gets(2)
  await settled(agents, 3)
  expect([await agents.got(other), (await agents.got()).length]).toEqual([[], 2])
})

test('notices of a turn, and what is left of an answer, begin with the name of an agent that is not chosen', async () => {
  await using agents = await withAgents()
  const { clock } = agents.library
  const code = new PlayedBackend()
  await agents.start(answer('home'), named('home'))
  await agents.start(code, named('code', { long: 'split' }))
  clock.advance(6000)
  await agents.say('@code work')
  await agents.until('it works', () => code.runs.length === 1)
  for (const ms of [50_000, 15_000]) {
    await agents.until('the time is watched', () => clock.sleeps(1, 1000))
    clock.advance(ms)
  }
  expect((await agents.gets(1))[0]).toStartWith('[code] ')
  code.runs[0]!.fail(new Error('broken'))
  expect((await agents.gets(2))[1]).toStartWith('[code] ')
  await agents.say('@code much')
  await agents.until('it works', () => code.runs.length === 2)
  code.runs[1]!.answer(Array.from({ length: 14 }, (_, nth) => `${nth} `.padEnd(3900, 'word ')).join('\n\n'))
  const texts = await agents.until('most of it came', async () => {
    const got = await agents.got()
    return got.some(text => text.includes('/more')) && got
  })
  expect(texts.at(-1)).toContain('@code /more')
  expect(texts[2]).toStartWith('[code]\n0 ')
})

/** Starts agents with questions, as `svc agent` does. */
function startWithQuestions(agents: TestAgents, all?: readonly AgentConfig[]) {
  return {
    async start(backend: PlayedBackend, config: AgentConfig) {
      const svc = await agents.library.open({ store: true })
      const stop = new AbortController()
      const { clock, dir } = agents.library
      const own = {
        agents: all ?? [config],
        clock,
        tasks: new Tasks(clock),
        log: silentLog,
        folders: agents.folders,
        dataFolder: dir,
      }
      const ended = runAgent(svc, backend, config, own, stop.signal)
      agents.defer(async () => {
        stop.abort()
        await ended
      })
      await agents.until('it reads', () => agents.count(`consumer WHERE name = 'agent-${config.name}'`) > 0)
    },
  }
}
