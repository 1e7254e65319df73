/** The commands about a conversation: earlier sessions, model, mode and folder of its agent. */
import { describe, expect, test } from 'bun:test'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import type { AgentOffers, SessionContext } from '../../src/agent/backend.ts'
import { findChoices } from '../../src/agent/steering.ts'
import { textsFor } from '../../src/agent/texts.ts'
import type { KeptSession } from '../../src/index.ts'
import { agentReads, serveHere, svc } from '../support/command.ts'
import { end } from '../support/family.ts'
import { folderOfTest } from '../support/folder.ts'
import { overhear } from '../support/overheard.ts'
import { type Json, logIn } from '../support/service.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'
import { PlayedBackend, type TestAgents, withAgents } from './support.ts'

test('what the owner chooses holds over SIGKILL, new conversations and folders, and is listed and audited', async () => {
  const home = folderOfTest()
  for (const name of ['work', 'blog']) await mkdir(join(home, name))
  await using service = await serveHere(join(home, 'data'), { home }, '--pace', 'off')
  await logIn(service)
  const place = ['-d', service.dir, '--sandbox', '--pace', 'off', '--gather', '0.1']
  const folders = ['--folder', `work=${join(home, 'work')}`, '--folder', `blog=${join(home, 'blog')}`]
  const start = async () => {
    const child = Bun.spawn(
      [...svcProgram, 'agent', ...place, ...folders, '--acp', '--', 'svc', 'echo-agent', '--acp'],
      { env: { PATH: process.env.PATH, HOME: home }, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' },
    )
    const output = overhear(child)
    const told = () => output.stdout + output.stderr
    await until('it is ready', 30_000, () => output.stdout.includes('may talk with it'), told)
    await agentReads(service.dir, 'agent')
    const kill = async () => {
      end(child.pid, 'SIGKILL')
      await output.exited
    }
    return { told, kill }
  }
  let agent = await start()
  const got = async (): Promise<string[]> => {
    const { body } = await service.call('history', { direction: 'sent', limit: 100 })
    return body.messages.map(({ text }: Json) => text).reverse()
  }
  const ask = async (text: string): Promise<string> => {
    const before = (await got()).length
    await service.phone('say', { text })
    return until(`an answer to ${text}`, 30_000, async () => (await got())[before], agent.told)
  }
  try {
    expect(await ask('about')).toBe('Mode careful, model small, folder work, message 1 of this conversation.')
    expect(await ask('/model')).toMatch(/1\. small \(current\).*\n2\. large/)
    await ask('/model 2')
    await ask('/mode FREE')
    expect(await ask('about')).toContain('free, model large, folder work, message 2 ')
    await agent.kill()
    agent = await start()
    expect(await ask('about')).toContain('free, model large, folder work, message 3 ')
    await ask('/new Garden')
    expect(await ask('about')).toContain('free, model large, folder work, message 1 ')
    const list = await ask('/sessions')
    expect(list).toMatch(/^1\. Garden \(current\).*work\n2\. about.*work\n/)
    await ask('/resume 2')
    expect(await ask('about')).toContain('free, model large, folder work, message 4 ')
    await ask('/cd blog')
    expect(await ask('about')).toContain('folder blog, message 1 ')
    await ask('/cd work')
    expect(await ask('about')).toContain('folder work, message 5 ')
    expect(await ask('/help')).toContain('/shout')
    expect(await ask('/shout hi')).toBe('HI')
    const listed = await svc(['agent', 'conversations', '--json', ...place.slice(0, 3)], { home })
    expect(JSON.parse(listed.stdout)).toMatchObject([
      { model: 'large', mode: 'free', place: 'work', title: 'about', folder: join(home, 'work') },
    ])
    const audit = await svc(['audit', '--json', '--operation', 'steer_agent', ...place.slice(0, 3)], { home })
    expect(JSON.parse(audit.stdout)).toHaveLength(5)
  } finally {
    await agent.kill()
  }
}, 120_000)

const { steer } = textsFor('')
const model = (id: string) => ({ id, name: `Model ${id}`, description: '' })
const offered: AgentOffers = {
  isSame: true,
  model: { choices: [model('small'), model('large')], current: 'small' },
  mode: {
    choices: [
      { ...model('careful'), asks: true },
      { ...model('free'), asks: false },
    ],
    current: 'careful',
  },
  commands: Array.from({ length: 12 }, (_, nth) => model(`word${nth}`)),
}

/** A backend that answers each turn with a new session unless it has one, and offers this. */
function offering(offers: AgentOffers | null = offered, own: KeptSession[] = []) {
  const looks: SessionContext[] = []
  const played = new PlayedBackend(({ text }, { agentSession }) => ({
    text: `${text} in ${agentSession}`,
    agentSession: agentSession ?? `of ${text}`,
  }))
  const backend = Object.assign(played, {
    look: async (context: SessionContext) => {
      looks.push(context)
      return offers!
    },
    listSessions: async () => own,
  })
  return { backend: offers ? backend : played, looks }
}

/** Writes something, and returns what the bot says then. */
async function ask(agents: TestAgents, text: string, user?: string): Promise<string> {
  const before = (await agents.got(user)).length
  await agents.say(text, user)
  return (await agents.gets(before + 1, user))[before]!
}

describe('earlier conversations', () => {
  test('are listed newest first, and a number means the list that the person saw last', async () => {
    await using agents = await withAgents()
    const { clock } = agents.library
    await agents.start(offering().backend)
    expect(await ask(agents, '/sessions')).toBe(steer.noSessions)
    expect(await ask(agents, '/resume 1')).toBe(steer.noSuch('resume'))
    for (const word of ['one', 'two', 'three']) {
      await ask(agents, `/new The ${word}`)
      clock.advance(60_000)
      await ask(agents, word)
    }
    const lines = (await ask(agents, '/sessions')).split('\n')
    expect(lines.slice(0, 3)).toEqual([
      steer.item(1, 'The three', true, steer.age(0)),
      steer.item(2, 'The two', false, steer.age(1)),
      steer.item(3, 'The one', false, steer.age(2)),
    ])
    await ask(agents, '/new')
    await ask(agents, 'four')
    // The list has moved on by one since.
    await ask(agents, '/resume 3')
    expect(await ask(agents, 'again')).toBe('again in of one')
    for (const wrong of ['/resume 4', '/resume 0', '/resume nothing'])
      expect(await ask(agents, wrong)).toBe(steer.noSuch('resume'))
    // WeChat takes only so many messages in a while.
    clock.advance(10 * 60_000)
    // A piece of several titles is asked back; then a number means those.
    expect((await ask(agents, '/resume the t')).split('\n')).toHaveLength(3)
    await ask(agents, '/resume 2')
    expect(await ask(agents, 'more')).toBe('more in of two')
    await ask(agents, '继续对话 FOUR')
    expect(await ask(agents, 'last')).toBe('last in of four')
  })

  test('are thirty at most, and a turn that ends after the person went elsewhere stays behind', async () => {
    await using agents = await withAgents()
    const { backend } = await agents.start()
    for (let nth = 0; nth < 32; nth++) {
      await agents.say('/new')
      await agents.say(`topic ${nth}`)
      await agents.until('a turn runs', () => backend.runs.length === nth + 1)
      backend.runs[nth]!.answer({ text: 'done', agentSession: `s${nth}` })
      await agents.until('it has ended', async () => (await agents.turns())[nth]?.ended_at)
    }
    const kept = () =>
      JSON.parse(agents.rows<{ kept: string }>('kept FROM agent_conversation WHERE session > 0')[0]!.kept)
    expect(kept().sessions.map((one: KeptSession) => one.agent_session)).toEqual(
      Array.from({ length: 30 }, (_, nth) => `s${31 - nth}`),
    )
    await agents.say('/new')
    await agents.say('slow')
    await agents.until('a turn runs', () => backend.runs.length === 33)
    await ask(agents, '/resume topic 7')
    backend.runs[32]!.answer({ text: 'done', agentSession: 'late' })
    await agents.until('it has ended', async () => (await agents.turns())[32]?.ended_at)
    expect(kept()).toMatchObject({
      title: 'topic 7',
      sessions: { 0: { agent_session: 'late', title: 'slow' } },
    })
    await agents.say('next')
    await agents.until('a turn runs', () => backend.runs.length === 34)
    expect(backend.runs[33]!.context.agentSession).toBe('s7')
    backend.runs[33]!.answer('done')
  })

  test('that the agent itself lists are for the owner alone, and only those in open folders', async () => {
    await using agents = await withAgents()
    const friend = await agents.library.sandbox.addUser('friend')
    const folder = folderOfTest()
    const listed = [
      { agent_session: 'terminal', folder, title: 'Taxes', at: 1 },
      { agent_session: 'away', folder: '/elsewhere', title: 'Away', at: 2 },
    ]
    const { backend, looks } = offering(offered, listed)
    await agents.start(backend, { allow: 'everyone', folder })
    await ask(agents, 'hello', friend)
    expect(await ask(agents, '/sessions', friend)).not.toContain('Taxes')
    expect(await ask(agents, '/resume taxes', friend)).toBe(steer.noSuch('resume'))
    expect(await ask(agents, '/sessions')).toContain('2. Taxes')
    expect(await ask(agents, '/resume 1')).toBe(steer.lost)
    await ask(agents, '/resume 2')
    expect(looks.at(-1)).toMatchObject({ agentSession: 'terminal', folder })
    expect(await ask(agents, 'sum?')).toBe('sum? in terminal')
  })

  test('that the agent does not have any more are not gone on with', async () => {
    await using agents = await withAgents()
    await agents.start(offering({ isSame: false }).backend)
    await ask(agents, 'one')
    await ask(agents, '/new')
    await ask(agents, 'two')
    expect(await ask(agents, '/resume one')).toBe(steer.lost)
    expect(await ask(agents, 'more')).toBe('more in of two')
  })
})

describe('a choice', () => {
  test('of model and mode is listed, by number, name or a part, and said if the mode does not ask', async () => {
    await using agents = await withAgents()
    const { backend, looks } = offering()
    await agents.start(backend)
    expect(await ask(agents, '/model')).toContain(steer.item(1, 'Model small', true, ''))
    expect(await ask(agents, '/model 3')).toBe(steer.noSuch('model'))
    expect((await ask(agents, '/model MODEL')).split('\n')).toHaveLength(3)
    expect(await ask(agents, '/model arg')).toBe(steer.chosen('Model large'))
    expect(await ask(agents, '/model')).toContain(steer.item(2, 'Model large', true, ''))
    expect(await ask(agents, '/mode 2')).toContain(steer.asksNot)
    await ask(agents, 'hello')
    expect(backend.runs[0]!.context).toMatchObject({ model: 'large', mode: 'free' })
    expect(await ask(agents, '/mode Model Careful')).not.toContain(steer.asksNot)
    expect(looks.at(-1)).toMatchObject({ model: 'large', mode: 'free', agentSession: 'of hello' })
    const [one] = await (await agents.library.open({ store: true })).agents.conversations()
    expect(one).toMatchObject({ model: 'large', mode: 'careful', title: 'hello' })
  })

  test('is not offered by a program without one, and is one line if the agent fails', async () => {
    await using agents = await withAgents()
    const plain = await agents.start(offering(null).backend)
    for (const word of ['/model', '/mode 1', '/cd', '/cd work'])
      expect(await ask(agents, word)).toBe(steer.none)
    await plain.stop()
    const look = () => Promise.reject(new Error('no such flag'))
    await agents.start(Object.assign(new PlayedBackend(), { look }))
    expect(await ask(agents, '/model')).toContain('no such flag')
    expect(await ask(agents, '/help')).toEndWith(`\n\n${steer.untold}`)
    expect(agents.library.lines.filter(line => line.includes(' WARNING ')).length).toBe(2)
  })

  test('that an address does not tell is one line with the reason, and its conversations go on', async () => {
    await using agents = await withAgents()
    const offers = { isSame: true, untold: new Error('no route') }
    await agents.start(offering(offers).backend)
    await ask(agents, 'one')
    await ask(agents, '/new')
    expect(await ask(agents, '/model')).toContain('no route')
    expect(await ask(agents, '/resume one')).toBe(steer.chosen('one'))
    expect(await ask(agents, '/help')).not.toContain(steer.untold)
  })

  test('with one typing error is asked back', async () => {
    await using agents = await withAgents()
    const folders = { work: folderOfTest(), blog: folderOfTest() }
    await agents.start(offering().backend, { folder: folders.work, folders })
    expect(await ask(agents, '/cd blgo')).toContain('/cd blog')
    expect(await ask(agents, '/cd blogger')).toBe(steer.noSuch('cd'))
    expect(await ask(agents, '/model Model lrge')).toContain('/model Model large')
    expect(await ask(agents, '/cd')).toContain(steer.item(1, 'work', true, ''))
  })

  test('is of the person who decides: the owner, or the operator', async () => {
    await using agents = await withAgents()
    const friend = await agents.library.sandbox.addUser('friend')
    const own = await agents.start(offering().backend, { allow: 'everyone' })
    for (const word of ['/model 2', '/mode 2', '/cd'])
      expect(await ask(agents, word, friend)).toBe(steer.notYours)
    expect(await ask(agents, '/help', friend)).toContain('/Model word0')
    await ask(agents, '/mode free')
    await own.stop()
    const boss = { allow: 'everyone', operator: friend, users: undefined } as const
    const { backend } = offering()
    await agents.start(backend, boss)
    expect(await ask(agents, '/model 2', friend)).toBe(steer.chosen('Model large'))
    expect(await ask(agents, '/model 2')).toBe(steer.notYours)
    // What the owner chose as the one who decided does not hold any more.
    await ask(agents, 'hello')
    expect(backend.runs[0]!.context.mode).toBeUndefined()
  })

  test('counts from the next turn, and a running one goes on', async () => {
    await using agents = await withAgents()
    const { backend } = await agents.start(Object.assign(new PlayedBackend(), { look: async () => offered }))
    await agents.say('long')
    await agents.until('a turn runs', () => backend.runs.length === 1)
    await agents.say('behind')
    await agents.until('a turn waits', async () => (await agents.turns()).length === 2)
    await ask(agents, '/model large')
    expect(backend.runs[0]!.context.signal.aborted).toBe(false)
    backend.runs[0]!.answer('done')
    await agents.until('the next turn runs', () => backend.runs.length === 2)
    expect(backend.runs.map(({ context }) => context.model)).toEqual([undefined, 'large'])
    backend.runs[1]!.answer('done')
  })

  test('of a folder is one of those with a name, and a file of an answer is sent from where it was made', async () => {
    await using agents = await withAgents()
    const friend = await agents.library.sandbox.addUser('friend')
    const [work, blog] = [folderOfTest(), folderOfTest()]
    const folders = { work, blog }
    const { backend } = await agents.start(new PlayedBackend(), { allow: 'everyone', folder: work, folders })
    const runsIn = async (count: number) => {
      await agents.until('a turn runs', () => backend.runs.length === count)
      return backend.runs[count - 1]!
    }
    for (const wrong of ['/cd /etc', `/cd ${folderOfTest()}`, '/cd ../works1', '/cd 3'])
      expect(await ask(agents, wrong)).toBe(steer.noSuch('cd'))
    expect(await ask(agents, '/cd ../work')).toContain('/cd work')
    expect(await ask(agents, '/cd ..')).toContain(steer.item(1, 'work', true, ''))
    await ask(agents, '/cd blog')
    await agents.say('hello')
    const run = await runsIn(1)
    expect(run.context.folder).toBe(blog)
    expect(await ask(agents, '/cd 1')).toBe(steer.chosen('work'))
    await Bun.write(join(blog, 'out.txt'), 'made')
    run.answer({ text: 'Here: [out](out.txt)', agentSession: 'b' })
    await agents.until('the file', async () => (await agents.got()).join().includes('[file out.txt]'))
    await agents.say('here')
    const next = await runsIn(2)
    expect([next.context.folder, next.context.agentSession]).toEqual([work, undefined])
    next.answer({ text: 'done', agentSession: 'w' })
    await agents.until('it has ended', async () => (await agents.turns())[1]?.ended_at)
    await ask(agents, '/cd blog')
    await agents.say('there')
    const last = await runsIn(3)
    expect([last.context.folder, last.context.agentSession]).toEqual([blog, 'b'])
    last.answer('done')
    await agents.say('hi', friend)
    expect((await runsIn(4)).context.folder).toBe(work)
  })
})

describe('while the agent does not answer what it offers', () => {
  /** An agent that answers no look and no turn; a look ends when it is given up. */
  async function silent() {
    const agents = await withAgents()
    const looks: SessionContext[] = []
    const look = (context: SessionContext) => {
      looks.push(context)
      return new Promise<never>((_, reject) =>
        context.signal.addEventListener('abort', () => reject(context.signal.reason), { once: true }),
      )
    }
    const backend = new PlayedBackend()
    await agents.start(Object.assign(backend, { look, listSessions: look }))
    /** Writes a command that asks the agent, and waits until it does. */
    const asks = async (command: string) => {
      const before = looks.length
      await agents.say(command)
      await agents.until('the agent is asked', () => looks.length > before)
    }
    return { agents, asks, backend, looks }
  }
  const { begun, idle, nothingToStop, stopped } = textsFor('')

  test.each(['/help', '/sessions', '/model', '/mode 2', '/resume a', '/status'])(
    'svc answers its other commands at once behind %s',
    async first => {
      const { agents, asks } = await silent()
      await using _ = agents
      await (first === '/status' ? ask(agents, first) : asks(first))
      const before = (await agents.got()).length
      expect(await ask(agents, '/status')).toBe(idle)
      expect(await ask(agents, '/times')).toContain('/at')
      await agents.say('/stop')
      await agents.until('it says so', async () => {
        const said = (await agents.got()).slice(before).join('\n')
        return said.includes(first === '/status' ? nothingToStop : stopped(0))
      })
      expect(await ask(agents, '/new')).toContain(begun)
    },
  )

  test('the person hears that its program is starting', async () => {
    const { agents, asks, looks } = await silent()
    await using _ = agents
    await asks('/model')
    looks[0]!.noteStarting!()
    await agents.gets(1)
    agents.library.clock.advance(30_000)
    expect((await agents.gets(2))[0]).toBe(textsFor('').starting())
  })

  test('a further such command waits, and /new gives both up', async () => {
    const { agents, asks, looks } = await silent()
    await using _ = agents
    await asks('/model 2')
    await agents.say('/mode 2')
    expect(await ask(agents, '/status')).toBe(idle)
    expect(looks).toHaveLength(1)
    expect(await ask(agents, '/new')).toBe(`${stopped(0)} ${begun}`)
    expect(looks[0]!.signal.aborted).toBe(true)
    // The next one is asked again.
    await asks('/mode 2')
    expect(await agents.got()).toHaveLength(2)
  })

  test('a turn waits for the choice before it, and /stop drops it', async () => {
    const { agents, asks, backend } = await silent()
    await using _ = agents
    await asks('/model 2')
    await agents.say('hello')
    await agents.become('waiting')
    await ask(agents, '/status')
    expect(backend.runs).toHaveLength(0)
    expect(await ask(agents, '/stop')).toBe(stopped(1))
    await agents.become('stopped')
    expect(backend.runs).toHaveLength(0)
  })
})

test.each(['hello', '你好'])('help after %s has a line for each command', async said => {
  await using agents = await withAgents()
  const answers = () => new PlayedBackend(() => 'ok')
  await agents.start(answers())
  await agents.start(answers(), { name: 'other' })
  agents.library.clock.advance(6000)
  await ask(agents, said)
  const help = await ask(agents, '/help')
  const lines = help.split('\n')
  const words =
    '/stop /new /sessions /resume /more /status /model /mode /cd /agents /use @ /at /times /cancel'
  const places = words
    .split(' ')
    .map(word => lines.findIndex(line => new RegExp(`${word}(?![a-z])`, 'u').test(line)))
  expect(places).not.toContain(-1)
  expect(new Set(places).size).toBe(places.length)
  expect(help.length).toBeLessThan(1000)
})

test('the commands of the agent are named by /help, the first ten', async () => {
  await using agents = await withAgents()
  await agents.start(offering().backend)
  const lines = (await ask(agents, '/help')).split('\n')
  expect(lines.filter(line => line.startsWith('/Model word'))).toHaveLength(10)
})

test('a number or an exact name is taken before a part of a name', () => {
  const all = ['gpt-4', 'gpt-4o', 'O3'].map(id => ({ id, name: id, description: '' }))
  const found = (said: string) => findChoices(all, said).map(({ id }) => id)
  expect(found('gpt-4')).toEqual(['gpt-4'])
  expect(found(' ３ ')).toEqual(['O3'])
  expect(found('o3')).toEqual(['O3'])
  expect(found('4')).toEqual([])
  expect(found('GPT')).toEqual(['gpt-4', 'gpt-4o'])
  expect(found('')).toHaveLength(3)
})
