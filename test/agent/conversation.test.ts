/** Conversations of users with an agent: turns, bursts, commands, limits. */
import { expect, test } from 'bun:test'
import { textsFor } from '../../src/agent/texts.ts'
import { failure } from '../support/failure.ts'
import { PlayedBackend, withAgents } from './support.ts'

const echo = () =>
  new PlayedBackend(({ text }, { agentSession = '0' }) => ({
    text: `${text} (${agentSession})`,
    agentSession: String(Number(agentSession) + 1),
  }))

test('30 turns of one conversation, each with the agent session of the one before', async () => {
  await using agents = await withAgents()
  await agents.start(echo())
  for (let nth = 0; nth < 30; nth++) {
    await agents.say(`question ${nth}`)
    const texts = await agents.gets(nth + 1)
    expect(texts[nth]).toBe(`question ${nth} (${nth})`)
  }
  await agents.become(...Array(30).fill('answered'))
})

test('three users at once, each with a session and a folder of its own', async () => {
  await using agents = await withAgents()
  const users = [
    agents.owner,
    await agents.library.sandbox.addUser('b'),
    await agents.library.sandbox.addUser('c'),
  ]
  const { backend } = await agents.start(new PlayedBackend(), { allow: 'everyone' })
  for (const [nth, user] of users.entries()) await agents.say(`from ${nth}`, user)
  await agents.until('three turns run', () => backend.runs.length === 3)
  expect(backend.most).toBe(3)
  expect(new Set(backend.runs.map(({ context }) => context.folder)).size).toBe(3)
  for (const run of backend.runs) run.answer({ text: `to ${run.prompt.text}`, agentSession: run.prompt.text })
  for (const [nth, user] of users.entries()) {
    expect(await agents.gets(1, user)).toEqual([`to from ${nth}`])
    await agents.say('again', user)
  }
  await agents.until('three more', () => backend.runs.length === 6)
  const sessions = backend.runs.slice(3).map(({ context }) => context.agentSession)
  expect(sessions.sort()).toEqual(['from 0', 'from 1', 'from 2'])
})

test('five messages while the agent works are answered one after another, in order', async () => {
  await using agents = await withAgents()
  const { backend } = await agents.start()
  await agents.say('first')
  await agents.until('a turn runs', () => backend.runs.length === 1)
  for (let nth = 1; nth <= 5; nth++) {
    await agents.say(`more ${nth}`)
    await agents.until('a turn waits', async () => (await agents.turns()).length === nth + 1)
  }
  expect(backend.runs.length).toBe(1)
  for (let nth = 0; nth <= 5; nth++) {
    await agents.until('the next turn runs', () => backend.runs.length === nth + 1)
    backend.runs[nth]?.answer(`to ${backend.runs[nth]?.prompt.text}`)
  }
  expect(await agents.gets(6)).toEqual(['to first', ...[1, 2, 3, 4, 5].map(nth => `to more ${nth}`)])
  expect(backend.most).toBe(1)
})

test('three photos and a text within two seconds are one turn', async () => {
  await using agents = await withAgents()
  const { clock, sandbox } = agents.library
  const agent = await agents.start(new PlayedBackend(), { gatherMs: 30_000 })
  const { backend } = agent
  for (let nth = 1; nth <= 3; nth++) await sandbox.media('image', photo)
  await agents.say('what are these?')
  await agents.until('they were taken', () => agent.taken === 4)
  expect(await agents.turns()).toEqual([])
  clock.advance(10_000)
  await agents.until('a turn runs', () => backend.runs.length === 1)
  const [run] = backend.runs
  expect(run?.prompt.files.map(({ kind, type }) => [kind, type])).toEqual(
    Array(3).fill(['image', 'image/png']),
  )
  expect(run?.prompt.text).toEndWith('what are these?')
  for (const { path } of run?.prompt.files ?? []) {
    expect(path).toStartWith(run!.context.folder)
    expect(await Bun.file(path).bytes()).toEqual(photo)
  }
  run?.answer('three dots')
  expect(await agents.gets(1)).toEqual(['three dots'])
  expect((await agents.turns())[0]?.messages).toHaveLength(4)
})

for (const stop of ['/stop', '停止', ' ／STOP ']) {
  test(`"${stop}" stops the turn and what waits, is never prompted, and the next message works`, async () => {
    await using agents = await withAgents()
    const { backend } = await agents.start()
    await agents.say('long work')
    await agents.until('a turn runs', () => backend.runs.length === 1)
    await agents.say('and then this')
    await agents.until('a turn waits', async () => (await agents.turns()).length === 2)
    await agents.say(stop)
    await agents.gets(1)
    expect(backend.runs[0]?.context.signal.aborted).toBe(true)
    await agents.say('hello')
    await agents.until('the next turn runs', () => backend.runs.length === 2)
    backend.runs[1]?.answer('hi')
    expect(await agents.gets(2)).toEqual([expect.any(String), 'hi'])
    expect(backend.prompts).toEqual(['long work', 'hello'])
    await agents.become('stopped', 'stopped', 'answered')
  })
}

test('/stop right behind a message stops that message', async () => {
  await using agents = await withAgents()
  const { backend } = await agents.start(new PlayedBackend(), { gatherMs: 30_000 })
  await agents.say('do not do this')
  await agents.say('/stop')
  await agents.gets(1)
  await agents.become('stopped')
  expect(backend.runs).toEqual([])
})

test('a turn says by which command it was ended, also one that waited', async () => {
  await using agents = await withAgents()
  const { backend } = await agents.start()
  for (const [nth, command] of ['/stop', '/new'].entries()) {
    await agents.say('one')
    await agents.until('a turn runs', () => backend.runs.length === nth + 1)
    await agents.say('two')
    await agents.until('one waits', async () => (await agents.turns()).length === 2 * nth + 2)
    await agents.say(command)
    await agents.become(...Array(2 * nth + 2).fill('stopped'))
  }
  const [stopped, waited, ...ended] = (await agents.turns()).map(({ error }) => error)
  expect(waited).toBe(stopped)
  expect(ended[0]).not.toBe(stopped)
  expect(ended[1]).toBe(ended[0])
})

test('/new begins a new agent session, also while a turn runs; /status and /help answer', async () => {
  await using agents = await withAgents()
  const { backend } = await agents.start()
  await agents.say('one')
  await agents.until('a turn runs', () => backend.runs.length === 1)
  backend.runs[0]?.answer({ text: 'answer one', agentSession: 'old' })
  await agents.gets(1)
  await agents.say('two')
  await agents.until('a turn runs', () => backend.runs.length === 2)
  expect(backend.runs[1]?.context.agentSession).toBe('old')
  await agents.say('/status')
  await agents.gets(2)
  await agents.say('新对话')
  await agents.gets(3)
  await agents.say('/help')
  await agents.gets(4)
  await agents.say('three')
  await agents.until('a turn runs', () => backend.runs.length === 3)
  expect(backend.runs[2]?.context.agentSession).toBeUndefined()
  backend.runs[2]?.answer('answer three')
  await agents.gets(5)
  expect(backend.prompts).toEqual(['one', 'two', 'three'])
})

test('without commands, they are messages', async () => {
  await using agents = await withAgents()
  const { backend } = await agents.start(undefined, { commands: false })
  await agents.say('/stop')
  await agents.until('a turn runs', () => backend.runs.length === 1)
  expect(backend.prompts).toEqual(['/stop'])
})

test('with interrupt, a new message stops the turn, and is answered', async () => {
  await using agents = await withAgents()
  const { backend } = await agents.start(undefined, { interrupt: true })
  await agents.say('slow')
  await agents.until('a turn runs', () => backend.runs.length === 1)
  await agents.say('quick')
  await agents.until('the next turn runs', () => backend.runs.length === 2)
  expect(backend.runs[0]?.context.signal.aborted).toBe(true)
  backend.runs[1]?.answer('done')
  expect(await agents.gets(1)).toEqual(['done'])
  await agents.become('stopped', 'answered')
})

test('a failing agent: the owner gets the reason in one line and in their language, others a sentence', async () => {
  await using agents = await withAgents()
  const friend = await agents.library.sandbox.addUser('friend')
  const { backend } = await agents.start(undefined, { allow: 'everyone' })
  const fail = async (said: string, user: string, nth: number) => {
    await agents.say(said, user)
    await agents.until('a turn runs', () => backend.runs.length === nth)
    backend.runs[nth - 1]?.fail(new Error(`first line\ndisk on fire sk-${'a1'.repeat(12)}`))
    await agents.until('it has ended', async () => (await agents.turns())[nth - 1]?.ended_at)
  }
  await fail('hello', agents.owner, 1)
  await fail('你好', agents.owner, 2)
  const own = await agents.gets(2)
  expect(own.map(text => /\p{Script=Han}/u.test(text))).toEqual([false, true])
  for (const text of own) {
    expect(text).toContain('disk on fire …')
    expect(text.split('\n')).toHaveLength(1)
  }
  await fail('hi', friend, 3)
  expect(await agents.gets(1, friend)).not.toContain(expect.stringContaining('fire'))
  // The owner hears of it, once for the same reason on a day.
  expect((await agents.gets(3))[2]).toContain('disk on fire …')
  await fail('hi again', friend, 4)
  await agents.gets(2, friend)
  expect(await agents.got()).toHaveLength(3)
  expect((await agents.turns())[0]?.error).toStartWith('first line')
})

test('a turn that takes too long is stopped, and the user is told', async () => {
  await using agents = await withAgents()
  const { clock } = agents.library
  const { backend } = await agents.start(undefined, { minutesPerTurn: 10 })
  await agents.say('hello')
  await agents.until('a turn runs', () => backend.runs.length === 1)
  await agents.until('the time is watched', () => clock.sleeps(1, 1000))
  clock.advance(10 * 60_000 + 1000)
  await agents.gets(1)
  await agents.become('failed')
})

test('more turns than a day allows are not run; whoever writes is told, once for what waits', async () => {
  await using agents = await withAgents()
  const { backend } = await agents.start(undefined, { turnsPerDay: 2 })
  for (let nth = 1; nth <= 2; nth++) {
    await agents.say(`message ${nth}`)
    await agents.until('it runs', () => backend.runs.length === nth)
    if (nth === 1) backend.runs[0]?.answer('hi')
  }
  for (let nth = 3; nth <= 5; nth++) {
    await agents.say(`message ${nth}`)
    await agents.until('it waits', async () => (await agents.turns()).length === nth)
  }
  backend.runs[1]?.answer('hi')
  await agents.become('answered', 'answered', 'failed', 'failed', 'failed')
  expect(await agents.got()).toHaveLength(3)
  await agents.say('one more')
  expect(await agents.gets(4)).toHaveLength(4)
  expect(backend.runs.length).toBe(2)
})

test('after a minute without a word the user is told once that it still works', async () => {
  await using agents = await withAgents()
  const { clock } = agents.library
  const { backend } = await agents.start()
  await agents.say('hello')
  await agents.until('a turn runs', () => backend.runs.length === 1)
  const pass = async (ms: number) => {
    await agents.until('the time is watched', () => clock.sleeps(1, 1000))
    clock.advance(ms)
  }
  await pass(50_000)
  await pass(15_000)
  await agents.gets(1)
  await pass(100_000)
  await pass(100_000)
  backend.runs[0]?.answer('done')
  expect((await agents.gets(2))[1]).toBe('done')
})

test('while its program does not answer yet, the user is told once that it starts', async () => {
  await using agents = await withAgents()
  const { backend } = await agents.start()
  await agents.say('hello')
  await agents.until('a turn runs', () => backend.runs.length === 1)
  backend.runs[0]!.context.noteStarting!()
  expect(await agents.gets(1)).toEqual([textsFor('').starting()])
  backend.runs[0]!.context.noteStarting!()
  backend.runs[0]!.answer('done')
  expect((await agents.gets(2))[1]).toBe('done')
})

test('what waits behind a turn that takes its time is acknowledged once', async () => {
  await using agents = await withAgents()
  const { clock } = agents.library
  const { backend } = await agents.start()
  await agents.say('one')
  await agents.until('a turn runs', () => backend.runs.length === 1)
  for (let nth = 2; nth <= 3; nth++) {
    await agents.say('another')
    await agents.until('it waits', async () => (await agents.turns()).length === nth)
    clock.advance(16_000)
    await agents.gets(1)
  }
  clock.advance(120_000)
  for (let nth = 0; nth < 3; nth++) {
    await agents.until('it runs', () => backend.runs.length === nth + 1)
    backend.runs[nth]?.answer(`answer ${nth}`)
  }
  expect((await agents.gets(4)).slice(1)).toEqual(['answer 0', 'answer 1', 'answer 2'])
})

test.each(['and the docs', '还有文档'])(
  'a message beside an open question is acknowledged once: %s',
  async text => {
    await using agents = await withAgents()
    const { clock } = agents.library
    const question = Promise.withResolvers<string>()
    const { backend } = await agents.start(undefined, {}, { questions: { ask: () => question.promise } })
    await agents.say('clean up')
    await agents.until('a turn runs', () => backend.runs.length === 1)
    const answer = backend.runs[0]!.context.ask({ text: 'delete it', options: [] })
    clock.advance(120_000)
    await agents.until('it looked', () => clock.sleeps(900, 1000))
    expect(await agents.got()).toEqual([])
    for (let nth = 2; nth <= 3; nth++) {
      await agents.say(text)
      await agents.until('it waits', async () => (await agents.turns()).length === nth)
      clock.advance(1000)
      const [notice = ''] = await agents.gets(1)
      expect(/\p{Script=Han}/u.test(notice)).toBe(/\p{Script=Han}/u.test(text))
      clock.advance(120_000)
    }
    question.resolve('no')
    await answer
    for (let nth = 0; nth < 3; nth++) {
      await agents.until('it runs', () => backend.runs.length === nth + 1)
      backend.runs[nth]?.answer(`answer ${nth}`)
    }
    expect((await agents.gets(4)).slice(1)).toEqual(['answer 0', 'answer 1', 'answer 2'])
  },
)

test('with one answer left, nothing is said about a long turn', async () => {
  await using agents = await withAgents()
  const { clock } = agents.library
  const { backend, svc } = await agents.start()
  await agents.say('hello')
  await agents.until('a turn runs', () => backend.runs.length === 1)
  for (let nth = 0; nth < 9; nth++) await svc.send({ to: agents.owner, text: `other ${nth}` })
  await agents.until('the time is watched', () => clock.sleeps(1, 1000))
  clock.advance(120_000)
  await agents.until('it looked', () => clock.sleeps(900, 1000))
  backend.runs[0]?.answer('done')
  expect((await agents.gets(10))[9]).toStartWith('done')
})

test('a turn stopped from outside ends, and the user is told', async () => {
  await using agents = await withAgents()
  const { backend, svc } = await agents.start()
  await agents.say('hello')
  await agents.until('a turn runs', () => backend.runs.length === 1)
  await svc.agents.stop((await agents.turns())[0]!.id)
  await agents.gets(1)
  await agents.become('stopped')
  expect(backend.runs[0]?.context.signal.aborted).toBe(true)
})

test('an injected turn is answered to the user, with a session of its own if it is fresh', async () => {
  await using agents = await withAgents()
  const { backend, svc } = await agents.start()
  await agents.say('hello')
  await agents.until('a turn runs', () => backend.runs.length === 1)
  backend.runs[0]?.answer({ text: 'hi', agentSession: 'own' })
  await agents.gets(1)
  await svc.agents.inject(agents.owner, 'the daily report', { agent: 'agent', fresh: true })
  await agents.until('a turn runs', () => backend.runs.length === 2)
  expect(backend.runs[1]).toMatchObject({ prompt: { text: 'the daily report', files: [] } })
  expect(backend.runs[1]?.context.agentSession).toBeUndefined()
  backend.runs[1]?.answer({ text: 'all is well', agentSession: 'other' })
  expect(await agents.gets(2)).toEqual(['hi', 'all is well'])
  await svc.agents.inject(agents.owner, 'and now?', { agent: 'agent' })
  await agents.until('a turn runs', () => backend.runs.length === 3)
  expect(backend.runs[2]?.context.agentSession).toBe('own')
  backend.runs[2]?.answer('still')
  await agents.gets(3)
})

test('without a name, an injected turn goes to the agent that runs', async () => {
  await using agents = await withAgents()
  const inject = async () => (await one.svc.agents.inject(agents.owner, 'report')).agent
  const answer = () => new PlayedBackend(() => 'hi')
  const one = await agents.start(answer(), { name: 'one' })
  await agents.say('hello')
  await agents.become('answered')
  expect(await inject()).toBe('one')
  // Of several, the one that the user talked with.
  const other = await agents.start(answer(), { name: 'other' })
  expect(await inject()).toBe('one')
  // One that ran before is none that runs.
  const { svc } = other
  await one.stop()
  expect((await svc.agents.inject(agents.owner, 'report')).agent).toBe('other')
  await other.stop()
  const next = await agents.start(answer(), { name: 'third' })
  await agents.start(answer(), { name: 'fourth' })
  expect(await failure(next.svc.agents.inject(agents.owner, 'report'))).toMatchObject({
    code: 'invalid_arguments',
  })
})

test('an agent warns of names that nobody has', async () => {
  await using agents = await withAgents()
  const warnings = () => agents.library.lines.filter(line => line.includes('WARNING'))
  await agents.start(undefined, { name: 'one', allow: ['Mum', 'a@im.wechat'] })
  await agents.until('it warns', () => warnings().length === 1)
  expect(warnings()[0]).toContain('Mum')
})

test('no more than eight turns run at a time', async () => {
  await using agents = await withAgents()
  const { backend } = await agents.start(undefined, { allow: 'everyone' })
  const users = await Promise.all(
    Array.from({ length: 10 }, (_, nth) => agents.library.sandbox.addUser(`u${nth}`)),
  )
  for (const user of users) await agents.say('hello', user)
  await agents.until('eight run', () => backend.runs.length === 8)
  await agents.until('two wait', async () => (await agents.turns()).length === 10)
  for (let nth = 0; nth < 10; nth++) {
    await agents.until('it runs', () => backend.runs.length > nth)
    backend.runs[nth]?.answer('hi')
  }
  for (const user of users) expect(await agents.gets(1, user)).toEqual(['hi'])
  expect(backend.most).toBe(8)
})

const photo = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)

test('a voice is handed over with its transcript: WeChat’s, or that of a command', async () => {
  await using agents = await withAgents()
  const { backend } = await agents.start(new PlayedBackend(() => 'heard'), {
    transcribe: 'printf "said in %s"',
  })
  await agents.library.sandbox.media('voice', photo, { transcript: 'by WeChat' })
  await agents.gets(1)
  await agents.library.sandbox.media('voice', photo)
  await agents.gets(2)
  const [first, second] = backend.runs.map(({ prompt }) => prompt.files[0])
  expect(first).toMatchObject({ kind: 'voice', transcript: 'by WeChat' })
  expect(second).toMatchObject({ kind: 'voice', transcript: `said in ${second?.path}` })
  expect(backend.prompts[1]).toContain(`said in ${second?.path}`)
})

test('a command that fails leaves the voice without a transcript', async () => {
  await using agents = await withAgents()
  const { backend } = await agents.start(new PlayedBackend(() => 'heard'), { transcribe: 'exit 3;' })
  await agents.library.sandbox.media('voice', photo)
  await agents.gets(1)
  expect(backend.runs[0]?.prompt.files).toMatchObject([{ kind: 'voice' }])
  expect(backend.runs[0]?.prompt.files[0]?.transcript).toBeUndefined()
})
