/**
 * The permission prompts of the real Claude Code, as published on npm, on a terminal of its own: answered on the phone and on
 * the screen, with a model on loopback in place of its maker's.
 */
import { expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { environmentIn, installed, programs } from '../support/agents.ts'
import { svcOnTerminal, svcProcess } from '../support/command.ts'
import { logIn, startService } from '../support/service.ts'
import { standInModel } from '../support/stand-in-model.ts'
import { until } from '../support/until.ts'

const { bin, spec } = programs.find(({ name }) => name === 'claude-code')!
const found = await installed(spec, bin)
if ('why' in found) console.warn(`skipped: npm does not give ${spec}: ${found.why}`)
const key = 'sk-ant-stand-in'
const withinMs = 60_000

/** A session whose model wants to make a file, with svc set up to ask the owner of the account. */
async function begin() {
  if ('why' in found) throw new Error(found.why)
  const stack = new AsyncDisposableStack()
  const home = await realpath(await mkdtemp(join(tmpdir(), 'svc-hook-')))
  stack.defer(() => rm(home, { recursive: true, force: true }))
  const work = join(home, 'work')
  await mkdir(work)
  const service = stack.use(await startService())
  await logIn(service)
  await service.phone('say', { text: 'hello' })
  const get = async (path: string) => (await fetch(`${service.url}${path}`)).json()
  const to: string = await until('the user', withinMs, async () => (await get('/users'))[0]?.user_id)
  const setup = ['setup', 'claude-code', '--ask', '--to', to, '-d', service.dir, '--sandbox']
  expect((await svcProcess(setup, { home })).status).toBe(0)
  await writeFile(
    join(home, '.claude.json'),
    JSON.stringify({
      hasCompletedOnboarding: true,
      customApiKeyResponses: { approved: [key.slice(-20)] },
      projects: { [work]: { hasTrustDialogAccepted: true } },
    }),
  )
  let heard = ''
  const step = { tool: 'Bash', input: { command: 'touch made.txt', description: 'Make a file' } }
  const model = standInModel(
    () => ({ say: '' }),
    [],
    (request, tools) => {
      if (!tools.includes('Bash')) return 'ok'
      const isOver = request.includes('"tool_result"')
      if (isOver) heard = request
      return isOver ? 'it is over' : step
    },
  )
  stack.defer(() => model.stop())
  const claude = stack.use(
    svcOnTerminal(['--permission-mode', 'default', 'go'], {
      home: work,
      command: [join(found.folder, 'node_modules', '.bin', bin)],
      env: { ...environmentIn(home), ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: key },
    }),
  )
  const states = async (state: string) =>
    until(`the question is ${state}`, withinMs, async () => (await get('/questions/1')).status === state)
  await states('open')
  const prompt = /proceed\?/
  await claude.until(prompt)
  return Object.assign(stack, {
    claude,
    states,
    say: (text: string) => service.phone('say', { text }),
    isMade: () => existsSync(join(work, 'made.txt')),
    heard: () => heard,
    service,
  })
}

const withClaude = test.skipIf('why' in found)
const onPhone = (work: Awaited<ReturnType<typeof begin>>) =>
  until('the model hears of it', withinMs, work.heard)

withClaude(
  'a plain yes on the phone runs the command',
  async () => {
    await using work = await begin()
    await work.say('yes')
    await work.states('answered')
    await onPhone(work)
    expect(work.isMade()).toBe(true)
  },
  200_000,
)

withClaude(
  'a no on the phone is told to the model, and nothing runs',
  async () => {
    await using work = await begin()
    await work.say('no')
    expect(await onPhone(work)).toContain('said no on WeChat')
    expect(work.isMade()).toBe(false)
  },
  200_000,
)

withClaude(
  'an answer on the screen takes the question back',
  async () => {
    await using work = await begin()
    work.claude.type('1')
    await onPhone(work)
    expect(work.isMade()).toBe(true)
    await work.states('cancelled')
  },
  200_000,
)

withClaude(
  'after the prompt was left, an answer on the phone does nothing',
  async () => {
    await using work = await begin()
    work.claude.type('\u001b')
    await work.claude.until(/Interrupted/)
    await work.say('yes')
    expect([work.isMade(), work.heard()]).toEqual([false, ''])
  },
  200_000,
)
