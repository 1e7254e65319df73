/** Every client's own file: made from nothing, merged into one that is lived in, taken back, and left alone. */
import { beforeEach, describe, expect, test } from 'bun:test'
import {
  chmod,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { UserFolders } from '../../src/config.ts'
import { type Client, clients, type McpTarget } from '../../src/setup/clients.ts'
import { valueAt } from '../../src/setup/edit.ts'
import { answerSeconds } from '../../src/setup/hook.ts'
import { preview, type SetupRequest, setUp, takeBack, toLastingCommand } from '../../src/setup/setup.ts'
import { codeOf, failure } from '../support/failure.ts'
import { folderOfTest } from '../support/folder.ts'

let home = ''
beforeEach(() => {
  home = folderOfTest()
})

const program = '/opt/my tools/svc'
const args = ['mcp', '-t', 'stdio', '-d', '/data']
const local: McpTarget = { command: [program, ...args] }
const url = 'http://10.0.0.5:8000/mcp'
const bridgeArgs = ['mcp', '-t', 'stdio', '--url', url]
const remote: McpTarget = { url, bridge: [program, ...bridgeArgs], tokenVariable: 'MY_TOKEN' }

const foldersOf = (more: Partial<UserFolders> = {}): UserFolders => ({
  home,
  platform: 'linux',
  project: join(home, 'project'),
  appData: join(home, 'AppData', 'Roaming'),
  localAppData: join(home, 'AppData', 'Local'),
  xdgConfig: join(home, '.config'),
  path: [],
  ...more,
})

const request = (client: Client, more: Partial<SetupRequest> = {}): SetupRequest => ({
  ...{ client, scope: 'user', name: 'svc', server: local, force: false, folders: foldersOf() },
  ...more,
})
const clientOf = (name: string) => clients.find(client => client.name === name)!
const fileOf = async (client: Client, more: Partial<SetupRequest> = {}) =>
  (await preview(request(client, more)))[0]!.path

async function place(path: string, text: string) {
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, text)
}

/** Where each client keeps its servers, per system, and what it writes down: as its documentation says. */
const known: Record<
  string,
  {
    /** Of Linux, macOS and Windows, where they differ. */
    paths: string | [linux: string, mac: string, windows: string]
    project?: string
    local: object
    remote: object
  }
> = {
  'claude-code': {
    paths: '.claude.json',
    project: '.mcp.json',
    local: { mcpServers: { svc: { type: 'stdio', command: program, args } } },
    remote: {
      mcpServers: {
        svc: {
          type: 'http',
          url,
          headers: { Authorization: `Bearer \${MY_TOKEN}` },
        },
      },
    },
  },
  'claude-desktop': {
    paths: [
      '.config/Claude/claude_desktop_config.json',
      'Library/Application Support/Claude/claude_desktop_config.json',
      'AppData/Roaming/Claude/claude_desktop_config.json',
    ],
    local: { mcpServers: { svc: { command: program, args } } },
    remote: { mcpServers: { svc: { command: program, args: bridgeArgs, env: { SVC_TOKEN: '' } } } },
  },
  cursor: {
    paths: '.cursor/mcp.json',
    project: '.cursor/mcp.json',
    local: { mcpServers: { svc: { command: program, args } } },
    remote: { mcpServers: { svc: { url, headers: { Authorization: `Bearer \${env:MY_TOKEN}` } } } },
  },
  vscode: {
    paths: [
      '.config/Code/User/mcp.json',
      'Library/Application Support/Code/User/mcp.json',
      'AppData/Roaming/Code/User/mcp.json',
    ],
    project: '.vscode/mcp.json',
    local: { servers: { svc: { type: 'stdio', command: program, args } } },
    remote: {
      servers: {
        svc: {
          type: 'http',
          url,
          headers: { Authorization: `Bearer \${input:svc-token}` },
        },
      },
      inputs: [
        {
          type: 'promptString',
          id: 'svc-token',
          description: 'Token of svc, as in MY_TOKEN',
          password: true,
        },
      ],
    },
  },
  codex: {
    paths: '.codex/config.toml',
    project: '.codex/config.toml',
    local: { mcp_servers: { svc: { command: program, args, required: true } } },
    remote: { mcp_servers: { svc: { url, required: true, bearer_token_env_var: 'MY_TOKEN' } } },
  },
  opencode: {
    paths: '.config/opencode/opencode.json',
    project: 'opencode.json',
    local: { mcp: { svc: { type: 'local', command: [program, ...args] } } },
    remote: {
      mcp: {
        svc: { type: 'remote', url, oauth: false, headers: { Authorization: 'Bearer {env:MY_TOKEN}' } },
      },
    },
  },
  gemini: {
    paths: '.gemini/settings.json',
    project: '.gemini/settings.json',
    local: { mcpServers: { svc: { command: program, args } } },
    remote: { mcpServers: { svc: { httpUrl: url, headers: { Authorization: `Bearer \${MY_TOKEN}` } } } },
  },
  qwen: {
    paths: '.qwen/settings.json',
    project: '.qwen/settings.json',
    local: { mcpServers: { svc: { command: program, args } } },
    remote: { mcpServers: { svc: { httpUrl: url, headers: { Authorization: `Bearer \${MY_TOKEN}` } } } },
  },
  copilot: {
    paths: '.copilot/mcp-config.json',
    local: { mcpServers: { svc: { tools: ['*'], type: 'local', command: program, args } } },
    remote: {
      mcpServers: {
        svc: { tools: ['*'], type: 'http', url, headers: { Authorization: `Bearer \${MY_TOKEN}` } },
      },
    },
  },
  cline: {
    paths: '.cline/data/settings/cline_mcp_settings.json',
    local: { mcpServers: { svc: { type: 'stdio', command: program, args, timeout: 120 } } },
    remote: {
      mcpServers: {
        svc: { type: 'stdio', command: program, args: bridgeArgs, env: { SVC_TOKEN: '' }, timeout: 120 },
      },
    },
  },
}

/** A file with a life of its own, with other servers and comments. */
function livedIn({ format, name }: Client): string {
  if (format.name === 'TOML')
    return '# mine\nmodel = "o9"\n\n[mcp_servers.files]\ncommand = "files" # keep\n\n[[profiles]]\nname = "a"\n'
  const servers = name === 'vscode' ? 'servers' : name === 'opencode' ? 'mcp' : 'mcpServers'
  return `{\r\n    // mine\r\n    "theme": "dark",\r\n    "${servers}": {\r\n        "files": { "type": "stdio", "command": "files" }, // keep\r\n    },\r\n    "inputs": [\r\n        { "id": "other" }\r\n    ],\r\n}\r\n`
}

const settingsIn = async ({ format }: Client, path: string) => format.parse(await readFile(path, 'utf8'))

/** Of the lived-in file, no entry and no comment is missing, and none is new. */
async function expectAsBefore(client: Client, path: string) {
  const text = await readFile(path, 'utf8')
  const left = client.format.parse(text) as { inputs?: unknown[] }
  expect(left).toEqual(client.format.parse(livedIn(client)) as typeof left)
  for (const comment of livedIn(client).match(/(\/\/|#) \w+/g) ?? []) expect(text).toContain(comment)
}

test('every client of the table is tried', () => {
  expect(Object.keys(known)).toEqual(clients.map(({ name }) => name))
})

const blankJson = ['{}', '{}\n', '{ }\n', '{\r\n}\r\n', '{ // mine\n}\n', '{\n  "mcpServers": {}\n}\n']

for (const client of clients) {
  const { paths, project, ...values } = known[client.name]!
  describe(client.title, () => {
    test('its file is found on every system', async () => {
      for (const [index, platform] of (['linux', 'darwin', 'win32'] as const).entries()) {
        const path = typeof paths === 'string' ? paths : paths[index]!
        expect(await fileOf(client, { folders: foldersOf({ platform }) })).toBe(join(home, path))
      }
      if (project) expect(await fileOf(client, { scope: 'project' })).toBe(join(home, 'project', project))
      else expect(await codeOf(preview(request(client, { scope: 'project' })))).toBe('invalid_arguments')
    })

    for (const [kind, server] of [
      ['local', local],
      ['remote', remote],
    ] as const) {
      const value = values[kind]
      test(`a ${kind} server: made from nothing, private, as its documentation has it, and taken back`, async () => {
        const path = await fileOf(client)
        expect(await setUp(request(client, { server }))).toEqual([{ path, what: 'server', did: 'added' }])
        expect(client.format.parse(await readFile(path, 'utf8'))).toEqual(value)
        expect((await stat(path)).mode & 0o777).toBe(0o600)
        expect(await takeBack(request(client, { server: local }))).toMatchObject([
          { did: 'removed', isGone: true },
        ])
        expect(await readdir(dirname(path))).toEqual([])
      })

      test(`a ${kind} server: made from nothing, changed, and taken back with its file`, async () => {
        const path = await fileOf(client)
        await setUp(request(client, { server: kind === 'local' ? remote : local }))
        expect(await setUp(request(client, { server }))).toMatchObject([{ did: 'changed' }])
        expect(await takeBack(request(client))).toMatchObject([{ did: 'removed', isGone: true }])
        expect(await readdir(dirname(path))).toEqual([])
      })

      test(`a ${kind} server: merged into a lived-in file, twice is once, and taken back`, async () => {
        const path = await fileOf(client)
        const text = livedIn(client)
        await place(path, text)
        await chmod(path, 0o640)
        await setUp(request(client, { server }))
        const after = await readFile(path, 'utf8')
        expect(client.format.parse(after)).toMatchObject(
          client.name === 'vscode' && kind === 'remote' ? { servers: {} } : value,
        )
        for (const line of text.split('\n')) expect(after.split('\n')).toContain(line)
        expect((await stat(path)).mode & 0o777).toBe(0o640)
        expect(await setUp(request(client, { server }))).toMatchObject([{ did: 'nothing' }])
        expect(await readFile(path, 'utf8')).toBe(after)
        await takeBack(request(client))
        await expectAsBefore(client, path)
        expect(await takeBack(request(client))).toMatchObject([{ did: 'nothing' }])
      })
    }

    test('a file that was there stays, empty as it was', async () => {
      const path = await fileOf(client)
      const mark = '\ufeff'
      const texts = ['', ' \n', mark, ...(client.name === 'codex' ? ['\n', '# mine\n'] : blankJson)]
      for (const text of texts) {
        await place(path, text)
        await setUp(request(client))
        expect(await takeBack(request(client))).toEqual([{ path, what: 'server', did: 'removed' }])
        expect(await readFile(path, 'utf8')).not.toContain('svc')
      }
    })

    test('a file that does not parse is left as it is, with the line', async () => {
      const path = await fileOf(client)
      const text = `${livedIn(client)}\n}{`
      await place(path, text)
      for (const work of [setUp, takeBack]) {
        const error = await failure(work(request(client)))
        expect(error).toMatchObject({ code: 'forbidden' })
        expect(error.message).toStartWith(`${path} `)
        expect(error.message).toMatch(new RegExp(`\\b${client.format.name}\\b.*\\bline \\d`))
      }
      expect(await readFile(path, 'utf8')).toBe(text)
    })

    test('another one of that name is replaced and removed by force alone', async () => {
      const path = await fileOf(client)
      const settings = client.format.put(livedIn(client), {
        path: [...client.serversPath(undefined), 'svc'],
        value: { command: 'something-else' },
      })
      await place(path, settings)
      for (const work of [setUp, takeBack])
        expect(await failure(work(request(client)))).toMatchObject({
          ...{ code: 'forbidden', hint: expect.stringContaining('--force') },
        })
      expect(await readFile(path, 'utf8')).toBe(settings)
      await setUp(request(client, { name: 'svc2' }))
      await takeBack(request(client, { name: 'svc2' }))
      expect(await readFile(path, 'utf8')).toBe(settings)
      expect(await setUp(request(client, { force: true }))).toMatchObject([{ did: 'changed' }])
      await takeBack(request(client))
      await expectAsBefore(client, path)
    })

    test('a token that was put into the entry is not lost', async () => {
      if (!client.tokenInEntry) return
      const path = await fileOf(client)
      await setUp(request(client, { server: remote }))
      const filled = (await readFile(path, 'utf8')).replace('"SVC_TOKEN": ""', '"SVC_TOKEN": "secret"')
      expect(filled).toContain('secret')
      await writeFile(path, filled)
      for (const work of [setUp, takeBack])
        expect(await failure(work(request(client, { server: remote })))).toMatchObject({ code: 'forbidden' })
      expect(await readFile(path, 'utf8')).toBe(filled)
    })

    test('one of ours is brought up to date', async () => {
      const path = await fileOf(client)
      await place(path, livedIn(client))
      await setUp(request(client, { server: { command: ['/old/svc', 'mcp', '-t', 'stdio'] } }))
      expect(await setUp(request(client))).toMatchObject([{ did: 'changed' }])
      expect(client.format.parse(await readFile(path, 'utf8'))).toMatchObject(values.local)
      await takeBack(request(client))
      await expectAsBefore(client, path)
    })
  })
}

describe('files', () => {
  const cursor = clientOf('cursor')

  test('a link stays a link; one to nothing is refused', async () => {
    const path = await fileOf(cursor)
    const target = join(home, 'dotfiles', 'cursor.json')
    await mkdir(dirname(path), { recursive: true })
    await mkdir(dirname(target))
    await symlink('../dotfiles/cursor.json', path)
    expect(await failure(setUp(request(cursor)))).toMatchObject({ code: 'forbidden' })
    expect(await readlink(path)).toBe('../dotfiles/cursor.json')
    await writeFile(target, '{"a":1}')
    await setUp(request(cursor))
    expect((await lstat(path)).isSymbolicLink()).toBe(true)
    expect(cursor.format.parse(await readFile(target, 'utf8'))).toMatchObject({
      a: 1,
      ...known.cursor!.local,
    })
    await takeBack(request(cursor))
    expect(await settingsIn(cursor, target)).toEqual({ a: 1 })
  })

  test('links that lead round, read-only files, folders and other encodings are refused and left alone', async () => {
    const path = await fileOf(cursor)
    await mkdir(dirname(path), { recursive: true })
    await symlink('mcp.json', path)
    expect(await failure(setUp(request(cursor)))).toMatchObject({
      code: 'forbidden',
      cause: { code: 'ELOOP' },
    })
    await rm(path)

    await writeFile(path, '{}')
    await chmod(path, 0o444)
    expect(await failure(setUp(request(cursor)))).toMatchObject({ code: 'forbidden' })
    expect(await readFile(path, 'utf8')).toBe('{}')
    expect((await stat(path)).mode & 0o777).toBe(0o444)
    await rm(path)

    await writeFile(path, new Uint8Array([0xff, 0xfe, 0x7b, 0x00, 0x7d, 0x00]))
    expect(await failure(setUp(request(cursor)))).toMatchObject({
      code: 'forbidden',
      cause: expect.any(TypeError),
    })
    await rm(path)

    await mkdir(path)
    expect(await failure(setUp(request(cursor)))).toMatchObject({
      code: 'forbidden',
      cause: { code: 'EISDIR' },
    })
    expect(await readdir(path)).toEqual([])
  })

  test('nothing is left beside the file', async () => {
    const path = await fileOf(cursor)
    await setUp(request(cursor))
    await setUp(request(cursor, { server: remote }))
    expect(await readdir(dirname(path))).toEqual(['mcp.json'])
  })

  test('a byte order mark stays', async () => {
    const path = await fileOf(cursor)
    await place(path, '\ufeff{"a":1}')
    await setUp(request(cursor))
    expect(await readFile(path, 'utf8')).toStartWith('\ufeff{')
    await takeBack(request(cursor))
    expect((await readFile(path, 'utf8')).slice(1)).toStartWith('{')
  })

  test('OpenCode: the file that exists, and the form it has', async () => {
    const opencode = clientOf('opencode')
    const path = join(home, '.config', 'opencode', 'opencode.jsonc')
    const text =
      '{\n  "mcp": {\n    "timeout": 5, // all\n    "servers": {\n      "a": { "type": "local", "command": ["a"] }\n    }\n  }\n}\n'
    await place(path, text)
    expect(await setUp(request(opencode))).toEqual([{ path, what: 'server', did: 'added' }])
    const after = opencode.format.parse(await readFile(path, 'utf8'))
    expect(valueAt(after, ['mcp', 'servers', 'svc', 'type'])).toBe('local')
    await takeBack(request(opencode))
    expect(await settingsIn(opencode, path)).toEqual(opencode.format.parse(text))
    expect(await readFile(path, 'utf8')).toContain(' // all\n')
  })

  test('Claude Desktop as a packaged app on Windows: its own folder', async () => {
    const desktop = clientOf('claude-desktop')
    const folders = foldersOf({ platform: 'win32' })
    const path = join(
      folders.localAppData,
      'Packages',
      'Claude_pzs8sxrjxfjjc',
      'LocalCache',
      'Roaming',
      'Claude',
      'claude_desktop_config.json',
    )
    await place(path, '{}')
    await mkdir(join(folders.localAppData, 'Packages', 'Other_app'), { recursive: true })
    expect(await fileOf(desktop, { folders })).toBe(path)
  })

  test('programs that were told to keep their settings elsewhere', async () => {
    const folders = foldersOf({
      claudeCode: join(home, 'c'),
      codex: join(home, 'x'),
      geminiHome: join(home, 'g'),
    })
    expect(await fileOf(clientOf('claude-code'), { folders })).toBe(join(home, 'c', '.claude.json'))
    expect(await fileOf(clientOf('codex'), { folders })).toBe(join(home, 'x', 'config.toml'))
    expect(await fileOf(clientOf('gemini'), { folders })).toBe(join(home, 'g', '.gemini', 'settings.json'))
  })

  test('a command is named as the shell finds it, if that is the same program', async () => {
    const real = join(home, 'cellar', 'svc')
    await place(real, '')
    for (const dir of ['bin', 'other']) await mkdir(join(home, dir))
    await writeFile(join(home, 'other', 'svc'), '')
    await symlink(real, join(home, 'bin', 'svc'))
    const path = [join(home, 'none'), join(home, 'other'), join(home, 'bin')]
    expect(toLastingCommand([real, 'x'], path)).toEqual([join(home, 'bin', 'svc'), 'x'])
    expect(toLastingCommand([real], path.slice(0, 2))).toEqual([real])
  })
})

describe('the prompt hook of Claude Code', () => {
  const claudeCode = clientOf('claude-code')
  const hook = ["/opt/it's/svc", 'hook-poll', '-d', '/data']
  const settings = () => join(home, '.claude', 'settings.json')

  test('goes into its settings beside others, once, and out again', async () => {
    const text =
      '{"model":"x","hooks":{"UserPromptSubmit":[{"hooks":[{"type":"command","command":"date"}]}]}}'
    await place(settings(), text)
    await place(join(home, '.claude.json'), '{"numStartups": 7}')
    expect((await setUp(request(claudeCode, { hook }))).map(({ did }) => did)).toEqual(['added', 'added'])
    const groups = valueAt(claudeCode.format.parse(await readFile(settings(), 'utf8')), [
      'hooks',
      'UserPromptSubmit',
    ])
    expect(groups).toEqual([
      { hooks: [{ type: 'command', command: "'/opt/it'\\''s/svc' hook-poll -d /data", timeout: 15 }] },
      { hooks: [{ type: 'command', command: 'date' }] },
    ])
    expect((await setUp(request(claudeCode, { hook }))).map(({ did }) => did)).toEqual(['nothing', 'nothing'])
    const moved = ['/new/svc', 'hook-poll']
    expect((await setUp(request(claudeCode, { hook: moved }))).map(({ did }) => did)).toEqual([
      'nothing',
      'changed',
    ])
    expect((await takeBack(request(claudeCode, { hook }))).map(({ did }) => did)).toEqual([
      'removed',
      'removed',
    ])
    expect(await settingsIn(claudeCode, settings())).toEqual(JSON.parse(text))
    expect(await settingsIn(claudeCode, join(home, '.claude.json'))).toMatchObject({ numStartups: 7 })
  })

  test('of a project, in its own folder', async () => {
    await setUp(request(claudeCode, { hook, scope: 'project' }))
    const path = join(home, 'project', '.claude', 'settings.json')
    const groups = async () => valueAt(await settingsIn(claudeCode, path), ['hooks', 'UserPromptSubmit'])
    expect(await groups()).toHaveLength(1)
    await takeBack(request(claudeCode, { hook, scope: 'project' }))
    expect(await readdir(dirname(path))).toEqual([])
  })

  test('the one for permission prompts waits longer than its question, beside the other', async () => {
    const ask = ['/opt/svc', 'hook-ask', '--', 'Mum']
    await setUp(request(claudeCode, { hook, ask }))
    const { hooks } = (await settingsIn(claudeCode, settings())) as Record<string, Record<string, unknown>>
    expect(Object.keys(hooks!).sort()).toEqual(['PermissionRequest', 'UserPromptSubmit'])
    expect(hooks!.PermissionRequest).toEqual([
      { hooks: [{ type: 'command', command: '/opt/svc hook-ask -- Mum', timeout: expect.any(Number) }] },
    ])
    const [group] = hooks!.PermissionRequest as [{ hooks: [{ timeout: number }] }]
    expect(group.hooks[0].timeout).toBeGreaterThan(answerSeconds)
    await takeBack(request(claudeCode, { hook, ask }))
    expect(await readdir(join(home, '.claude'))).toEqual([])
  })

  test('on Windows with slashes; other clients are refused', async () => {
    const folders = foldersOf({ platform: 'win32' })
    const [, shown] = await preview(
      request(claudeCode, { hook: ['C:\\Tools\\svc.exe', 'hook-poll'], folders }),
    )
    expect(shown!.snippet).toContain('"C:/Tools/svc.exe hook-poll"')
    expect(await codeOf(setUp(request(clientOf('cursor'), { hook })))).toBe('invalid_arguments')
    expect(await readdir(home)).toEqual([])
  })
})

describe('whose place an entry reads from', () => {
  const own = { name: 'mine', isChosen: false }
  const chosen = { name: 'chosen', isChosen: true }
  const textOf = async (client: Client) => readFile(await fileOf(client), 'utf8')

  for (const client of clients)
    for (const [kind, server] of [
      ['local', local],
      ['remote', remote],
    ] as const)
      test(`${client.title}, a ${kind} server: its own; one that was there keeps what it had`, async () => {
        await setUp(request(client, { server, consumer: own }))
        expect(await textOf(client)).toContain('mine')
        // Another time, another name: as it was.
        const renamed = { name: 'other', isChosen: false }
        expect(await setUp(request(client, { server, consumer: renamed }))).toMatchObject([
          { did: 'nothing' },
        ])
        await setUp(request(client, { server, consumer: chosen }))
        expect(await textOf(client)).not.toContain('mine')
        expect(await textOf(client)).toContain('chosen')
        expect(await takeBack(request(client))).toMatchObject([{ did: 'removed' }])
        // Of a version that wrote none.
        await setUp(request(client, { server }))
        expect(await setUp(request(client, { server, consumer: own }))).toMatchObject([{ did: 'nothing' }])
        const changed = kind === 'local' ? remote : local
        await setUp(request(client, { server: changed, consumer: own }))
        expect(await textOf(client)).not.toContain('mine')
      })

  test('an address without a path, as it was written before, is taken back; that of somebody else is not', async () => {
    const client = clientOf('cursor')
    for (const [address, did] of [
      ['http://10.0.0.5:8000', 'removed'],
      ['https://svc.example.org/wechat/mcp', 'removed'],
      ['http://10.0.0.5:8000/sse', 'removed'],
      ['https://example.org/api', 'refused'],
      ['https://example.org/mcp?key=1', 'refused'],
    ] as const) {
      await place(await fileOf(client), JSON.stringify({ mcpServers: { svc: { url: address } } }))
      const result = await takeBack(request(client)).then(
        ([one]) => one!.did,
        () => 'refused',
      )
      expect([address, result]).toEqual([address, did])
    }
  })
})
