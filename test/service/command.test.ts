/** `svc service` as a user meets it, with a service that really runs; a program of ours is asked in systemctl's place. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Report } from '../../src/doctor/examine.ts'
import { quoteForShell } from '../../src/platform/format.ts'
import type { ServicePlan } from '../../src/service/plan.ts'
import { findUnseenPath } from '../../src/service/systemd.ts'
import { version } from '../../src/version.ts'
import { svc } from '../support/command.ts'
import { folderOfTest } from '../support/folder.ts'
import { freePort } from '../support/port.ts'
import { svcProgram } from '../support/svc-program.ts'
import { undisturbed } from '../support/undisturbed.ts'

const standIn = fileURLToPath(new URL('systemctl.ts', import.meta.url))
const onLinux = process.platform === 'linux'
const named = (name: string) => `${name}${onLinux ? '' : ' (Linux only)'}`

let home = ''
let unit = ''
beforeEach(async () => {
  home = folderOfTest()
  unit = join(home, 'conf ig', 'systemd', 'user', 'svc.service')
  await mkdir(join(home, 'bin'))
  await mkdir(join(home, 'state'))
  await writeFile(join(home, 'state', 'unit'), unit)
  const state = join(home, 'state')
  await script('systemctl', `exec ${[process.execPath, standIn, state].map(quoteForShell).join(' ')} "$@"`)
  await script('journalctl', `echo "$@" >> ${state}/journalctl; cat ${state}/journal`)
})
afterEach(async () => {
  const pid = Number(await kept('pid'))
  if (pid) process.kill(pid, 'SIGKILL')
})

const script = (name: string, text: string) =>
  writeFile(join(home, 'bin', name), `#!/bin/sh\n${text}\n`, { mode: 0o755 })
const kept = (name: string) => readFile(join(home, 'state', name), 'utf8').catch(() => '')

/** A command of this user, for whom that program stands in for systemctl. */
const command = (args: readonly string[], env: Record<string, string> = {}) =>
  svc(args, {
    home,
    env: {
      PATH: `${join(home, 'bin')}:${process.env.PATH ?? ''}`,
      XDG_CONFIG_HOME: join(home, 'conf ig'),
      ...env,
    },
  })

/** `svc service …`, and what was asked of systemctl meanwhile. */
async function service(args: readonly string[], env: Record<string, string> = {}) {
  const before = (await kept('calls')).length
  const run = () => command(['service', ...args], env)
  const ended = await (args[0] === 'status' ? undisturbed(run) : run())
  const calls = (await kept('calls')).slice(before).split('\n').filter(Boolean)
  return { ...ended, asked: calls.map(call => call.replace('--user --no-pager ', '')) }
}

test.skipIf(!onLinux)(named('install, again, with other options, status, uninstall'), async () => {
  const port = String(freePort())
  const options = ['--user', '--sandbox', '--sandbox-port', '0', '-p', port, '-d', 'my data', '--drain', '1']
  const first = await service(['install', ...options])
  expect(first.stderr).toBe('')
  expect(first.stdout).toStartWith(
    `installed and started your service svc of systemd, ${unit}\nhealthy: svc `,
  )
  expect(first.stdout).toMatch(/\nlog in: (\S*\/)?svc login --sandbox -d '\S+\/my data'\n/)
  expect(first.stdout).toContain('\nlog:    journalctl --user -u svc -f\n')
  expect(first.status).toBe(0)
  const changes = (asked: string[]) => asked.filter(call => !/^(show|is-system-running)\b/.test(call))
  expect(changes(first.asked)).toEqual([
    ...['stop svc.socket', 'daemon-reload', 'enable --quiet svc.service', 'restart svc.service'],
  ])
  const text = await readFile(unit, 'utf8')
  expect(text).toContain(
    `\nExecStart=${svcProgram.join(' ')} openapi --no-banner -d "${join(home, 'my data')}" --port ${port} --sandbox --sandbox-port 0 --drain 1\n`,
  )
  expect((await stat(unit)).mode & 0o777).toBe(0o644)

  const status = await service(['status', '--user', '--json'])
  expect(JSON.parse(status.stdout)).toMatchObject({
    ...{ healthy: true, name: 'svc', scope: 'user', manager: 'systemd', path: unit, installed: true },
    ...{ enabled: true, running: true, state: 'active (running)', restarts: 0, outdated: false },
    ...{ pid: Number(await kept('pid')), since: Date.UTC(2026, 10, 22, 0, 38, 53) },
    ...{ base_path: join(home, 'my data'), url: `http://127.0.0.1:${port}`, program: svcProgram[0] },
    ...{ version, running_version: version, health: { status: 'ok' } },
  })
  expect(status.status).toBe(0)
  // The line that installed it, with another word.
  const shown = await service(['status', ...options])
  expect(shown.stdout).toMatch(
    /^service {4}your service svc of systemd, .*\nstate {6}active \(running\), process \d+ since 2026-11-22 08:38:53\S*, starts when you log in\nhealth {5}healthy: svc .*\ndirectory {2}.*my data\n$/,
  )

  const doctor = ['doctor', '--sandbox', '-p', port, '-d', 'my data', '--json']
  const { findings } = JSON.parse((await undisturbed(() => command(doctor))).stdout) as Report
  expect(findings.filter(({ subject }) => subject === 'service')).toMatchObject([
    { severity: 'ok', what: 'your service svc of systemd runs and starts by itself' },
  ])

  const secret = 'hunter22-$%"\\'
  const changed = await service(['install', ...options, '--token', secret], {
    SVC_MAX_UPLOAD: '5MB',
    SVC_CHANNEL_VERSION: '2.4.8',
    HTTPS_PROXY: 'http://u:p@ss$word"@proxy:3128',
  })
  expect(changed.stdout).toStartWith('changed and restarted your service svc of systemd')
  const tokenPath = join(home, 'conf ig', 'svc', 'svc.token')
  const variables = join(home, 'conf ig', 'svc', 'svc.env')
  const changedText = await readFile(unit, 'utf8')
  expect(changedText).toContain(
    ` --max-upload 5MB --sandbox --sandbox-port 0 --drain 1 --token-file "${tokenPath}"\n`,
  )
  expect(changedText).toContain(`\nEnvironmentFile=${variables}\n`)
  expect(changedText + changed.stdout).not.toContain('hunter22')
  expect(await readFile(tokenPath, 'utf8')).toBe(`${secret}\n`)
  expect(await readFile(variables, 'utf8')).toBe(
    'SVC_CHANNEL_VERSION="2.4.8"\nHTTPS_PROXY="http://u:p@ss\\$word\\"@proxy:3128"\n',
  )
  for (const path of [tokenPath, variables]) expect((await stat(path)).mode & 0o777).toBe(0o600)
  const call = (headers: Record<string, string>) =>
    fetch(`http://127.0.0.1:${port}/tools`, { headers }).then(({ status }) => status)
  expect(await call({})).toBe(401)
  expect(await call({ authorization: `Bearer ${secret}` })).toBe(200)

  const gone = await service(['uninstall', '--user'])
  expect(gone).toMatchObject({
    ...{ status: 0, stderr: '' },
    stdout: `stopped and removed your service svc of systemd, ${unit}\nits data, the logins among them, stay in ${join(home, 'my data')}\n`,
  })
  expect(changes(gone.asked)).toEqual([
    ...['stop svc.socket', 'disable --quiet --now svc.service', 'daemon-reload', 'reset-failed svc.service'],
  ])
  expect([unit, tokenPath, variables].filter(path => existsSync(path))).toEqual([])
  expect(existsSync(join(home, 'my data', 'messages.db'))).toBe(true)
  expect((await service(['uninstall', '--user'])).stdout).toStartWith('nothing to do: there is no service')
  const none = await service(['status', '--user'])
  expect([none.status, none.stdout]).toEqual([1, expect.stringMatching(/^not installed: /)])
})

test.skipIf(!onLinux)(
  named('what does not start stays, is told, and is mended by another install'),
  async () => {
    const taken = createServer().listen(freePort(), '127.0.0.1')
    const busy = String((taken.address() as { port: number }).port)
    const sandbox = ['--user', '--sandbox', '--sandbox-port', '0']
    try {
      const first = await service(['install', ...sandbox, '-p', busy])
      expect([first.status, first.stdout]).toEqual([1, ''])
      expect(first.stderr).toMatch(/^error: the service does not start: .*journalctl --user -u svc -f/)
      expect((await service(['status', '--user'])).status).toBe(1)
      expect((await service(['install', ...sandbox, '-p', String(freePort())])).status).toBe(0)
      expect((await service(['status', '--user'])).status).toBe(0)
    } finally {
      taken.close()
    }
  },
)

test.skipIf(!onLinux)(named('a token that the service would refuse changes nothing'), async () => {
  const open = ['install', '--user', '--sandbox', '--host', '0.0.0.0']
  await writeFile(join(home, 'token'), 'hunter2\n')
  for (const [flag, value] of [
    ['--token', 'hunter2'],
    ['--token-file', join(home, 'token')],
  ] as const) {
    const { status, stdout, asked } = await service([...open, flag, value])
    expect([status, stdout, asked]).toEqual([2, '', []])
  }
  expect(existsSync(unit)).toBe(false)
})

test.skipIf(!onLinux)(named('a unit of somebody else is neither replaced nor removed'), async () => {
  const theirs = '[Service]\nExecStart=/usr/bin/true\n'
  await mkdir(join(unit, '..'), { recursive: true })
  await writeFile(unit, theirs)
  for (const command of ['install', 'uninstall', 'status']) {
    const { status, stderr, asked } = await service([command, '--user'])
    expect([command, status, stderr]).toEqual([
      ...[command, 1],
      `error: ${unit} was not written by svc. Choose another name with --name, or move that file away.\n`,
    ])
    expect(asked.filter(call => !call.startsWith('is-system-running'))).toEqual([])
  }
  expect(await readFile(unit, 'utf8')).toBe(theirs)
})

test.skipIf(!onLinux)(
  named('a pipe or a folder where a file of the service belongs is refused and stays'),
  async () => {
    const own = join(home, 'conf ig', 'svc')
    for (const path of [unit, join(own, 'svc.env'), join(own, 'svc.token')])
      for (const make of ['mkfifo', 'mkdir']) {
        await mkdir(dirname(path), { recursive: true })
        Bun.spawnSync([make, path])
        for (const command of ['install', 'uninstall', 'status']) {
          const { status, stderr, asked } = await service([command, '--user'])
          expect([command, status, stderr]).toEqual([
            command,
            1,
            expect.stringContaining(`error: ${path} is `),
          ])
          expect(asked.filter(call => !call.startsWith('is-system-running'))).toEqual([])
        }
        expect((await stat(path)).isFile()).toBe(false)
        await rm(path, { recursive: true })
      }
  },
)

test.skipIf(!onLinux)(named('without systemd: what to do instead, and nothing is written'), async () => {
  await writeFile(join(home, 'state', 'system'), 'offline')
  const offline = await service(['install', '--user'])
  expect(offline.status).toBe(1)
  expect(offline.stderr).toMatch(/^error: the systemd of this user cannot be reached\. .*--print .*\n$/)
  await script('systemctl', 'echo "Failed to connect to bus: No medium found" >&2; exit 1')
  const { stderr } = await service(['install', '--user'])
  expect(stderr).toMatch(
    /^error: the systemd of this user cannot be reached: Failed to connect to bus: .*enable-linger/,
  )
  expect([unit, join(home, 'conf ig', 'svc')].filter(path => existsSync(path))).toEqual([])
})

const asRoot = onLinux && process.geteuid?.() === 0
test.skipIf(!asRoot)(
  `a service of the machine needs a user that exists; nobody is made${asRoot ? '' : ' (Linux and root only)'}`,
  async () => {
    await script('getent', 'exit 2')
    await script('useradd', `echo made >> ${join(home, 'state', 'useradd')}`)
    for (const args of [['--system'], ['--user', 'bob']]) {
      const { status, stdout, stderr, asked } = await service(['install', ...args, '-d', join(home, 'data')])
      expect([status, stdout, asked]).toEqual([2, '', []])
      expect(stderr).toContain(` useradd --system `)
      expect(stderr).toEndWith(`/nologin ${args[1] ?? 'svc'}\n`)
    }
    expect([await kept('useradd'), existsSync(join(home, 'data'))]).toEqual(['', false])
    await script('getent', 'echo root:x:0:0::/root:/bin/sh')
    expect((await service(['install', '--user', 'root'])).status).toBe(2)
  },
)

test.skipIf(!onLinux)(named('--socket-activation: systemd holds each port of the service'), async () => {
  const ports = ['-p', '8001', '--admin-port', '443', '--relay-port', '8003', '--metrics-port', '0']
  const print = (...args: string[]) =>
    service(['install', '--system', '--print', '--socket-activation', '-d', '/srv/svc', ...ports, ...args])
  const { stdout, status } = await print('--host', '::1')
  expect(status).toBe(0)
  expect(stdout.split('\n').filter(line => line.startsWith('Listen'))).toEqual(
    ['8001', '443', '8003'].map(port => `ListenStream=[::1]:${port}`),
  )
  // systemd binds the low port.
  expect(stdout).toContain('\nAmbientCapabilities=\n')
  expect((await print('--host', 'localhost')).status).toBe(2)

  const theirs = '[Socket]\nListenStream=127.0.0.1:1\n'
  const socket = unit.replace(/service$/, 'socket')
  await mkdir(dirname(socket), { recursive: true })
  await writeFile(socket, theirs)
  for (const command of ['install', 'uninstall']) {
    const refused = await service([command, '--user'])
    expect([command, refused.status, refused.stderr]).toEqual([command, 1, expect.stringContaining(socket)])
  }
  expect(await readFile(socket, 'utf8')).toBe(theirs)
})

test.skipIf(!onLinux)(named('--print shows the unit alone, and changes nothing'), async () => {
  const { stdout, stderr, status, asked } = await service(
    ['install', '--system', '--print', '--sandbox', '--token', 'hunter22', '--backup-to', '/srv/backups'],
    { HTTPS_PROXY: 'http://127.0.0.1:1' },
  )
  expect([status, asked]).toEqual([0, []])
  expect(stdout).toStartWith('# Written by svc service install')
  expect(stdout).toContain('\nUser=svc\n')
  expect(stdout).toContain(
    ' -d /var/lib/svc-sandbox --backup-to /srv/backups --sandbox --drain 5 --token-file',
  )
  expect(stdout).toContain('\nReadWritePaths=/srv/backups\n')
  expect(stdout + stderr).not.toContain('hunter22')
  expect(stdout).not.toContain('EnvironmentFile')
  expect(existsSync(join(home, 'conf ig'))).toBe(false)
})

test.skipIf(!onLinux)(
  named('a unit that could not start as it is: what is wrong stands beside it'),
  async () => {
    const print = async (...args: string[]) =>
      (await service(['install', '--system', '--print', ...args])).stderr
    const user = /useradd/
    await script('getent', 'exit 2')
    expect(await print('-d', '/srv/svc')).toMatch(user)
    await script('getent', `echo "svc:x:${process.geteuid?.()}:0::/srv:/bin/sh"`)
    // It may be meant for another machine, so what is not here is only named.
    const files = [
      '--token-file',
      '--store-url-file',
      '--secret-key-file',
      '--new-secret-key-file',
      '--tls-cert',
      '--tls-key',
    ]
    const absent = files.map(flag => join('/nowhere', flag))
    const named = await print('-d', '/srv/svc', ...files.flatMap((flag, nth) => [flag, absent[nth]!]))
    for (const path of absent) expect(named).toContain(path)
    // PrivateTmp: what lies there now is not what the service sees.
    const beside = await print('-d', '/var/tmp/mine')
    expect([user.test(beside), /\/(var\/)?tmp\//.test(beside)]).toEqual([false, true])
    expect(findUnseenPath({ ...machines, dataDir: '/tmp/x' })).toBe('/tmp/x')
    expect(findUnseenPath({ ...machines, writtenFolders: ['/var/tmp/media'] })).toBe('/var/tmp/media')
    expect(findUnseenPath({ ...machines, command: ['/tmp/svc', 'openapi'] })).toBe('/tmp/svc')
    expect(findUnseenPath({ ...machines, scope: 'user', dataDir: '/tmp/x' })).toBeUndefined()
    expect(findUnseenPath({ ...machines, dataDir: '/tmpfiles/x' })).toBeUndefined()
  },
)

test.skipIf(!asRoot)(
  `a unit that could not start is not installed${asRoot ? '' : ' (Linux and root only)'}`,
  async () => {
    await script('getent', 'echo svc:x:1:1::/srv:/bin/sh')
    const { status, asked } = await service(['install', '--system', '-d', join('/tmp', 'svc-no-such-folder')])
    expect([status, asked, existsSync('/tmp/svc-no-such-folder')]).toEqual([1, [], false])
  },
)

const machines: ServicePlan = {
  ...{ name: 'svc', scope: 'system', command: ['/usr/bin/svc', 'openapi'], dataDir: '/var/lib/svc' },
  ...{ writtenFolders: [], bindsLowPort: false, drain: 5, notifies: true, environment: {} },
}
