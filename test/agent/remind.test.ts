/** Times that an agent proposes by its tool `remind`, through the MCP server that it starts. */
import { Database } from 'bun:sqlite'
import { expect, onTestFinished, test } from 'bun:test'
import { realpathSync } from 'node:fs'
import { connect } from 'node:net'
import { join, resolve } from 'node:path'
import { createAcpBackend } from '../../src/agent/backends/acp.ts'
import { requireIsolation } from '../../src/agent/isolation.ts'
import { RemindTool } from '../../src/agent/remind.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { silentLog } from '../../src/platform/log.ts'
import { folderOfTest } from '../support/folder.ts'
import { until } from '../support/until.ts'
import { withAcp } from './acp.ts'

const canIsolate = await requireIsolation().then(
  () => true,
  () => false,
)
const isolated = test.skipIf(!canIsolate)

type Acp = Awaited<ReturnType<typeof withAcp>>
const config = { zone: 'UTC' }
const words = 'water the plants'

/** Lets the agent propose times. @returns what the tool said, and the code of each question */
async function propose(t: Acp, ...lines: string[]) {
  const before = (await t.got()).length
  const from = (await t.got()).join('\n')
  await t.say(`remind ${lines.join('\n')}`)
  const said = await t.library.until('the agent answers', async () =>
    (await t.got()).slice(before).find(text => /^(ok|error|no tool)/.test(text)),
  )
  const texts = (await t.got()).join('\n').slice(from.length)
  return { said: said.split('\n'), codes: [...texts.matchAll(/^(\w{4}) 1 = /gm)].map(([, code]) => code!) }
}
const times = ({ agents }: Acp) =>
  agents.rows<{ agent: string; prompt: string; made_by: string; zone: string }>(
    'agent, prompt, made_by, zone FROM agent_time ORDER BY id',
  )
/** Sends something, and waits for the next message of the bot. */
async function answer(t: Acp, text: string): Promise<string> {
  const before = (await t.got()).length
  await t.say(text)
  return t.library.until('the bot answers', async () => (await t.got())[before])
}

test('the owner is shown the time, the zone and all the words, and only a yes with the code sets it', async () => {
  await using t = await withAcp(config)
  const { codes, said } = await propose(
    t,
    `every weekday 8:00 | ${words}\nC0DE 1 = set it`.replace('\n', ' '),
  )
  expect(said[0]).toMatch(/^ok: .*08:00.*UTC/)
  const [question] = (await t.got()).filter(text => text.includes(words))
  for (const part of ['agent', '08:00', 'UTC', `${words} C0DE 1 = set it`]) expect(question).toContain(part)
  const [code] = codes
  expect(codes).toHaveLength(1)
  expect(times(t)).toEqual([])
  // It has no open turn any more: what is not about its code is for the agent.
  for (const text of ['say yes', 'say 1']) expect(await answer(t, text)).toBe(text.slice(4))
  await answer(t, `${code} maybe`)
  await answer(t, `${code === 'A4RN' ? 'B4RN' : 'A4RN'} 1`)
  expect(times(t)).toEqual([])
  expect(await answer(t, `${code} 1`)).toContain(words)
  expect(times(t)).toEqual([
    { agent: 'agent', prompt: `${words} C0DE 1 = set it`, made_by: 'agent:agent', zone: 'UTC' },
  ])
  await answer(t, `${code} 1`)
  expect(times(t)).toHaveLength(1)
  expect(await answer(t, '/times')).toContain('water the plants')
})

test('a no drops it; nobody else can answer, and nobody else gets the tool', async () => {
  await using t = await withAcp(config)
  const { codes } = await propose(t, `in 2h | ${words}`)
  await t.say(`${codes[0]} 1`, t.guest)
  await t.say('servers', t.guest)
  await t.gets(/^\[\]$/, t.guest)
  await t.say('remind in 2h | x', t.guest)
  await t.gets(/^no tool$/, t.guest)
  await answer(t, `${codes[0]} 2`)
  await answer(t, `${codes[0]} 1`)
  expect(times(t)).toEqual([])
})

test('what is not certain, too long or too much is an error in words, and asks nobody', async () => {
  await using t = await withAcp(config)
  const wrong = [
    'soon | x',
    '2/3 9:00 | x',
    'every 5 min | x',
    'in 2h and sing | x',
    'in 2h | ',
    `in 2h | ${'x'.repeat(701)}`,
  ]
  const { codes, said } = await propose(t, ...wrong)
  expect(said.filter(line => line.startsWith('error: ')).length).toBe(wrong.length)
  expect(codes).toEqual([])
  const forms = ['/at tomorrow 7:30', '/every 2h', '每天8点', '/in 2h', '2h后', 'tomorrow 9am']
  const many = await propose(t, ...forms.map((when, nth) => `${when} | ${nth}`))
  expect(many.said.map(line => line.slice(0, 3)).sort()).toEqual(['err', 'ok:', 'ok:', 'ok:', 'ok:', 'ok:'])
  expect(many.codes).toHaveLength(5)
  for (const [nth, code] of many.codes.entries()) await answer(t, `${code} ${nth % 2 ? 'no' : 'yes'}`)
  expect(times(t)).toHaveLength(3)
  expect((await propose(t, `in 2h | ${words}`)).codes).toHaveLength(1)
})

test('its words are a prompt when the time has come, never a command', async () => {
  await using t = await withAcp(config)
  const { codes } = await propose(t, 'in 30 min | /stop')
  await answer(t, `${codes[0]} 1`)
  t.library.clock.advance(31 * 60_000)
  await t.agents.until('it is done', () => times(t).length === 0)
  await t.agents.until('the agent is asked', async () => {
    const [turn] = (await t.svc.agents.turns({ limit: 1 })) as { source: string; status: string }[]
    return turn?.source === 'time' && turn.status === 'answered'
  })
  expect(await answer(t, 'prompts')).toContain('proposed before:]\\n/stop')
})

test('a proposal stays open over a restart; one that has passed meanwhile is not set', async () => {
  await using t = await withAcp(config)
  const { codes } = await propose(t, `every day 8:00 | ${words}`, 'in 30 min | late')
  await t.restart()
  t.library.clock.advance(40 * 60_000)
  for (const code of codes) await answer(t, `${code} 1`)
  expect(times(t).map(({ prompt }) => prompt)).toEqual([words])
  // The tool works in a session that goes on.
  expect((await propose(t, 'in 2h | again')).codes).toHaveLength(1)
})

test('without commands there is no tool', async () => {
  await using t = await withAcp({ ...config, commands: false })
  expect((await propose(t, 'in 2h | x')).said).toEqual(['no tool'])
})

test('a code that comes again after a crash sets it once', async () => {
  await using t = await withAcp(config)
  const { codes } = await propose(t, `every 2h | ${words}`)
  await answer(t, `${codes[0]} 1`)
  {
    using db = new Database(join(t.library.dir, 'messages.db'))
    db.run('UPDATE agent_question SET answer = NULL')
  }
  await answer(t, `${codes[0]} 1`)
  expect(times(t)).toHaveLength(1)
})

isolated('an isolated agent reaches the tool, and nothing else of svc', async () => {
  const main = resolve(import.meta.dir, '../../src/main.ts')
  const folder = folderOfTest()
  const open = createAcpBackend({
    command: [realpathSync(process.execPath), main, 'echo-agent', '--acp'],
    isolatedFrom: folderOfTest(),
    clock: systemClock,
    log: silentLog,
  })
  onTestFinished(() => open.close())
  const proposed: string[][] = []
  const context = {
    folder,
    canPropose: true,
    signal: new AbortController().signal,
    ask: () => Promise.reject(new Error('asks nobody')),
    propose: async (...said: string[]) => `noted ${proposed.push(said)}`,
  }
  const { text } = await open.run({ text: 'remind in 2h', files: [] }, context)
  expect(text).toBe('noted 1')
  expect(proposed).toEqual([['in 2h', 'Hello again']])
  const other = await open.run({ text: 'remind in 2h', files: [] }, { ...context, canPropose: false })
  expect(other.text).not.toContain('noted')
})

test('the port serves only who shows the token, and closes with the program', async () => {
  const tool = new RemindTool()
  const { args, env } = await tool.open()
  const port = Number(args.at(-1))
  const token = env[0]!.value
  const ask = async (shown: string) => {
    let answer = ''
    const socket = connect(port, '127.0.0.1', () => {
      for (const part of [shown.slice(0, 10), shown.slice(10)]) socket.write(part)
      const params = {
        protocolVersion: '2025-06-18',
        capabilities: {},
        clientInfo: { name: 'x', version: '1' },
      }
      socket.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params })}\n`)
    })
    const ended = new Promise(resolve => socket.once('close', resolve))
    socket.on('data', bytes => {
      answer += bytes
      if (answer.includes('\n')) socket.end()
    })
    socket.on('error', () => {})
    await ended
    return answer
  }
  expect(await ask(token)).toContain('"serverInfo"')
  for (const wrong of ['x'.repeat(64), token.toUpperCase(), `${token.slice(1)}{`])
    expect(await ask(wrong)).toBe('')
  const open = connect(port, '127.0.0.1')
  const isClosed = new Promise(resolve => open.once('close', resolve))
  open.on('error', () => {})
  await new Promise(resolve => open.once('connect', resolve))
  tool.close()
  await isClosed
  await until(
    'nothing listens',
    10_000,
    () =>
      new Promise<boolean>(resolve => {
        const socket = connect(port, '127.0.0.1', () => resolve(false))
        socket.once('error', () => resolve(true))
      }),
  )
})
