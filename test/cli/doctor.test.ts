/** `svc doctor`, `svc status` and `svc health`, about services of other processes. */
import { describe, expect, test } from 'bun:test'
import { chmodSync, chownSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describeHealth, findUnservedDirectory } from '../../src/cli/commands/health.ts'
import type { Report } from '../../src/doctor/examine.ts'
import type { StatusReport } from '../../src/inspect/status-report.ts'
import { version } from '../../src/version.ts'
import { stateOf } from '../doctor/support.ts'
import { svc as command, svcOnTerminal, svcProcess } from '../support/command.ts'
import { type Ended, ended } from '../support/ended.ts'
import { folderOfFile, forFile } from '../support/folder.ts'
import { freePort } from '../support/port.ts'
import { withSandbox } from '../support/sandbox.ts'
import { startService } from '../support/service.ts'
import { svcProgram } from '../support/svc-program.ts'
import { undisturbed } from '../support/undisturbed.ts'
import { until } from '../support/until.ts'

const home = folderOfFile()
chmodSync(home, 0o755)
const sandbox = forFile(await withSandbox())
const upstream = ['--upstream-url', sandbox.url, '--cdn-url', sandbox.cdnUrl]
const service = forFile(
  await startService({ dir: folder('data'), sandbox: false, args: upstream, env: { HOME: home } }),
)
const port = new URL(service.url).port
const login = service.call('login', { session_name: 'work' })
await sandbox.scanAndConfirm()
await login
for (let tries = 0; tries < 10; tries++) {
  const { body } = await service.call('login', { session_name: 'work', timeout: 5 })
  if (body.status === 'confirmed') break
}
await sandbox.say('hello')
expect((await service.call('recv', { timeout: 60 })).body).toHaveLength(1)

function folder(name: string): string {
  const path = join(home, name)
  mkdirSync(path, { mode: 0o700 })
  return path
}

const svc = (args: string[], env: Record<string, string> = {}): Promise<Ended> =>
  undisturbed(() => command(args, { home, env }))

/** The same as another user. */
const svcAs = (as: string[], args: string[]): Promise<Ended> =>
  undisturbed(() =>
    ended([...as, ...svcProgram, ...args], {
      cwd: tmpdir(),
      env: { PATH: process.env.PATH ?? '', HOME: home },
    }),
  )

const doctorHere = ['doctor', '-d', service.dir, '-p', port]
const doctor = (...args: string[]) => svc([...doctorHere, ...upstream, ...args])
/** What answers at a port of its own. */
const answering = (fetch: () => Response | Promise<Response>) =>
  Bun.serve({ hostname: '127.0.0.1', port: 0, idleTimeout: 0, fetch })
const token = () => JSON.parse(readFileSync(join(service.dir, 'work', 'token.json'), 'utf8')).token as string

describe('svc doctor', () => {
  test('a healthy service: nothing but ok, status 0, words where there is no terminal', async () => {
    const { status, stdout, stderr } = await doctor()
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    const lines = stdout.trimEnd().split('\n')
    expect(lines[0]).toEndWith(` ${service.dir}`)
    const groups = lines.filter(line => /^[a-z]+$/.test(line))
    expect(groups).toEqual([
      'runtime',
      'directory',
      'locks',
      'clock',
      'disk',
      'sessions',
      'store',
      'network',
      'exposure',
    ])
    // A temporary folder may lie in memory, on a disk without room for the largest upload. It has no backup.
    const findings = lines.filter(
      line => line.startsWith('  ') && !/tmpfs|largest upload|no backup/.test(line),
    )
    expect(findings.filter(line => !line.startsWith('  ok      ') && !/^ +fix: /.test(line))).toEqual([])
    expect(stdout).toMatch(new RegExp(`  ok +svc ${RegExp.escape(version)} .*${RegExp.escape(service.url)} `))
    expect(stdout).not.toContain('\u001b')
    expect(stdout).not.toContain(token())
  })

  test('without a port it finds the service by its data directory, and so does status', async () => {
    const { stdout, status } = await svc(['doctor', '-d', service.dir, ...upstream])
    expect({ status, found: stdout.includes(` ${service.url} `) }).toEqual({ status: 0, found: true })
    const seen = await svc(['status', '-d', service.dir, '--json'])
    expect(JSON.parse(seen.stdout)).toMatchObject({ service_url: service.url })
    expect((await svc(['status', '-d', service.dir])).stdout).toContain(service.url)
  })

  test('--json is one object with every finding', async () => {
    const { status, stdout } = await doctor('--json')
    expect([status, stdout.trimEnd().includes('\n')]).toEqual([0, false])
    const report = JSON.parse(stdout) as Report
    expect(report).toMatchObject({ ok: true, version, base_path: service.dir, counts: { error: 0 } })
    const subjects = new Set(report.findings.map(({ subject }) => subject))
    expect([...subjects]).toContain('exposure')
  })

  test('before a sandbox is there all advice is of the sandbox, and WeChat itself is not asked', async () => {
    const unmade = join(home, 'unmade')
    const empty = folder('sandbox-to-be')
    const storeAlone = folder('store-alone')
    writeFileSync(join(storeAlone, '.data.lock'), '')
    for (const dir of [unmade, empty, storeAlone]) {
      const look = await svc(['doctor', '--sandbox', '-d', dir, '-p', '0', '--json'])
      const { findings } = JSON.parse(look.stdout) as Report
      expect(findings.filter(({ subject }) => subject === 'network')).toMatchObject([
        { check: 'sandbox', severity: 'note', fix: `svc sandbox -d ${dir}` },
      ])
      const advice = findings.flatMap(({ fix }) => (fix?.startsWith('svc ') ? [fix] : []))
      expect(advice).toContain(`svc login --sandbox -d ${dir}`)
      expect(advice.filter(fix => !/^svc sandbox | --sandbox /.test(fix))).toEqual([])
      const { stdout } = await svc(['status', '--sandbox', '-d', dir])
      for (const word of ['openapi', 'login']) expect(stdout).toContain(` svc ${word} --sandbox -d ${dir}\n`)
    }
    // Real accounts stay real, whatever is typed.
    const real = await svc(['doctor', '--sandbox', '-d', service.dir, '-p', port, '--json'])
    const { findings } = JSON.parse(real.stdout) as Report
    expect(findings).toContainEqual(expect.objectContaining({ check: 'kind', severity: 'error' }))
  })

  test('an error is status 1, and each has its fix on the next line', async () => {
    const away = ['--upstream-url', 'http://127.0.0.1:9', '--cdn-url', sandbox.cdnUrl]
    const { status, stdout } = await svc([...doctorHere, ...away])
    expect(status).toBe(1)
    expect(stdout).toMatch(/\n {2}error {3}.*127\.0\.0\.1:9 .*\n +fix: \S/)
    expect(stdout).toMatch(/\n1 error(, \d+ notes?)?\n$/)
  })

  test('through the proxy of the environment, and past it to this machine', async () => {
    const proxy = 'http://me:sesame@127.0.0.1:9'
    const beyond = ['--upstream-url', 'https://api.example.org', '--cdn-url', sandbox.cdnUrl]
    const { status, stdout } = await svcProcess([...doctorHere, ...beyond, '--timeout', '2', '--json'], {
      ...{ home, env: { HTTPS_PROXY: proxy, HTTP_PROXY: proxy } },
    })
    expect(status).toBe(1)
    const { findings } = JSON.parse(stdout) as Report
    const told = (host: string) =>
      findings.filter(({ what }) => what.includes(host)).map(({ severity }) => severity)
    expect(told('127.0.0.1:9')).toEqual(['error'])
    expect(told(new URL(sandbox.url).host)).toEqual(['ok'])
    expect(told(service.url)).toEqual(['ok'])
    expect(stdout).not.toContain('sesame')
  })

  test('signs and colours on a terminal; words there too with NO_COLOR', async () => {
    const onTerminal = async (env: Record<string, string>) => {
      return undisturbed(async () => {
        await using screen = svcOnTerminal([...doctorHere, ...upstream], { home, env, columns: 200 })
        return (await screen.exited).status === 0 ? screen.screen() : ''
      })
    }
    expect(await onTerminal({})).toContain('\u001b[32m✓\u001b[39m ')
    const plain = await onTerminal({ NO_COLOR: '1' })
    expect(plain).toContain('  ok      ')
    expect(plain).not.toContain('✓')
    expect(plain).not.toContain('\u001b[32m')
  })

  test('a directory in ruins is told without a crash, and is as it was afterwards', async () => {
    const dir = folder('ruins')
    writeFileSync(join(dir, 'messages.db'), 'no database '.repeat(1000))
    writeFileSync(join(dir, '.poll.lock'), '\0\0\0')
    mkdirSync(join(dir, '.data.lock'))
    mkdirSync(join(dir, 'work'))
    writeFileSync(join(dir, 'work', 'token.json'), '[]')
    writeFileSync(join(dir, 'work', 'contexts.json'), '"')
    mkdirSync(join(dir, 'other', 'token.json'), { recursive: true })
    writeFileSync(join(dir, 'media'), '')
    const before = stateOf(dir)
    const { status, stdout, stderr } = await svc(['doctor', '-d', dir, '-p', '0', '--json', ...upstream])
    expect({ status, stderr }).toEqual({ status: 1, stderr: '' })
    const { findings } = JSON.parse(stdout) as Report
    expect(findings.filter(({ check }) => check === 'examined')).toEqual([])
    expect(
      findings
        .filter(({ severity }) => severity === 'error')
        .map(({ subject, check }) => `${subject}/${check}`),
    ).toEqual(expect.arrayContaining(['sessions/session', 'store/integrity', 'locks/kind']))
    expect((await svc(['status', '-d', dir])).status).toBe(1)
    expect(stateOf(dir)).toEqual(before)
  })

  const nobody = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups']
  const canTry =
    process.getuid?.() === 0 &&
    Bun.which('setpriv') !== null &&
    Bun.spawnSync([...nobody, ...svcProgram, '--version']).exitCode === 0
  test.skipIf(!canTry)('files that this user may not read are told one by one (needs root)', async () => {
    const dir = folder('closed')
    chownSync(dir, 65534, 65534)
    mkdirSync(join(dir, 'work'), { mode: 0o700 })
    for (const name of ['messages.db', '.poll.lock', '.data.lock', 'api_token', 'work/token.json']) {
      writeFileSync(join(dir, name), 'flock\n', { mode: 0o600 })
    }
    const look = ['-p', '0', '--json', ...upstream]
    const { status, stdout, stderr } = await svcAs(nobody, ['doctor', '-d', dir, ...look])
    expect({ status, stderr }).toEqual({ status: 1, stderr: '' })
    const errors = (JSON.parse(stdout) as Report).findings.filter(({ severity }) => severity === 'error')
    expect(errors.map(({ subject, check }) => `${subject}/${check}`)).toEqual([
      'directory/rights',
      'locks/kind',
      'locks/poller',
      'sessions/session',
      'store/integrity',
      'exposure/token',
    ])
    const closed = folder('shut')
    const shut = await svcAs(nobody, ['doctor', '-d', closed, ...look])
    expect((JSON.parse(shut.stdout) as Report).findings).toContainEqual(
      expect.objectContaining({ subject: 'directory', severity: 'error' }),
    )
    expect((await svcAs(nobody, ['status', '-d', closed])).status).toBe(1)
  })
})

describe('svc status', () => {
  test('polled and connected is 0; for people a table, for programs one object', async () => {
    const shown = await svc(['status', '-d', service.dir])
    expect(shown).toMatchObject({ status: 0, stderr: '' })
    expect(shown.stdout).toMatch(new RegExp(` ${service.pid} .*\n.* 1 \\S+ 1 `))
    expect(shown.stdout).toMatch(/\n\* work +connected +1 /)
    const { status, stdout } = await svc(['status', '--json'], { SVC_BASE_PATH: service.dir })
    expect(status).toBe(0)
    const seen = JSON.parse(stdout) as StatusReport
    expect(seen).toMatchObject({
      ...{ ok: true, version, base_path: service.dir, sandbox: false },
      polling: { active: true, stalled: false, pid: service.pid },
      ...{
        session_count: 1,
        connected_count: 1,
        store: { messages: 1 },
        outbox: { sends: 0, messages: 0 },
        trouble: [],
      },
      sessions: [{ name: 'work', status: 'connected', connected: true, is_default: true, user_count: 1 }],
    })
    expect(stdout).not.toContain(token())
  })

  test('nobody polls, or there is no session, is 1', async () => {
    const none = await svc(['status', '-d', join(home, 'none')])
    expect(none).toMatchObject({ status: 1, stderr: '' })
    for (const word of ['openapi', 'login']) expect(none.stdout).toContain(` svc ${word} -d `)
    await using empty = await startService({ dir: folder('empty'), sandbox: false, args: upstream })
    const { status, stdout } = await svc(['status', '-d', empty.dir, '--json'])
    expect(status).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({ ok: false, polling: { active: true }, session_count: 0 })
  })
})

describe('svc health', () => {
  test('a service that works: one line, status 0; by option, by variable, by address', async () => {
    const line = new RegExp(
      `^healthy: svc ${RegExp.escape(version)} .* 1 \\S+ 1 .*${RegExp.escape(service.url)}\\)\n$`,
    )
    const all = await Promise.all([
      svc(['health', '-p', port]),
      svc(['health'], { SVC_PORT: port }),
      svc(['health'], { SVC_PORT: port, SVC_HOST: '0.0.0.0' }),
      svc(['health', '--url', service.url]),
      svcProcess(['health', '-p', port], { home, env: { HTTP_PROXY: 'http://127.0.0.1:9' } }),
      svc(['health', '-p', port, '--sandbox']),
      // As the data directory says.
      svc(['health', '-d', service.dir]),
      svc(['health'], { SVC_BASE_PATH: service.dir }),
      svc(['--sandbox', 'health', '-p', port]),
      // The phone of such a service has a port of its own, which nobody asks here.
      svc(['health', '-p', port, '--sandbox'], { SVC_SANDBOX_PORT: port }),
    ])
    for (const ended of all)
      expect(ended).toEqual({ status: 0, stdout: expect.stringMatching(line), stderr: '' })
    const { stdout } = await svc(['health', '-p', port, '--json'])
    expect(JSON.parse(stdout)).toMatchObject({ healthy: true, health: { role: 'poller', connected: 1 } })
  })

  test('a service that stopped, or was killed, is not looked for where it was', async () => {
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      const dir = folder(`noted ${signal}`)
      await using one = await startService({ dir, sandbox: false, args: upstream, env: { HOME: home } })
      expect((await svc(['status', '-d', dir])).stdout).toContain(one.url)
      await one.kill(signal)
      expect((await svc(['status', '-d', dir])).stdout).not.toContain(one.url)
      expect((await svc(['health', '-d', dir])).stdout).not.toContain(one.url)
    }
  })

  test('of two services on one directory each is found while it runs, and beside a process its own address', async () => {
    const dir = folder('two services')
    const options = { dir, sandbox: false, args: upstream, env: { HOME: home } }
    const found = async () => {
      const { service_url, service_pid, polling } = JSON.parse(
        (await svc(['status', '-d', dir, '--json'])).stdout,
      )
      const shown = (await svc(['status', '-d', dir])).stdout
      const { healthy, url } = JSON.parse((await svc(['health', '-d', dir, '--json'])).stdout)
      return { service_url, isPoller: service_pid === polling.pid, healthy, url, shown }
    }
    await using first = await startService(options)
    await using second = await startService(options)
    const one = { service_url: first.url, isPoller: true, healthy: true, url: first.url }
    expect(await found()).toMatchObject({ ...one, shown: expect.not.stringContaining(second.url) })
    await second.kill('SIGTERM')
    expect(await found()).toMatchObject(one)
    await using third = await startService(options)
    await first.kill('SIGKILL')
    expect(await found()).toMatchObject({ service_url: third.url, healthy: true, url: third.url })
  })

  test('the panel alone is no service to ask, and its process has no address of another', async () => {
    const dir = folder('panel alone')
    const panel = Bun.spawn(
      [...svcProgram, 'admin', '--admin-port', '0', '--no-banner', '-d', dir, ...upstream],
      { env: { PATH: process.env.PATH ?? '', HOME: home }, stdout: 'pipe', stderr: 'ignore' },
    )
    await using stack = new AsyncDisposableStack()
    stack.defer(async () => {
      panel.kill('SIGKILL')
      await panel.exited
    })
    const status = async () => JSON.parse((await svc(['status', '-d', dir, '--json'])).stdout)
    await until('the panel polls', 30_000, async () => (await status()).polling.active)
    expect(await status()).not.toHaveProperty('service_url')
    await using beside = await startService({ dir, sandbox: false, args: upstream, env: { HOME: home } })
    const { polling, service_pid, service_url } = await status()
    expect({ service_url, isPoller: service_pid === polling.pid }).toEqual({
      service_url: beside.url,
      isPoller: false,
    })
    expect((await svc(['status', '-d', dir])).stdout).toContain(String(service_pid))
  })

  test('a watcher beside it works too', async () => {
    const { dir } = service
    await using watcher = await startService({ dir, sandbox: false, args: upstream, env: { HOME: home } })
    const { status, stdout } = await svc(['health', '--url', watcher.url, '--json'])
    expect([status, JSON.parse(stdout)]).toMatchObject([0, { healthy: true, health: { role: 'watcher' } }])
  })

  const health = {
    ...({ status: 'degraded', version, role: 'poller', stalled: false, store: 'ok', disk: 'ok' } as const),
    ...{ sessions: 2, connected: 2, failing: 1 },
  }
  test('what listens on the usual port, while nobody polls the data directory, is the service of another one', async () => {
    const answer = { kind: 'svc', status: 200, seen: health } as const
    const dir = folder('of mine')
    expect(await findUnservedDirectory(answer, dir)).toBe(dir)
    // A service that noted no address polls it all the same.
    expect(await findUnservedDirectory(answer, service.dir)).toBeUndefined()
    expect(await findUnservedDirectory({ kind: 'nobody' }, dir)).toBeUndefined()
    expect(describeHealth(answer, dir)).toContain(dir)
    expect(describeHealth(answer)).not.toContain('director')
  })

  test('says the word of the service: what is degraded works, and is said', async () => {
    using degraded = answering(() => Response.json(health))
    const said = await svc(['health', '-p', String(degraded.port)])
    expect(said).toMatchObject({ status: 0, stdout: expect.stringMatching(/^degraded: .*\b1\b.* fail/) })
  })

  test('an answer of 503, a stranger, silence and nobody are 1, within 2 s of waiting', async () => {
    using failing = answering(() => Response.json({ ...health, store: 'unavailable' }, { status: 503 }))
    using stranger = answering(() => new Response('It works!'))
    using silent = answering(() => new Promise<Response>(() => {}))
    const free = freePort()
    for (const port of [failing.port!, stranger.port!, silent.port!, free]) {
      const { status, stdout, stderr } = await svc(['health', '-p', String(port), '--json'])
      expect({ status, stderr }).toEqual({ status: 1, stderr: '' })
      expect(JSON.parse(stdout)).toMatchObject({ healthy: false, url: `http://127.0.0.1:${port}` })
    }
    const advised = async (args: string[], env = {}) => {
      const { stdout } = await svc(['health', ...args], env)
      return / (svc openapi.*?)\. /.exec(stdout)?.[1]
    }
    const at = ['-p', String(free)]
    expect(await advised(at)).toBe(`svc openapi --port ${free}`)
    expect(await advised([...at, '--sandbox'])).toBe(`svc openapi --sandbox --port ${free}`)
    expect(await advised([...at, '-d', '/x y'])).toBe(`svc openapi -d '/x y' --port ${free}`)
    // Another terminal has not this one's environment.
    const env = { SVC_SANDBOX: '1', SVC_PORT: String(free), SVC_BASE_PATH: '/x' }
    expect(await advised([], env)).toBe(`svc openapi --sandbox -d /x --port ${free}`)
    expect((await svc(['health'], env)).stdout.split('--sandbox')).toHaveLength(2)
    expect(await advised(['--url', `http://127.0.0.1:${free}`])).toBeUndefined()
  })
})
