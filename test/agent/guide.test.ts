/**
 * The set-ups of the guide, as far as they go without an account of a model: each line starts, and a stand-in that
 * speaks as the program does answers. `backends/` tests the real programs.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { parseAgentFile } from '../../src/agent/settings.ts'
import { agentReads, type Serving, serveHere, svcRunning } from '../support/command.ts'
import { folderOfFile } from '../support/folder.ts'
import { logIn } from '../support/service.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

const root = resolve(import.meta.dirname, '../..')
const guide = await readFile(join(root, 'src/agent/README.md'), 'utf8')
const readme = await readFile(join(root, 'README.md'), 'utf8')

/** Every command line in the ```sh blocks of a page. */
const linesOf = (page: string): string[] =>
  [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].flatMap(([, block = '']) => block.trim().split('\n'))
const named = [...readme.matchAll(/`(\.\/scripts\/svc agent [^`]+)`/g)].map(([, line = '']) => line)
const lines = [...linesOf(guide), ...named]

const home = folderOfFile()
const bin = join(home, 'bin')
const env = { PATH: `${bin}:${process.env.PATH}` }

/** A program that reads its prompt and prints these lines. */
const prints = (...events: object[]) =>
  ['#!/bin/sh', 'cat >/dev/null', ...events.map(event => `echo '${JSON.stringify(event)}'`), ''].join('\n')
const acp = `#!/bin/sh\nexec ${svcProgram.join(' ')} echo-agent --acp\n`
const programs: Readonly<Record<string, string>> = {
  claude: prints(
    { type: 'system', subtype: 'init', session_id: 'one' },
    { type: 'result', result: 'You said: Hello', session_id: 'one' },
  ),
  codex: prints(
    { type: 'thread.started', thread_id: 'one' },
    { type: 'item.completed', item: { type: 'agent_message', text: 'You said: Hello' } },
    { type: 'turn.completed' },
  ),
  opencode: prints({ type: 'text', sessionID: 'one', part: { text: 'You said: Hello' } }),
  gemini: acp,
  npx: acp,
}

let service: Serving
beforeAll(async () => {
  await mkdir(bin)
  for (const [name, text] of Object.entries(programs)) await writeFile(join(bin, name), text, { mode: 0o755 })
  service = await serveHere(join(home, 'data'), { home, env }, '--pace', 'off')
  await logIn(service)
})
afterAll(async () => {
  await service?.stop()
})

const model = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch: () =>
    Response.json({
      choices: [{ message: { role: 'assistant', content: 'You said: Hello' }, finish_reason: 'stop' }],
    }),
})
afterAll(() => model.stop(true))

test('the guide has at least five set-ups, and the first page one to try', () => {
  expect(lines.length).toBeGreaterThan(6)
})

describe('a line of the guide', () => {
  test.each(lines.map((line, nth) => [line, nth] as const))('%s', async (line, nth) => {
    const [program, ...words] = line.replace('http://127.0.0.1:11434', model.url.origin).split(' ')
    expect(program?.replace('./scripts/', '')).toBe('svc')
    const place = ['-d', service.dir, '--sandbox', '--pace', 'off', '--name', `n${nth}`, '--gather', '0.1']
    const args = [...words.slice(0, 1), ...place, ...words.slice(1).filter(word => word !== '--sandbox')]
    const running = svcRunning(args, { home, env })
    const said = () => running.stdout + running.stderr
    await until('it is ready', 30_000, () => /may talk with it\n/.test(running.stdout), said)
    await agentReads(service.dir, `n${nth}`)
    await service.phone('say', { text: 'Hello' })
    const answered = async () => (await service.call('history', { text_contains: 'You said' })).body.total
    await until('it has answered', 30_000, async () => (await answered()) === nth + 1, said)
    running.stop('SIGINT')
    expect((await running.exited).status).toBe(0)
  })
})

test('the file with several agents is right', async () => {
  const [, file = ''] = /^```json\n([\s\S]*?)^```$/m.exec(guide) ?? []
  const agents = await parseAgentFile(file, join(home, 'agents.json'))
  expect(agents.map(({ name }) => name)).toEqual(['family', 'work', 'home'])
  // The table names every key that the example has.
  for (const [, key = ''] of file.matchAll(/"([a-z_]+)":/g))
    if (!['agents', 'Mum'].includes(key)) expect(guide).toContain(`\`${key}\``)
})
