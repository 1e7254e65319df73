/** Options that stand before the command, and what is said of a word that is none. */
import { expect, test } from 'bun:test'
import { leadingOptions } from '../../src/cli/argv.ts'
import { isServing } from '../../src/cli/commands.ts'
import { svc } from '../support/command.ts'
import { folderOfFile } from '../support/folder.ts'

const home = folderOfFile()

test('the first word is found behind options of every kind', () => {
  const split = (line: string) => {
    const { leading, rest } = leadingOptions(line.split(' '))
    return [leading.join(' '), rest.join(' ')]
  }
  expect(split('--sandbox users --json')).toEqual(['--sandbox', 'users --json'])
  expect(split('-d users openapi')).toEqual(['-d users', 'openapi'])
  expect(split('--base-path=x --no-banner openapi')).toEqual(['--base-path=x --no-banner', 'openapi'])
  // Options of some commands only: what follows is the command, where it is one.
  expect(split('--json users')).toEqual(['--json', 'users'])
  expect(split('--limit 5 history')).toEqual(['--limit 5', 'history'])
  // No word: svc alone.
  for (const line of ['--sandbox', '--sandbox --port 8100', '--port', '-d users', '--sandbox -- users'])
    expect(split(line)).toEqual(['', line])
})

test('options may stand before the command', async () => {
  const before = await svc(['--sandbox', '--json', 'sessions', 'rename', 'a', 'b'], { home })
  const behind = await svc(['sessions', 'rename', 'a', 'b', '--sandbox', '--json'], { home })
  expect(before).toEqual(behind)
  expect(JSON.parse(before.stderr)).toMatchObject({ code: 'session_not_found' })
  expect(await svc(['--sandbox', 'users'], { home })).toEqual(await svc(['users', '--sandbox'], { home }))
})

test('a word behind them that is no command is told from the one that was meant', async () => {
  expect(await svc(['--sandbox', 'user'], { home })).toEqual({
    status: 2,
    stdout: '',
    stderr: "error: unknown command 'user' (Did you mean users?). See svc --help.\n",
  })
  const { status, stderr } = await svc(['--port', '9', 'users'], { home })
  expect({ status, stderr }).toEqual({
    status: 2,
    stderr: "error: unknown option '--port'. See svc users --help.\n",
  })
})

test('what newcomers guess leads to the command that they mean', async () => {
  const guesses = {
    start: 'openapi',
    version: '--version',
    'outbox rm 12': 'outbox cancel',
    'users rename a b': 'users name',
  }
  for (const [typed, meant] of Object.entries(guesses)) {
    const { status, stderr } = await svc(typed.split(' '), { home })
    expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringContaining(`svc ${meant}?`) })
  }
})

test('--sandbox is taken by svc sandbox too, where it says what is so already', async () => {
  const { status, stderr } = await svc(['sandbox', '--sandbox', '--port', '9'], { home })
  expect({ status, stderr }).toEqual({
    status: 2,
    stderr: expect.stringContaining("unknown option '--port'"),
  })
})

test('svc sandbox says of its own options what holds for it', async () => {
  const { stdout } = await svc(['sandbox', '--help'], { home })
  const text = stdout.replace(/\s+/g, ' ')
  expect(text).toContain('but the phone answers this machine alone (127.0.0.1)')
  expect(text).toContain('data directory (~/.svc-sandbox) [SVC_BASE_PATH]')
  expect(text).not.toContain('token')
})

test('what goes on polling is told by its words', () => {
  const serves = (line: string) => isServing(line === '' ? [] : line.split(' '))
  for (const line of [
    ...['', '--sandbox', 'openapi', 'mcp -t http', 'admin', '-d users openapi', '--sandbox mcp'],
    ...['recv --follow', 'recv -f --json'],
  ])
    expect([line, serves(line)]).toEqual([line, true])
  for (const line of [
    ...['recv', 'send U text', 'login', '--sandbox users', 'sandbox', 'openapi --help', '-v', 'no-command'],
  ])
    expect([line, serves(line)]).toEqual([line, false])
})
