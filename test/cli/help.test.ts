/** The help of every command there is, and readers of any output who have had enough of it. */
import { describe, expect, test } from 'bun:test'
import { addCommand, Command } from '../../src/cli/command.ts'
import { loadNeededCommands } from '../../src/cli/commands.ts'
import { processIo } from '../../src/cli/terminal.ts'
import { svc, svcOnTerminal } from '../support/command.ts'
import { commanded, nameOf } from '../support/command-lines.ts'
import { folderOfFile } from '../support/folder.ts'
import { svcProgram } from '../support/svc-program.ts'

const home = folderOfFile()

/** Every command, those below others too, with the words that call it. */
async function everyCommand(columns = 80): Promise<[words: string[], command: Command][]> {
  const io = processIo()
  const program = new Command('svc', { ...io, out: { ...io.out, columns } }).enablePositionalOptions()
  for (const spec of await loadNeededCommands([]))
    addCommand({ program, loadCommands: loadNeededCommands, status: 0 }, spec)
  const below = (command: Command, words: string[]): [string[], Command][] =>
    command.commands
      .filter(one => one.name() !== 'complete')
      .flatMap(one => [
        [[...words, one.name()], one] as [string[], Command],
        ...below(one, [...words, one.name()]),
      ])
  return below(program, [])
}

test('the help of every command fits into a terminal, also a narrow one, but for command lines', async () => {
  for (const width of [60, 80]) {
    const wide = (await everyCommand(width)).flatMap(([words, command]) => {
      const written: string[] = []
      command.configureOutput({ writeOut: text => void written.push(text) })
      command.outputHelp()
      // What nobody can break.
      const lines = written
        .join('')
        .replace(/\nExamples:\n( {2}.*\n)+/, '')
        .split('\n')
        .filter(line => !/^ *\S{20,}$/.test(line))
      return lines.filter(line => line.length > width).map(line => [width, words, line])
    })
    expect(wide).toEqual([])
  }
  await using screen = svcOnTerminal(['--help'], { home, columns: 60 })
  expect((await screen.exited).status).toBe(0)
  const lines = screen.text().split('\n')
  expect(lines.filter(line => line.length > 60 && !/^ {2,}/.test(line))).toEqual([])
})

/** What it writes to stderr, and its exit status, when nobody reads its stdout. */
async function unread(args: readonly string[]): Promise<{ said: string; status: number }> {
  const child = Bun.spawn(
    ['sh', '-c', '{ "$0" "$@"; echo "status $?" >&2; } | true', ...svcProgram, ...args],
    {
      cwd: home,
      env: { PATH: process.env.PATH ?? '', HOME: home },
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: 'pipe',
      timeout: 60_000,
      killSignal: 'SIGKILL',
    },
  )
  const text = await new Response(child.stderr).text()
  const [, said = text, status] = /^([\s\S]*)status (\d+)\n$/.exec(text) ?? []
  return { said, status: Number(status) }
}

describe('the help of every command', () => {
  test('explains each option and argument, has every key of an operation, an example and the exit status', async () => {
    const commands = await everyCommand()
    expect(commands.length).toBeGreaterThan(22)
    for (const [words, command] of commands) {
      const name = `svc ${words.join(' ')}`
      const written: string[] = []
      command.configureOutput({ writeOut: text => void written.push(text) }).outputHelp()
      const help = written.join('')
      expect(help).toStartWith(`Usage: ${name} `)
      for (const { flags, description } of command.options)
        expect(`${name} ${flags}: ${description}`).toMatch(/: \S+ \S+/)
      for (const argument of command.registeredArguments) {
        expect(`${name} <${argument.name()}>: ${argument.description}`).toMatch(/: \S+ \S+/)
        expect(help).toContain('\nArguments:\n')
      }
      const operation = commanded.find(({ cli }) => cli.path.join(' ') === words.join(' '))
      for (const key of Object.keys(operation?.inputSchema.properties ?? {})) {
        if (operation!.cli.untyped?.includes(key)) continue
        const flag = nameOf(operation!, key)
        const letter = operation!.cli.short?.[key]
        const option = `${letter ? `-${letter}, ` : ''}--${flag} `
        expect(help).toMatch(new RegExp(`${option}|<${flag}(\\.\\.\\.)?>|\\[${flag}\\]`))
      }
      expect(help).toMatch(new RegExp(`\nExamples:\n(.*\n)*  .*${name}`))
      expect(help).toMatch(/\nExit status: 0 done, /)
    }
  })
})

test("a command's help shows its own options first, and what it shares with others on request", async () => {
  const help = async (...words: string[]) => (await svc(words, { home })).stdout
  for (const words of [['recv'], ['doctor'], ['users', 'name']]) {
    const short = await help(...words, '--help')
    expect(short).not.toContain('--pace')
    expect(short.indexOf('--help')).toBeLessThan(short.indexOf('--base-path'))
    expect(short).toContain('--help --all')
    const all = await help(...words, '--help', '--all')
    expect(all).toContain('--pace')
    expect(await help('help', ...words, '--all')).toBe(all)
  }
  expect(await help('openapi', '--help')).toContain('--pace')
  expect((await svc(['recv', '--all'], { home })).status).toBe(2)
})

test('the help of login shows no call of a program', async () => {
  const [, login] = (await everyCommand()).find(([words]) => words.join(' ') === 'login')!
  const written: string[] = []
  login.configureOutput({ writeOut: text => void written.push(text) }).outputHelp()
  const examples = written.join('').split('\nExamples:\n')[1]
  expect(examples).toContain('svc login')
  expect(examples).not.toContain('--timeout')
})

describe('a reader who has had enough', () => {
  test('of the help, the version, a result: no trace, no word, status 0', async () => {
    const lines = [
      ['--help'],
      ['--version'],
      [],
      ['openapi', '--help'],
      ['send', '--help'],
      ['sessions', 'rename', '-h'],
      ['completion', 'bash'],
      ['complete', '--', 'svc', ''],
      ['setup', 'cursor', '--print', '--any-file'],
      ['status', '--json', '--sandbox'],
      ['sessions', '--json', '--sandbox'],
      ['doctor', '--json', '--sandbox', '--port', '0'],
      ['health', '--port', '9'],
    ]
    for (const args of lines)
      expect([args.join(' '), await unread(args)]).toEqual([
        args.join(' '),
        { said: '', status: expect.any(Number) },
      ])
    for (const args of lines.slice(0, 6)) expect(await unread(args)).toEqual({ said: '', status: 0 })
  })

  test('does not turn an error into success', async () => {
    expect(await unread(['send'])).toEqual({ said: expect.stringMatching(/^error: [^\n]+\n$/), status: 2 })
  })
})
