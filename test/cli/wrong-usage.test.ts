/** Command lines that are wrong: what is said of them, before anything is opened or made. */
import { describe, expect, test } from 'bun:test'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { askPerson } from '../../src/cli/ask.ts'
import { Command } from '../../src/cli/command.ts'
import { loadNeededCommands } from '../../src/cli/commands.ts'
import { processIo } from '../../src/cli/terminal.ts'
import { SvcError } from '../../src/model/error.ts'
import { svc } from '../support/command.ts'
import { ended } from '../support/ended.ts'
import { folderOfFile } from '../support/folder.ts'
import { svcProgram } from '../support/svc-program.ts'

const home = folderOfFile()

describe('wrong usage ends with 2, names what was typed, and leaves no trace', () => {
  // What a schema refuses is told of every command in `commands.test.ts`.
  const cases: [args: string[], field: string][] = [
    [['recv', '--consumer', 'a b'], '--consumer'],
    [['recv', '--ack', '1', '--follow'], '--ack'],
    [['recv', '--ack', '1', '--timeout', '0'], '--ack'],
    [['recv', '-c', 'own', '--ack', '1', '--after', '1'], '--ack'],
    [['events', '-n', '0'], '-n'],
    [['events', '--limit', 'x'], '--limit'],
    [['events', '--after', '1hh'], '--after'],
    [['send', 'a@b@c', 'hi'], '<user>'],
    [['send', 'a@b', '--media', '{"kind":"dance"}'], '--media.kind'],
    [['send', 'a@b'], '<text>'],
    [['send', 'a@b', '--text', ''], '--text'],
    [['send', 'a@b', '--image', 'x', '--file', 'y', '--file', 'z', '--file-name', 'n'], '--file-name'],
    [['webhook', 'replay', 'wh_1', '--from', '1hh'], '--from'],
    [['webhook', 'add', ''], '<url>'],
    [['key', 'add', 'bot'], '--can'],
    [['key', 'add', 'bot', '--can', 'read', '--rate', '10'], '--rate'],
    [['key', 'add', 'bot', '--can', 'read', '--rate', '0/s'], '--rate'],
    [['key', 'add', 'bot', '--can', 'read', '--max-open', 'x'], '--max-open'],
    [['key', 'add', 'bot', '--can', 'read', '--max-bytes', '1x'], '--max-bytes'],
    [['key', 'add', 'bot', '--can', 'read', '--expires', '30x'], '--expires'],
    [['key', 'rotate', 'bot', '--keep-old', '31d'], '--keep-old'],
    [['users', '--user', 'a@b', 'name', 'c@d', 'Ming'], '--user'],
    [['doctor', '--timeout', 'soon'], '--timeout'],
    [['health', '--url', 'ftp://x'], '--url'],
    [['health', '-p', '0'], '-p'],
    [['export', '-o', 'x.csv'], '-o'],
    // Words that are no ids, such as a text without its flag.
    [['approvals', 'yes', '12', 'It', 'was', 'shipped'], '<id>'],
    [['approvals', 'yes', '12', '13', '--text', 'It was shipped'], '--text'],
    [['webhook', 'remove', 'wh_1', 'https://example.com'], '<id>'],
    [['backup', 'x.tar.age'], '<file>'],
    [['backup', 'x.TGZ'], '<file>'],
  ]
  for (const [args, field] of cases)
    test(`svc ${args.join(' ')}`, async () => {
      const error = await refused(args)
      expect(error).toMatchObject({ code: 'invalid_arguments', details: { errors: [{ field }] } })
    })

  const withMeant: [args: string[], field: string, meant?: string[]][] = [
    [['send'], '<user>'],
    [['rename', 'a', 'b'], 'rename', ['svc sessions rename']],
    [['config'], 'config'],
    [['send', 'a@b', 'hi', 'there'], 'send'],
    [['users', 'one', 'two'], 'users', ['svc users name']],
    [['users', 'name', 'a@b', 'My', 'Mum'], 'name'],
    [['recv', '--follw'], '--follw', ['--follow']],
    [['sessions', 'renam', 'a', 'b'], 'renam', ['rename']],
    [['admin', '--port', '9000'], '--port', ['--admin-port']],
    [['admin', '-p', '9000'], '-p', ['--admin-port']],
    [['sandbox', '--port', '9000'], '--port', ['--sandbox-port']],
    [['send', '--to', 'a@b', 'hi'], '--to', ['svc send USER']],
    [['login', '--name', 'work'], '--name', ['svc login NAME']],
    [['download', '1', '--out', 'x'], '--out', ['--save-dir']],
    [['recv', '--data-dir', 'x'], '--data-dir', ['--base-path']],
    // Not of one that has none.
    [['recv', '--out', 'x'], '--out'],
    [['sessions', 'add'], 'add', ['svc login']],
    [['messages'], 'messages', ['svc history']],
  ]
  for (const [args, field, meant] of withMeant)
    test(`svc ${args.join(' ')}`, async () => {
      const { code, details } = await refused(args)
      expect([code, details.errors[0]?.field, details.meant]).toEqual(['invalid_arguments', field, meant])
    })

  test('one of a list, mistyped: what was meant goes along', async () => {
    for (const [word, typed, meant] of [
      ['setup', 'codx', ['codex']],
      ['setup', 'claude', ['claude-code', 'claude-desktop']],
      ['setup', 'zzz', undefined],
      ['completion', 'bsh', ['bash', 'zsh']],
      // All of them are alike: the list says it.
      ['completion', 'tcsh', undefined],
    ] as const) {
      const { status, stderr } = await svc([word, typed], { home })
      expect([status, stderr]).toEqual([2, expect.stringMatching(/^error: [^\n]+\n$/)])
      const { field, details } = await chosenWrong(word, typed)
      expect([field, details?.meant]).toEqual([word === 'setup' ? '<client>' : '<shell>', meant])
    }
  })
})

/** The error of a command that has no `--json`, as it is thrown. */
async function chosenWrong(word: string, typed: string): Promise<SvcError> {
  const [spec] = await loadNeededCommands([word])
  const command = new Command(word, processIo())
  spec?.addOptions?.(command)
  try {
    command.parse([typed], { from: 'user' })
  } catch (error) {
    if (error instanceof SvcError) return error
  }
  throw new Error(`${typed} was taken`)
}

interface Refused {
  readonly code: string
  readonly details: { readonly errors: { field: string; problem: string }[]; readonly meant?: string[] }
}

/** The error of a command line, which is told in one line too. */
async function refused(args: readonly string[]): Promise<Refused> {
  const nowhere = join(home, 'nowhere')
  const ended = await svc([...args, '-d', nowhere], { home })
  expect(ended).toEqual({ status: 2, stdout: '', stderr: expect.stringMatching(/^error: [^\n]+\n$/) })
  const asJson = await svc([...args, '-d', nowhere, '--json'], { home })
  expect(asJson).toMatchObject({ status: 2, stdout: '' })
  const error = JSON.parse(asJson.stderr)
  for (const said of [error.detail, error.hint]) expect(ended.stderr).toContain(said)
  expect(await readdir(home)).not.toContain('nowhere')
  return error
}

for (const [group, ...rest] of [
  ['users', 'name', 'a@b', 'Ming'],
  ['sessions', 'rename', 'a', 'b'],
  ['outbox', 'cancel', '1'],
  ['webhook', 'pause', 'wh_1'],
] as const)
  test(`svc ${group} -d DIR ${rest[0]}: the directory is that of the subcommand`, async () => {
    const dir = join(home, 'typed before')
    const { stderr } = await svc([group, '-d', dir, ...rest], { home })
    expect(stderr).toContain(dir)
  })

test('over stdio there is no socket', async () => {
  const { status, stdout, stderr } = await svc(['mcp', '--socket', join(home, 'x.sock')], { home })
  expect([status, stdout, stderr]).toEqual([2, '', expect.stringMatching(/^error: --socket: [^\n]+\n$/)])
})

test('stdin that is no text is refused', async () => {
  const script = `printf 'caf\\351' | "$0" "$@"`
  const { exitCode, stdout, stderr } = Bun.spawnSync(
    ['sh', '-c', script, ...svcProgram, 'send', 'a@b', '-'],
    { cwd: home, env: { PATH: process.env.PATH ?? '', HOME: home } },
  )
  expect([exitCode, stdout.toString()]).toEqual([2, ''])
  expect(stderr.toString()).toContain('<text>')
})

for (const [name, endless] of [
  ['a device', `exec "$0" "$@" </dev/zero`],
  ['a program', `yes | "$0" "$@"`],
] as const)
  test(`stdin of ${name} that never ends is read no further than a text may be long`, async () => {
    const { status, stdout, stderr } = await ended(
      ['sh', '-c', endless, ...svcProgram, 'send', 'a@b', '-', '--json'],
      { cwd: home, env: { PATH: process.env.PATH ?? '', HOME: home }, withinMs: 20_000 },
    )
    expect([status, stdout]).toEqual([1, ''])
    expect(JSON.parse(stderr)).toMatchObject({ code: 'text_too_long' })
  })

test('nor is an answer that never ends read on', async () => {
  let read = 0
  const stream = Readable.from(
    (function* () {
      for (;;) {
        const block = Buffer.alloc(1024)
        read += block.length
        yield block
      }
    })(),
  )
  const io = { ...processIo(), in: { isTerminal: false, stream } }
  const ask = askPerson(io, () => new AbortController().signal, { silent: true })
  expect(await ask({ field: 'code', text: 'which?' })).toBeUndefined()
  stream.destroy()
  expect(read).toBeLessThan(1024 * 1024)
})
