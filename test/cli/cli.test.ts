/** The command line as a user meets it: its two streams, its exit status. */
import { describe, expect, test } from 'bun:test'
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { toListenError } from '../../src/cli/listening.ts'
import { optionTable } from '../../src/config.ts'
import type { AuditLine } from '../../src/model/audit.ts'
import { owner } from '../../src/model/principal.ts'
import { findSystemUser } from '../../src/platform/process.ts'
import { version } from '../../src/version.ts'
import {
  svc as command,
  type Ended,
  serveHere,
  svcOnTerminal,
  svcProcess,
  svcRunning,
} from '../support/command.ts'
import { ended } from '../support/ended.ts'
import { folderOfFile } from '../support/folder.ts'
import { withGateway } from '../support/gateway.ts'
import { logIn, startService } from '../support/service.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

const home = folderOfFile()

const svc = (args: string[], options: { env?: Record<string, string> } = {}): Promise<Ended> =>
  command(args, { home, ...options })

/** A service in this process, on a directory of its own unless one is named. */
const serve = async (
  args: readonly string[] = [],
  { dir, env }: { dir?: string; env?: Record<string, string> } = {},
) => serveHere(dir ?? (await mkdtemp(join(home, 'data-'))), { home, ...(env && { env }) }, ...args)

/** Exactly one line on stderr that says what is wrong and what to do; nothing on stdout. */
function expectOneLine(ended: Ended, status: number, ...parts: string[]) {
  expect(ended).toEqual({ status, stdout: '', stderr: expect.stringMatching(/^error: [^\n]+\. [^\n]+\.\n$/) })
  for (const part of parts) expect(ended.stderr).toContain(part)
  return ended.stderr
}

describe('help', () => {
  test('svc, svc --help and svc -h show the commands and end with 0', async () => {
    const all = await Promise.all([svc([]), svc(['--help']), svc(['-h']), svcProcess(['--help'], { home })])
    for (const ended of all) {
      expect(ended).toMatchObject({ status: 0, stderr: '' })
      expect(ended.stdout).toContain('openapi [options]')
      expect(ended.stdout).toContain('sandbox [options]')
      expect(ended.stdout).toContain('svc openapi --sandbox')
      expect(ended.stdout).toMatch(/\b0 [^\n]+\b1 [^\n]+\b2 /)
    }
  })

  test('svc help is svc --help, and svc help send is svc send --help', async () => {
    for (const words of [[], ['send'], ['sessions', 'rename']]) {
      const ended = await svc(['help', ...words])
      expect(ended).toEqual(await svc([...words, '--help']))
      expect(ended).toMatchObject({ status: 0, stderr: '' })
    }
  })

  test('svc openapi --help shows every option with its variable', async () => {
    const { status, stdout } = await svc(['openapi', '--help'])
    expect(status).toBe(0)
    const text = stdout.replace(/\s+/g, ' ')
    for (const option of optionTable) {
      if (!option.flag || !option.commands.includes('openapi')) continue
      expect(text).toContain(option.short ? `${option.short}, ${option.flag}` : option.flag)
      expect(text).toContain(option.help)
      expect(text).toContain(`[${option.env}]`)
    }
  })

  test('the version is the one of the package', async () => {
    for (const flag of ['--version', '-v']) {
      const said = { status: 0, stdout: `${version}\n`, stderr: '' }
      expect([await svc([flag]), await svcProcess([flag], { home })]).toEqual([said, said])
    }
  })
})

describe('wrong usage is one line and status 2', () => {
  // What each command refuses is told in `commands.test.ts`, and each option in `config.test.ts`.
  const cases: [args: string[], ...parts: string[]][] = [
    [['--nope'], " '--nope'", 'See svc --help.'],
    [['opnapi'], " 'opnapi'", ' openapi?', 'See svc --help.'],
    [['openapi', '--prot', '1'], "'--prot'", ' --port?', 'See svc openapi --help.'],
    [['constructor'], " 'constructor'. See svc --help."],
    [['foo', '--help'], " 'foo'", 'See svc --help.'],
    [['openapi', '--port'], "'-p, --port <port>'", 'See svc openapi --help.'],
    [['openapi', '-p', 'abc'], '-p: ', ' "abc"', ' svc openapi --help.'],
  ]
  for (const [args, ...parts] of cases) {
    test(`svc ${args.join(' ')}`, async () => expectOneLine(await svc(args), 2, ...parts))
  }

  test('a bad token is not shown, by the program neither', async () => {
    const ended = await svcProcess(['openapi', '--token', 'my secret'], { home })
    expectOneLine(ended, 2, '--token: ')
    expect(ended.stderr).not.toContain('secret')
  })

  test('a key as the master token: its caller would be the owner', async () => {
    const key = `svc_abcd1234_${'0'.repeat(64)}`
    const ended = await svc(['openapi', '-p', '0', '-d', join(home, 'key-as-token')], {
      env: { SVC_TOKEN: key },
    })
    expectOneLine(ended, 2, '--token: ')
    expect(ended.stderr).not.toContain(key)
  })
})

describe('what cannot be served is one line and status 1', () => {
  test('a port in use, of the service and of the phone', async () => {
    using taken = Bun.serve({ hostname: '127.0.0.1', port: 0, reusePort: false, fetch: () => new Response() })
    const port = String(taken.port)
    const dir = join(home, 'in-use')
    const args = ['openapi', '-d', dir, '--sandbox']
    expectOneLine(
      await svc([...args, '-p', port, '--sandbox-port', '0']),
      1,
      ` ${port} `,
      ' 127.0.0.1 ',
      ' --port,',
    )
    expectOneLine(
      await svc([...args, '-p', '0', '--sandbox-port', port]),
      1,
      ` ${port} `,
      ' 127.0.0.1 ',
      ' --sandbox-port,',
    )
  })

  test('a port on which svc serves the directory already: which process, and where', async () => {
    await using service = await serve(['--admin-port', '0'])
    const panel = /^admin on (\S+)$/m.exec(service.stdout())![1]!
    const args = ['openapi', '--sandbox', '-d', service.dir, '-p', new URL(service.url).port]
    const { status, stderr } = await svc([...args, '--log-level', 'ERROR'])
    expect(status).toBe(1)
    for (const part of [`${service.dir}: `, ` ${process.pid} `, service.url, panel])
      expect(stderr).toContain(part)
    await using other = await serve()
    const elsewhere = await svc(['openapi', '-d', other.dir, '--sandbox', '-p', new URL(service.url).port])
    expect(elsewhere.stderr).not.toContain('http://')
  })

  test('a port that a command does not serve is not in its way', async () => {
    using taken = Bun.serve({ hostname: '127.0.0.1', port: 0, reusePort: false, fetch: () => new Response() })
    const port = String(taken.port)
    const env = { SVC_PORT: port, SVC_ADMIN_PORT: port }
    const dir = join(home, 'admin-alone')
    expectOneLine(await svc(['admin', '-d', dir], { env }), 1, ` ${port} `, ' 127.0.0.1 ', ' --admin-port,')
    // Over stdio nothing listens on the usual --port; this address is nobody's, so the panel's is never taken.
    expectOneLine(
      await svc(['mcp', '-t', 'stdio', '-d', dir, '--host', '192.0.2.1', '--admin-port', '8000']),
      1,
      '192.0.2.1 ',
      ' --host: ',
    )
    expectOneLine(
      await svc(['mcp', '-t', 'http', '-d', dir, '--admin-port', '8000']),
      2,
      '--admin-port: ',
      ' --port,',
      ' 8000 ',
    )
  })

  test('what is no address at all, or one of another machine', async () => {
    for (const host of ['999.1.1.1', 'nohost.invalid', '192.0.2.1']) {
      const ended = await svc(['openapi', '-d', join(home, 'elsewhere'), '-p', '0', '--host', host])
      expectOneLine(ended, 1, `${host} `, ' --host: ')
    }
    for (const code of ['EADDRINUSE', 'EACCES', 'EINVAL']) {
      const error = Object.assign(new Error(code), { code, syscall: 'listen' })
      for (const port of [0, 8000])
        expect(await toListenError(error, '--port', port, '999.1.1.1')).toMatchObject({
          message: expect.stringContaining('999.1.1.1'),
          hint: expect.stringContaining('--host'),
        })
    }
  })

  test('a data directory that is a file', async () => {
    const file = join(home, 'file')
    await writeFile(file, '')
    expectOneLine(await svc(['openapi', '-d', file, '-p', '0']), 1, ` ${file} `, ' --base-path.')
  })

  test('a media root that is a file', async () => {
    const file = join(home, 'no-folder')
    await writeFile(file, '')
    expectOneLine(
      await svc(['openapi', '-d', join(home, 'media-root'), '-p', '0', '--media-root', file]),
      1,
      ` ${file} `,
      ' --media-root.',
    )
  })

  test('a damaged world of the sandbox', async () => {
    const dir = join(home, 'damaged')
    await mkdir(join(dir, 'sandbox'), { recursive: true })
    await writeFile(join(dir, 'sandbox', 'world.db'), 'no database, whatever its name says '.repeat(200))
    expectOneLine(
      await svc(['openapi', '-d', dir, '-p', '0', '--sandbox', '--sandbox-port', '0']),
      1,
      ` ${join(dir, 'sandbox', 'world.db')} `,
      ' -wal ',
    )
  })

  test('a folder that is none of svc: no command proposes to log in or to start there', async () => {
    const dir = join(home, 'of-others')
    await mkdir(dir, { recursive: true })
    await writeFile(join(dir, 'passwd'), '')
    for (const words of [
      'status',
      'token',
      'health',
      'panel link',
      'secrets status',
      'setup gemini --print',
    ]) {
      const { status, stdout, stderr } = await svc([...words.split(' '), '-d', dir])
      expect([words, status > 0, `${stdout}${stderr}`.includes(dir)]).toEqual([words, true, true])
      expect(`${stdout}${stderr}`).not.toMatch(/svc (login|openapi|secrets on)/)
    }
    expect(await readdir(dir)).toEqual(['passwd'])
  })

  // Root may write anywhere: as root the service runs as another user, who must be able to read the sources.
  const isRoot = process.getuid?.() === 0
  const nobody = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups']
  const canTry =
    process.platform !== 'win32' &&
    (!isRoot ||
      (Bun.which('setpriv') !== null &&
        Bun.spawnSync([...nobody, ...svcProgram, '--version']).exitCode === 0))
  test.skipIf(!canTry || !isRoot)('a user whom the system does not know, without HOME', async () => {
    const stranger = ['setpriv', '--reuid=54321', '--regid=54321', '--clear-groups', ...svcProgram]
    const run = (...words: string[]) =>
      ended([...stranger, ...words], { cwd: tmpdir(), env: { PATH: process.env.PATH ?? '' } })
    expectOneLine(await run('status'), 1, 'HOME', '--base-path')
    const elsewhere = join(tmpdir(), 'svc-of-a-stranger')
    expect((await run('status', '-d', elsewhere)).stdout).toContain(elsewhere)
    // Of a folder that it cannot read, it proposes nothing either.
    const closed = join(home, 'closed')
    await mkdir(closed, { mode: 0o700 })
    for (const words of ['status', 'health', 'panel link', 'token']) {
      const { status, stdout, stderr } = await run(...words.split(' '), '-d', closed)
      expect([words, status > 0, /svc (login|openapi)/.test(stdout + stderr)]).toEqual([words, true, false])
    }
  })

  test.skipIf(!canTry)('a data directory that one may not write to', async () => {
    await chmod(home, 0o755)
    const dir = join(home, 'read-only')
    await mkdir(dir, { mode: 0o555 })
    const sub = join(dir, 'svc')
    const start = [...(isRoot ? nobody : []), ...svcProgram, 'openapi', '-d', sub, '-p', '0']
    expectOneLine(
      await ended(start, { cwd: tmpdir(), env: { PATH: process.env.PATH ?? '', HOME: home } }),
      1,
      `the data directory ${sub} cannot be used: this user has no right to it`,
      '--base-path',
    )
  })
})

describe('a directory that is not there', () => {
  test('is not made by what goes on, with a mistyped name', async () => {
    for (const words of [
      ['recv', '--follow'],
      ['typing', 'a@b'],
      ['events', '--follow'],
    ]) {
      const dir = join(home, 'typo')
      const told = await svc([...words, '-d', dir])
      expect([words[0], told.status, told.stdout]).toEqual([words[0], 1, ''])
      expect(told.stderr).toContain(dir)
      expect(await readdir(home)).not.toContain('typo')
    }
  })

  test('a service makes it, and its log says so the one time', async () => {
    const dir = join(home, 'made-now')
    const lines: number[] = []
    for (let times = 0; times < 2; times++) {
      await using service = await serve([], { dir })
      expect(service.stdout()).not.toContain(dir)
      lines.push(
        service
          .log()
          .split('\n')
          .filter(line => line.includes(`path=${dir}`)).length,
      )
    }
    expect(lines).toEqual([1, 0])
  })

  test('a service that cannot start leaves nothing in it, nor in one that is empty', async () => {
    await using taken = await serve()
    const { port } = new URL(taken.url)
    await mkdir(join(home, 'empty-one'))
    for (const dir of [join(home, 'unmade'), join(home, 'empty-one')]) {
      for (const options of [
        ['openapi', '--port', port],
        ['openapi', '--port', '0', '--admin-port', port],
        ['openapi', '--port', '0', '--metrics-port', port],
        ['openapi', '--port', '0', '--host', '203.0.113.9'],
        ['openapi', '--port', '0', '--host', '0.0.0.0', '--token', 'secret'],
        ['openapi', '--port', '0', '--media-root', '/proc/none'],
        ['openapi', '--port', '0', '--sandbox', '--sandbox-port', port],
        ['mcp', '-t', 'http', '--port', port],
        ['admin', '--admin-port', port],
        ['sandbox', '--sandbox-port', port],
      ]) {
        const { status } = await svc([...options, '-d', dir])
        expect([options, status === 0]).toEqual([options, false])
        expect([options, await readdir(dir).catch(() => [])]).toEqual([options, []])
      }
    }
    expect(await readdir(home)).not.toContain('unmade')
  })

  test('a sandbox whose visible files were removed while it ran: it says what runs, and starts once that has ended', async () => {
    const dir = await mkdtemp(join(home, 'data-'))
    const first = await serve([], { dir })
    for (const name of await readdir(dir))
      if (!name.startsWith('.')) await rm(join(dir, name), { recursive: true })
    const held = await svc(['openapi', '--port', '0', '--sandbox', '--sandbox-port', '0', '-d', dir])
    expect(held).toMatchObject({ status: 2, stdout: '' })
    await first.stop()
    await using again = await serve([], { dir })
    expect((await again.call('sessions')).status).toBe(200)
  })
})

describe('a directory has one kind', () => {
  test('real sessions are not polled by the sandbox', async () => {
    const dir = join(home, 'real')
    await mkdir(join(dir, 'default'), { recursive: true })
    await writeFile(join(dir, 'default', 'token.json'), '{}')
    expectOneLine(
      await svc(['openapi', '-d', dir, '--sandbox', '-p', '0', '--sandbox-port', '0']),
      2,
      `--sandbox: ${dir} `,
      '--base-path',
    )
    expectOneLine(await svc(['sandbox', '-d', dir, '--sandbox-port', '0']), 2, `--sandbox: ${dir} `)
    expect(await readdir(dir)).toEqual(['default'])
  })

  test('a sandbox is not taken for real', async () => {
    const dir = join(home, 'pretend')
    await mkdir(join(dir, 'sandbox'), { recursive: true })
    expectOneLine(await svc(['openapi', '-d', dir, '-p', '0']), 2, `-d: ${dir} `, ' --sandbox,')
    expect(await readdir(dir)).toEqual(['sandbox'])
  })

  test('one that was used without the sandbox stays so, with no account in it yet', async () => {
    const dir = join(home, 'unused')
    await mkdir(dir)
    expect(await svc(['recv', '-t', '0', '-d', dir])).toMatchObject({ status: 0 })
    const before = await readdir(dir)
    for (const words of [['sessions'], ['users'], ['openapi', '-p', '0', '--sandbox-port', '0']]) {
      expectOneLine(
        await svc([...words, '--sandbox', '-d', dir]),
        2,
        `--sandbox: ${dir} `,
        ' sandbox/ ',
        ' --base-path.',
      )
    }
    expect((await readdir(dir)).filter(name => !before.includes(name))).toEqual([])
    expect(await svc(['sessions', '-d', dir])).toMatchObject({ status: 0 })
  })

  test('one of the sandbox with no account in it says how it becomes a real one', async () => {
    const dir = join(home, 'taken')
    await mkdir(join(dir, 'sandbox'), { recursive: true })
    const told = ` ${join(dir, 'sandbox')} `
    expectOneLine(await svc(['recv', '-t', '0', '-d', dir]), 2, told)
    // What only reads takes it as what it is, and names it so.
    expect((await svc(['sessions', '-d', dir])).stderr).toContain(`svc login --sandbox -d ${dir}`)
    await rename(join(dir, 'sandbox'), join(home, 'taken-away'))
    expect(await svc(['sessions', '-d', dir])).toMatchObject({ status: 0 })
    await mkdir(join(dir, 'sandbox'))
    await mkdir(join(dir, 'default'))
    await writeFile(join(dir, 'default', 'token.json'), '{}')
    const withAccounts = await svc(['recv', '-t', '0', '-d', dir])
    expectOneLine(withAccounts, 2, `-d: ${dir} `, ' --sandbox,')
    expect(withAccounts.stderr).not.toContain(told)
  })
})

describe('folders that are not ours', () => {
  test('a shared folder with other files is not made private and not filled', async () => {
    const dir = join(home, 'shared')
    await mkdir(dir)
    await chmod(dir, 0o777)
    await writeFile(join(dir, 'letter.txt'), '')
    expectOneLine(await svc(['openapi', '-d', dir, '-p', '0']), 2, `-d: ${dir} `)
    expect(await readdir(dir)).toEqual(['letter.txt'])
    expect((await stat(dir)).mode & 0o777).toBe(0o777)
  })

  test('an empty one is taken and made private; a media root keeps its rights', async () => {
    const dir = join(home, 'empty')
    const media = join(home, 'pictures')
    for (const folder of [dir, media]) {
      await mkdir(folder)
      await chmod(folder, 0o755)
    }
    await using service = await serve(['--media-root', media], { dir })
    expect((await fetch(`${service.url}/healthz`)).status).toBe(200)
    expect((await stat(dir)).mode & 0o777).toBe(0o700)
    expect((await stat(media)).mode & 0o777).toBe(0o755)
  })
})

/** Whether a service in the sandbox has printed its addresses. */
const isReady = (stdout: string) => /\bphone on .*\n/.test(stdout)

describe('serving', () => {
  test('the ready lines say where, and what to do next', async () => {
    await using service = await startService()
    await until('the last line', 30_000, () => isReady(service.stdout()) && service.log() !== '')
    const { url, phoneUrl } = service
    const addresses = [url, `${url}/docs`, `${url}/mcp`, `${phoneUrl}/phone`].map(at => ` ${at}`)
    expect(service.stdout().split('\n')).toEqual([
      expect.stringMatching(/\blogin\b/),
      ...addresses.map(at => expect.stringMatching(new RegExp(`${at}$`))),
      '',
    ])
    expect(service.log()).toMatch(new RegExp(`^\\S+ INFO svc starts version=${RegExp.escape(version)}\n$`))
  })

  test('with sessions of which none works it says so, and svc status too', async () => {
    const dir = await mkdtemp(join(home, 'expired-'))
    const again = `svc login work --sandbox -d ${dir}\n`
    {
      await using service = await serve([], { dir })
      await logIn(service, 'work')
      const look = async () => JSON.parse(await readFile(join(dir, 'work', 'token.json'), 'utf8'))
      await service.phone('expire', { bot: (await look()).bot_id })
      await until('expired', 30_000, async () => 'expired_at' in (await look()))
    }
    await using service = await serve([], { dir })
    await until('the last line', 30_000, () => isReady(service.stdout()))
    const [first = ''] = service.stdout().split(/(?<=\n)/)
    expect(first).toMatch(/\bwork is expired\b/)
    expect(first).toEndWith(again)
    const { stdout } = await svc(['status', '--sandbox', '-d', dir])
    expect(stdout).toContain('0 of 1 ')
    expect(stdout).toContain(again)
  })

  test('an address open to others gets a token, which a log does not have, and which is required', async () => {
    const dir = await mkdtemp(join(home, 'token-'))
    const open = () => serve(['--host', '0.0.0.0'], { dir })
    let token = ''
    {
      await using service = await open()
      const path = join(dir, 'api_token')
      await until('the last line', 30_000, () => service.stdout().includes(path))
      token = (await readFile(path, 'utf8')).trim()
      expect(service.stdout()).toContain(path)
      expect(service.stdout() + service.log()).not.toContain(token)
      expect((await stat(path)).mode & 0o777).toBe(0o600)
      const url = `http://127.0.0.1:${new URL(service.url).port}`
      const status = async (path: string, authorization?: string) =>
        (await fetch(url + path, { ...(authorization && { headers: { authorization } }) })).status
      expect(await status('/tools')).toBe(401)
      expect(await status('/tools', 'Bearer wrong')).toBe(401)
      expect(await status('/tools', `Bearer ${token}`)).toBe(200)
      expect(await status('/healthz')).toBe(200)
      // The phone answers loopback names alone, so that is what is printed.
      expect(service.phoneUrl).toStartWith('http://127.0.0.1:')
      expect((await fetch(`${service.phoneUrl}/phone`)).status).toBe(200)
      expect(service.log()).not.toContain(token)
    }
    expect(await svc(['token', '-d', dir])).toEqual({ status: 0, stdout: `${token}\n`, stderr: '' })
    await using again = await open()
    await until('the last line', 30_000, () => again.stdout().includes(join(dir, 'api_token')))
    expect(again.stdout() + again.log()).not.toContain(token)
  })

  test('once there are keys, a service on a loopback address asks for a token, which it makes', async () => {
    const dir = await mkdtemp(join(home, 'keys-'))
    const status = async ({ url }: { url: string }, headers = {}) =>
      (await fetch(`${url}/tools`, { headers })).status
    {
      await using service = await serve([], { dir })
      expect(await status(service)).toBe(200)
      await using t = await withGateway({ dir, sessions: [], start: false })
      await t.gateway.keys.add({ name: 'reader', can: ['read'] }, owner)
      await until('it is closed', 30_000, async () => (await status(service)) === 401)
    }
    await using service = await serve([], { dir })
    await until('the last line', 30_000, () => service.stdout().includes(join(dir, 'api_token')))
    const token = (await svc(['token', '-d', dir])).stdout.trim()
    expect(await status(service)).toBe(401)
    expect(await status(service, { authorization: `Bearer ${token}` })).toBe(200)
  })

  test('a token that can be guessed is refused where others may reach the service, and there alone', async () => {
    const dir = await mkdtemp(join(home, 'token-'))
    const everybody = ['--host', '0.0.0.0']
    const proxied = ['--allow-host', 'svc.example.org']
    const start = ['openapi', '--sandbox', '--sandbox-port', '0', '-p', '0', '-d', dir]
    for (const open of [everybody, proxied]) {
      const refused = await svc([...start, ...open], { env: { SVC_TOKEN: 'hunter2' } })
      expectOneLine(refused, 2, '--token')
      expect(refused.stderr).not.toContain('hunter2')
    }
    await writeFile(join(dir, 'api_token'), 'mine\n')
    expectOneLine(await svc([...start, ...proxied]), 2, `${dir}/api_token`)
    await rm(join(dir, 'api_token'))
    for (const [args, token] of [
      [everybody, ''],
      [proxied, ''],
      [everybody, crypto.randomUUID()],
      [[], 'hunter2'],
    ] as const) {
      await using service = await serve(args, { dir, ...(token && { env: { SVC_TOKEN: token } }) })
      // Other users of this machine can try it: that is warned of.
      const warned = args === proxied || token === 'hunter2'
      expect([token, service.log().includes(' WARNING ')]).toEqual([token, warned])
      // A proxy that is not trusted.
      expect(service.log().includes('--trust-proxy')).toBe(args === proxied)
      expect(service.log()).not.toContain('hunter2')
      const status = (await fetch(`${service.url.replace('0.0.0.0', '127.0.0.1')}/tools`)).status
      expect([args, status]).toEqual([args, 401])
    }
  })

  test('a log names the command that prints a link to the panel, and has no link', async () => {
    const cookieBy = async (link: string) =>
      (await fetch(link, { redirect: 'manual' })).headers.get('set-cookie') ?? ''
    for (const more of [
      ['--host', '0.0.0.0'],
      ['--log-format', 'json'],
    ]) {
      const dir = await mkdtemp(join(home, 'link-'))
      const env = { SVC_TOKEN: crypto.randomUUID() }
      await using service = await serve([...more, '--admin-port', '0'], { dir, env })
      const command = `svc panel link --sandbox -d ${dir}`
      await until('the last line', 30_000, () => service.stdout().includes(command))
      expect(service.stdout() + service.log()).not.toContain('sign-in?')
      // Without the token, which the command does not know.
      const print = async () => (await svc(['panel', 'link', '-d', dir])).stdout.trim()
      const [first, second] = [await print(), await print()]
      expect(first).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/sign-in\?code=[\w-]{32}$/)
      // The next link has replaced it.
      expect(await cookieBy(first)).toBe('')
      const both = await Promise.all([cookieBy(second), cookieBy(second), cookieBy(second)])
      expect(both.filter(Boolean)).toEqual([expect.stringContaining('HttpOnly')])
      const lines: AuditLine[] = JSON.parse((await svc(['audit', '--json', '-d', dir])).stdout)
      expect(lines.toReversed()).toMatchObject([
        { principal: 'owner', operation: 'create_panel_link', address: `cli:${findSystemUser()}` },
        { principal: 'owner', operation: 'create_panel_link', outcome: 'done' },
        { principal: 'panel', operation: 'sign_in', subject: 'link', outcome: 'done', address: '127.0.0.1' },
      ])
    }
    const dir = await mkdtemp(join(home, 'no-panel-'))
    await using service = await serve([], { dir })
    expectOneLine(await svc(['panel', 'link', '-d', dir]), 1, dir)
    expect(service.stdout()).not.toContain('panel link')
  })

  test('the panel alone has a link too', async () => {
    const dir = await mkdtemp(join(home, 'panel-'))
    const env = { SVC_TOKEN: crypto.randomUUID() }
    const running = svcRunning(
      ['admin', '--admin-port', '0', '--sandbox', '--sandbox-port', '0', '-d', dir],
      {
        home,
        env,
      },
    )
    await until('it is there', 30_000, () => running.stdout.includes('panel link'))
    const { stdout } = await svc(['panel', 'link', '-d', dir])
    expect((await fetch(stdout.trim(), { redirect: 'manual' })).headers.get('set-cookie')).toContain(
      'svc_panel',
    )
    running.stop('SIGTERM')
    await running.exited
    expectOneLine(await svc(['panel', 'link', '-d', dir]), 1, dir)
  })

  test.skipIf(process.platform === 'win32')('a terminal gets the token and the link themselves', async () => {
    const dir = await mkdtemp(join(home, 'terminal-'))
    const args = ['openapi', '--sandbox', '--sandbox-port', '0', '-p', '0', '--host', '0.0.0.0']
    await using terminal = svcOnTerminal([...args, '--admin-port', '0', '-d', dir], { home, columns: 300 })
    const [, link, more] = await terminal.until(/^sign in once with (\S+)(.*?)\r?$/m)
    expect(more).toBe(" (from another machine: with this one's address for 127.0.0.1)")
    expect((await fetch(link!, { redirect: 'manual' })).headers.get('set-cookie')).toContain('HttpOnly')
    const [, token] = await terminal.until(/^token (\S{40,}) \(kept in /m)
    expect(token).toBe((await readFile(join(dir, 'api_token'), 'utf8')).trim())
  })

  test.skipIf(process.platform === 'win32')(
    'on a Unix socket every door is open, and with a token to those who have it',
    async () => {
      const dir = await mkdtemp(join(home, 'socket-'))
      const socket = join(dir, 's.sock')
      const token = crypto.randomUUID()
      const sandboxed = ['--sandbox', '--sandbox-port', '0']
      const service = svcRunning(['openapi', ...sandboxed, '--socket', socket, '-d', dir], {
        ...{ home, env: { SVC_TOKEN: token } },
      })
      try {
        const healthy = async () => (await svc(['health', '--socket', socket])).status === 0
        await until('it is healthy', 30_000, healthy)
        const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
        const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' })
        for (const [path, init] of [
          ['/tools', {}],
          ['/tools/default/sessions', { method: 'POST', headers, body: '{}' }],
          ['/mcp', { method: 'POST', headers, body }],
        ] as const) {
          const url = `http://localhost${path}`
          expect([path, (await fetch(url, { ...init, unix: socket })).status]).toEqual([path, 401])
          const own = { ...('headers' in init && init.headers), authorization: `Bearer ${token}` }
          expect([path, (await fetch(url, { ...init, headers: own, unix: socket })).status]).toEqual([
            path,
            200,
          ])
        }
        expectOneLine(
          await svc(['openapi', ...sandboxed, '--socket', socket, '-d', join(dir, 'b')]),
          1,
          socket,
        )
        expectOneLine(await svc(['openapi', '--socket', socket, '-p', '8000', '-d', dir]), 2, '--socket')
      } finally {
        service.stop('SIGTERM')
        await service.exited
      }
      expect((await svc(['health', '--socket', socket])).status).toBe(1)
      expect((await readdir(dir)).includes('s.sock')).toBe(false)
    },
  )

  test('a token comes from a file as well, and is required even on a loopback address', async () => {
    const dir = await mkdtemp(join(home, 'token-'))
    const file = join(home, 'svc_token')
    await writeFile(file, 'a-token-from-a-file\n')
    const env = { SVC_TOKEN_FILE: file }
    {
      await using service = await serve([], { dir, env })
      const status = async (authorization: string) =>
        (await fetch(`${service.url}/tools`, { headers: { authorization } })).status
      expect(await status('Bearer another')).toBe(401)
      expect(await status('Bearer a-token-from-a-file')).toBe(200)
      expect(service.stdout() + service.log()).not.toContain('a-token-from-a-file')
    }
    expect(await svc(['token', '-d', dir], { env })).toMatchObject({ stdout: 'a-token-from-a-file\n' })
    // A secret store may give it through a pipe.
    const pipe = join(home, 'pipe')
    Bun.spawnSync(['mkfifo', pipe])
    const writer = Bun.spawn(['sh', '-c', `echo token-of-a-pipe > '${pipe}'`])
    const piped = await svc(['token', '-d', dir], { env: { SVC_TOKEN_FILE: pipe } })
    expect(piped).toMatchObject({ status: 0, stdout: 'token-of-a-pipe\n' })
    await writer.exited
    const refused = async (...parts: string[]) =>
      expectOneLine(await svc(['openapi', '-d', dir, '-p', '0'], { env }), 2, '--token-file: ', ...parts)
    await writeFile(file, 'two words\n')
    await refused(file, '/dev/urandom')
    await rm(file)
    expect(await refused(file)).not.toContain('/dev/urandom')
    expectOneLine(
      await svc(['openapi', '-d', dir, '-p', '0', '--token', 'x'], { env }),
      2,
      '--token-file: ',
      ' --token,',
    )
    expectOneLine(await svc(['token', '-d', dir]), 1, join(dir, 'api_token'))
  })

  test('the phone listens for others too when told, and says the address that this machine can open', async () => {
    await using service = await serve(['--sandbox-host', '0.0.0.0'])
    const port = new URL(service.phoneUrl).port
    expect(service.phoneUrl).toBe(`http://127.0.0.1:${port}`)
    // Reached under another address of this machine, it still answers loopback names alone.
    const asOther = (host: string) => fetch(`http://127.0.0.2:${port}/phone/state`, { headers: { host } })
    expect((await asOther(`127.0.0.1:${port}`)).status).toBe(200)
    expect((await asOther(`svc.example.org:${port}`)).status).toBe(403)
    // Another process on the directory finds it.
    await logIn(service)
    expect(await svc(['sessions', '--sandbox', '-d', service.dir])).toMatchObject({ status: 0, stderr: '' })
  })

  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    test(`${signal} ends a held recv with its empty answer, and the process with 0 within 5 s`, async () => {
      await using service = await startService()
      const held = service.call('recv', { timeout: 60 })
      // Answered after the held call arrived: one connection each, one process, in order of arrival.
      await service.call('sessions')
      using watch = stopwatch()
      expect(await service.kill(signal)).toBe(0)
      expect(watch.ms).toBeLessThan(5000)
      expect(await held).toEqual({ status: 200, body: [] })
    })
  }

  test('svc sandbox alone has the directory of the sandbox, and svc openapi --sandbox uses it', async () => {
    const dir = join(home, '.svc-sandbox')
    const said = svcRunning(['sandbox', '--no-banner', '--sandbox-port', '0'], { home })
    try {
      await until('the last line', 30_000, () => said.stdout.includes(`svc openapi --sandbox -d ${dir}\n`))
      const [, phoneUrl] = /^phone on (\S+)\/phone$/m.exec(said.stdout) ?? []
      expect(said.stdout).toEndWith(`svc openapi --sandbox -d ${dir}\n`)
      expect(await readdir(home)).not.toContain('.svc')
      await using service = await serve([], { dir })
      expect(service.phoneUrl).toBe(phoneUrl!)
    } finally {
      said.stop('SIGTERM')
      expect((await said.exited).status).toBe(0)
    }
  })
})
