/** `svc service` as a user meets it, with a service that really runs; a program of ours is asked in systemctl's place. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Report } from '../../src/doctor/examine.ts'
import { shellWord } from '../../src/platform/shell.ts'
import { version } from '../../src/version.ts'
import { svc, svcMain } from '../support/command.ts'
import { ended } from '../support/ended.ts'
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
const ourPlaceIsFleeting = /^warning: .* lies in a folder for temporary files\. .*\n/gm

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
      expect(update.stderr).toEndWith('. The service runs as it did before. Mend that, then install again.\n')
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
  await rm(unit)
  await writeFile(join(home, 'state', 'fragment'), '/usr/lib/systemd/user/svc.service')
  const { stderr } = await service(['install', '--user'])
  expect(stderr).toStartWith(
    'error: there is a service svc already, at /usr/lib/systemd/user/svc.service, which ',
  )
  expect(existsSync(unit)).toBe(false)
})

test.skipIf(!onLinux)(named('without systemd: what to do instead, and nothing is written'), async () => {
  await writeFile(join(home, 'state', 'system'), 'offline')
  for (const command of ['install', 'uninstall']) {
    const { status, stderr } = await service([command, '--user'])
    expect([command, status]).toEqual([command, 1])
    expect(stderr).toMatch(/^error: systemd does not run on this machine\. .*--print shows the unit\.\n$/)
  }
  await script('systemctl', 'echo "Failed to connect to bus: No medium found" >&2; exit 1')
  const { stderr } = await service(['install', '--user'])
  expect(stderr).toMatch(
    /^error: the systemd of this user cannot be reached: Failed to connect to bus: .*enable-linger/,
  )
  expect(existsSync(join(home, 'conf ig'))).toBe(false)
})

const asRoot = onLinux && process.geteuid?.() === 0
test.skipIf(!asRoot)(
  `where systemd does not run, no user is made for the service${asRoot ? '' : ' (Linux and root only)'}`,
  async () => {
    await writeFile(join(home, 'state', 'system'), 'offline')
    await script('getent', 'exit 2')
    await script('useradd', `echo made >> ${join(home, 'state', 'useradd')}`)
    const { status, stdout, stderr } = await service(['install', '--system', '-d', join(home, 'data')])
    expect([status, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(/^error: (systemd does not run|.* lies in a folder for temp|the user svc may not)/)
    expect([await kept('useradd'), existsSync(join(home, 'data'))]).toEqual(['', false])
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

test.skipIf(!onLinux)(
  named('what lies in a folder for temporary files is warned of, with what to do'),
  async () => {
    const shown = async (...args: string[]) =>
      (await command(['service', 'install', '--print', '--user', ...args])).stderr
        .split('\n')
        .filter(line => line !== '' && !line.startsWith(`warning: ${process.execPath} `))
        .filter(line => !line.startsWith(`warning: ${svcMain} `))
    expect(await shown('-d', '/srv/svc')).toEqual([])
    const data = `warning: the data directory ${home}/data lies in a folder for temporary files. The logins and messages in it would be lost: choose another with -d.`
    expect(await shown('-d', 'data')).toEqual([data])
    expect(await shown('-d', 'data', '--media-root', 'data/media')).toEqual([data])
    expect(await shown('-d', '/srv/svc', '--media-root', 'pictures')).toEqual([
      `warning: the media root ${home}/pictures lies in a folder for temporary files. Choose another with --media-root.`,
    ])
    // A program that lies there, and is not only ours.
    const root = join(dirname(svcMain), '..')
    await symlink(join(root, 'node_modules'), join(home, 'node_modules'))
    for (const name of ['src', 'package.json'])
      await cp(join(root, name), join(home, name), { recursive: true })
    const copy = join(home, 'src', 'main.ts')
    const args = ['service', 'install', '--print', '-d', '/srv/svc']
    const from = async (...more: string[]) =>
      (
        await ended([process.execPath, copy, ...args, ...more], {
          cwd: home,
          env: { HOME: home, PATH: process.env.PATH ?? '' },
        })
      ).stderr
    expect(await from('--user')).toContain(
      `warning: ${copy} lies in a folder for temporary files. Put it where it stays, and install from there.\n`,
    )
    expect(await from('--system')).toContain(
      `warning: ${copy} lies in a folder for temporary files. Build the binary`,
    )
  },
)

test.skipIf(!onLinux)(named('wrong options are refused now, and not when the service starts'), async () => {
  const lines: [args: string[], says: RegExp][] = [
    [['install', '-p', '99999'], /^error: --port: expected a whole number from 0 to 65535, got "99999"/],
    [['install', '-p', '0'], /^error: --port: expected a port that stays, got 0/],
    [['install', '--no-such'], /^error: unknown option '--no-such'/],
    [['install', '--token', 'a', '--token-file', '/b'], /^error: --token-file: expected without --token/],
    [['install', '--token-file', '/not/there'], /^error: --token-file: \/not\/there is not there/],
    [['install', '--user', '--system'], /^error: --system: expected without --user/],
    [['install', '--user', '--run-as', 'daemon'], /^error: --run-as: expected for a service of the machine/],
    [['install', '--system', '--print', '--run-as', 'root'], /^error: --run-as: svc needs no rights of root/],
    [['install', '--system', '--print', '--run-as', 'a\nUser=b'], /^error: --run-as: there is no user a/],
    [['install', '--system', '--print', '--run-as', '0'], /^error: --run-as: there is no user 0/],
    [['install', '--user', '-d', 'a\nb'], /^error: a service cannot be told of .*control character/],
    [['status', '--name', '../x'], /^error: --name: expected a letter/],
    [[], /^error: service: expected install, uninstall or status/],
  ]
  for (const [args, says] of lines) {
    const { status, stderr, asked } = await service(
      args.includes('--system') ? args : [...args, ...(args[0] === 'install' ? ['--user'] : [])],
    )
    expect([args.join(' '), stderr]).toEqual([args.join(' '), expect.stringMatching(says)])
    expect([status, asked]).toEqual([2, []])
  }
})
