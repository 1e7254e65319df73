/** Agents over the Agent Client Protocol, with a program that is written with the official library. */
import { describe, expect, onTestFinished, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { PermissionRequest, Prompt, TurnContext, TurnResult } from '../../../src/agent/backend.ts'
import { createAcpBackend } from '../../../src/agent/backends/acp.ts'
import type { AcpLimits } from '../../../src/agent/backends/acp-agent.ts'
import { chooseMode, readOffer } from '../../../src/agent/backends/acp-modes.ts'
import type { WantedMode } from '../../../src/agent/config.ts'
import { silentLog } from '../../../src/platform/log.ts'
import { processState } from '../../../src/platform/other-process.ts'
import { testClock } from '../../support/clock.ts'
import { failure } from '../../support/failure.ts'
import { folderOfTest } from '../../support/folder.ts'
import { until } from '../../support/until.ts'

const program = [process.execPath, resolve(import.meta.dir, '../../support/acp-agent.ts')]

function world(options: string[] = [], limits: Partial<AcpLimits> = {}, mode: WantedMode = 'ask') {
  const folder = folderOfTest()
  const clock = testClock()
  const asked: PermissionRequest[] = []
  const kept: string[] = []
  const open = (command = [...program, ...options]) => {
    const backend = createAcpBackend({ command, mode, clock, log: silentLog, limits })
    onTestFinished(() => backend.close())
    return backend
  }
  const backend = open()
  const context = (more: Partial<TurnContext> = {}): TurnContext => ({
    folder,
    signal: new AbortController().signal,
    async ask(request) {
      asked.push(request)
      return 'yes'
    },
    keepSession: id => void kept.push(id),
    ...more,
  })
  const run = (text: string, more: Partial<TurnContext> = {}, files: Prompt['files'] = []) =>
    backend.run({ text, files }, context(more))
  return { folder, clock, asked, kept, backend, open, context, run }
}

describe('a turn', () => {
  test('returns what the agent says, without its thoughts, with a gap where it used a tool', async () => {
    const { run, kept } = world()
    const { agentSession, files, text } = await run('work')
    expect(text).toBe('I look at it.\n\nDone.')
    expect(files).toEqual([])
    expect(agentSession).toMatch(/^session-/)
    expect(kept).toEqual([agentSession!])
  })

  test('keeps the order of many pieces, the last included', async () => {
    const { text } = await world().run('many')
    expect(text).toBe(Array.from({ length: 1000 }, (_, nth) => `${nth},`).join(''))
  })

  test('goes on in the session and the program of the turn before', async () => {
    const { run } = world()
    const { agentSession, text } = await run('pid')
    expect((await run('pid', { agentSession })).text).toBe(text)
    expect((await run('prompts', { agentSession })).text).toBe('["pid","pid","prompts"]')
    const other = await run('pid')
    expect(other.agentSession).not.toBe(agentSession)
    expect(other.text).not.toBe(text)
  })

  test('passes over 5,000 lines of junk', async () => {
    expect((await world(['--junk']).run('say hello')).text).toBe('hello')
  })

  test('gives pictures to an agent that takes them, and links to other files', async () => {
    const { folder, run } = world(['--pictures'])
    const paths = ['a.png', 'b.pdf'].map(name => join(folder, name))
    for (const path of paths) writeFileSync(path, 'data')
    const files: Prompt['files'] = [
      { path: paths[0]!, name: 'a.png', type: 'image/png', kind: 'image' },
      { path: paths[1]!, name: 'b.pdf', type: 'application/pdf', kind: 'file' },
    ]
    const link = (nth: number) => {
      const { name, path, type } = files[nth]!
      return { type: 'resource_link', uri: pathToFileURL(path).href, name, mimeType: type, size: 4 }
    }
    const text = { type: 'text', text: 'blocks' }
    const picture = { type: 'image', data: 'ZGF0YQ==', mimeType: 'image/png' }
    expect(JSON.parse((await run('blocks', {}, files)).text)).toEqual([text, picture, link(1)])
    const blind = world()
    expect(JSON.parse((await blind.run('blocks', { folder }, files)).text)).toEqual([text, link(0), link(1)])
  })

  test('saves a picture of the agent, and takes a link to a file only inside its folder', async () => {
    const { folder, run } = world()
    const { files } = await run('picture')
    expect(files?.map(path => readFileSync(path).toString('base64'))).toEqual(['iVBORw0KGgo='])
    const own = join(folder, 'own.txt')
    writeFileSync(own, 'text')
    expect((await run(`link ${pathToFileURL(own).href}`)).files).toEqual([own])
    expect((await run('link file:///etc/passwd')).files).toEqual([])
    expect(await run('link file:///absent')).toMatchObject({ files: [], leftOut: 1 })
  })

  test('saves what tools make and what it embeds, each once, and counts what it cannot take', async () => {
    const { run } = world()
    const png = { type: 'image', data: 'iVBORw0KGgo=', mimeType: 'image/png' }
    const ofTool = (toolCallId: string, block: object, more: object = {}) => ({
      ...{ sessionUpdate: 'tool_call_update', toolCallId, ...more },
      content: [
        { type: 'content', content: block },
        { type: 'diff', path: 'x', newText: 'y' },
      ],
    })
    const said = (content: object) => ({ sessionUpdate: 'agent_message_chunk', content })
    const embedded = (resource: object) => said({ type: 'resource', resource })
    const { files, leftOut, text } = await run(
      `updates ${JSON.stringify([
        ofTool('read', { ...png, data: 'cmVhZA==' }, { kind: 'read' }),
        ofTool('draw', png, { kind: 'other' }),
        ofTool('draw', png, { status: 'completed' }),
        ofTool('draw', { type: 'text', text: 'the log of the tool' }),
        embedded({ uri: 'file:///x/Bericht 1.csv?y', mimeType: 'text/csv', text: 'a;b' }),
        embedded({ uri: 'mem:', blob: 'aGk=' }),
        said({ type: 'resource_link', name: 'chart [1]', uri: 'https://example.com/c.png' }),
        said({ type: 'image', data: '', mimeType: 'image/png', uri: 'https://example.com/d.png' }),
        said({ type: 'audio', data: '', mimeType: 'audio/wav' }),
        said({ type: 'resource_link', name: 'mail', uri: 'mem:1' }),
      ])}`,
    )
    expect(files?.map(path => readFileSync(path, 'utf8'))).toEqual(['\ufffdPNG\r\n\u001a\n', 'a;b', 'hi'])
    expect(files?.map(path => /\w+$/.exec(path)?.[0])).toEqual(['png', 'csv', 'bin'])
    expect(text).toBe(
      '[chart 1](https://example.com/c.png)\n\n[https://example.com/d.png](https://example.com/d.png)',
    )
    expect(leftOut).toBe(2)
  })
})

describe('a session', () => {
  test.each([['--resume'], ['--load']])('goes on in another program with %s', async option => {
    const store = join(folderOfTest(), 'sessions.json')
    const { backend, context, open, run } = world([option, '--store', store])
    const { agentSession } = await run('say one')
    await backend.close()
    const next = await open().run({ text: 'prompts', files: [] }, context({ agentSession }))
    expect(next).toEqual({ text: '["say one","prompts"]', agentSession: agentSession!, files: [] })
  })

  // How the agent tells a session that it loads, and how long it must be quiet after it.
  test.each([
    ['before', [], 20],
    ['around', [], 1000],
    ['around', ['--ids'], 1000],
    ['slow', [], 1000],
    ['endless', [], 20],
    ['before', ['--echo', 'whole'], 20],
    ['around', ['--echo', 'whole'], 1000],
    ['prompt', ['--echo', 'whole'], 20],
    ['prompt', ['--echo', 'pieces', '--ids'], 20],
  ])('that is told again (%s %p) gives nothing to the next answer', async (when, options, quietMs) => {
    const store = join(folderOfTest(), 'sessions.json')
    const given = ['--load', '--replay', when, '--store', store, ...options]
    const { backend, context, folder, open, run } = world(given, { quietMs })
    const { agentSession } = await run('say one')
    // The prompt and the answer of before are also those of the turn after.
    for (const text of ['say hello', 'picture', 'say two']) await run(text, { agentSession })
    await backend.close()
    const files = () => new Bun.Glob('**/*.png').scanSync(folder)
    const before = [...files()].length
    const next = open()
    const ask = (text: string) => next.run({ text, files: [] }, context({ agentSession }))
    expect(await ask('say hello')).toEqual({ text: 'hello', agentSession: agentSession!, files: [] })
    if (when !== 'prompt') expect([...files()].length).toBe(before)
    // The next turn has its pictures and words.
    expect((await ask('picture')).files?.length).toBe(1)
    expect((await ask('say two')).text).toBe('two')
  })

  test('that is told for ever is stopped by the end of the turn', async () => {
    const store = join(folderOfTest(), 'sessions.json')
    const { backend, context, open, run } = world(['--load', '--replay', 'endless', '--store', store], {
      quietMs: 10_000,
    })
    const { agentSession } = await run('say one')
    await backend.close()
    const stop = new AbortController()
    const stopped = failure(
      open().run({ text: 'say x', files: [] }, context({ agentSession, signal: stop.signal })),
    )
    stop.abort(new Error('stopped'))
    expect((await stopped).message).toBe('stopped')
  })

  test.each([[[]], [['--resume']], [['--load']]])(
    'begins again where the agent has lost it (%p)',
    async options => {
      const { kept, run } = world(options)
      const { agentSession, text } = await run('say hello', { agentSession: 'lost' })
      expect(text).toMatch(/^\(The agent does not have .*\)\n\nhello$/)
      expect(kept).toEqual([agentSession!])
      expect((await run('say 你好', { agentSession: 'lost' })).text).toMatch(/^（.*）\n\n你好$/)
    },
  )

  test('ends its program after a time without turns, and goes on', async () => {
    const store = join(folderOfTest(), 'sessions.json')
    const { clock, run } = world(['--resume', '--store', store])
    const { agentSession, text } = await run('pid')
    clock.advance(599_000)
    expect((await run('pid', { agentSession })).text).toBe(text)
    clock.advance(600_000)
    await until('the program ends', 10_000, async () => (await processState(Number(text))) === 'gone')
    const later = await run('prompts', { agentSession })
    expect(later.text).toBe('["pid","pid","prompts"]')
    expect(later.agentSession).toBe(agentSession!)
  })

  test('keeps at most 8 programs without a turn', async () => {
    const { run } = world()
    const pids: number[] = []
    for (let nth = 0; nth < 9; nth++) pids.push(Number((await run('pid')).text))
    await until('the oldest ends', 10_000, async () => (await processState(pids[0]!)) === 'gone')
    expect(await processState(pids[1]!)).toBe('running')
  })
})

describe('a turn that is stopped', () => {
  test('is cancelled, and its session lives on in the same program', async () => {
    const { kept, run } = world()
    const { agentSession, text: pid } = await run('pid')
    const stop = new AbortController()
    const stopped = run('wait', { agentSession, signal: stop.signal })
    const reason = new Error('stopped by the user')
    await until('the prompt arrives', 10_000, () => kept.length === 2)
    stop.abort(reason)
    // The next turn waits until the agent has ended this one.
    const next = run('pid', { agentSession })
    expect(await failure(stopped)).toBe(reason)
    expect((await next).text).toBe(pid)
  })

  test('tells its session before it ends', async () => {
    const { kept, run } = world()
    const stop = new AbortController()
    const stopped = run('wait', { signal: stop.signal })
    await until('the session is known', 10_000, () => kept.length === 1)
    stop.abort(new Error('stopped'))
    await failure(stopped)
    expect((await run('prompts', { agentSession: kept[0] })).text).toBe('["wait","prompts"]')
  })

  test('ends the program of an agent that does not listen', async () => {
    const { kept, run } = world(['--resume'], { cancelMs: 200 })
    const { text: pid, agentSession } = await run('pid')
    const stop = new AbortController()
    const stopped = run('deaf', { agentSession, signal: stop.signal })
    await until('the prompt arrives', 10_000, () => kept.length === 2)
    stop.abort(new Error('stopped'))
    expect((await failure(stopped)).message).toBe('stopped')
    expect(await processState(Number(pid))).toBe('gone')
  })

  test('takes back what it asked', async () => {
    const { context, backend } = world()
    const stop = new AbortController()
    const { promise: isAsked, resolve: noteAsked } = Promise.withResolvers<void>()
    const stopped = backend.run(
      { text: 'permit', files: [] },
      context({
        signal: stop.signal,
        ask: () => {
          noteAsked()
          return new Promise((_, reject) =>
            stop.signal.addEventListener('abort', () => reject(stop.signal.reason)),
          )
        },
      }),
    )
    await isAsked
    stop.abort(new Error('stopped'))
    expect((await failure(stopped)).message).toBe('stopped')
  })

  test('does not start an agent when it is stopped before', async () => {
    const { kept, run } = world()
    expect((await failure(run('say x', { signal: AbortSignal.abort(new Error('stopped')) }))).message).toBe(
      'stopped',
    )
    expect(kept).toEqual([])
  })
})

describe('the mode', () => {
  test.each(['modes', 'config'])(
    'is one that asks, however the agent offers it (%s), also in a session that goes on',
    async how => {
      const { backend, context, folder, open, run } = world([
        '--resume',
        '--modes',
        how,
        '--store',
        join(folderOfTest(), 's.json'),
      ])
      const { agentSession, text } = await run('mode')
      expect(text).toBe('manual')
      await backend.close()
      expect((await open().run({ text: 'mode', files: [] }, context({ agentSession }))).text).toBe('manual')
      const told = await open().describe!(folder, new AbortController().signal)
      expect(told).toMatch(/manual.*Asks before.*auto/)
    },
  )

  test('is another one by its id or name, or stays as it is', async () => {
    const modeOf = async (mode: WantedMode) => (await world(['--modes', 'modes'], {}, mode).run('mode')).text
    expect(await modeOf({ name: 'AUTO' })).toBe('auto')
    expect(await modeOf({ name: 'careful' })).toBe('manual')
    expect(await modeOf('own')).toBe('auto')
  })

  test('that the agent does not have is an error that names those it has; without modes all goes on', async () => {
    const none = await failure(world(['--modes', 'modes'], {}, { name: 'yolo' }).run('mode'))
    expect(none).toMatchObject({ code: 'invalid_arguments' })
    expect(none.message).toContain('auto, manual')
    const { backend, folder, run } = world()
    expect((await run('say hello')).text).toBe('hello')
    expect(await backend.describe!(folder, new AbortController().signal)).toContain('own settings')
  })

  test('that asks is found in what programs say of their modes', () => {
    const claude = [
      'default: Always ask before making changes',
      'acceptEdits: Automatically accept all file edits',
      'plan: Create a plan before making changes',
      'auto: Claude handles permission decisions',
      'bypassPermissions: Bypass all permission checks',
    ]
    const gemini = [
      'default: Prompts for approval',
      'autoEdit: Auto-approves edit tools',
      'yolo: Auto-approves all tools',
      'plan: Read-only mode',
    ]
    const codex = [
      'read-only: Codex can read files. Approval is required to edit files',
      'full-access: Codex can edit files without asking for approval',
    ]
    const openCode = [
      'build: The default agent. Executes tools based on configured permissions.',
      'plan: Plan mode. Disallows all edit tools.',
    ]
    const chosen = (modes: string[], currentModeId: string) => {
      const availableModes = modes.map(mode => {
        const [id = '', description] = mode.split(': ')
        return { id, name: id, ...(description && { description }) }
      })
      return chooseMode(readOffer({ modes: { currentModeId, availableModes } }, 'mode'), 'ask')?.id
    }
    for (const current of ['auto', 'acceptEdits', 'plan', 'bypassPermissions'])
      expect(chosen(claude, current)).toBe('default')
    expect(chosen(claude, 'default')).toBeUndefined()
    expect(chosen(gemini, 'yolo')).toBe('default')
    expect(chosen(codex, 'full-access')).toBe('read-only')
    expect(chosen(openCode, 'build')).toBeUndefined()
    expect(chosen(['default', 'yolo'], 'yolo')).toBe('default')
    expect(readOffer(undefined, 'mode')).toEqual({ choices: [], current: undefined })
    expect(
      readOffer({ modes: null, configOptions: [{ id: 'x', category: 'mode', type: 'boolean' }] }, 'mode')
        .choices,
    ).toEqual([])
  })
})

describe('what an agent offers', () => {
  const [small, large] = ['Small one', 'Large one']
  const mode = { id: 'manual', name: 'Careful', description: 'Asks before it changes anything', asks: true }
  const auto = { id: 'auto', name: 'Auto', description: 'Handles permission by itself', asks: false }

  test.each(['models', 'config'])('is listed and chosen, however it is offered (%s)', async how => {
    const store = ['--store', join(folderOfTest(), 's.json'), '--resume']
    const form = ['--models', how, '--modes', how === 'models' ? 'modes' : how]
    const { backend, context, open, run } = world([...form, ...store, '--commands', 'after'])
    const first = await backend.look!(context())
    const names = (one: typeof backend) => one.look!(context()).then(({ model }) => model?.choices)
    expect((await names(backend))?.map(({ name }) => name)).toEqual([small, large])
    expect(first.mode).toEqual({ ...first.mode!, choices: [auto, mode], current: 'manual' })
    expect(first).toMatchObject({ isSame: false, model: { current: 'small' } })
    expect(first.commands).toHaveLength(12)
    // A model that changes the mode does not leave one that asks.
    const { agentSession, text } = await run('model', { model: 'large' })
    expect(text).toBe('large manual')
    expect((await backend.look!(context({ agentSession }))).model?.current).toBe('large')
    expect((await run('model', { agentSession, model: 'large', mode: 'auto' })).text).toBe('large auto')
    expect((await run('model', { agentSession, model: 'small', mode: 'auto' })).text).toBe('small auto')
    await backend.close()
    const next = { agentSession, model: 'large', mode: 'auto' }
    expect((await open().run({ text: 'model', files: [] }, context(next))).text).toBe('large auto')
    // What it does not offer any more is left out: it asks again.
    const gone = { agentSession, model: 'gone', mode: 'yolo' }
    expect((await open().run({ text: 'model', files: [] }, context(gone))).text).toBe('small manual')
  })

  test('is nothing, or commands that come before the session', async () => {
    const { backend, context } = world(['--commands', 'before'])
    const none = { choices: [], current: undefined }
    const offers = await backend.look!(context())
    expect(offers).toMatchObject({ isSame: false, mode: none, model: none })
    expect(offers.commands?.[0]?.name).toBe('word0')
    expect((await world().backend.look!(world().context())).commands).toEqual([])
  })

  test('is looked at beside a turn, and in the session that goes on; a lost one is told', async () => {
    const { backend, context, kept, open, run } = world([
      '--modes',
      'modes',
      '--resume',
      '--store',
      join(folderOfTest(), 's.json'),
    ])
    const { agentSession, text: pid } = await run('pid')
    const stop = new AbortController()
    const stopped = failure(run('wait', { agentSession, signal: stop.signal }))
    await until('the prompt arrives', 10_000, () => kept.length === 2)
    expect((await backend.look!(context({ agentSession }))).isSame).toBe(true)
    stop.abort(new Error('stopped'))
    await stopped
    expect((await run('pid', { agentSession })).text).toBe(pid)
    // The mode that the agent itself went to stays, and is the current one.
    await run('become auto', { agentSession })
    expect((await backend.look!(context({ agentSession }))).mode?.current).toBe('auto')
    expect((await run('mode', { agentSession })).text).toBe('auto')
    await backend.close()
    const other = open()
    expect((await other.look!(context({ agentSession }))).isSame).toBe(true)
    const [looked, next] = [
      (await other.run({ text: 'pid', files: [] }, context({ agentSession }))).text,
      (await other.run({ text: 'pid', files: [] }, context({ agentSession }))).text,
    ]
    expect(next).toBe(looked)
    expect((await other.look!(context({ agentSession: 'session-gone' }))).isSame).toBe(false)
    expect((await world().backend.look!(context({ agentSession: 'session-gone' }))).isSame).toBe(false)
  })

  test('is not in the sessions of other folders, or of looks, that it lists', async () => {
    const list = join(folderOfTest(), 'list.json')
    const { backend, context, folder } = world(['--list', list])
    const updatedAt = '2026-01-02T03:04:05.000Z'
    const sessions = [
      { sessionId: 'a', cwd: folder, title: 'Garden', updatedAt },
      { sessionId: 'b', cwd: '/elsewhere', title: 'Secret', updatedAt },
      { sessionId: 'c', cwd: folder, title: 'New session - 2026-01-01T00:00:00Z', updatedAt },
      { sessionId: 'd', cwd: folder },
    ]
    writeFileSync(list, JSON.stringify({ sessions }))
    expect(await backend.listSessions!(context(), [folder])).toEqual([
      { agent_session: 'a', folder, title: 'Garden', at: Date.parse(updatedAt) },
      { agent_session: 'd', folder, at: 0 },
    ])
    expect(await world().backend.listSessions!(context(), [folder])).toEqual([])
  })

  test('is read from what programs answer', () => {
    const seen = (answer: unknown, kind: 'mode' | 'model') => {
      const { choices, current, option } = readOffer(answer, kind)
      return [choices.map(({ id }) => id).join(' '), current, option]
    }
    const value = (value: string) => ({ value, name: value })
    const config = (id: string, category: string | undefined, currentValue: string, options: object[]) => ({
      configOptions: [
        { id: 'effort', category: 'thought_level', currentValue: 'low', options: [value('low')] },
        { id, category, currentValue, options },
      ],
    })
    const older = {
      models: {
        currentModelId: 'b',
        availableModels: [
          { modelId: 'a', name: 'A' },
          { modelId: 'b', name: 'B' },
        ],
      },
      modes: { currentModeId: 'x', availableModes: [{ id: 'x', name: 'X', description: null }] },
    }
    const groups = [
      { group: 'g', name: 'G', options: [value('a')] },
      { group: 'h', name: 'H', options: [value('b')] },
    ]
    const table: [answer: unknown, kind: 'mode' | 'model', seen: (string | undefined)[]][] = [
      // Claude Code, OpenCode, Qwen Code
      [config('model', 'model', 'a', [value('a'), value('b')]), 'model', ['a b', 'a', 'model']],
      [config('model', 'model', 'a', [value('a')]), 'mode', ['', undefined, undefined]],
      [config('m', 'model', 'a', groups), 'model', ['a b', 'a', 'm']],
      // Categories may be absent.
      [config('mode', undefined, 'a', [value('a')]), 'mode', ['a', 'a', 'mode']],
      // Gemini CLI
      [older, 'model', ['a b', 'b', undefined]],
      [older, 'mode', ['x', 'x', undefined]],
      // Both forms: the newer one counts.
      [{ ...older, ...config('m', 'model', 'a', [value('a')]) }, 'model', ['a', 'a', 'm']],
      [{ ...older, configOptions: null }, 'model', ['a b', 'b', undefined]],
      [{ models: null, configOptions: [] }, 'model', ['', undefined, undefined]],
      [{}, 'model', ['', undefined, undefined]],
      [undefined, 'mode', ['', undefined, undefined]],
    ]
    for (const [answer, kind, expected] of table) expect(seen(answer, kind)).toEqual(expected)
  })
})

describe('permission', () => {
  test('is asked with what the agent wants to do, and the answer goes on in the same turn', async () => {
    const { asked, run } = world()
    expect((await run('permit')).text).toBe('yes')
    expect(asked.map(({ options }) => options)).toEqual([
      [
        { id: 'yes', name: 'Yes', kind: 'allow_once' },
        { id: 'ever', name: 'Always', kind: 'allow_always' },
        { id: 'no', name: 'No', kind: 'reject_once' },
      ],
    ])
    const [{ text = '' } = {}] = asked
    expect(text).toEndWith('; rm -rf build; files: /tmp/build; in /')
    expect(text).toStartWith('execute: "Remove')
    expect(text).not.toContain('\n')
  })

  test('that is rejected lets the agent go on', async () => {
    expect((await world().run('permit', { ask: async () => 'no' })).text).toBe('no')
  })

  test('that nobody can answer cancels the turn', async () => {
    const nobody = new Error('nobody answered')
    for (const prompt of ['permit only', 'permit anyway'])
      expect(await failure(world().run(prompt, { ask: () => Promise.reject(nobody) }))).toBe(nobody)
  })

  test('for 200 calls at the same time is asked for each', async () => {
    const { asked, run } = world()
    expect((await run('permit 200')).text).toBe(Array(200).fill('yes').join(','))
    expect(asked.length).toBe(200)
  })
})

describe('an agent that fails', () => {
  const fails = async (options: string[], prompt = 'say x', limits: Partial<AcpLimits> = {}) => {
    const { run } = world(options, limits)
    return (await failure(run(prompt))) as Error & { code: string; hint: string }
  }

  test.each([['run'], ['look']] as const)('to speak is told after ten seconds (%s)', async how => {
    const { clock, open, context } = world()
    const backend = open(['sh', '-c', 'cat >/dev/null'])
    const told: string[] = []
    const stop = new AbortController()
    const more = { signal: stop.signal, noteStarting: () => void told.push('told') }
    const asked =
      how === 'run' ? backend.run({ text: 'hi', files: [] }, context(more)) : backend.look!(context(more))
    const failed = failure(asked)
    await until('it waits', 10_000, () => clock.sleeps(9000, 10_000))
    expect(told).toEqual([])
    clock.advance(10_000)
    await until('it is told', 1000, () => told.length === 1)
    stop.abort(new Error('stopped'))
    await failed
  })

  test('not, and speaks, is not told as silent', async () => {
    const { clock, run } = world()
    const told: string[] = []
    const noteStarting = () => void told.push('told')
    const { agentSession } = await run('pid', { noteStarting })
    clock.advance(20_000)
    await run('pid', { agentSession, noteStarting })
    expect(told).toEqual([])
  })

  test('at its start is named with its last words', async () => {
    const error = await fails(['--fail', 'exit'])
    expect(error).toMatchObject({ code: 'upstream_error' })
    expect(error.message).toContain('status 3')
    expect(error.message).toContain('no such flag: --acp')
  })

  test.each([[['cat']], [['echo', 'hi']], [['true']], [['sleep', '60']]])(
    'because %p speaks something else, is known for that',
    async command => {
      const { open, context } = world([], { answerMs: 300 })
      const error = await failure(open(command).run({ text: 'hi', files: [] }, context()))
      expect(error).toMatchObject({ reason: { how: 'acp' } })
    },
  )

  test.each([
    [['--fail', 'initialize'], 'initialize'],
    [['--fail', 'line'], 'line'],
    [['--version', '2'], 'version 2'],
    [['--login'], 'login'],
  ])('with %p is ended with a clear error', async (options, words) => {
    const error = await fails(options, 'say x', words === 'initialize' ? { answerMs: 100 } : {})
    expect(error).toMatchObject({ code: 'upstream_error' })
    expect(error.message).toContain(words)
  })

  test.each([
    ['die', 'SIGKILL: out of memory'],
    ['flood', 'too much'],
    ['long', 'too long'],
    ['refuse', 'refusal'],
    ['loop', 'max_turn_requests'],
    ['fail', 'quota'],
  ])('in a turn, by "%s", is reported', async (prompt, words) => {
    const error = await fails([], prompt)
    expect(error).toMatchObject({ code: 'upstream_error' })
    expect(error.message).toContain(words)
  })

  test('is started again for the next turn', async () => {
    const store = join(folderOfTest(), 'sessions.json')
    const { kept, run } = world(['--resume', '--store', store])
    await failure(run('die'))
    expect((await run('prompts', { agentSession: kept[0] })).text).toBe('["die","prompts"]')
  })

  test('because it is no program, names it', async () => {
    const { context, open } = world()
    const error = await failure(open(['no-such-agent']).run({ text: 'x', files: [] }, context()))
    expect(error).toMatchObject({ code: 'invalid_arguments' })
    expect(error.message).toContain('no-such-agent')
  })
})

test('close ends every program, and turns that run', async () => {
  const { backend, kept, run } = world()
  const { text: pid } = await run('pid')
  const running = failure(run('wait'))
  await until('the prompt arrives', 10_000, () => kept.length === 2)
  await backend.close()
  expect(await running).toBeInstanceOf(Error)
  expect(await processState(Number(pid))).toBe('gone')
  const late: TurnResult | Error = await run('say x').catch((error: Error) => error)
  expect(late).toMatchObject({ code: 'shutting_down' })
})
