/** An agent that leaves things in its folder: links for svc, programs for svc to start, and names of files to be shown. */
import { expect, test } from 'bun:test'
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { createCommandBackend } from '../../src/agent/backends/command.ts'
import { type AgentConfig, defaultAgent } from '../../src/agent/config.ts'
import { requireIsolation } from '../../src/agent/isolation.ts'
import { createBackend } from '../../src/agent/start.ts'
import { transcribe } from '../../src/agent/transcribe.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { silentLog } from '../../src/platform/log.ts'
import { codeOf, failure } from '../support/failure.ts'
import { folderOfTest } from '../support/folder.ts'
import { PlayedBackend, withAgents } from './support.ts'

const photo = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)
const isolated = test.skipIf(
  !(await requireIsolation().then(
    () => true,
    () => false,
  )),
)

test('a file for the agent is not written where a link in its folder leads', async () => {
  await using agents = await withAgents()
  const outside = folderOfTest()
  const { backend } = await agents.start(new PlayedBackend(() => 'seen'))
  await agents.say('hello')
  await agents.gets(1)
  const { folder } = backend.runs[0]!.context
  for (const [nth, to] of [outside, join(outside, 'new')].entries()) {
    rmSync(join(folder, 'inbox'), { recursive: true, force: true })
    symlinkSync(to, join(folder, 'inbox'))
    await agents.library.sandbox.media('file', photo, { name: 'cron' })
    await agents.gets(nth + 2)
    expect(backend.runs[nth + 1]?.prompt).toMatchObject({ files: [], text: expect.stringContaining('file') })
  }
  expect(readdirSync(outside)).toEqual([])
})

test('a file is sent from its folder, and never by way of a link in it', async () => {
  await using agents = await withAgents()
  const [folder, outside] = [folderOfTest(), folderOfTest()]
  const svc = await agents.library.open({ store: true })
  await svc.runBackground()
  await agents.say('hello')
  await agents.until('it came', async () => (await svc.history()).messages.length > 0)
  const send = (path: string) =>
    svc.send({ to: agents.owner, media: [{ kind: 'file', path }] }, { below: folder })
  writeFileSync(join(outside, 'secret.txt'), 'the secret')
  writeFileSync(join(folder, 'a.txt'), 'own')
  symlinkSync(join(outside, 'secret.txt'), join(folder, 'link.txt'))
  symlinkSync(outside, join(folder, 'deep'))
  expect(await send(join(folder, 'a.txt'))).toMatchObject({ success: true })
  for (const path of ['link.txt', 'deep/secret.txt', '../a.txt'])
    expect(await codeOf(send(join(folder, path)))).toBe('invalid_arguments')
  expect(await codeOf(send(join(outside, 'secret.txt')))).toBe('invalid_arguments')
  expect(await agents.got()).toHaveLength(1)
})

test('an isolated agent does not get a folder around that of another conversation', async () => {
  const top = folderOfTest()
  const base = { ...defaultAgent, backend: { kind: 'command', command: ['/bin/sh'] } } as const
  const ports = { clock: systemClock, dataFolder: folderOfTest(), log: silentLog }
  const make = (agent: Partial<AgentConfig>, other: Partial<AgentConfig> = {}) => {
    const [first, second] = [agent, other].map(one => ({ ...base, ...one }))
    return createBackend(first!, { ...ports, agents: [first!, second!] })
  }
  const around = { isolate: true, folder: top }
  const inside = { folder: join(top, 'mum') }
  mkdirSync(inside.folder)
  expect(await codeOf(make(around, inside))).toBe('invalid_arguments')
  expect(await codeOf(make({ ...around, users: { mum: inside } }))).toBe('invalid_arguments')
  const folders = { all: top, mum: inside.folder }
  expect(await codeOf(make({ ...around, folders }))).toBe('invalid_arguments')
  expect(
    await codeOf(make({ isolate: true, folders: { all: top } }, { folders: { mum: inside.folder } })),
  ).toBe('invalid_arguments')
  symlinkSync(top, join(top, 'link'))
  expect(await codeOf(make({ ...around, folder: join(top, 'link') }, inside))).toBe('invalid_arguments')
  expect(await make({ folder: top }, inside)).toBeDefined()
  // svc does not make a folder that may be misspelt.
  const named = { folders: { no: join(top, 'no') } }
  for (const wrong of [{ folder: join(top, 'no') }, named, { users: { mum: { folder: join(top, 'no') } } }])
    expect(await failure(make(wrong))).toMatchObject({ hint: expect.stringContaining(`mkdir -p ${top}/no`) })
})

isolated('a command that transcribes runs in the sandbox of the agent', async () => {
  const [data, outside] = [folderOfTest(), folderOfTest()]
  const folder = join(data, '.agents/one')
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(data, 'api_token'), 'the token')
  writeFileSync(join(outside, 'model'), 'the model')
  writeFileSync(join(outside, 'private'), 'private')
  writeFileSync(join(folder, 'a.wav'), 'the sound')
  const spy = `cat ${outside}/model ${data}/api_token ${outside}/private; touch ${outside}/written; cat`
  const limits = { folder, signal: new AbortController().signal }
  const heard = await transcribe(`${spy} 2>&1`, join(folder, 'a.wav'), { ...limits, isolatedFrom: data })
  expect(heard).toContain('the model')
  expect(heard).toContain('the sound')
  expect(existsSync(join(outside, 'written'))).toBe(false)
  expect(heard).not.toContain('the token')
})

isolated('an agent that is isolated hears by a command that is isolated', async () => {
  await using agents = await withAgents()
  const outside = folderOfTest()
  const { dir } = agents.library
  const backend = new PlayedBackend(() => 'heard')
  const settings = { isolate: true, transcribe: `touch ${outside}/written; printf said; true` }
  await agents.start(backend, settings, { dataFolder: dir })
  await agents.library.sandbox.media('voice', photo)
  await agents.gets(1)
  expect(backend.runs[0]?.prompt.files).toMatchObject([{ transcript: 'said' }])
  expect(readdirSync(outside)).toEqual([])
})

isolated('what starts the sandbox is not looked for where the agent writes', async () => {
  const [data, outside] = [folderOfTest(), folderOfTest()]
  const folder = folderOfTest()
  const programs = join(folder, 'node_modules/.bin')
  mkdirSync(programs, { recursive: true })
  mkdirSync(join(outside, 'private'))
  writeFileSync(join(outside, 'private/key'), 'private')
  writeFileSync(join(outside, 'private/node'), '')
  const planted = `#!/bin/sh\ntouch ${outside}/written\nexit 0\n`
  for (const name of ['bwrap', 'sh', 'own']) writeFileSync(join(programs, name), planted)
  for (const name of ['bwrap', 'sh', 'own']) chmodSync(join(programs, name), 0o755)
  symlinkSync(join(outside, 'private/node'), join(programs, 'node'))
  const env = { ...process.env, PATH: [programs, process.env.PATH].join(delimiter) }
  const ask = (command: string[], text = '') =>
    createCommandBackend({ command, env, isolatedFrom: data }).run(
      { text, files: [] },
      { folder, signal: new AbortController().signal, ask: () => Promise.reject(new Error('asks nobody')) },
    )
  await requireIsolation([folder], env)
  const look = `cat ${outside}/private/key 2>&1; echo "and $1"`
  expect((await ask(['/bin/sh', '-c', look, 'sh', '{prompt}'], 'x')).text).toContain('No such file')
  // Its own program is in the sandbox as well.
  await ask(['own'])
  expect(existsSync(join(outside, 'written'))).toBe(false)
})

isolated('a file is shown because the settings name it, not because a message does', async () => {
  const [data, outside, folder] = [folderOfTest(), folderOfTest(), folderOfTest()]
  for (const name of ['settings', 'private']) writeFileSync(join(outside, name), `in ${name}`)
  const command = ['/bin/sh', '-c', 'cat "$@" 2>&1; exit 0', 'sh', join(outside, 'settings'), '{prompt}']
  const { text } = await createCommandBackend({ command, isolatedFrom: data }).run(
    { text: join(outside, 'private'), files: [] },
    { folder, signal: new AbortController().signal, ask: () => Promise.reject(new Error('asks nobody')) },
  )
  expect(text).toContain('in settings')
  expect(text).not.toContain('in private')
})

const secrets = {
  SVC_TOKEN: 'x',
  PGPASSWORD: 'x',
  pgpassfile: 'x',
  GITHUB_TOKEN: 'x',
  AWS_SECRET_ACCESS_KEY: 'x',
  HTTPS_PROXY: 'http://127.0.0.1:9',
  XDG_CONFIG_HOME: '/x',
}
const harmless = { PATH: process.env.PATH, LANG: 'C', LC_TIME: 'C', TZ: 'UTC', TERM: 'dumb' }
const models = {
  ANTHROPIC_API_KEY: 'x',
  CLAUDE_CODE_OAUTH_TOKEN: 'x',
  OPENAI_API_KEY: 'x',
  GEMINI_API_KEY: 'x',
}

/** Runs a program with this name that prints the names of its variables. */
async function variablesOf(
  name: string,
  more: { isolatedFrom?: string; given?: string[] },
): Promise<string[]> {
  const folder = folderOfTest()
  const command = [join(folder, name), '{prompt}']
  writeFileSync(command[0]!, '#!/bin/sh\nenv | cut -d= -f1\n')
  chmodSync(command[0]!, 0o755)
  const env = { ...secrets, ...harmless, ...models, HOME: folder }
  const { text } = await createCommandBackend({ command, env, ...more }).run(
    { text: 'x', files: [] },
    { folder, signal: new AbortController().signal, ask: () => Promise.reject(new Error('asks nobody')) },
  )
  const ofShell = ['PWD', 'OLDPWD', 'SHLVL', '_']
  return text.split('\n').filter(one => !ofShell.includes(one))
}

isolated(
  'a program in the sandbox gets what is common, what its model needs, and what is named',
  async () => {
    const isolatedFrom = folderOfTest()
    const usual = [...Object.keys(harmless), 'HOME', 'TMPDIR']
    const variables = async (name: string, given?: string[]) =>
      (await variablesOf(name, { isolatedFrom, ...(given && { given }) })).sort()
    expect(await variables('agent')).toEqual(usual.toSorted())
    expect(await variables('claude')).toEqual([...usual, ...Object.keys(models).slice(0, 2)].sort())
    expect(await variables('gemini', ['GITHUB_TOKEN', 'PGPASSWORD', 'NO_SUCH'])).toEqual(
      [...usual, 'GEMINI_API_KEY', 'GITHUB_TOKEN', 'PGPASSWORD'].sort(),
    )
  },
)

test('the program of the owner gets nothing that svc reads itself, unless it is named', async () => {
  const names = await variablesOf('agent', {})
  expect(names).toContain('GITHUB_TOKEN')
  expect(names).toContain('ANTHROPIC_API_KEY')
  expect(names.filter(name => /^(svc|pg)/i.test(name))).toEqual([])
  expect(await variablesOf('agent', { given: ['PGPASSWORD'] })).toContain('PGPASSWORD')
})
