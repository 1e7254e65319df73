/** Command lines that are wrong: what is said of them, before anything is opened or made. */
import { describe, expect, test } from 'bun:test'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { svc } from '../support/command.ts'
import { folderOfFile } from '../support/folder.ts'
import { svcProgram } from '../support/svc-program.ts'

const home = folderOfFile()

describe('wrong usage ends with 2, names what was typed, and leaves no trace', () => {
  const cases: [args: string[], detail: string, hint: string][] = [
    [['history', '--since', 'last week'], '--since: expected a time', 'See svc history --help.'],
    [
      ['history', '-n', '900'],
      '--limit: expected an integer from 1 to 200, got "900"',
      'See svc history --help.',
    ],
    [['history', '--type', 'dance'], '--type: expected one of TEXT, IMAGE', 'See svc history --help.'],
    [['history', 'a', '--text', 'b'], '--text: given twice', 'See svc history --help.'],
    [['recv', '--consumer', 'a b'], '--consumer: expected a consumer name', 'See svc recv --help.'],
    [['recv', '--timeout', 'soon'], '--timeout: expected a number from 0 to 300', 'See svc recv --help.'],
    [['recv', '--ack', '1', '--follow'], '--ack: not with --follow', 'See svc recv --help.'],
    [['send', 'a@b@c', 'hi'], '<user>: expected a user id', 'See svc send --help.'],
    [['send', 'a@b', '--media', '{"kind":"dance"}'], '--media.kind: expected one of', 'See svc send --help.'],
    [
      ['send', 'a@b', '--media', '{kind:1}'],
      '--media: expected a JSON object as in {"kind":"image",',
      'See svc send --help.',
    ],
    [
      ['send', 'a@b', 'hi', '--when-closed', 'maybe'],
      '--when-closed: expected one of fail, queue, got "maybe"',
      'See svc send --help.',
    ],
    [['send'], "missing required argument 'user'", 'See svc send --help.'],
    [['sessions', 'rename', 'a'], "missing required argument 'new-name'", 'See svc sessions rename --help.'],
    [
      ['sessions', 'renam', 'a', 'b'],
      "unknown command 'renam' (Did you mean rename?)",
      'See svc sessions --help.',
    ],
    [['rename', 'a', 'b'], "unknown command 'rename'", 'See svc --help.'],
    [
      ['send', 'a@b', 'hi', 'there'],
      "too many arguments for 'send': put the text in quotes",
      'See svc send --help.',
    ],
    [
      ['users', 'one', 'two'],
      "too many arguments for 'users'. Expected 1 argument but got 2: one, two (Did you mean svc users name?)",
      'See svc users --help.',
    ],
    [
      ['users', 'name', 'a@b', 'My', 'Mum'],
      "too many arguments for 'name': put the name in quotes",
      'See svc users name --help.',
    ],
    [['setup', 'foo'], '<client>: expected one of claude-code, claude-desktop,', 'See svc setup --help.'],
    [
      ['sessions', 'default', ''],
      '<session>: expected a string of 1 to 200',
      'See svc sessions default --help.',
    ],
    [['download', 'x', '-i', '-1'], '--item: expected an integer from 0', 'See svc download --help.'],
    [
      ['webhook', 'add', 'https://a.example', '--types', 'dance'],
      '--types: expected one of message.received',
      'See svc webhook add --help.',
    ],
    [
      ['webhook', 'log', 'wh_1', '--limit', 'x'],
      '--limit: expected an integer',
      'See svc webhook log --help.',
    ],
    [['webhook', 'add', ''], '<url>: expected', 'See svc webhook add --help.'],
    [['recv', '--follw'], "unknown option '--follw'", 'See svc recv --help.'],
  ]
  for (const [args, detail, hint] of cases) {
    test(`svc ${args.join(' ')}`, async () => {
      const nowhere = join(home, 'nowhere')
      const ended = await svc([...args, '-d', nowhere], { home })
      expect(ended).toEqual({ status: 2, stdout: '', stderr: expect.stringMatching(/^error: [^\n]+\n$/) })
      expect(ended.stderr).toContain(`error: ${detail}`)
      expect(ended.stderr).toEndWith(`${hint}\n`)
      const asJson = await svc([...args, '-d', nowhere, '--json'], { home })
      expect(asJson).toMatchObject({ status: 2, stdout: '' })
      expect(JSON.parse(asJson.stderr)).toMatchObject({ code: 'invalid_arguments', hint })
      expect(await readdir(home)).not.toContain('nowhere')
    })
  }
})

test('stdin that is no text is refused', async () => {
  const script = `printf 'caf\\351' | "$0" "$@"`
  const { exitCode, stdout, stderr } = Bun.spawnSync(
    ['sh', '-c', script, ...svcProgram, 'send', 'a@b', '-'],
    { cwd: home, env: { PATH: process.env.PATH ?? '', HOME: home } },
  )
  expect([exitCode, stdout.toString()]).toEqual([2, ''])
  expect(stderr.toString()).toStartWith('error: <text>: what came on stdin is not UTF-8 text. Turn it into')
})

test('nothing to send, and a name without its one file, are wrong usage too', async () => {
  const files = ['--image', 'x', '--file', 'y', '--file', 'z', '--file-name', 'n']
  for (const [args, detail] of [
    [[], '<text>: expected text, media, or both'],
    [['--text', ''], '--text: expected text, media, or both'],
    [files, '--file-name: expected together with the path of one file'],
  ] as const) {
    const ended = await svc(['send', 'a@b', ...args], { home })
    expect(ended).toMatchObject({ status: 2, stdout: '' })
    expect(ended.stderr).toStartWith(`error: ${detail}`)
  }
})
