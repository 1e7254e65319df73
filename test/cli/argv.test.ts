/** Options that stand before the command, and what is said of a word that is none. */
import { expect, test } from 'bun:test'
import { splitLeadingOptions } from '../../src/cli/argv.ts'
import { addConfigOptions, Command, wordingOf } from '../../src/cli/command.ts'
import { isServing } from '../../src/cli/commands.ts'
import { processIo } from '../../src/cli/terminal.ts'
import { svc } from '../support/command.ts'
import { folderOfFile } from '../support/folder.ts'

const home = folderOfFile()

test('the first word is found behind options of every kind', () => {
  const split = (line: string) => {
    const { leading, rest } = splitLeadingOptions(line.split(' '))
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

/** What is wrong with a command line: the field, and what was meant. */
async function wrong(line: string): Promise<[status: number, field: string, meant?: string[]]> {
  const { status, stderr } = await svc([...line.split(' '), '--json'], { home })
  const { errors, meant } = JSON.parse(stderr).details
  return [status, errors[0].field, meant]
}

test('a word behind them that is no command is told from the one that was meant', async () => {
  expect(await wrong('--sandbox user')).toEqual([2, 'user', ['users']])
  expect(await wrong('--port 9 users')).toEqual([2, '--port', undefined])
})

test('what newcomers guess leads to the command that they mean', async () => {
  for (const [typed, meant] of Object.entries({
    start: 'svc openapi',
    version: 'svc --version',
    'outbox rm 12': 'svc outbox cancel',
    'users rename a b': 'svc users name',
  }))
    expect([typed, (await wrong(typed))[2]]).toEqual([typed, [meant]])
})

test('--sandbox is taken by svc sandbox too, where it says what is so already', async () => {
  expect((await wrong('sandbox --sandbox --port 9'))[1]).toBe('--port')
})

test('svc sandbox says of its own options what holds for it', async () => {
  const { stdout } = await svc(['sandbox', '--help'], { home })
  const text = stdout.replace(/\s+/g, ' ')
  expect(text).toContain('(127.0.0.1)')
  expect(text).toContain('(~/.svc-sandbox) [SVC_BASE_PATH]')
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

test('a command that is proposed is of the same directory, from the environment too', () => {
  let env: Record<string, string> = {}
  const proposed = (...typed: string[]) => {
    const io = { ...processIo(), env }
    const command = addConfigOptions(new Command('users', io), 'tool').parse(typed, { from: 'user' })
    return wordingOf(command).command(['login', 'my work', '<name>'])
  }
  expect(proposed()).toBe("svc login 'my work' <name>")
  expect(proposed('-d', 'a b', '--sandbox')).toBe("svc login 'my work' <name> --sandbox -d 'a b'")
  env = { SVC_SANDBOX: '1' }
  expect(proposed('-d', 'here')).toBe("svc login 'my work' <name> --sandbox -d here")
})
