/** The text of a systemd unit: how svc runs, and what it may do at most. */

import { basename, dirname } from 'node:path'
import type { ServicePlan } from './plan.ts'

/** The first line: a unit without it is somebody else's. */
const unitMark = '# Written by svc service install'

/** Folders that the service does not see, unless something of it lies there. */
const homes = /^\/(home|root|run\/user)(\/|$)/

/** Whether a data directory is systemd's to make: of `StateDirectory=`, which takes no name in quotes. */
export const isStateFolder = (path: string, lib: string): boolean =>
  dirname(path) === lib && /^[a-z0-9][\w.-]*$/i.test(basename(path))

/** What the parts of a unit depend on. */
interface UnitPlaces {
  /** `/var/lib`: a data directory there is systemd's to make. */
  readonly lib: string
  /** Absent: nothing is in it. */
  readonly environmentPath?: string
}

/** The unit. */
export function unitText(plan: ServicePlan, { lib, environmentPath }: UnitPlaces): string {
  const { name, scope, account, command, dataDir, writes, notifies } = plan
  const isSystem = scope === 'system'
  const inLib = isSystem && isStateFolder(dataDir, lib)
  const outside = [...(inLib ? [] : [dataDir]), ...writes]
  const systemctl = isSystem ? 'systemctl' : 'systemctl --user'
  return `${unitMark}, which writes it anew each time.
# Settings of your own: ${systemctl} edit ${name}

[Unit]
Description=svc: WeChat bot accounts as tools
${section(
  // It need not be online: without a network svc waits for one itself, and is reachable from the machine meanwhile.
  isSystem && 'After=network.target',
  // What hinders it, a full disk or a port that is taken, passes: it is tried again for as long as it takes.
  'StartLimitIntervalSec=0',
)}
[Service]
${section(
  notifies ? ['Type=notify', 'NotifyAccess=main'] : 'Type=exec',
  account && `User=${account.name}`,
  `ExecStart=${execLine(command)}`,
  // Without it svc would start itself a second time to raise it, with many sessions.
  'Environment=BUN_CONFIG_MAX_HTTP_REQUESTS=60000',
  environmentPath !== undefined && `EnvironmentFile=${unspecified(environmentPath)}`,
  inLib && [`StateDirectory=${basename(dataDir)}`, 'StateDirectoryMode=0700'],
  `SyslogIdentifier=${name}`,
  'Restart=on-failure',
  'RestartSec=2',
  // Wrong options: once more would not help.
  'RestartPreventExitStatus=2',
  // A store of years may have to be brought up to date.
  'TimeoutStartSec=300',
  // It ends within 5 s by itself.
  'TimeoutStopSec=15',
  'LimitNOFILE=524288',
  'UMask=0077',
)}
${isSystem ? confined(plan, outside) : section(bySystemCall)}
[Install]
WantedBy=${isSystem ? 'multi-user.target' : 'default.target'}
`
}

/** Program and arguments of a unit that svc wrote. */
export function commandOfUnit(text: string): string[] | undefined {
  const line = /^ExecStart=(.*)$/m.exec(text)?.[1]
  return text.startsWith(unitMark) && line !== undefined ? readExecLine(line) : undefined
}

/** What the kernel can be told by any user's manager. Code that writes code (the JIT) must stay possible. */
const bySystemCall = [
  'NoNewPrivileges=yes',
  'LockPersonality=yes',
  'RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX',
  'RestrictNamespaces=yes',
  'RestrictRealtime=yes',
  'RestrictSUIDSGID=yes',
  'SystemCallArchitectures=native',
  'SystemCallFilter=@system-service',
  'SystemCallFilter=~@privileged @resources',
  'SystemCallErrorNumber=EPERM',
]

/** All that the system's manager offers, and svc does without. */
function confined({ command, lowPort }: ServicePlan, outside: readonly string[]): string {
  const atHome = [...command.slice(0, 2), ...outside].some(path => homes.test(path))
  const capability = lowPort ? 'CAP_NET_BIND_SERVICE' : ''
  return section(
    'ProtectSystem=strict',
    `ProtectHome=${atHome ? 'read-only' : 'yes'}`,
    outside.length > 0 && `ReadWritePaths=${outside.map(pathWord).join(' ')}`,
    `CapabilityBoundingSet=${capability}`,
    `AmbientCapabilities=${capability}`,
    // Users of its own would have no right to a low port.
    !lowPort && 'PrivateUsers=yes',
    'PrivateTmp=yes',
    'PrivateDevices=yes',
    'DevicePolicy=closed',
    'ProtectClock=yes',
    'ProtectControlGroups=yes',
    'ProtectHostname=yes',
    'ProtectKernelLogs=yes',
    'ProtectKernelModules=yes',
    'ProtectKernelTunables=yes',
    'ProtectProc=invisible',
    'ProcSubset=pid',
    'RemoveIPC=yes',
    bySystemCall,
  )
}

type Lines = string | readonly string[] | false | undefined

const section = (...lines: readonly Lines[]): string =>
  lines
    .flatMap(line => (line ? line : []))
    .map(line => `${line}\n`)
    .join('')

// Words as systemd reads them in a unit and in an environment file, and back. See systemd.syntax(7), systemd.service(5).

const quoted = (word: string) => `"${word.replace(/[\\"]/g, '\\$&')}"`
const needsQuotes = (word: string) =>
  word === '' || !/^[\p{L}\p{N}@+=:,./_~-]+$/u.test(word.replace(/%%|\$\$/g, ''))

/** A percent sign begins a specifier wherever systemd expands any. */
const unspecified = (word: string) => word.replaceAll('%', '%%')

/** The value of `ExecStart=`: no variable is expanded in the program's path, but in each argument. */
export const execLine = ([program = '', ...args]: readonly string[]): string =>
  [unspecified(program), ...args.map(arg => unspecified(arg).replaceAll('$', '$$$$'))]
    .map(word => (needsQuotes(word) ? quoted(word) : word))
    .join(' ')

/** A path in a list of paths, as of `ReadWritePaths=`. */
export const pathWord = (path: string): string => {
  const word = unspecified(path)
  return needsQuotes(word) ? quoted(word) : word
}

/** A line of an environment file: nothing is expanded there. */
export const environmentLine = (name: string, value: string): string =>
  `${name}="${value.replace(/[\\"`$]/g, '\\$&')}"`

/** What `execLine` was made of. */
export function readExecLine(line: string): string[] {
  const words = [...line.matchAll(/"((?:\\.|[^"\\])*)"|(\S+)/g)].map(([, inQuotes, plain = '']) =>
    (inQuotes === undefined ? plain : inQuotes.replace(/\\(.)/g, '$1')).replaceAll('%%', '%'),
  )
  return words.map((word, at) => (at === 0 ? word : word.replaceAll('$$', '$')))
}
