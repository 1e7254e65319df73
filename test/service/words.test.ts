/** Words in units and property lists: whatever a path or a value holds, the service gets it as it is. */
import { expect, test } from 'bun:test'
import { formatPlist, parsePlistCommand } from '../../src/service/launchd.ts'
import type { ServicePlan } from '../../src/service/plan.ts'
import {
  formatEnvironmentLine,
  formatExecLine,
  formatUnit,
  parseExecLine,
  parseUnitCommand,
  quotePath,
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
  ...{ writtenFolders: [], bindsLowPort: false, drain: 5, notifies: true, environment: {} },
  account: { name: 'svc', uid: 990, gid: 990, home: '/var/lib/svc' },
  ...more,
})

test('a command is spelled for ExecStart= as systemd.service(5) says', () => {
  expect(formatExecLine(['/usr/bin/svc', 'openapi', '-d', '/srv/data'])).toBe(
    '/usr/bin/svc openapi -d /srv/data',
  )
  // Variables are expanded in arguments, and not in the path; specifiers in both.
  expect(formatExecLine(['/opt/$a %b/svc', '$HOME', '50%', 'a b', ''])).toBe(
    '"/opt/$a %%b/svc" $$HOME 50%% "a b" ""',
  )
  expect(formatExecLine(['/svc', 'a"b\\c', ';', "it's"])).toBe('/svc "a\\"b\\\\c" ";" "it\'s"')
  expect(quotePath('/srv/my $x 100%')).toBe('"/srv/my $x 100%%"')
  expect(formatEnvironmentLine('A', 'p@"$`\\%')).toBe('A="p@\\"\\$\\`\\\\%"')
})

test('every command comes back out of a unit and out of a property list', () => {
  const commands = [
    ...odd.map(word => ['/opt/svc', word]),
    ['/opt/svc', ...odd],
    ['/a b/100%/$x/svc', 'openapi'],
  ]
  for (const command of commands) {
    expect(parseExecLine(formatExecLine(command))).toEqual(command)
    expect(parseUnitCommand(formatUnit(plan({ command }), { lib: '/var/lib' }))).toEqual(command)
    expect(parsePlistCommand(formatPlist(plan({ command }), '/tmp/log'))).toEqual(command)
  }
  expect(parseUnitCommand('[Service]\nExecStart=/usr/bin/svc openapi\n')).toBeUndefined()
  expect(parsePlistCommand('<plist><dict><key>ProgramArguments</key><array/></dict></plist>')).toBeUndefined()
})

const python = Bun.which('python3')
test.skipIf(!python)(
  `a property list says what it should to an XML parser that knows them${python ? '' : ' (no python3 here)'}`,
  async () => {
    const environment = { HTTPS_PROXY: 'http://u:p&<"@proxy' }
    const text = formatPlist(plan({ command: ['/opt/svc', ...odd], environment }), '/Library/Logs/svc.log')
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
      ExitTimeOut: 20,
      ProcessType: 'Standard',
      SoftResourceLimits: { NumberOfFiles: 65_536 },
      HardResourceLimits: { NumberOfFiles: 65_536 },
      Umask: 0o077,
      StandardErrorPath: '/Library/Logs/svc.log',
    })
  },
)
