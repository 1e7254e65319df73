/** `svc setup` as a user meets it; and what it wrote, started by the official client. */
import { describe, expect, test } from 'bun:test'
import { mkdir, mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { tools } from '../../src/operations/tools.ts'
import { clients } from '../../src/setup/clients.ts'
import { valueAt } from '../../src/setup/edit.ts'
import { serveHere, svc } from '../support/command.ts'
import { folderOfFile } from '../support/folder.ts'
import { freePort } from '../support/port.ts'
import { logIn } from '../support/service.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

const home = folderOfFile()

const setup = (args: string[], options: { home?: string; env?: Record<string, string> } = {}) =>
  svc(['setup', ...args], { home, ...options })

/** A home of its own, removed with the rest. */
const freshHome = () => mkdtemp(join(home, 'home-'))

describe('svc setup', () => {
  test('--print shows entry and path, and changes nothing', async () => {
    const dir = await freshHome()
    for (const { name } of clients) {
      const { status, stdout, stderr } = await setup([name, '--print'], { home: dir })
      // What is said of an entry that is written is said of one that is only shown, beside it.
      expect([status, stderr]).toEqual([0, expect.stringContaining('--any-file')])
      expect(stdout).toStartWith(`${dir}/`)
      expect(stdout).toContain('svc')
      expect(stdout).toContain('stdio')
      expect(stdout).not.toContain('.exe')
    }
    const silent = `http://127.0.0.1:${await freePort()}/mcp`
    const warned = await setup(['cursor', '--print', '--url', silent], { home: dir })
    expect(warned).toMatchObject({ status: 0, stderr: expect.stringContaining(`${silent} now`) })
    expect(warned.stdout).not.toContain('warning')
    expect((await setup(['cursor', '--print', '--remove'], { home: dir })).stderr).toBe('')
    expect(await readdir(dir)).toEqual([])
  })

  test('says what it did, and what to do next', async () => {
    const dir = await freshHome()
    const path = join(dir, '.cursor', 'mcp.json')
    const first = await setup(['cursor'], { home: dir })
    expect(first).toMatchObject({ status: 0, stderr: '' })
    expect(first.stdout).toMatch(
      /^added the server "svc" in \S+\/\.cursor\/mcp\.json\nnext: Restart Cursor.*\nfiles: .*--any-file.*\nthen ask it: .*\n$/,
    )
    const text = await readFile(path, 'utf8')
    const again = await setup(['cursor'], { home: dir })
    expect(again.stdout).toStartWith(`nothing to do: the server "svc" is already in ${path}\n`)
    expect(await readFile(path, 'utf8')).toBe(text)
    expect(await setup(['cursor', '--remove'], { home: dir })).toMatchObject({ status: 0, stderr: '' })
    expect(await readdir(join(dir, '.cursor'))).toEqual([])
  })

  test('a data directory and the sandbox go along, from the environment too; the usual one does not', async () => {
    const argsOf = async (args: string[], env?: Record<string, string>) => {
      const { stdout } = await setup(['gemini', '--print', ...args], { ...(env && { env }) })
      const settings = JSON.parse(stdout.slice(stdout.indexOf('{')))
      const words = (settings.mcpServers.svc.args as string[]).slice(svcProgram.length - 1)
      expect(words.splice(-2)).toEqual(['--consumer', 'gemini'])
      return words
    }
    expect(await argsOf([])).toEqual(['mcp', '-t', 'stdio'])
    expect(await argsOf(['--sandbox'])).toEqual(['mcp', '-t', 'stdio', '--sandbox'])
    expect(await argsOf(['-d', 'here'])).toEqual(['mcp', '-t', 'stdio', '--base-path', join(home, 'here')])
    expect(await argsOf([], { SVC_BASE_PATH: '/data' })).toEqual([
      'mcp',
      '-t',
      'stdio',
      '--base-path',
      '/data',
    ])
    const asks = ['mcp', '-t', 'stdio', '--confirm-send']
    expect(await argsOf(['--confirm-send'])).toEqual(asks)
    expect(await argsOf([], { SVC_CONFIRM_SEND: '1' })).toEqual(asks)
    const anyFile = ['mcp', '-t', 'stdio', '--any-file']
    expect(await argsOf(['--any-file'])).toEqual(anyFile)
    expect(await argsOf([], { SVC_ANY_FILE: '1' })).toEqual(anyFile)
    const some = ['mcp', '-t', 'stdio', '--structured', '--tools', 'recv,send']
    expect(await argsOf(['--structured', '--tools', 'recv, send'])).toEqual(some)
    const port = ['mcp', '-t', 'stdio', '--sandbox', '--sandbox-port', '8101']
    expect(await argsOf(['--sandbox', '--sandbox-port', '8101'])).toEqual(port)
    expect(await argsOf([], { SVC_SANDBOX: '1', SVC_SANDBOX_PORT: '8101' })).toEqual(port)
    // The hook serves nobody: it takes the directory alone.
    const { stdout } = await setup(['claude-code', '--hook', '--print', '--sandbox', '--confirm-send'])
    expect(stdout).toContain('hook-poll --sandbox"')
  })

  test('with --url the token is named, never written', async () => {
    const shown = async (...args: string[]) =>
      (await setup(['claude-code', '--print', ...args], { env: { SVC_TOKEN: 'secret' } })).stdout
    expect(await shown('--url', 'http://127.0.0.1:8000/mcp')).not.toContain('Authorization')
    expect(await shown('--url', 'http://0.0.0.0:9/mcp')).toContain(`Bearer \${SVC_TOKEN}`)
    const named = await shown('--url', 'http://127.0.0.1:8000/mcp', '--token-env', 'MINE')
    expect(named).toContain(`Bearer \${MINE}`)
    expect(named).not.toContain('secret')
  })

  test('with --url of a service that wants its token, and none named, that is told', async () => {
    await using service = await serveHere(await freshHome(), { home }, '--token', 'a-token-of-this-test')
    await using open = await serveHere(await freshHome(), { home })
    const told = async (url: string, ...more: string[]) => {
      const { status, stdout } = await setup(['cursor', '--url', `${url}/mcp`, ...more], {
        home: await freshHome(),
      })
      return [status, stdout.includes('--token-env')]
    }
    expect(await told(service.url)).toEqual([0, true])
    expect(await told(service.url, '--token-env')).toEqual([0, false])
    expect(await told(open.url)).toEqual([0, false])
  })

  test('with --url, a client that reads no variables gets a bridge, and a place for the token', async () => {
    const entryOf = async (name: string, url: string) => {
      const { stdout } = await setup([name, '--print', '--url', url], { env: { SVC_TOKEN: 'secret' } })
      return JSON.parse(stdout.slice(stdout.indexOf('{'))).mcpServers.svc
    }
    // Not this machine by its name, and yet asked on it: setup looks whether anybody answers.
    const [here, there] = ['http://127.0.0.1:8000/mcp', 'http://0.0.0.0:9/mcp']
    const bridge = (url: string) => ({
      args: expect.arrayContaining(['mcp', '-t', 'stdio', '--url', url, '--consumer']),
    })
    expect(await entryOf('claude-desktop', here)).toEqual({ command: svcProgram[0], ...bridge(here) })
    for (const name of ['claude-desktop', 'cline'])
      expect(await entryOf(name, there)).toMatchObject({ ...bridge(there), env: { SVC_TOKEN: '' } })
    expect(await entryOf('cline', here)).toEqual({
      type: 'streamableHttp',
      url: `${here}?consumer=cline`,
      timeout: 120,
    })
    const said = await setup(['claude-desktop', '--url', there], { home: await freshHome() })
    expect(said.stdout).toMatch(/next: .*\nnext: .* SVC_TOKEN\.\n/)
  })

  test('with --url, the path is added and said; where nothing answers, that is a warning; and it is taken back', async () => {
    await using service = await serveHere(await freshHome(), { home })
    const dir = await freshHome()
    const urlOf = async () =>
      JSON.parse(await readFile(join(dir, '.cursor', 'mcp.json'), 'utf8')).mcpServers.svc.url
    for (const typed of ['', '/', '/mcp', '/mcp/']) {
      const { status, stdout, stderr } = await setup(['cursor', '--url', `${service.url}${typed}`], {
        home: dir,
      })
      expect([status, stderr, stdout.includes('note: ')]).toEqual([0, '', !typed.includes('mcp')])
      expect(await urlOf()).toBe(`${service.url}/mcp?consumer=cursor`)
    }
    const wrong = await setup(['cursor', '--url', `${service.url}/nowhere`], { home: dir })
    expect([wrong.status, wrong.stderr.startsWith('warning: ')]).toEqual([0, true])
    const dead = await setup(['cursor', '--url', 'http://127.0.0.1:9'], { home: dir })
    expect([dead.status, dead.stderr]).toEqual([0, expect.stringMatching(/^warning: .*\bECONNREFUSED\b/)])
    expect(await urlOf()).toBe('http://127.0.0.1:9/mcp?consumer=cursor')
    expect((await setup(['cursor', '--remove'], { home: dir })).status).toBe(0)
    expect(await readdir(join(dir, '.cursor'))).toEqual([])
  })

  test('--key-file goes along as a path, directly and over the bridge; without it, keys are mentioned', async () => {
    const dir = await freshHome()
    const data = await freshHome()
    const added = await svc(['key', 'add', 'agent', '--can', 'read', '-d', data, '--json'], { home: dir })
    const { key } = JSON.parse(added.stdout)
    const file = join(dir, 'agent.key')
    await writeFile(file, key)
    const url = 'http://127.0.0.1:9/mcp'
    for (const { format, name, serversPath } of clients)
      for (const [more, words] of [
        [
          ['-d', data],
          ['--base-path', data, '--key-file', file],
        ],
        [
          ['--url', url],
          ['--url', url, '--key-file', file],
        ],
      ] as const) {
        const { stdout } = await setup([name, '--print', '--key-file', file, ...more], { home: dir })
        const settings = format.parse(stdout.slice(stdout.indexOf(':\n') + 2))
        const entry = JSON.stringify(valueAt(settings, [...serversPath(settings), 'svc']))
        expect([name, entry]).toEqual([name, expect.stringContaining(JSON.stringify(words).slice(1, -1))])
        expect(stdout).not.toContain(key)
      }
    const says = async (...args: string[]) =>
      (await setup(['cursor', '--print', ...args], { home: dir })).stderr.includes('--key-file')
    expect([await says('-d', data), await says('-d', data, '--key-file', file), await says()]).toEqual([
      true,
      false,
      false,
    ])
    const { status, stderr } = await setup(['cursor', '--key-file', join(dir, 'missing')], { home: dir })
    expect([status, stderr.startsWith('error: --key-file: ')]).toEqual([2, true])
    expect(
      await setup(['cursor', '--remove', '--key-file', join(dir, 'missing')], { home: dir }),
    ).toMatchObject({
      status: 0,
    })
  })

  test('a file it leaves alone: one line on stderr, status 1, and what to paste by hand', async () => {
    const dir = await freshHome()
    const path = join(dir, '.cursor', 'mcp.json')
    await mkdir(join(dir, '.cursor'))
    await writeFile(path, '{ "mcpServers": ')
    const { status, stdout, stderr } = await setup(['cursor'], { home: dir })
    expect(status).toBe(1)
    expect(stderr).toMatch(/^error: [^\n]+\n$/)
    expect(stdout).toStartWith(`${path}:\n{\n  "mcpServers": {\n    "svc": {`)
    expect(await readFile(path, 'utf8')).toBe('{ "mcpServers": ')
  })

  const wrong: [args: string[], field: string][] = [
    [['claude-desktop', '--project'], '--project'],
    [['cursor', '--url', 'ftp://x'], '--url'],
    [['cursor', '--token-env', 'X'], '--token-env'],
    [['cursor', '--url', 'http://x/mcp', '--token-env', 'a b'], '--token-env'],
    [['cursor', '--url', 'http://127.0.0.1:8000/mcp', '--confirm-send'], '--confirm-send'],
    [['cursor', '--url', 'http://127.0.0.1:8000/mcp', '--any-file'], '--any-file'],
    [['cursor', '--url', 'http://127.0.0.1:9/mcp', '--key-file', '/k', '--token-env'], '--token-env'],
    [['cursor', '--name', 'a.b'], '--name'],
    [['cursor', '--hook'], '--hook'],
    [['claude-code', '--hook', '--key-file', '/k'], '--hook'],
  ]
  for (const [args, field] of wrong)
    test(`svc setup ${args.join(' ')} is wrong usage`, async () => {
      const dir = await freshHome()
      const { status, stdout, stderr } = await setup(args, { home: dir })
      expect([status, stdout]).toEqual([2, ''])
      expect(stderr).toStartWith(`error: ${field}: `)
      expect(await readdir(dir)).toEqual([])
    })
})

describe('what was written works', () => {
  test('the entry of every client starts svc, which serves the nine tools', async () => {
    const data = join(await freshHome(), 'data')
    const entries = new Map<string, readonly string[]>()
    for (const client of clients) {
      const dir = await freshHome()
      expect((await setup([client.name, '-d', data], { home: dir })).status).toBe(0)
      const [shown = ''] = (await setup([client.name, '--print'], { home: dir })).stdout.split(':\n')
      const settings = client.format.parse(await readFile(shown, 'utf8'))
      const entry = valueAt(settings, [...client.serversPath(settings), 'svc']) as {
        command: string | string[]
        args?: string[]
      }
      const command = [entry.command, entry.args ?? []].flat()
      entries.set(command.join(' '), command)
    }
    // Most say the same: each is started once.
    for (const [command = '', ...args] of entries.values()) {
      const transport = new StdioClientTransport({ command, args, cwd: '/', stderr: 'ignore' })
      const agent = new Client({ name: 'test', version: '1' })
      try {
        await agent.connect(transport)
        expect((await agent.listTools()).tools.map(tool => tool.name).sort()).toEqual(
          tools.map(tool => tool.name).sort(),
        )
      } finally {
        await agent.close()
      }
    }
  })

  test('the hook of Claude Code, run by a shell as it stands there, ends with 0 and says nothing', async () => {
    const dir = await freshHome()
    const data = join(dir, "it's data")
    expect((await setup(['claude-code', '--hook', '-d', data], { home: dir })).status).toBe(0)
    const settings = JSON.parse(await readFile(join(dir, '.claude', 'settings.json'), 'utf8'))
    const { command } = settings.hooks.UserPromptSubmit[0].hooks[0]
    const child = Bun.spawn(['sh', '-c', command], { cwd: '/', stdout: 'pipe', stderr: 'pipe' })
    expect(await child.exited).toBe(0)
    expect(await new Response(child.stdout).text()).toBe('')
    expect(await new Response(child.stderr).text()).toBe('')
    expect((await setup(['claude-code', '--remove'], { home: dir })).stdout).toContain(
      'removed the prompt hook from ',
    )
    expect(await readdir(join(dir, '.claude'))).toEqual([])
  })
})

describe('svc setup --wake', () => {
  test('writes a plugin with a monitor for Claude Code, and takes it back', async () => {
    const dir = await freshHome()
    const plugin = join(dir, '.claude', 'skills', 'svc-wake')
    const first = await setup(['claude-code', '--wake', '--sandbox'], { home: dir })
    expect(first).toMatchObject({ status: 0, stderr: '' })
    // It ends by saying how to try it.
    expect(first.stdout.trimEnd().split('\n').at(-1)).toContain('disableAllHooks')
    const manifest = JSON.parse(await readFile(join(plugin, '.claude-plugin', 'plugin.json'), 'utf8'))
    expect(manifest).toMatchObject({ name: 'svc-wake', version: expect.any(String) })
    const monitors = JSON.parse(await readFile(join(plugin, 'monitors', 'monitors.json'), 'utf8'))
    const recv = 'recv --follow --brief --consumer claude-code-wake --sandbox'
    expect(monitors).toEqual([
      { name: 'wechat', description: expect.any(String), command: [...svcProgram, recv].join(' ') },
    ])
    expect((await setup(['claude-code', '--wake', '--sandbox'], { home: dir })).stdout).toContain(
      'nothing to do',
    )
    expect(await setup(['claude-code', '--remove'], { home: dir })).toMatchObject({ status: 0, stderr: '' })
    expect(await readdir(join(dir, '.claude', 'skills'))).toEqual([])
  })

  test('--ask names the person, who may have no name yet, and goes with --remove', async () => {
    const dir = await freshHome()
    const ask = ['claude-code', '--ask', '--to', "Mum's"]
    const { status, stdout } = await setup(ask, { home: dir })
    expect([status, stdout.includes('svc users name')]).toEqual([0, true])
    const path = join(dir, '.claude', 'settings.json')
    expect(JSON.parse(await readFile(path, 'utf8')).hooks.PermissionRequest[0].hooks[0].command).toEndWith(
      " hook-ask -- 'Mum'\\''s'",
    )
    for (const wrong of [ask.slice(0, 2), ['claude-code', '--to', 'Mum'], ['cursor', ...ask.slice(1)]])
      expect([wrong, (await setup(wrong, { home: dir })).status]).toEqual([wrong, 2])
    expect((await setup([...ask, '--url', 'http://127.0.0.1:9'], { home: dir })).status).toBe(2)
    expect((await setup(['claude-code', '--remove'], { home: dir })).status).toBe(0)
    expect(await readdir(join(dir, '.claude'))).toEqual([])
  })

  test('the script for Codex puts each message into the queue of a session, and goes with --remove', async () => {
    const dir = await freshHome()
    const data = await mkdtemp(join(home, 'data-'))
    const { stdout } = await setup(['codex', '--wake', '--sandbox', '-d', data], { home: dir })
    expect(stdout.trimEnd().split('\n').at(-1)).toStartWith('try it')
    const script = join(dir, '.codex', 'svc-wake')
    await mkdir(join(dir, 'bin'))
    const seen = join(dir, 'seen')
    // The first try fails, as when Codex is not there yet.
    const codex = `#!/bin/sh\nprintf '%s\\n' "$@" >> ${seen}\n[ -e ${seen}.tried ] || { touch ${seen}.tried; exit 1; }\n`
    await writeFile(join(dir, 'bin', 'codex'), codex, { mode: 0o755 })
    await writeFile(join(dir, 'bin', 'sleep'), '#!/bin/sh\n', { mode: 0o755 })
    await using service = await serveHere(data, { home })
    await logIn(service)
    await service.call('recv', { timeout: 0, consumer: 'codex-wake' })
    const child = Bun.spawn(['sh', script, 'my session'], {
      env: { PATH: `${join(dir, 'bin')}:${process.env.PATH}`, HOME: dir },
      stdin: 'ignore',
      detached: true,
    })
    try {
      await service.phone('say', { text: "it's\n$(touch evil) `x`" })
      const read = () => readFile(seen, 'utf8').catch(() => '')
      await until('it is in the queue', 30_000, async () => (await read()).split('queue\n').length > 2)
      const lines = (await read()).trimEnd().split('\n')
      expect(lines.slice(0, 4)).toEqual(['queue', '--thread', 'my session', '--message'])
      expect(lines[4]).toContain('text "it\'s ⏎ $(touch evil) `x`"')
      expect(lines.slice(6)).toEqual(lines.slice(0, 6))
    } finally {
      process.kill(-child.pid, 'SIGTERM')
      await child.exited
    }
    await setup(['codex', '--remove', '--sandbox', '-d', data], { home: dir })
    expect(await readdir(join(dir, '.codex'))).toEqual([])
  })

  test('is refused where it cannot work, and spares what svc did not write', async () => {
    const dir = await freshHome()
    for (const args of [['cursor'], ['claude-code', '--project'], ['codex', '--url', 'http://127.0.0.1:9']])
      expect(await setup([...args, '--wake'], { home: dir })).toMatchObject({
        status: 2,
        stderr: expect.stringContaining('--wake'),
      })
    expect(await readdir(dir)).toEqual([])
    await mkdir(join(dir, '.codex'))
    const script = join(dir, '.codex', 'svc-wake')
    await writeFile(script, 'mine\n')
    expect((await setup(['codex', '--wake'], { home: dir })).status).toBe(1)
    expect((await setup(['codex', '--remove'], { home: dir })).status).toBe(1)
    expect(await readFile(script, 'utf8')).toBe('mine\n')
  })
})
