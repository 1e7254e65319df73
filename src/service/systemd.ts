/**
 * A service of systemd: its files, the calls of systemctl, and its unit, which also limits what svc may do.
 */
import { basename, dirname, join } from 'node:path'
import process from 'node:process'
import { SvcError } from '../model/error.ts'
import { fileExists } from '../platform/files.ts'
import { type ProgramResult, runProgram } from '../platform/process.ts'
import {
  notStartedError,
  type ServiceFile,
  type ServiceFolders,
  type ServiceManager,
  type ServiceName,
  type ServicePlan,
  type ServiceState,
  tokenFilesOf,
} from './plan.ts'

/** `TimeoutStartSec` plus some margin. */
const startTimeoutMs = 310_000

/** Returns the systemd of this machine, or of this user. */
export function systemdService({ name, scope }: ServiceName, folders: ServiceFolders): ServiceManager {
  const isSystem = scope === 'system'
  const unit = `${name}.service`
  const path = join(isSystem ? folders.etc : folders.config, 'systemd', scope, unit)
  const [socket, socketPath] = [`${name}.socket`, join(dirname(path), `${name}.socket`)]
  const own = join(isSystem ? folders.etc : folders.config, 'svc')
  const [tokenPath, environmentPath] = [join(own, `${name}.token`), join(own, `${name}.env`)]
  const scoped = isSystem ? [] : ['--user']
  const call = async (...args: string[]): Promise<ProgramResult> =>
    runProgram('systemctl', [...scoped, '--no-pager', ...args], {
      withinMs: startTimeoutMs,
      env: isSystem ? {} : await sessionEnvironment(process.geteuid?.()),
    })
  const must = async (...args: string[]): Promise<void> => {
    const { status, stderr, stdout } = await call(...args)
    if (status === 0) return
    const message = (stderr.trim() || stdout.trim()).split('\n')[0] || `systemctl ended with ${status}`
    throw notStartedError(message, advice.logs)
  }
  const advice = {
    logs: `journalctl ${isSystem ? '' : '--user '}-u ${name} -f`,
    restart: `${isSystem ? 'sudo systemctl' : 'systemctl --user'} restart ${name}`,
  }

  return {
    title: 'systemd',
    files: {
      paths: [tokenPath, environmentPath, socketPath, path],
      tokenPath,
      definitions: [socketPath, path],
      isOwn: text => text.startsWith(unitMark),
      parseCommand: parseUnitCommand,
      createFiles(plan) {
        const lines = Object.entries(plan.environment).map(([name, value]) =>
          formatEnvironmentLine(name, value),
        )
        const environment = lines.map(line => `${line}\n`).join('')
        const secrets: ServiceFile[] = environment
          ? [{ path: environmentPath, text: environment, mode: 0o600 }]
          : []
        const text = formatUnit(plan, { lib: folders.lib, environmentPath: secrets[0]?.path })
        const definitions: ServiceFile[] = [{ path, text, mode: 0o644 }]
        if (plan.heldAddresses)
          definitions.unshift({ path: socketPath, text: formatSocketUnit(plan), mode: 0o644 })
        return [...tokenFilesOf(plan, tokenPath), ...secrets, ...definitions]
      },
    },
    advice,
    async ensureReachable() {
      const { stdout, stderr } = await call('is-system-running')
      // `degraded` and the like are states of a running systemd.
      if (/^(running|degraded|starting|initializing|maintenance|stopping)\s*$/.test(stdout)) return
      throw unreachableError(isSystem, stderr.trim().split('\n')[0] ?? '')
    },
    async start() {
      // It may have other ports now. Fails, as intended, where there is none.
      await call('stop', socket)
      await must('daemon-reload')
      await must('enable', '--quiet', unit)
      await must('restart', unit)
    },
    async stop(remove) {
      // First: a connection would start the service again.
      await call('stop', socket)
      await must('disable', '--quiet', '--now', unit)
      await remove()
      await call('daemon-reload')
      await call('reset-failed', unit)
    },
    readState: () => stateOf(call, unit),
  }
}

const queriedProperties =
  'LoadState,UnitFileState,ActiveState,SubState,MainPID,NRestarts,ActiveEnterTimestamp,Result,ExecMainStatus'

async function stateOf(
  call: (...args: string[]) => Promise<ProgramResult>,
  unit: string,
): Promise<ServiceState> {
  const { stdout } = await call('show', unit, `--property=${queriedProperties}`)
  const of: Record<string, string | undefined> = Object.fromEntries(
    [...stdout.matchAll(/^(\w+)=(.*)$/gm)].map(([, name, value]) => [name, value]),
  )
  const { ActiveState: active = 'unknown', SubState: sub, Result: result = 'success' } = of
  const running = active === 'active'
  // Format: `Sun 2026-11-22 00:38:53 UTC`.
  const since = Date.parse((of.ActiveEnterTimestamp ?? '').replace(/^\w+ (\S+) (\S+) UTC$/, '$1T$2Z'))
  return {
    loaded: of.LoadState === 'loaded',
    enabled: /^enabled/.test(of.UnitFileState ?? ''),
    state: sub && sub !== active ? `${active} (${sub})` : active,
    running,
    pid: Number(of.MainPID) || undefined,
    since: running && Number.isFinite(since) ? since : undefined,
    restarts: of.NRestarts === undefined ? undefined : Number(of.NRestarts),
    ended: running || result === 'success' ? undefined : `${result}, status ${of.ExecMainStatus ?? '?'}`,
  }
}

/** Returns the environment that leads to this user's systemd: `sudo -u` and `su` do not set it. */
async function sessionEnvironment(uid: number | undefined): Promise<Record<string, string>> {
  const folder = `/run/user/${uid}`
  return (await fileExists(folder)) ? { XDG_RUNTIME_DIR: folder } : {}
}

const unreachableError = (isSystem: boolean, message: string) =>
  new SvcError(
    'internal',
    `the systemd of this ${isSystem ? 'machine' : 'user'} cannot be reached${message && `: ${message}`}`,
    {
      hint: `${isSystem ? '' : 'Log in as this user directly (not by su or sudo), or let the systemd of this user run without that: sudo loginctl enable-linger <user>. '}In a container let its engine restart svc; in WSL set systemd=true under [boot] in /etc/wsl.conf; elsewhere let the init system start svc openapi. svc service install --print shows the unit.`,
    },
  )

/** Begin of a unit that svc wrote. The text must stay the same: svc finds installed services by it. */
const unitMark = '# Written by svc service install'

/** Home folders. Hidden from the service (ProtectHome), unless one of its paths is in them. */
const homePaths = /^\/(home|root|run\/user)(\/|$)/

/**
 * Returns a path of the plan that a machine's service would not see, since it gets private temporary
 * folders (`formatRestrictions`).
 */
export const findUnseenPath = ({
  scope,
  command,
  dataDir,
  writtenFolders,
  readFiles = [],
}: ServicePlan): string | undefined =>
  scope === 'system'
    ? [...command.slice(0, 2), dataDir, ...writtenFolders, ...readFiles].find(path =>
        /^\/(var\/)?tmp(\/|$)/.test(path),
      )
    : undefined

/** Returns true if systemd can create the data directory with `StateDirectory=`. It takes no quoted names. */
export const isStateFolder = (path: string, lib: string): boolean =>
  dirname(path) === lib && /^[a-z0-9][\w.-]*$/i.test(basename(path))

/** Paths that the unit depends on. */
interface UnitPaths {
  /** `/var/lib`. systemd creates a data directory in it. */
  readonly lib: string
  /** Absent if there is no environment file. */
  readonly environmentPath?: string
}

/** Formats the unit. */
export function formatUnit(plan: ServicePlan, { lib, environmentPath }: UnitPaths): string {
  const { name, scope, account, command, dataDir, writtenFolders, notifies } = plan
  const isSystem = scope === 'system'
  const inLib = isSystem && isStateFolder(dataDir, lib)
  const outside = [...(inLib ? [] : [dataDir]), ...writtenFolders]
  return `${formatHead(plan, name)}[Unit]
Description=svc: WeChat bot accounts as tools
${formatLines(
  // Not network-online.target: svc itself waits for a network, and is reachable from this machine until
  // then.
  isSystem && 'After=network.target',
  plan.heldAddresses && [`Requires=${name}.socket`, `After=${name}.socket`],
  // No limit of restarts: causes such as a full disk or a port in use go away.
  'StartLimitIntervalSec=0',
)}
[Service]
${formatLines(
  notifies ? ['Type=notify', 'NotifyAccess=main'] : 'Type=exec',
  account && `User=${account.name}`,
  `ExecStart=${formatExecLine(command)}`,
  // Without this, svc with many sessions would restart itself once to raise the limit.
  'Environment=BUN_CONFIG_MAX_HTTP_REQUESTS=60000',
  environmentPath !== undefined && `EnvironmentFile=${escapeSpecifiers(environmentPath)}`,
  inLib && [`StateDirectory=${basename(dataDir)}`, 'StateDirectoryMode=0700'],
  `SyslogIdentifier=${name}`,
  'Restart=on-failure',
  'RestartSec=2',
  // Status 2 means wrong options: a restart would not help.
  'RestartPreventExitStatus=2',
  // An upgrade of a large store takes time.
  'TimeoutStartSec=300',
  `TimeoutStopSec=${plan.drain + 15}`,
  'LimitNOFILE=524288',
  // A core would hold tokens and messages.
  'LimitCORE=0',
  // The machine stays usable: svc ends and is restarted instead. It has about 30 threads, and few programs.
  'MemoryMax=75%',
  'TasksMax=512',
  'OOMPolicy=stop',
  'UMask=0077',
)}
${isSystem ? formatRestrictions(plan, outside) : formatLines(commonRestrictions)}
[Install]
WantedBy=${isSystem ? 'multi-user.target' : 'default.target'}
`
}

/** Formats the unit of sockets that systemd holds. They start a failing service ten times a minute at most. */
export const formatSocketUnit = (plan: ServicePlan): string =>
  `${formatHead(plan, `${plan.name}.socket`)}[Unit]
Description=svc: its ports, where connections wait while it restarts

[Socket]
${formatLines(
  plan.heldAddresses?.map(address => `ListenStream=${address}`),
  'TriggerLimitIntervalSec=60',
  'TriggerLimitBurst=10',
)}`

const formatHead = ({ scope }: ServicePlan, unit: string): string =>
  `${unitMark}, which writes it anew each time.
# Settings of your own: systemctl ${scope === 'system' ? '' : '--user '}edit ${unit}

`

/** Returns program and arguments from a unit that svc wrote; undefined for any other. */
export function parseUnitCommand(text: string): string[] | undefined {
  const line = /^ExecStart=(.*)$/m.exec(text)?.[1]
  return text.startsWith(unitMark) && line !== undefined ? parseExecLine(line) : undefined
}

/** Restrictions that also a user's systemd can apply. Code generation (the JIT) must stay allowed. */
const commonRestrictions = [
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

/** Formats all restrictions of the machine's systemd that svc can work with. */
function formatRestrictions(
  { command, bindsLowPort, readFiles = [] }: ServicePlan,
  outside: readonly string[],
): string {
  const atHome = [...command.slice(0, 2), ...outside, ...readFiles].some(path => homePaths.test(path))
  const capability = bindsLowPort ? 'CAP_NET_BIND_SERVICE' : ''
  return formatLines(
    'ProtectSystem=strict',
    `ProtectHome=${atHome ? 'read-only' : 'yes'}`,
    outside.length > 0 && `ReadWritePaths=${outside.map(quotePath).join(' ')}`,
    `CapabilityBoundingSet=${capability}`,
    `AmbientCapabilities=${capability}`,
    // In a user namespace of its own svc could not bind a low port.
    !bindsLowPort && 'PrivateUsers=yes',
    'PrivateTmp=yes',
    'PrivateMounts=yes',
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
    commonRestrictions,
  )
}

type Lines = string | readonly string[] | false | undefined

const formatLines = (...lines: readonly Lines[]): string =>
  lines
    .flatMap(line => (line ? line : []))
    .map(line => `${line}\n`)
    .join('')

// Quoting of words in a unit and in an environment file, and the reverse. See systemd.syntax(7),
// systemd.service(5).

const needsQuotes = (word: string) =>
  word === '' || !/^[\p{L}\p{N}@+=:,./_~-]+$/u.test(word.replace(/%%|\$\$/g, ''))
const quoteWord = (word: string) => (needsQuotes(word) ? `"${word.replace(/[\\"]/g, '\\$&')}"` : word)

/** Escapes percent signs, which begin a specifier in units. */
const escapeSpecifiers = (word: string) => word.replaceAll('%', '%%')

/**
 * Formats the value of `ExecStart=`. systemd expands variables in each argument, but not in the program's
 * path.
 */
export const formatExecLine = ([program = '', ...args]: readonly string[]): string =>
  [escapeSpecifiers(program), ...args.map(arg => escapeSpecifiers(arg).replaceAll('$', '$$$$'))]
    .map(quoteWord)
    .join(' ')

/** Quotes a path for a list of paths such as `ReadWritePaths=`. */
export const quotePath = (path: string): string => quoteWord(escapeSpecifiers(path))

/** Formats a line of an environment file, where nothing is expanded. */
export const formatEnvironmentLine = (name: string, value: string): string =>
  `${name}="${value.replace(/[\\"`$]/g, '\\$&')}"`

/** Parses a line that `formatExecLine` made. */
export function parseExecLine(line: string): string[] {
  const words = [...line.matchAll(/"((?:\\.|[^"\\])*)"|(\S+)/g)].map(([, inQuotes, plain = '']) =>
    (inQuotes === undefined ? plain : inQuotes.replace(/\\(.)/g, '$1')).replaceAll('%%', '%'),
  )
  return words.map((word, at) => (at === 0 ? word : word.replaceAll('$$', '$')))
}
