/**
 * Ten turns with each program that the guide names, as published on npm, on the simulated WeChat: what a person does
 * with an agent, with a model on loopback in place of the maker's.
 */
import { afterAll, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, realpath, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import type { Backend, TurnContext } from '../../../src/agent/backend.ts'
import { createAcpBackend } from '../../../src/agent/backends/acp.ts'
import { createCommandBackend } from '../../../src/agent/backends/command.ts'
import { createOpenAiBackend } from '../../../src/agent/backends/openai.ts'
import { systemClock } from '../../../src/platform/clock.ts'
import { silentLog } from '../../../src/platform/log.ts'
import { environmentIn, installed, programs } from '../../support/agents.ts'
import { type Step, standInModel } from '../../support/stand-in-model.ts'
import { until } from '../../support/until.ts'
import { PlayedBackend, playedAgent, withAgents } from '../support.ts'

const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const asksNothing = 'it has nobody to ask'

interface Way {
  readonly title: string
  /** Whose settings it uses, in `programs`. */
  readonly name?: string
  readonly spec?: string
  readonly bin?: string
  readonly args: readonly string[]
  /** Its tool that runs a command, over the Agent Client Protocol. */
  readonly shell?: string
  /** Steps that it cannot do, and why. */
  readonly skips?: Readonly<Record<string, string>>
}

const ways: readonly Way[] = [
  { title: 'claude -p', name: 'claude-code', args: ['-p'], skips: { ask: asksNothing } },
  {
    title: 'claude-agent-acp',
    name: 'claude-code',
    spec: '@agentclientprotocol/claude-agent-acp@0.101.0',
    bin: 'claude-agent-acp',
    args: [],
    shell: 'Bash',
  },
  { title: 'codex exec', name: 'codex', args: ['exec'], skips: { ask: asksNothing } },
  {
    title: 'gemini --acp',
    name: 'gemini',
    args: ['--acp', '-m', 'gemini-2.5-flash'],
    shell: 'run_shell_command',
    // The step before it loads the session once.
    skips: {
      restart: 'it writes a session that it loaded into a second file, and cannot load it once more',
      resume: 'it cannot load a session twice',
    },
  },
  {
    title: 'opencode run',
    name: 'opencode',
    args: ['run', '--model', 'stand-in/stand-in'],
    skips: { ask: asksNothing },
  },
  { title: 'opencode acp', name: 'opencode', args: ['acp'], shell: 'bash' },
  { title: 'qwen --acp', name: 'qwen', args: ['--acp', '-m', 'gpt-4o'], shell: 'run_shell_command' },
  {
    title: 'an address of the kind of OpenAI, whose content is a list of chunks',
    args: [],
    skips: { ask: 'a model without tools asks nothing', kill: 'it is no program', file: 'it has no folder' },
  },
]

/** What was seen, by step. */
const seen: string[] = []
afterAll(() => console.warn(seen.join('\n')))

for (const way of ways) {
  const { program, spec, bin } = programOf(way)
  const found = program ? await installed(spec, bin) : { folder: '' }
  if ('why' in found) console.warn(`skipped: npm does not give ${spec}: ${found.why}`)
  test.skipIf('why' in found)(
    `${way.title}: ten turns`,
    () => tenTurns(way, 'folder' in found ? found.folder : ''),
    400_000,
  )
}

const inOneChat = ['claude-agent-acp', 'opencode acp', 'claude -p'].map(
  title => ways.find(way => way.title === title)!,
)
const places = await Promise.all(inOneChat.map(programOf).map(({ bin, spec }) => installed(spec, bin)))
test.skipIf(places.some(found => 'why' in found))(
  `one chat with ${inOneChat.map(({ title }) => title).join(', ')}`,
  () => talkWithAll(places.map(found => ('folder' in found ? found.folder : ''))),
  400_000,
)

function programOf({ bin, name, spec }: Way) {
  const program = programs.find(one => one.name === name)
  return { program, spec: spec ?? program?.spec ?? '', bin: bin ?? program?.bin ?? '' }
}

async function tenTurns(way: Way, installedIn: string): Promise<void> {
  const home = await realpath(await mkdtemp(join(tmpdir(), 'svc-turns-')))
  let folder = ''
  let hanging = 0
  // Gemini CLI takes a text that repeats itself for a loop, and ends the turn.
  const long = Array.from({ length: 40 }, (_, part) => `Part ${part}: ${wordsOf(part)}.`)
  const model = standInModel(
    () => ({ say: 'done' }),
    [],
    async (request, tools): Promise<string | Step> => {
      const [, verb = '', nth] = [...request.matchAll(/STEP-([A-Z]+)(\d+)/g)].at(-1) ?? []
      const has = (words: string) => request.includes(words)
      if (verb === 'BURST') return has('BLUE') ? `burst of both` : 'burst of one'
      if (verb === 'PICTURE')
        return has(png.slice(0, 40)) ? 'a picture' : /inbox[^"]*\.png/.test(request) ? 'its path' : 'nothing'
      if (verb === 'FILE') {
        await writeFile(join(folder, 'out.txt'), 'made')
        return 'Here it is: [out](out.txt)'
      }
      if (verb === 'ASK') {
        const { shell = '' } = way
        if (!tools.includes(shell) || has(`asked-${nth}-done`)) return 'asked and done'
        const command = `touch asked-${nth} && echo asked-${nth}-done`
        return { tool: shell, input: { command, description: 'Touch' } }
      }
      if (verb === 'HANG') {
        hanging += 1
        return new Promise(() => {})
      }
      if (verb === 'LONG') return [...long, 'the very end'].join('\n\n')
      if (verb === 'RECALL') return has('BLUE') ? `remembered ${nth}` : `forgot ${nth}`
      return `what is ${verb}?`
    },
  )
  const chunks = listOfChunks(model.url)
  await using agents = await withAgents()
  const open = await opener(way, { home, installedIn, model: model.url, chunks: chunks.url })
  const asked: string[] = []
  const questions = {
    ask: async (_turn: unknown, { options, text }: Parameters<TurnContext['ask']>[0]) => {
      asked.push(text)
      return options.find(({ kind }) => kind === 'allow_once')!.id
    },
  }
  const start = () => {
    const backend = played(open(), context => {
      folder = context.folder
    })
    return agents.start(backend, { gatherMs: 1500, long: 'split' }, { questions })
  }
  /** Says something, and returns what the bot says then. */
  const ask = async (text: string, count = 1): Promise<string[]> => {
    const before = (await agents.got()).length
    await agents.say(text)
    return after(before, count)
  }
  const after = async (before: number, count = 1) => {
    const got = () => agents.got().then(texts => texts.slice(before))
    const enough = async () => (await got()).length >= count
    await until(`an answer of ${way.title}`, 120_000, enough, () => model.log.slice(-10).join('\n'))
    return got()
  }
  const step = async (name: string, act: () => Promise<void>) => {
    const why = way.skips?.[name]
    if (why === undefined) await act()
    seen.push(`${way.title} | ${name} | ${why === undefined ? 'seen' : `skipped: ${why}`}`)
  }
  try {
    let agent = await start()
    await step('burst', async () => {
      const before = (await agents.got()).length
      await agents.say('My color is BLUE.')
      await agents.say('STEP-BURST1')
      expect(await after(before)).toEqual(['burst of both'])
      expect((await agents.turns()).length).toBe(1)
    })
    await step('picture', async () => {
      await agents.library.sandbox.media('image', Buffer.from(png, 'base64'), { name: 'a.png' })
      const [text] = await ask('STEP-PICTURE2')
      expect(['a picture', 'its path']).toContain(text!)
      seen.push(`${way.title} | picture as | ${text}`)
    })
    await step('file', async () => {
      expect((await ask('STEP-FILE3', 2)).join('\n')).toContain('[file out.txt]')
    })
    await step('ask', async () => {
      expect(await ask('STEP-ASK4')).toEqual([expect.stringContaining('asked and done')])
      expect(asked.join('\n')).toContain('asked-4')
      expect(existsSync(join(folder, 'asked-4'))).toBe(true)
    })
    await step('stop', async () => {
      const before = (await agents.got()).length
      await agents.say('STEP-HANG5')
      await until('the model is asked', 60_000, () => hanging > 0)
      await agents.say('/stop')
      expect((await after(before))[0]).toContain('Stopped')
      expect(await ask('STEP-RECALL6')).toEqual(['remembered 6'])
    })
    await step('more', async () => {
      const before = (await agents.got()).length
      let sent = 0
      let texts: string[] = []
      while (!texts.at(-1)?.includes('the very end')) {
        await agents.say(sent++ === 0 ? 'STEP-LONG7' : '/more')
        const known = before + texts.length
        const isOver = async () => /\/more|the very end/.test((await agents.got()).slice(known).at(-1) ?? '')
        await until(`a part of ${way.title}`, 120_000, isOver)
        texts = (await agents.got()).slice(before)
      }
      expect(sent).toBeGreaterThan(1)
      const parts = [...texts.join('\n').matchAll(/Part (\d+):/g)].map(([, part]) => Number(part))
      expect(parts).toEqual(long.map((_, part) => part))
    })
    await step('kill', async () => {
      const before = (await agents.got()).length
      const asked = hanging
      await agents.say('STEP-HANG8')
      await until('the model is asked', 60_000, () => hanging > asked)
      for (const pid of await processesIn(home)) process.kill(pid, 'SIGKILL')
      expect((await after(before)).length).toBe(1)
      if (way.name === 'gemini') await makeOlder(join(home, '.gemini', 'tmp'))
      expect(await ask('STEP-RECALL9')).toEqual(['remembered 9'])
    })
    await step('restart', async () => {
      await agent.stop()
      agent = await start()
      // Alone: nothing of what was said before.
      expect(await ask('STEP-RECALL10')).toEqual(['remembered 10'])
    })
    await step('new', async () => {
      await ask('/new')
      expect(await ask('STEP-RECALL11')).toEqual(['forgot 11'])
    })
    await step('resume', async () => {
      const [list = ''] = await ask('/sessions')
      const [, number] = /^(\d+)\. .*STEP-BURST1/m.exec(list) ?? []
      seen.push(`${way.title} | sessions | ${list.replaceAll('\n', ' / ')}`)
      await ask(`/resume ${number}`)
      expect(await ask('STEP-RECALL12')).toEqual(['remembered 12'])
    })
    for (const word of ['model', 'mode'])
      await step(word, async () => {
        const [list = ''] = await ask(`/${word}`)
        const all = [...list.matchAll(/^(\d+)\. (.*?)( \(current\))?( – .*)?$/gm)]
        seen.push(`${way.title} | ${word} | ${list.replaceAll('\n', ' / ')}`)
        if (way.shell === undefined) return expect(all).toEqual([])
        // OpenCode offers models that are not on this machine.
        const isHere = ([, , name = '']: RegExpExecArray) => name.includes('stand-in')
        const chosen = all.find(isHere) ?? all.findLast(([, , , current]) => !current) ?? all[0]!
        const [, number, name = ''] = chosen
        await ask(`/${word} ${number}`)
        await agent.stop()
        agent = await start()
        await ask(`STEP-${word.toUpperCase()}13`)
        const [after = ''] = await ask(`/${word}`)
        expect(after).toContain(`${number}. ${name} (current)`)
      })
    await step('help', async () => {
      const [list = ''] = await ask('/help')
      seen.push(`${way.title} | help | ${list.split('\n').slice(1).join(' / ')}`)
      expect(list.split('\n').length > 2).toBe(way.shell !== undefined)
    })
    await agent.stop()
  } catch (error) {
    const turns = JSON.stringify((await agents.turns()).slice(-2))
    const said = JSON.stringify((await agents.got()).slice(-4).map(text => text.slice(0, 200)))
    throw new Error(`${way.title}: ${said}\n${turns}\n${model.log.slice(-6).join('\n')}`, { cause: error })
  } finally {
    model.stop()
    chunks.stop()
    await rm(home, { recursive: true, force: true, maxRetries: 10 })
  }
}

/** Lets a test start a backend as one that it plays. */
function played(backend: Backend, ran?: (context: TurnContext) => void): PlayedBackend {
  const run: Backend['run'] = (prompt, context) => {
    ran?.(context)
    return backend.run(prompt, context)
  }
  const look = backend.look?.bind(backend)
  const listSessions = backend.listSessions?.bind(backend)
  return Object.assign(new PlayedBackend(), { run, close: () => backend.close(), look, listSessions })
}

/** A person uses three programs in one chat. Each has its own conversations, and what it is told stays there. */
async function talkWithAll(installedIn: readonly string[]): Promise<void> {
  const home = await realpath(await mkdtemp(join(tmpdir(), 'svc-turns-')))
  const model = standInModel(
    () => ({ say: 'done' }),
    [],
    request => {
      const [, nth] = [...request.matchAll(/RECALL(\d+)/g)].at(-1) ?? []
      return `${request.includes('BLUE') ? 'remembered' : 'forgot'} ${nth}`
    },
  )
  await using agents = await withAgents()
  const { clock, sandbox } = agents.library
  const configs = ['claude', 'open', 'plain'].map(name => ({ ...playedAgent, name, zone: 'UTC' }))
  const opened = await Promise.all(
    inOneChat.map((way, nth) => {
      const own = join(home, configs[nth]!.name)
      return opener(way, { home: own, installedIn: installedIn[nth]!, model: model.url, chunks: '' })
    }),
  )
  const start = async () => {
    const running = []
    for (const [nth, open] of opened.entries())
      running.push(await agents.start(played(open()), configs[nth]!, { agents: configs }))
    return running
  }
  const gets = async (count: number) => {
    const enough = async () => (await agents.got()).length >= count
    await until(`${count} messages`, 120_000, enough, () => model.log.slice(-10).join('\n'))
    const texts = await agents.got()
    expect(texts.length).toBe(count)
    return texts.at(-1)!
  }
  let count = 0
  const ask = async (text: string, quote?: string) => {
    await sandbox.say(text, quote === undefined ? {} : { quote })
    count += 1
    return gets(count)
  }
  const resume = async (title: string) => {
    const list = await ask('/sessions')
    return ask(`/resume ${new RegExp(`^(\\d+)\\. .*${title}`, 'm').exec(list)?.[1]}`)
  }
  try {
    const before = await start()
    // They know each other.
    clock.advance(6000)
    expect(await ask('My color is BLUE. RECALL1')).toBe('remembered 1')
    const [first] = await sandbox.messages({ user: agents.owner, from: 'bot' })
    await ask('/use open')
    expect(await ask('RECALL2')).toBe('forgot 2')
    expect(await ask('@plain RECALL3')).toBe('[plain]\nforgot 3')
    expect(await ask('RECALL4')).toBe('forgot 4')
    expect(await ask('RECALL5', first!.message_id)).toBe('[claude]\nremembered 5')
    for (const name of ['claude', 'plain', 'open']) {
      await ask(`/use ${name}`)
      await ask('/new First')
      await ask('My color is BLUE. RECALL6')
      await ask('/new Second')
      expect(await ask('RECALL7')).toBe('forgot 7')
      await resume('First')
      expect(await ask('RECALL8')).toBe('remembered 8')
      await resume('Second')
      expect(await ask('RECALL9')).toBe('forgot 9')
    }
    const list = await ask('/model')
    const [, number] = /^(\d+)\. .*stand-in/m.exec(list)!
    const other = await ask('@claude /model')
    expect(other).not.toContain('stand-in')
    await ask(`/model ${number}`)
    await ask('/in 1 min RECALL10')
    await ask('@claude /in 2 min My color is BLUE. RECALL11')
    clock.advance(2 * 60_000)
    count += 1
    expect(await gets(count)).toBe('forgot 10')
    clock.advance(60_000)
    count += 1
    expect(await gets(count)).toBe('[claude]\nremembered 11')
    for (const one of before) await one.stop()
    const second = await start()
    expect(await ask('RECALL12')).toBe('forgot 12')
    expect(await ask('/model')).toMatch(new RegExp(`^${number}\\. .*\\(current\\)`, 'm'))
    expect(await ask('@claude /model')).toBe(other)
    for (const one of second) await one.stop()
  } catch (error) {
    const said = (await agents.got()).slice(-6).join('\n--\n')
    throw new Error(`${said}\n${model.log.slice(-6).join('\n')}`, { cause: error })
  } finally {
    model.stop()
    await rm(home, { recursive: true, force: true, maxRetries: 10 })
  }
}

/** Returns about 1,800 characters that repeat nothing. */
const wordsOf = (part: number): string =>
  Array.from({ length: 250 }, (_, nth) => ((part * 250 + nth) ** 3).toString(36)).join(' ')

/** Writes the settings of the program. @returns what opens its backend */
async function opener(
  way: Way,
  { chunks, home, installedIn, model }: Record<'home' | 'installedIn' | 'model' | 'chunks', string>,
): Promise<() => Backend> {
  const { bin, program } = programOf(way)
  if (!program) return () => createOpenAiBackend({ url: `${chunks}/v1`, model: 'stand-in' })
  const server = { command: ['true'] }
  const { env } = await program.call({ home, folder: installedIn, model, server })
  if (way.title === 'opencode acp') {
    const path = join(home, '.config', 'opencode', 'opencode.json')
    const settings = JSON.parse(await readFile(path, 'utf8'))
    await writeFile(path, JSON.stringify({ ...settings, permission: { bash: 'ask' } }))
  }
  const command = [join(installedIn, 'node_modules', '.bin', bin), ...way.args]
  const place = { command, env: { ...environmentIn(home), ...env } }
  return way.shell === undefined
    ? () => createCommandBackend(place)
    : () => createAcpBackend({ ...place, clock: systemClock, log: silentLog })
}

/** Serves the chat completions of a model with each content as a list of chunks. */
function listOfChunks(model: string): { url: string; stop(): void } {
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      const { pathname } = new URL(request.url)
      const { method, signal } = request
      const body = method === 'POST' ? await request.text() : null
      const answer = await fetch(model + pathname, { method, body, signal })
      const text = await answer.text()
      const toList = text.replace(/"content":("(?:[^"\\]|\\.)*")/g, (_, content) => {
        const thinking = { type: 'thinking', thinking: [{ type: 'text', text: 'a thought' }] }
        return `"content":[${JSON.stringify(thinking)},{"type":"text","text":${content}}]`
      })
      return new Response(toList, { headers: { 'content-type': answer.headers.get('content-type') ?? '' } })
    },
  })
  return { url: `http://127.0.0.1:${server.port}`, stop: () => void server.stop(true) }
}

/** Returns the processes whose home folder this is. */
async function processesIn(home: string): Promise<number[]> {
  const ids = (await readdir('/proc')).filter(name => /^\d+$/.test(name))
  const isIn = async (id: string) =>
    (await readFile(`/proc/${id}/environ`, 'utf8').catch(() => '')).split('\0').includes(`HOME=${home}`)
  const are = await Promise.all(ids.map(isIn))
  return ids.filter((_, nth) => are[nth]).map(Number)
}

/** Dates the sessions of Gemini back to yesterday, see `acp-programs.long.test.ts`. */
async function makeOlder(folder: string): Promise<void> {
  const yesterday = new Date(Date.now() - 24 * 60 * 60_000).toISOString().slice(0, 10)
  for await (const path of new Bun.Glob('**/chats/*').scan({ cwd: folder, absolute: true }))
    await rename(path, path.replace(/\d{4}-\d\d-\d\d(?=[^/]*$)/, yesterday))
}
