/** A service of launchd: its files are written for real, a program of ours is asked in launchctl's place. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '../../src/platform/clock.ts'
import { install, managerOf, uninstall } from '../../src/service/install.ts'
import { launchdService, parsePlistCommand } from '../../src/service/launchd.ts'
import type { ServiceManager, ServicePlan } from '../../src/service/plan.ts'
import { folderOfTest } from '../support/folder.ts'

const path = process.env.PATH
let home = ''
let manager: ServiceManager
let plan: ServicePlan
beforeEach(async () => {
  home = folderOfTest()
  await mkdir(join(home, 'bin'))
  // Loaded while `loaded` is there; `busy` holds how often bootstrap is still to be refused.
  await writeFile(
    join(home, 'bin', 'launchctl'),
    `#!/bin/sh
cd '${home}' && echo "$@" >> calls
case $1 in
  print)
    [ "$2" = gui/${process.geteuid?.()} ] && exit
    [ -f loaded ] || { echo "Could not find service" >&2; exit 113; }
    cat print 2>/dev/null; exit 0 ;;
  bootout) rm -f loaded ;;
  bootstrap)
    if [ -s busy ]; then rm busy; echo "Bootstrap failed: 5: Input/output error" >&2; exit 5; fi
    touch loaded ;;
esac
`,
    { mode: 0o755 },
  )
  process.env.PATH = `${join(home, 'bin')}:${path}`
  const folders = { home, config: join(home, '.config'), etc: '/none', lib: '/none', library: '/none' }
  // launchd is asked again at once.
  const clock = { ...systemClock, sleep: async () => {} }
  manager = launchdService({ name: 'svc', scope: 'user' }, folders, clock)
  plan = {
    ...{ name: 'svc', scope: 'user', dataDir: join(home, '.svc'), writtenFolders: [], bindsLowPort: false },
    ...{
      drain: 0,
      notifies: false,
      environment: {},
      command: ['/opt/my svc', 'openapi', '-d', join(home, '.svc')],
    },
  }
})
afterEach(() => {
  process.env.PATH = path
})

const calls = async () =>
  (await readFile(join(home, 'calls'), 'utf8').catch(() => '')).split('\n').filter(Boolean)
const target = `gui/${process.geteuid?.()}/local.svc`

test('is bootstrapped, changed, and booted out', async () => {
  const agent = join(home, 'Library', 'LaunchAgents', 'local.svc.plist')
  await writeFile(join(home, 'busy'), 'once')
  expect(await install(plan, manager)).toBe(true)
  expect(parsePlistCommand(await readFile(agent, 'utf8'))).toEqual([...plan.command])
  expect((await stat(agent)).mode & 0o777).toBe(0o644)
  // launchd needs a moment after a bootout.
  expect((await calls()).slice(1)).toEqual([
    `bootout ${target}`,
    `enable ${target}`,
    ...Array(2).fill(`bootstrap gui/${process.geteuid?.()} ${agent}`),
  ])

  const secret = { ...plan, environment: { HTTPS_PROXY: 'http://u:p@proxy' }, token: 'hunter22' }
  expect(await install(secret, manager)).toBe(false)
  expect(await calls()).toContain(`bootout ${target}`)
  const token = join(home, 'Library', 'Application Support', 'svc', 'svc.token')
  for (const one of [agent, token]) expect((await stat(one)).mode & 0o777).toBe(0o600)

  expect(await uninstall(manager)).toBe(true)
  expect([agent, token, join(home, 'loaded')].filter(one => existsSync(one))).toEqual([])
  expect(await uninstall(manager)).toBe(false)
})

test('what launchd does not take is an error that names the log', async () => {
  await writeFile(
    join(home, 'bin', 'launchctl'),
    '#!/bin/sh\n[ $1 = bootstrap ] && echo refused && exit 5\nexit 0\n',
  )
  const failed = await install(plan, manager).catch(error => error)
  expect(failed).toMatchObject({ code: 'internal', hint: expect.stringContaining('/Logs/svc.log') })
})

test('its state is read off what launchctl prints', async () => {
  expect(await manager.readState()).toMatchObject({ loaded: false, running: false, state: 'not loaded' })
  await writeFile(join(home, 'loaded'), '')
  const printed = (lines: string[]) =>
    writeFile(
      join(home, 'print'),
      `${target} = {\n\tactive count = 1\n${lines.map(line => `\t${line}\n`).join('')}}\n`,
    )
  await printed(['state = running', 'runs = 3', 'pid = 812', 'last exit code = (never exited)'])
  expect(await manager.readState()).toEqual({
    ...{ loaded: true, enabled: true, state: 'running', running: true, pid: 812, restarts: 2 },
  })
  await printed(['state = not running', 'runs = 1', 'last exit code = 1'])
  expect(await manager.readState()).toEqual({
    ...{ loaded: true, enabled: true, state: 'not running', running: false, restarts: 0, ended: 'status 1' },
  })
})

test('a daemon of the machine lies in /Library and runs as its user', () => {
  const folders = { home, config: '/none', etc: '/none', lib: '/none', library: '/Library' }
  const daemon = managerOf('darwin', { name: 'work', scope: 'system' }, folders, [])
  const account = { name: 'bob', uid: 501, gid: 20, home: '/Users/bob' }
  const [token, list] = daemon.files.createFiles({
    ...plan,
    name: 'work',
    scope: 'system',
    account,
    token: 't',
  })
  expect(token).toEqual({
    ...{ path: '/Library/Application Support/svc/work.token', text: 't\n', mode: 0o600, owner: account },
  })
  expect(list!.path).toBe('/Library/LaunchDaemons/local.work.plist')
  expect(list!.text).toContain('<key>UserName</key>\n  <string>bob</string>\n')
  expect(list!.text).toContain('<string>/Library/Logs/work.log</string>')
  expect(daemon.advice.restart).toBe('sudo launchctl kickstart -k system/local.work')
})

test('Windows, and systems unknown, are refused with what to do instead', () => {
  const folders = { home, config: '', etc: '', lib: '', library: '' }
  const refused = (platform: string) => {
    try {
      return managerOf(platform, { name: 'svc', scope: 'user' }, folders, ['C:\\my tools\\svc.exe'])
    } catch (error) {
      return error as { message: string; hint: string }
    }
  }
  expect(refused('win32')).toMatchObject({
    message: 'svc installs services of systemd and launchd, and win32 has neither',
    hint: expect.stringContaining(
      'schtasks /Create /TN svc /SC ONLOGON /TR "\\"C:\\my tools\\svc.exe\\" openapi"',
    ),
  })
  expect(refused('freebsd')).toMatchObject({ hint: expect.stringContaining('svc openapi') })
})
