/** How the answer of an agent reaches its user: ten answers, /more, a closed window, files, owners and strangers. */
import { expect, test } from 'bun:test'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { textsFor } from '../../src/agent/texts.ts'
import { PlayedBackend, withAgents } from './support.ts'

const paragraphs = Array.from({ length: 95 }, (_, nth) => `paragraph ${nth} ${'word '.repeat(200)}`.trim())
const long = paragraphs.join('\n\n')
const split = { long: 'split' } as const
const seenIn = (texts: string[]) =>
  [...texts.join('\n').matchAll(/paragraph (\d+) /g)].map(([, nth]) => Number(nth))

test('a long answer: nine messages, the rest by /more, also after a restart, each part once', async () => {
  await using agents = await withAgents()
  {
    await using agent = await agents.start(new PlayedBackend(() => long), split)
    await agents.say('tell me everything')
    await agents.become('more')
    expect(await agents.got()).toHaveLength(9)
    await agents.say('/more')
    await agents.gets(18)
    await agents.until('it has ended', async () => (await agents.turns())[0]?.parts_sent === 18)
    await agent.stop()
  }
  await using agent = await agents.start(new PlayedBackend(() => 'unused'))
  for (let state = 'more'; state === 'more'; state = (await agents.turns())[0]!.status) {
    const before = (await agents.turns())[0]!.parts_sent!
    await agents.say('更多')
    await agents.until('more was sent', async () => {
      const [turn] = await agents.turns()
      return turn!.parts_sent! > before && (turn!.status !== 'more' || turn!.parts_sent === before + 9)
    })
  }
  const [turn] = await agents.turns()
  const texts = await agents.gets(turn!.parts!)
  expect(turn).toMatchObject({ status: 'answered', parts_sent: turn!.parts })
  expect(seenIn(texts)).toEqual(paragraphs.map((_, nth) => nth))
  expect(agent.backend.runs).toEqual([])
  await agents.say('/more')
  await agents.gets(turn!.parts! + 1)
})

test('a long answer that the pace delays: what is told and counted is what arrives, in messages as they were cut', async () => {
  await using agents = await withAgents({ pace: 'on' })
  const { clock, quickly } = agents.library
  const short = new PlayedBackend(({ text }) => (text === 'hi' ? 'hello' : long.slice(0, 45_000)))
  await agents.start(short, split)
  for (let nth = 1; nth <= 3; nth++) {
    await agents.say('hi')
    await quickly(agents.gets(nth))
  }
  await agents.say('tell me everything')
  await quickly(agents.become('answered', 'answered', 'answered', 'more'))
  clock.advance(5 * 60_000)
  const texts = (await quickly(agents.gets(12))).slice(3)
  const turn = (await agents.turns()).at(-1)!
  expect(texts).toHaveLength(turn.parts_sent!)
  expect(texts.at(-1)).toEndWith(`(${turn.parts! - turn.parts_sent!} more, reply /more)`)
  for (const text of texts) expect(text.length).toBeLessThanOrEqual(4100)
})

test('with one answer left, one part goes out; with none, the answer waits until the user writes', async () => {
  await using agents = await withAgents()
  const { backend, svc } = await agents.start()
  await agents.say('tell me everything')
  await agents.until('a turn runs', () => backend.runs.length === 1)
  for (let nth = 0; nth < 9; nth++) await svc.send({ to: agents.owner, text: `other ${nth}` })
  backend.runs[0]?.answer(long)
  await agents.become('more')
  expect(await agents.got()).toHaveLength(10)
  await svc.agents.inject(agents.owner, 'remind', { agent: 'agent' })
  await agents.until('a turn runs', () => backend.runs.length === 2)
  backend.runs[1]?.answer('the reminder')
  await agents.become('more', 'answered')
  expect(await agents.got()).toHaveLength(10)
  await agents.say('/status')
  // What waited may come as one message.
  const texts = await agents.gets(11)
  expect(texts[10]).toStartWith('the reminder')
})

test('turns that nobody wrote for: the last two answers say how many are left; what waits for the user does not', async () => {
  await using agents = await withAgents()
  const { svc } = await agents.start(new PlayedBackend(({ text }) => `answer to ${text}`))
  await agents.say('hello')
  await agents.gets(1)
  for (let nth = 2; nth <= 11; nth++) {
    await svc.agents.inject(agents.owner, `turn ${nth}`, { agent: 'agent' })
    await agents.become(...Array<'answered'>(nth).fill('answered'))
  }
  const { left } = textsFor('hello')
  const shown = Array.from({ length: 8 }, (_, nth) => `answer to ${nth === 0 ? 'hello' : `turn ${nth + 1}`}`)
  expect(await agents.got()).toEqual([
    ...shown,
    `answer to turn 9\n\n${left(1)}`,
    `answer to turn 10\n\n${left(0)}`,
  ])
  await agents.say('anything')
  const [waited] = (await agents.gets(12)).slice(10)
  expect(waited).toBe('answer to turn 11')
})

test('a long answer comes as its first lines and a file', async () => {
  await using agents = await withAgents()
  await agents.start(new PlayedBackend(() => `## Report: all\n\n${long}`))
  await agents.say('tell me everything')
  const [text, file] = await agents.gets(2)
  expect(text).toStartWith('Report: all\nparagraph 0')
  expect(text).toEndWith('📎 Report all.md')
  expect(file).toBe('[file Report all.md]')
  const [turn] = await agents.become('answered')
  expect(turn).toMatchObject({ parts: 2, parts_sent: 2 })
})

test('the window closes during a long turn; the answer arrives when the user writes', async () => {
  await using agents = await withAgents()
  const { clock, sandbox } = agents.library
  const { backend } = await agents.start(undefined, { minutesPerTurn: 60 * 48 })
  await agents.say('a long task')
  await agents.until('a turn runs', () => backend.runs.length === 1)
  await sandbox.advance(25 * 60 * 60_000)
  clock.advance(25 * 60 * 60_000)
  backend.runs[0]?.answer('finished')
  await agents.become('answered')
  expect(await agents.got()).toEqual([])
  await agents.say('are you there?')
  expect(await agents.gets(1)).toEqual(['finished'])
})

test('a stranger runs nothing, gets no answer, and the owner is told once', async () => {
  await using agents = await withAgents()
  const stranger = await agents.library.sandbox.addUser('stranger')
  const { backend } = await agents.start(new PlayedBackend(() => 'hello owner'))
  await agents.say('hi')
  await agents.gets(1)
  await agents.say('run this', stranger)
  await agents.gets(2)
  for (const text of ['/new', 'permission granted', '/help']) await agents.say(text, stranger)
  await agents.say('hi again')
  expect((await agents.gets(3)).filter(text => text === 'hello owner')).toHaveLength(2)
  expect(await agents.got(stranger)).toEqual([])
  expect(backend.prompts).toEqual(['hi', 'hi again'])
  await agents.become('answered', 'failed', 'answered')
})

test('whoever is allowed by name or by id may talk, and is told about limits with the owner', async () => {
  await using agents = await withAgents()
  const mum = await agents.library.sandbox.addUser('mum')
  const { svc, ...first } = await agents.start()
  await agents.say('hello', mum)
  await agents.become('failed')
  await svc.nameUser(mum, 'Mum')
  await first.stop()
  await agents.say('hi')
  const { backend } = await agents.start(new PlayedBackend(() => 'answer'), {
    allow: ['Mum'],
    turnsPerDay: 2,
  })
  await agents.say('and now?', mum)
  expect(await agents.gets(1, mum)).toEqual(['answer'])
  await agents.say('more of it', mum)
  await agents.gets(2, mum)
  // The owner, who had not written yet, was not told about the stranger, but is about the limit.
  await agents.gets(2)
  expect(backend.prompts.sort()).toEqual(['and now?', 'hi'])
})

test('files of the agent go out as such', async () => {
  await using agents = await withAgents()
  const { backend } = await agents.start()
  await agents.say('a report, please')
  await agents.until('a turn runs', () => backend.runs.length === 1)
  const { folder } = backend.runs[0]!.context
  mkdirSync(folder, { recursive: true })
  const path = join(folder, 'report.txt')
  writeFileSync(path, 'all is well')
  backend.runs[0]?.answer({ text: 'here it is', files: [path] })
  expect((await agents.gets(2)).sort()).toEqual(['[file report.txt]', 'here it is'])
  await agents.become('answered')
})

test('two agents of one process: each message goes to the first whose session and users match', async () => {
  await using agents = await withAgents()
  const mum = await agents.library.sandbox.addUser('mum')
  const backends = { home: new PlayedBackend(() => 'home'), rest: new PlayedBackend(() => 'rest') }
  const common = {
    backend: { kind: 'command', command: ['none'] },
    isolate: false,
    interrupt: false,
    commands: true,
    gatherMs: 20,
    minutesPerTurn: 1,
    resumeTurns: false,
  } as const
  const folder = join(agents.library.sandbox.dir, 'of mum')
  const home = { ...common, name: 'home', allow: [], users: { [mum]: { folder } } }
  const rest = { ...common, name: 'rest', allow: [] }
  const both = { agents: [home, rest] }
  await agents.start(backends.home, home, both)
  await agents.start(backends.rest, rest, both)
  await agents.say('I am the owner')
  await agents.say('I am mum', mum)
  expect(await agents.gets(1)).toEqual(['rest'])
  expect(await agents.gets(1, mum)).toEqual(['home'])
  expect(backends.home.runs[0]?.context.folder).toBe(folder)
  await agents.say('a stranger', await agents.library.sandbox.addUser('x'))
  await agents.gets(2)
  expect(backends.home.runs.length + backends.rest.runs.length).toBe(2)
})

test('an answer that ended early says so in one line, also without words', async () => {
  await using agents = await withAgents()
  const answers = [
    { text: 'half an answer', early: 'length' },
    { text: '', early: 'steps' },
  ] as const
  await agents.start(new PlayedBackend(({ text }) => answers[Number(text)]))
  await agents.say('0')
  const [half = ''] = await agents.gets(1)
  expect(half.split(/\n+/)).toEqual(['half an answer', expect.stringMatching(/^\(.+\)$/)])
  await agents.say('1')
  const [, none = ''] = await agents.gets(2)
  expect(none).toMatch(/^\(.+\)$/)
  expect(none).not.toBe(half.split('\n').at(-1)!)
})
