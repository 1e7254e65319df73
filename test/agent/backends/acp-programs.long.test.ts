/**
 * Real programs that speak the Agent Client Protocol, as published on npm, with a model on loopback in place of their
 * maker's.
 */
import { expect, test } from 'bun:test'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, realpath, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { PermissionRequest, TurnContext } from '../../../src/agent/backend.ts'
import { createAcpBackend } from '../../../src/agent/backends/acp.ts'
import { systemClock } from '../../../src/platform/clock.ts'
import { silentLog } from '../../../src/platform/log.ts'
import { installed, programs, quiet } from '../../support/agents.ts'
import { failure } from '../../support/failure.ts'
import { type Step, standInModel } from '../../support/stand-in-model.ts'
import { until } from '../../support/until.ts'

interface AcpProgram {
  /** Name in `programs`, whose settings it uses. */
  readonly name: string
  readonly spec: string
  readonly bin: string
  readonly args: readonly string[]
  /** Its tool that runs a command. */
  readonly shell: string
}

const acpPrograms: readonly AcpProgram[] = [
  {
    name: 'gemini',
    spec: '@google/gemini-cli@0.61.0',
    bin: 'gemini',
    args: ['--acp', '-m', 'gemini-2.5-flash'],
    shell: 'run_shell_command',
  },
  { name: 'opencode', spec: 'opencode-ai@1.18.33', bin: 'opencode', args: ['acp'], shell: 'bash' },
  {
    name: 'claude-code',
    spec: '@agentclientprotocol/claude-agent-acp@0.101.0',
    bin: 'claude-agent-acp',
    args: [],
    shell: 'Bash',
  },
]

const found = await Promise.all(
  acpPrograms.map(async program => ({ program, ...(await installed(program.spec, program.bin)) })),
)

for (const { program, ...had } of found) {
  const folder = 'folder' in had ? had.folder : undefined
  if ('why' in had) console.warn(`skipped: npm does not give ${program.spec}: ${had.why}`)
  test.skipIf(folder === undefined)(
    `${program.bin} answers, asks, obeys, stops, and goes on in another process`,
    () => talks(program, folder!),
    240_000,
  )
}

async function talks({ args, bin, name, shell }: AcpProgram, installedIn: string): Promise<void> {
  const home = await realpath(await mkdtemp(join(tmpdir(), 'svc-acp-')))
  const folder = join(home, 'work')
  await mkdir(folder)
  let isHanging = false
  const model = standInModel(
    () => ({ say: 'done' }),
    [],
    (request, tools): string | Step | Promise<string> => {
      const [last] = [...request.matchAll(/(HELLO|TOUCH|HANG|AGAIN)(\d)/g)].slice(-1)
      if (last?.[1] === 'HANG') {
        isHanging = true
        return new Promise(() => {})
      }
      const file = `made-${last?.[2]}`
      const isAsked =
        last?.[1] === 'TOUCH' && tools.includes(shell) && !request.includes(`touched-${last[2]}`)
      if (isAsked)
        return {
          tool: shell,
          input: { command: `touch ${file} && echo touched-${last[2]}`, description: 'Touch' },
        }
      if (last?.[1] === 'AGAIN') return request.includes('HELLO1') ? 'I remember' : 'I forgot'
      return `answer to ${last?.[0]}`
    },
  )
  const asked: PermissionRequest[] = []
  const program = programs.find(one => one.name === name)!
  const { env } = await program.call({
    home,
    folder: installedIn,
    model: model.url,
    server: undefined as never,
  })
  // It has no mode that asks: without this setting it runs commands by its own judgement.
  if (name === 'opencode')
    addSettings(join(home, '.config', 'opencode', 'opencode.json'), 'permission', { bash: 'ask' })
  const xdg = {
    XDG_CONFIG_HOME: '.config',
    XDG_DATA_HOME: '.share',
    XDG_CACHE_HOME: '.cache',
    XDG_STATE_HOME: '.state',
  }
  const places = Object.entries(xdg).map(([key, path]) => [key, join(home, path)])
  const open = () =>
    createAcpBackend({
      command: [join(installedIn, 'node_modules', '.bin', bin), ...args],
      clock: systemClock,
      log: silentLog,
      env: {
        ...quiet,
        PATH: process.env.PATH,
        HOME: home,
        TMPDIR: home,
        ...env,
        ...Object.fromEntries(places),
      },
    })
  let answer: 'allow_once' | 'reject_once' = 'allow_once'
  let agentSession: string | undefined
  const context = (signal = new AbortController().signal): TurnContext => ({
    folder,
    agentSession,
    signal,
    async ask(request) {
      asked.push(request)
      return request.options.find(({ kind }) => kind === answer)!.id
    },
    keepSession(id) {
      agentSession = id
    },
  })
  let backend = open()
  const run = async (text: string, signal?: AbortSignal) =>
    (await backend.run({ text, files: [] }, context(signal))).text
  try {
    const mode = await backend.describe!(folder, new AbortController().signal)
    expect(mode).toContain(name === 'opencode' ? 'own settings' : 'mode default')
    expect(await run('HELLO1')).toContain('answer to HELLO1')
    const first = agentSession

    await run('TOUCH2')
    expect(asked.map(({ text }) => text).join('\n')).toContain('made-2')
    expect(existsSync(join(folder, 'made-2'))).toBe(true)

    answer = 'reject_once'
    await run('TOUCH3').catch(() => {})
    expect(asked.length).toBeGreaterThan(1)
    expect(existsSync(join(folder, 'made-3'))).toBe(false)

    const stop = new AbortController()
    const stopped = failure(run('HANG4', stop.signal))
    await until('the model is asked', 60_000, () => isHanging)
    stop.abort(new Error('stopped'))
    expect((await stopped).message).toBe('stopped')
    expect(await run('HELLO5')).toContain('answer to HELLO5')

    await backend.close()
    if (name === 'gemini') await makeOlder(join(home, '.gemini', 'tmp', 'work', 'chats'))
    backend = open()
    // Without what was said before, which Gemini tells again after it loaded the session.
    expect(await run('AGAIN6')).toBe('I remember')
    expect(agentSession).toBe(first!)
  } catch (error) {
    throw new Error(`${bin}: ${JSON.stringify(asked)}\n${model.log.slice(-10).join('\n')}`, { cause: error })
  } finally {
    await backend.close()
    model.stop()
    await rm(home, { recursive: true, force: true, maxRetries: 5 })
  }
}

/** Adds to the settings of a program when it asks. */
function addSettings(path: string, key: string, rules: object): void {
  mkdirSync(dirname(path), { recursive: true })
  const settings = existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : {}
  writeFileSync(path, JSON.stringify({ ...settings, [key]: rules }))
}

/**
 * Dates the sessions of Gemini back to yesterday. It names their files by the minute, and overwrites a session that it
 * loads in the minute in which it began.
 */
async function makeOlder(folder: string): Promise<void> {
  const yesterday = new Date(Date.now() - 24 * 60 * 60_000).toISOString().slice(0, 10)
  for (const name of await readdir(folder))
    await rename(join(folder, name), join(folder, name.replace(/\d{4}-\d\d-\d\d/, yesterday)))
}
