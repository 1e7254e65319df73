/** Words in units and property lists: whatever a path or a value holds, the service gets it as it is. */
import { expect, test } from 'bun:test'
import { commandOfPlist, plistText } from '../../src/service/launchd.ts'
import type { ServicePlan } from '../../src/service/plan.ts'
import {
  commandOfUnit,
  environmentLine,
  execLine,
  pathWord,
  readExecLine,
  unitText,
} from '../../src/service/systemd.ts'
import { ended } from '../support/ended.ts'

/** What has a meaning to systemd, to XML, or to whoever takes a line apart. */
const odd = [
  ...['plain', '', ' ', 'two words', 'a"b', "it's", 'back\\slash', '\\', '"', '%h', '100%', '%%', '$HOME'],
  ...[
    '$' + '{HOME}',
    '$$',
    '$',
    ';',
    '#',
    '<&>',
    '&amp;',
    '-d',
    '@',
    '机器人 小明',
    'é',
    '`id`',
    'a=b',
    '~',
    '*',
  ],
]

const plan = (more: Partial<ServicePlan> = {}): ServicePlan => ({
  ...{ name: 'svc', scope: 'system', command: ['/usr/bin/svc', 'openapi'], dataDir: '/var/lib/svc' },
  ...{ writes: [], lowPort: false, notifies: true, environment: {} },
  account: { name: 'svc', uid: 990, gid: 990, home: '/var/lib/svc' },
  ...more,
})

test('a command is spelled for ExecStart= as systemd.service(5) says', () => {
  expect(execLine(['/usr/bin/svc', 'openapi', '-d', '/srv/data'])).toBe('/usr/bin/svc openapi -d /srv/data')
  // Variables are expanded in arguments, and not in the path; specifiers in both.
  expect(execLine(['/opt/$a %b/svc', '$HOME', '50%', 'a b', ''])).toBe(
    '"/opt/$a %%b/svc" $$HOME 50%% "a b" ""',
  )
  expect(execLine(['/svc', 'a"b\\c', ';', "it's"])).toBe('/svc "a\\"b\\\\c" ";" "it\'s"')
  expect(pathWord('/srv/my $x 100%')).toBe('"/srv/my $x 100%%"')
  expect(environmentLine('A', 'p@"$`\\%')).toBe('A="p@\\"\\$\\`\\\\%"')
})

test('every command comes back out of a unit and out of a property list', () => {
  const commands = [
    ...odd.map(word => ['/opt/svc', word]),
    ['/opt/svc', ...odd],
    ['/a b/100%/$x/svc', 'openapi'],
  ]
  for (const command of commands) {
    expect(readExecLine(execLine(command))).toEqual(command)
    expect(commandOfUnit(unitText(plan({ command }), { lib: '/var/lib' }))).toEqual(command)
    expect(commandOfPlist(plistText(plan({ command }), '/tmp/log'))).toEqual(command)
  }
  expect(commandOfUnit('[Service]\nExecStart=/usr/bin/svc openapi\n')).toBeUndefined()
  expect(commandOfPlist('<plist><dict><key>ProgramArguments</key><array/></dict></plist>')).toBeUndefined()
})

const python = Bun.which('python3')
test.skipIf(!python)(
  `a property list says what it should to an XML parser that knows them${python ? '' : ' (no python3 here)'}`,
  async () => {
    const environment = { HTTPS_PROXY: 'http://u:p&<"@proxy' }
    const text = plistText(plan({ command: ['/opt/svc', ...odd], environment }), '/Library/Logs/svc.log')
    const { stdout, stderr } = await ended(
      [python!, '-c', 'import json,plistlib,sys; print(json.dumps(plistlib.load(sys.stdin.buffer)))'],
      { cwd: '/', env: { PATH: process.env.PATH ?? '' }, stdin: text },
    )
    expect(stderr).toBe('')
    expect(JSON.parse(stdout)).toEqual({
      Label: 'local.svc',
      ProgramArguments: ['/opt/svc', ...odd],
      EnvironmentVariables: { BUN_CONFIG_MAX_HTTP_REQUESTS: '60000', ...environment },
      UserName: 'svc',
      WorkingDirectory: '/',
      RunAtLoad: true,
      KeepAlive: { SuccessfulExit: false },
      ThrottleInterval: 10,
      ExitTimeOut: 15,
      ProcessType: 'Standard',
      SoftResourceLimits: { NumberOfFiles: 65_536 },
      HardResourceLimits: { NumberOfFiles: 65_536 },
      Umask: 0o077,
      StandardErrorPath: '/Library/Logs/svc.log',
    })
  },
)
