/** `svc service` as a user meets it, with a service that really runs; a program of ours is asked in systemctl's place. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Report } from '../../src/doctor/examine.ts'
import { shellWord } from '../../src/platform/shell.ts'
import { version } from '../../src/version.ts'
import { svc, svcMain } from '../support/command.ts'
import { freePort } from '../support/port.ts'
import { startService } from '../support/service.ts'
import { undisturbed } from '../support/undisturbed.ts'
import { until } from '../support/until.ts'

const standIn = fileURLToPath(new URL('systemctl.ts', import.meta.url))
const onLinux = process.platform === 'linux'
const named = (name: string) => `${name}${onLinux ? '' : ' (Linux only)'}`

let home = ''
let unit = ''
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'svc-service-'))
  unit = join(home, 'conf ig', 'systemd', 'user', 'svc.service')
  await mkdir(join(home, 'bin'))
  await mkdir(join(home, 'state'))
  await writeFile(join(home, 'state', 'unit'), unit)
  const state = join(home, 'state')
  await script('systemctl', `exec ${[process.execPath, standIn, state].map(shellWord).join(' ')} "$@"`)
  await script('journalctl', `echo "$@" >> ${state}/journalctl; cat ${state}/journal`)
})
afterEach(async () => {
  const pid = Number(await kept('pid'))
  if (pid) process.kill(pid, 'SIGKILL')
  await rm(home, { recursive: true, force: true })
})

const script = (name: string, text: string) =>
  writeFile(join(home, 'bin', name), `#!/bin/sh\n${text}\n`, { mode: 0o755 })
const kept = (name: string) => readFile(join(home, 'state', name), 'utf8').catch(() => '')

/** Said besides of the data of these tests, and where their checkout, or the Bun that runs them, lies in such a folder. */
const ourPlaceIsFleeting = /^warning: .* lies in a folder for temporary files.*\n/gm

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
  return {
    ...ended,
    stderr: ended.stderr.replace(ourPlaceIsFleeting, ''),
    asked: calls.map(call => call.replace('--user --no-pager ', '')),
  }
}

test.skipIf(!onLinux)(named('install, again, with other options, status, uninstall'), async () => {
  const port = String(freePort())
  const options = ['--user', '--sandbox', '--sandbox-port', '0', '-p', port, '-d', 'my data']
  const first = await service(['install', ...options])
  expect(first.stderr).toBe('')
  expect(first.stdout).toStartWith(
    `installed and started your service svc of systemd, ${unit}\nhealthy: svc `,
  )
  expect(first.stdout).toContain(`\nlog in: svc login --sandbox -d '${join(home, 'my data')}'\n`)
  expect(first.stdout).toContain('\nlog:    journalctl --user -u svc -f\n')
  expect(first.status).toBe(0)
  const changes = (asked: string[]) => asked.filter(call => !/^(show|is-system-running)\b/.test(call))
  expect(changes(first.asked)).toEqual(['daemon-reload', 'enable --quiet svc.service', 'restart svc.service'])
  const text = await readFile(unit, 'utf8')
  expect(text).toContain(
    `\nExecStart=${process.execPath} ${svcMain} openapi --no-banner -d "${join(home, 'my data')}" --port ${port} --sandbox --sandbox-port 0\n`,
  )
  expect((await stat(unit)).mode & 0o777).toBe(0o644)

  const again = await service(['install', ...options])
  expect(again.stdout).toStartWith('nothing to do: it is so already, your service svc of systemd')
  expect([again.status, changes(again.asked)]).toEqual([0, []])

  const status = await service(['status', '--user', '--json'])
  expect(JSON.parse(status.stdout)).toMatchObject({
    ...{ healthy: true, name: 'svc', scope: 'user', manager: 'systemd', path: unit, installed: true },
    ...{ enabled: true, running: true, state: 'active (running)', restarts: 0, outdated: false },
    ...{ pid: Number(await kept('pid')), since: Date.UTC(2026, 10, 22, 0, 38, 53) },
    ...{ base_path: join(home, 'my data'), url: `http://127.0.0.1:${port}`, program: process.execPath },
    ...{ version, running_version: version, health: { status: 'ok' } },
  })
  expect(status.status).toBe(0)
  const shown = await service(['status', '--user'])
  expect(shown.stdout).toMatch(
    /^service {4}your service svc of systemd, .*\nstate {6}active \(running\), process \d+ since 2026-11-22 08:38:53, starts when you log in\nhealth {5}healthy: svc .*\ndirectory {2}.*my data\n$/,
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
  expect(changed.stdout).toContain(
    '\ntaken over from the environment: SVC_MAX_UPLOAD, SVC_CHANNEL_VERSION, HTTPS_PROXY\n',
  )
  const tokenPath = join(home, 'conf ig', 'svc', 'svc.token')
  const variables = join(home, 'conf ig', 'svc', 'svc.env')
  const changedText = await readFile(unit, 'utf8')
  expect(changedText).toContain(` --max-upload 5MB --sandbox --sandbox-port 0 --token-file "${tokenPath}"\n`)
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
    ...['disable --quiet --now svc.service', 'daemon-reload', 'reset-failed svc.service'],
  ])
  expect([unit, tokenPath, variables].filter(path => existsSync(path))).toEqual([])
  expect(existsSync(join(home, 'my data', 'messages.db'))).toBe(true)
  expect((await service(['uninstall', '--user'])).stdout).toStartWith('nothing to do: there is no service')
  const none = await service(['status', '--user'])
  expect([none.status, none.stdout]).toEqual([1, expect.stringMatching(/^not installed: /)])
})

test.skipIf(!onLinux)(named('svc doctor finds a service by whatever name it was installed'), async () => {
  const port = String(freePort())
  const folder = join(home, 'conf ig', 'systemd', 'user')
  await writeFile(join(home, 'state', 'unit'), join(folder, 'shop.service'))
  const options = ['--sandbox', '--sandbox-port', '0', '-p', port, '-d']
  const installed = await service(['install', '--user', '--name', 'shop', ...options, 'shop data'])
  expect(installed.stdout).toStartWith('installed and started your service shop of systemd')
  const text = await readFile(join(folder, 'shop.service'), 'utf8')
  await writeFile(join(folder, 'other.service'), text.replaceAll('shop data', 'other data'))
  await writeFile(join(folder, 'theirs.service'), '[Service]\nExecStart=/usr/bin/true\n')
  await mkdir(join(folder, 'default.target.wants'))
  await mkdir(join(folder, 'folder.service'))
  const found = async (dir: string) => {
    const look = ['doctor', '--sandbox', '-p', port, '-d', dir, '--json']
    const { findings } = JSON.parse((await undisturbed(() => command(look))).stdout) as Report
    return findings.filter(({ subject }) => subject === 'service').map(({ what }) => what)
  }
  expect(await found('shop data')).toEqual(['your service shop of systemd runs and starts by itself'])
  expect(await found('neither')).toEqual([
    `your service other of systemd is of another data directory, ${join(home, 'other data')}`,
    `your service shop of systemd is of another data directory, ${join(home, 'shop data')}`,
  ])
})

test.skipIf(!onLinux)(named('a svc of another data directory is not taken for the service'), async () => {
  const port = String(freePort())
  const options = ['--user', '--sandbox', '--sandbox-port', '0', '-p', port, '-d', 'my data']
  expect((await service(['install', ...options])).status).toBe(0)
  // What systemd takes for the service does not listen yet, or no more, and somebody else does.
  const own = Number(await kept('pid'))
  await using stillStarting = Bun.spawn(['sleep', '60'])
  await writeFile(join(home, 'state', 'pid'), String(stillStarting.pid))
  process.kill(own, 'SIGKILL')
  await using other = await until('the port is free again', 30_000, () =>
    startService({ args: ['--port', port] }).catch(() => undefined),
  )
  const status = await service(['status', '--user'])
  expect(status.stdout).toContain(
    `unhealthy: what answers there is a svc of another data directory (${other.url})\n`,
  )
  expect(status.status).toBe(1)
  const seen = JSON.parse((await service(['status', '--user', '--json'])).stdout)
  expect(seen).toMatchObject({ healthy: false, running: true })
  expect([seen.health, seen.running_version]).toEqual([undefined, undefined])
  const again = await service(['install', ...options])
  expect([again.status, again.stdout]).toEqual([1, ''])
  expect(again.stderr).toStartWith(`error: the service does not start: port ${port} on 127.0.0.1 is in use`)
})

test.skipIf(!onLinux)(
  named('what does not start leaves all as it was, and is told in its own words'),
  async () => {
    const port = String(freePort())
    const taken = createServer().listen(freePort(), '127.0.0.1')
    const busy = String((taken.address() as { port: number }).port)
    const sandbox = ['--user', '--sandbox', '--sandbox-port', '0']
    try {
      const first = await service(['install', ...sandbox, '-p', busy, '--token', 'hunter22'])
      expect(first).toMatchObject({ status: 1, stdout: '' })
      expect(first.stderr).toBe(
        `error: the service does not start: port ${busy} on 127.0.0.1 is in use. Choose another with --port, or 0 for a free one. Nothing was installed. Mend that, then install again.\n`,
      )
      expect([unit, join(home, 'conf ig', 'svc')].filter(path => existsSync(path))).toEqual([])
      expect(first.asked.slice(-3)).toEqual([
        ...['disable --quiet --now svc.service', 'daemon-reload', 'reset-failed svc.service'],
      ])

      expect((await service(['install', ...sandbox, '-p', port])).status).toBe(0)
      const before = await readFile(unit, 'utf8')
      const update = await service(['install', ...sandbox, '-p', busy, '--token', 'hunter22'])
      expect(update.status).toBe(1)
      expect(update.stderr).toEndWith('. The files are as they were before. Mend that, then install again.\n')
      expect(await readFile(unit, 'utf8')).toBe(before)
      expect(existsSync(join(home, 'conf ig', 'svc', 'svc.token'))).toBe(false)
      expect((await service(['status', '--user'])).status).toBe(0)
    } finally {
      taken.close()
    }
  },
)

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
    for (const args of [['--system'], ['--user', 'bob'], ['--run-as', 'bob']]) {
      const { status, stdout, stderr, asked } = await service(['install', ...args, '-d', join(home, 'data')])
      expect([status, stdout, asked]).toEqual([2, '', []])
      expect(stderr).toContain(` useradd --system `)
      expect(stderr).toEndWith(`/nologin ${args[1] ?? 'svc'}\n`)
    }
    expect([await kept('useradd'), existsSync(join(home, 'data'))]).toEqual(['', false])
    await script('getent', 'echo root:x:0:0::/root:/bin/sh')
    expect((await service(['install', '--user', 'root'])).status).toBe(2)
    await script('getent', 'echo nobody:x:65534:65534::/nonexistent:/bin/false')
    await script('runuser', 'echo "Permission denied" >&2; exit 126')
    const stranger = await service(['install', '--user', 'nobody', '-d', join(home, 'data')])
    expect([stranger.status, stranger.asked]).toEqual([1, []])
    expect(stranger.stderr).toContain('Permission denied')
    expect(existsSync(join(home, 'data'))).toBe(false)
  },
)

test.skipIf(!onLinux)(named('--print shows the unit alone, and changes nothing'), async () => {
  const { stdout, stderr, status, asked } = await service(
    ['install', '--system', '--print', '--sandbox', '--token', 'hunter22'],
    { HTTPS_PROXY: 'http://127.0.0.1:1' },
  )
  expect([status, asked]).toEqual([0, []])
  expect(stdout).toStartWith('# Written by svc service install')
  expect(stdout).toContain('\nUser=svc\n')
  expect(stdout).toContain(' -d /var/lib/svc-sandbox --sandbox --token-file /etc/svc/svc.token\n')
  expect(stdout + stderr).not.toContain('hunter22')
  expect(stdout).not.toContain('EnvironmentFile')
  expect(stderr).toBe('it needs /etc/svc/svc.token besides, with mode 600\n')
  expect(existsSync(join(home, 'conf ig'))).toBe(false)
})

test.skipIf(!onLinux)(named('what lies in a folder for temporary files is warned of'), async () => {
  const root = dirname(dirname(svcMain))
  const shown = async (...args: string[]) =>
    (await command(['service', 'install', '--print', '--user', ...args])).stderr
      .split('\n')
      .flatMap(line => /^warning: (.*) lies in a folder/.exec(line)?.[1] ?? [])
      .filter(path => path !== process.execPath && !path.startsWith(root))
  expect(await shown('-d', '/srv/svc')).toEqual([])
  expect(await shown('-d', 'data', '--media-root', 'data/media')).toEqual([join(home, 'data')])
  expect(await shown('-d', '/srv/svc', '--media-root', 'pictures')).toEqual([join(home, 'pictures')])
})
