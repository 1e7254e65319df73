/** Tab in real shells: bash always, zsh and fish where they are installed. */
import { describe, expect, test } from 'bun:test'
import { cp, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { quoteForShell } from '../../src/platform/format.ts'
import { svc } from '../support/command.ts'
import { folderOfFile } from '../support/folder.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

const home = folderOfFile()
const bin = join(home, 'bin')
await mkdir(bin)
await writeFile(join(bin, 'svc'), `#!/bin/sh\nexec ${svcProgram.map(quoteForShell).join(' ')} "$@"\n`, {
  mode: 0o755,
})
const env = { PATH: `${bin}:${process.env.PATH}`, HOME: home, TERM: 'dumb', LANG: 'C.UTF-8' }
const sessions = { work: ['o9cq80abc@im.wechat', 'x;rm -rf@y'], 客服: [] }
for (const [name, users] of Object.entries(sessions)) {
  const folder = join(home, '.svc', name)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const bot = { bot_id: 'b@im.bot', token: 't', base_url: 'http://127.0.0.1:1', cursor: '', created_at: 1 }
  await writeFile(join(folder, 'token.json'), JSON.stringify(bot))
  const contexts = {
    ...Object.fromEntries(users.map(user => [user, { used: 0, first_seen: 1, received_at: 1, token: 'c' }])),
    // Somebody who was written to, with an error in the id, and who never wrote.
    'o9cq80abd@im.wechat': { used: 0, first_seen: 1, last_sent_at: 2 },
  }
  await writeFile(join(folder, 'contexts.json'), JSON.stringify(contexts))
}

/** What is offered for the last word. */
async function offered(...words: string[]): Promise<string[]> {
  const { stdout, status, stderr } = await svc(['complete', '--', ...words], { home })
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  return stdout
    .split('\n')
    .filter(Boolean)
    .map(line => line.split('\t')[0]!)
}

describe('what is offered', () => {
  test('commands, and commands of commands', async () => {
    expect(await offered('')).toEqual(
      expect.arrayContaining(['recv', 'send', 'login', 'openapi', 'completion']),
    )
    expect(await offered('')).not.toContain('complete')
    expect(await offered('se')).toEqual(expect.arrayContaining(['send', 'sessions']))
    expect(await offered('sessions', '')).toEqual(['rename', 'default'])
    expect(await offered('outbox', 'can')).toEqual(['cancel'])
    expect(await offered('help', 'sen')).toEqual(['send'])
    expect(await offered('help', 'sessions', 'ren')).toEqual(['rename'])
    // Another spelling of a command is no command besides.
    expect(await offered('webhook', '')).not.toContain('list')
  })

  test('flags not given yet, and what they may be', async () => {
    expect(await offered('send', '--ima')).toEqual(['--image'])
    expect(await offered('recv', '--json', '--js')).toEqual([])
    expect(await offered('history', '--type', '')).toEqual([
      'text',
      'image',
      'voice',
      'file',
      'video',
      'unknown',
    ])
    expect(await offered('history', '--type=vi')).toEqual(['--type=video'])
    expect(await offered('completion', '')).toEqual(['bash', 'zsh', 'fish'])
    expect(await offered('mcp', '-t', '')).toEqual(['stdio', 'http', 'sse'])
    for (const command of ['openapi', 'recv', 'doctor'])
      expect(await offered(command, '--log-level', '')).toEqual(['DEBUG', 'INFO', 'WARNING', 'ERROR'])
    expect(await offered('openapi', '--log-level=W')).toEqual(['--log-level=WARNING'])
    expect(await offered('send', '--when-closed', '')).toEqual(['fail', 'queue'])
    const types = [
      'message.received',
      'message.status',
      'session.status',
      'session.muted',
      'session.joined',
      'endpoint.disabled',
      'audit.line',
      'backup.failed',
    ]
    for (const command of [['webhook', 'add', 'https://a.example'], ['events']])
      expect(await offered(...command, '--types', '')).toEqual(types)
    expect(await offered('webhook', 'add', '--types', 'session.status,message.r')).toEqual([
      'session.status,message.received',
    ])
    expect(await offered('webhook', 'add', '--types=message.status,s')).toEqual([
      '--types=message.status,session.status',
      '--types=message.status,session.muted',
      '--types=message.status,session.joined',
    ])
    expect(await offered('--sand')).toEqual(['--sandbox', '--sandbox-port', '--sandbox-host'])
  })

  test('sessions and users of the directory, but nothing that a shell would take for more than a word', async () => {
    expect((await offered('logout', '')).sort()).toEqual(['work', '客服'])
    expect(await offered('recv', '-s', 'w')).toEqual(['work'])
    expect(await offered('sessions', 'rename', 'w')).toEqual(['work'])
    expect(await offered('send', '')).toEqual(['o9cq80abc@im.wechat'])
    expect(await offered('send', '-d', join(home, 'nowhere'), '')).toEqual([])
  })

  test('names of users, of one word, and ids of webhooks', async () => {
    const dir = join(home, 'named')
    await cp(join(home, '.svc'), dir, { recursive: true })
    expect(await offered('webhook', 'show', '-d', dir, '')).toEqual([])
    const run = async (...args: string[]) => {
      const { status, stdout, stderr } = await svc([...args, '-d', dir, '--json'], { home })
      expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
      return JSON.parse(stdout)
    }
    await run('users', 'name', 'o9cq80abc@im.wechat', 'Grandma')
    await run('users', 'name', 'x;rm -rf@y', 'Old Joe')
    expect(await offered('send', '-d', dir, 'Gr')).toEqual(['Grandma'])
    expect(await offered('send', '-d', dir, '')).toEqual(['Grandma', 'o9cq80abc@im.wechat'])
    const { id } = await run('webhook', 'add', 'http://127.0.0.1:9/hook', '--allow-private')
    expect(await offered('webhook', 'show', '-d', dir, 'wh')).toEqual([id])
  })

  test('a path is the business of the shell', async () => {
    expect(await offered('send', 'a@b', '--image', '')).toEqual([])
  })
})

/** What a shell makes of a line of its language. */
async function shell(...command: string[]): Promise<string> {
  const child = Bun.spawn(command, { cwd: home, env, stdout: 'pipe', stderr: 'pipe' })
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  expect(err).toBe('')
  return out
}

/** Types into an interactive shell on a terminal, a step each time its echo shows that it is ready. */
async function typed(
  command: string[],
  steps: readonly (readonly [keys: string, shows: RegExp])[],
): Promise<void> {
  let screen = ''
  const child = Bun.spawn(command, {
    cwd: home,
    env,
    terminal: {
      cols: 120,
      rows: 30,
      data(_terminal, bytes) {
        screen += new TextDecoder().decode(bytes)
      },
    },
  })
  try {
    for (const [keys, shows] of steps) {
      const from = screen.length
      child.terminal!.write(keys)
      await until(
        `${shows}`,
        30_000,
        () => shows.test(screen.slice(from)),
        () => screen,
      )
    }
  } finally {
    child.kill('SIGKILL')
    await child.exited
    child.terminal?.close()
  }
}

const prompt = [`PS1='re''ady>'\n`, /ready>/] as const
/** Ctrl-U and Enter: a Ctrl-C that comes while the shell still completes gets lost. */
const anew = ['\u0015\n', /ready>/] as const

test('bash completes with Tab', async () => {
  await typed(
    ['bash', '--norc', '--noprofile', '-i'],
    [
      prompt,
      ['eval "$(svc completion bash)"\n', /ready>/],
      ['svc histo\t', /history /],
      ['--typ\t', /--type /],
      ['vo\t', /ice /],
      ['--session w\t', /ork /],
      anew,
      ['svc send o9\t', /cq80abc@im\.wechat /],
      ['--image bi\t', /n\//],
      anew,
      // bash hands over words that hold one of these signs in pieces.
      ['svc send o9cq80abc@\t', /im\.wechat /],
      anew,
      ['svc send o9cq80abc@im\t', /\.wechat /],
      anew,
      ['svc history --type=vi\t', /deo /],
    ],
  )
})

test.skipIf(!Bun.which('zsh'))('zsh completes with Tab', async () => {
  await typed(
    ['zsh', '-f', '-i'],
    [
      prompt,
      ['autoload -U compinit; compinit -u -D\n', /ready>/],
      ['eval "$(svc completion zsh)"\n', /ready>/],
      ['svc histo\t', /history /],
      ['--typ\t', /--type /],
      ['vo\t', /ice/],
      anew,
      ['svc send --image bi\t', /n/],
    ],
  )
})

test.skipIf(!Bun.which('fish'))('fish completes', async () => {
  const ask = (line: string) =>
    shell('fish', '--no-config', '-c', `svc completion fish | source; complete -C '${line}'`)
  expect(await ask('svc histo')).toBe('history\tsearch message history\n')
  expect(await ask('svc history --type vo')).toBe('voice\n')
  expect(await ask('svc logout w')).toBe('work\tsession\n')
  expect(await ask('svc send --image bi')).toStartWith('bin/')
})
