/** Declares and runs `svc service`: installs, updates and removes a service, and prints its state. */

import { join } from 'node:path'
import process from 'node:process'
import { setTimeout as wait } from 'node:timers/promises'
import { type Config, findUserFolders } from '../../config.ts'
import { askHealth, configuredUrlOf, findConfigured, type HealthAnswer } from '../../inspect/healthz.ts'
import { badArgument, SvcError } from '../../model/error.ts'
import { toJsonLine } from '../../platform/escape-controls.ts'
import { fileExists } from '../../platform/files.ts'
import { formatLocalTime, quoteForShell } from '../../platform/format.ts'
import { bypassProxyForLoopback } from '../../platform/process.ts'
import { isExposed } from '../../server/auth.ts'
import { findAccount } from '../../service/account.ts'
import { install, readOwnDefinition, uninstall } from '../../service/install.ts'
import {
  definitionOf,
  isServiceName,
  machineFolders,
  type ServiceManager,
  type ServiceName,
  type ServicePlan,
  type ServiceState,
} from '../../service/plan.ts'
import { findUnseenPath } from '../../service/systemd.ts'
import { version } from '../../version.ts'
import { addConfigOptions, type Command, type CommandSpec, requireSubcommand } from '../command.ts'
import {
  answerTimeoutMs,
  defaultServiceName,
  findManager,
  inspectService,
  ownProgramOf,
  parseServed,
  planService,
  prepareFolders,
  type ServiceFlags,
} from '../service-plan.ts'
import { colours, type Io, oneLine } from '../terminal.ts'
import { describeHealth } from './health.ts'

/** Adds the options that choose a service. */
const addNameOptions = (command: Command) =>
  command
    .option('--system', 'the service of the machine (the default for root)')
    .option(
      '--user [name]',
      'without a name: your own service (the default for other users); with a name: the service of the machine, run as that user (default on Linux: svc, on macOS: the user who called sudo)',
    )
    .option('--name <name>', 'name of the service, if you run several', 'svc')

/**
 * Also accepts the options of `svc service install`, so that its line can be repeated with another word. They are in the
 * definition of the service, and have no effect here.
 */
function addInstalledOptions(command: Command): Command {
  const own = addNameOptions(command).options.length
  for (const flag of ['--socket-activation', '--print']) command.option(flag, 'has no effect here')
  addConfigOptions(command, 'openapi')
  for (const option of command.options.slice(own)) option.hideHelp()
  return command
}

export const commands: readonly CommandSpec[] = [
  {
    words: 'service',
    summary: 'run svc in the background and start it with the machine',
    addOptions: command => command.usage('install|uninstall|status [options]'),
    examples: [
      ['sudo svc service install --user svc', 'for the machine, run as the user svc'],
      ['svc service install', 'only for you, on your data directory'],
      ['svc service status', 'whether it runs and is healthy'],
    ],
    run: requireSubcommand('service', 'install, uninstall or status'),
  },
  {
    words: 'service install',
    summary: 'install svc as a service and start it, or update it',
    about:
      "Install 'svc openapi' with the options given here as a service of systemd or launchd. Run as root, it becomes a service of the machine: it starts with the machine, runs as an existing user, and keeps its data in /var/lib/svc. Otherwise it becomes your own service: it starts when you log in and uses your data directory. It restarts after a failure. SVC_ and proxy variables that are set now apply to the service too. To change its options, run the command again with the new ones; the service is then restarted.",
    config: 'openapi',
    noSandboxHint: 'ever',
    ownHelp: {
      basePath:
        'data directory (service of the machine: /var/lib/svc, with --sandbox /var/lib/svc-sandbox; your own: ~/.svc, with --sandbox ~/.svc-sandbox)',
    },
    addOptions: command =>
      addNameOptions(command)
        .option('--socket-activation', 'let systemd hold the ports: calls wait while svc restarts')
        .option('--print', 'only print the unit or property list; change nothing'),
    examples: [
      ['sudo svc service install --user svc --admin-port 8080', 'for the machine, with the panel'],
      ['svc service install --sandbox', 'your own, with the simulated WeChat'],
      ['svc service install --print --system', 'print the unit, for a package or to install it by hand'],
    ],
    run: command => runInstall(command, command.opts<ServiceFlags>()),
  },
  {
    words: 'service uninstall',
    summary: 'stop the service and remove it; its data is kept',
    addOptions: addInstalledOptions,
    noSandboxHint: 'ever',
    examples: [['sudo svc service uninstall', 'the service of the machine']],
    run: command => runUninstall(command.opts<ServiceFlags>(), command.io),
  },
  {
    words: 'service status',
    summary: 'show whether the service is installed, running and healthy',
    addOptions: addInstalledOptions,
    noSandboxHint: 'ever',
    jsonHelp: 'print one JSON object; times are Unix milliseconds',
    examples: [
      ['svc service status', 'your own, or the one of the machine'],
      ['svc service status --json | jq .healthy', 'for programs'],
    ],
    helpFooter:
      'For this command 0 means that the service runs and is healthy, and 1 that it does not or is not.',
    run: command => runServiceStatus(command.opts<ServiceFlags>(), command.io),
  },
]

const startTimeoutMs = 20_000
const healthPollMs = 200

const isRoot = () => process.geteuid?.() === 0

function serviceOf({ system, user, name }: ServiceFlags): ServiceName {
  if (system && user === true)
    throw badArgument('--user', 'expected a name with --system', {
      hint: 'Without --system it means your own service.',
    })
  if (!isServiceName(name))
    throw badArgument('--name', 'expected a letter, then up to 30 letters (a-z), digits or "-"')
  const isSystem = system || typeof user === 'string' || (user === undefined && isRoot())
  return { name, scope: isSystem ? 'system' : 'user' }
}

/** @throws SvcError `forbidden` if the service is the machine's and the caller is not root */
function requireRoot({ scope }: ServiceName, what: string): void {
  if (scope === 'user' || isRoot()) return
  throw new SvcError('forbidden', 'only root can change a service of the machine', {
    hint: `Run sudo svc service ${what}, or leave --system out for a service of your own.`,
  })
}

/** Runs `svc service install`. @returns the exit status: 0 if the service is healthy */
async function runInstall(command: Command, flags: ServiceFlags): Promise<0 | 1> {
  const { err, out } = command.io
  const service = serviceOf(flags)
  const manager = findManager(service, command.io)
  if (!flags.print) requireRoot(service, 'install')
  const { plan, config } = await planService(command, flags, service, manager)
  const hidden = manager.title === 'systemd' ? findUnseenError(plan) : undefined
  if (flags.print) {
    const { createFiles, definitions } = manager.files
    const shown = createFiles(plan).filter(({ path }) => definitions.includes(path))
    await out.write(shown.map(({ text }) => text).join('\n'))
    for (const { message, hint } of [hidden, await findMissingUser(plan)].flatMap(one => one ?? []))
      await err.write(`${oneLine(`${message}. ${hint}`)}\n`)
    for (const path of plan.readFiles ?? [])
      if (!(await fileExists(path))) await err.write(`${oneLine(path)} is not there: the service reads it\n`)
    return 0
  }
  if (hidden) throw hidden
  await prepareFolders(plan, manager)
  bypassProxyForLoopback()
  const isNew = await install(plan, manager)
  out.print(
    `${isNew ? 'installed and started' : 'changed and restarted'} ${describeWithOwner(service, manager)}`,
  )
  const url = configuredUrlOf(config)
  const answer = await waitForHealth(config)
  out.print(formatHealth(answer, url))
  for (const line of await listNextSteps(plan, config, manager, command.io)) out.print(line)
  return isHealthy(answer) ? 0 : 1
}

/** Returns an error if the service could not see one of its files: systemd gives it a /tmp of its own. */
function findUnseenError(plan: ServicePlan): SvcError | undefined {
  const path = findUnseenPath(plan)
  return path === undefined
    ? undefined
    : new SvcError('forbidden', `a service of the machine cannot see ${path}: it has a /tmp of its own`, {
        hint: 'Put svc where it stays, as in /usr/local/bin, and its data too, as in /var/lib/svc.',
      })
}

/** Returns an error with the command to run first, if the service's user does not exist on this machine. */
async function findMissingUser({ account, name }: ServicePlan): Promise<SvcError | undefined> {
  if (!account) return undefined
  try {
    await findAccount(account.name, findUserFolders().platform, join(machineFolders.lib, name))
    return undefined
  } catch (error) {
    if (error instanceof SvcError) return error
    throw error
  }
}

/** Runs `svc service uninstall`. */
async function runUninstall(flags: ServiceFlags, io: Io): Promise<void> {
  const { print } = io.out
  const service = serviceOf(flags)
  const manager = findManager(service, io)
  requireRoot(service, 'uninstall')
  const text = await readOwnDefinition(manager)
  if (!(await uninstall(manager)))
    return print(`nothing to do: there is no ${describeService(service, manager)}`)
  print(`stopped and removed ${describeWithOwner(service, manager)}`)
  const dataDir = parseServed(manager.files.parseCommand(text ?? '') ?? [])?.config.basePath
  if (dataDir !== undefined) print(`its data, the logins among them, stay in ${dataDir}`)
}

/** Runs `svc service status`. @returns the exit status: 0 if the service runs and is healthy */
async function runServiceStatus(flags: ServiceFlags, io: Io): Promise<0 | 1> {
  const { print, write } = io.out
  const service = await chooseService(flags, io)
  const manager = findManager(service, io)
  bypassProxyForLoopback()
  const found = await inspectService(service, io)
  const { state, served, answered } = found ?? {}
  const health = answered?.kind === 'svc' ? answered.seen : undefined
  const healthy = answered !== undefined && isHealthy(answered)
  const outdated = health !== undefined && health.version !== version
  if (flags.json) {
    const report = {
      healthy,
      name: service.name,
      scope: service.scope,
      manager: manager.title,
      path: definitionOf(manager),
      installed: found !== undefined,
      ...state,
      base_path: served?.config.basePath,
      program: served?.program,
      url: served?.url,
      running_version: health?.version,
      version,
      outdated,
      health,
    }
    await write(`${toJsonLine(report)}\n`)
    return healthy ? 0 : 1
  }
  if (!state) {
    print(`not installed: there is no ${describeService(service, manager)}; see svc service install --help`)
    return 1
  }
  const { dim, yellow } = colours
  const { advice } = manager
  const healthText =
    answered && served ? formatHealth(answered, served.url) : `unhealthy: it does not run; see ${advice.logs}`
  print(`${dim('service')}    ${describeWithOwner(service, manager)}`)
  print(`${dim('state')}      ${formatState(state, service)}`)
  print(`${dim('health')}     ${healthText}`)
  if (served) print(`${dim('directory')}  ${oneLine(served.config.basePath)}`)
  else print(yellow('its options cannot be read: install it again'))
  if (outdated) print(yellow(`it runs ${health.version}, this is ${version}: ${advice.restart}`))
  return healthy ? 0 : 1
}

/** Chooses the user's own service, or the machine's if that exists and the own one does not. */
async function chooseService(flags: ServiceFlags, io: Io): Promise<ServiceName> {
  const own = serviceOf(flags)
  const isThere = (service: ServiceName) => fileExists(definitionOf(findManager(service, io)))
  if (own.scope === 'system' || flags.user || (await isThere(own))) return own
  const machines: ServiceName = { ...own, scope: 'system' }
  return (await isThere(machines)) ? machines : own
}

/** Waits until the service is healthy, for at most 20 s. @returns its last answer */
async function waitForHealth(config: Config): Promise<HealthAnswer> {
  for (const deadline = Date.now() + startTimeoutMs; ; await wait(healthPollMs)) {
    const answer = await askHealth(await findConfigured(config), answerTimeoutMs)
    if (isHealthy(answer) || Date.now() >= deadline) return answer
  }
}

const isHealthy = (answer: HealthAnswer): boolean => answer.kind === 'svc' && answer.status === 200

const formatHealth = (answer: HealthAnswer, url: string): string =>
  `${isHealthy(answer) ? colours.green('healthy') : colours.red('unhealthy')}: ${oneLine(describeHealth(answer))} (${url})`

const describeService = ({ name }: ServiceName, manager: ServiceManager): string =>
  `service ${name} of ${manager.title}, ${definitionOf(manager)}`

const describeWithOwner = (service: ServiceName, manager: ServiceManager): string =>
  `${service.scope === 'system' ? 'the' : 'your'} ${describeService(service, manager)}`

function formatState(
  { state, pid, since, restarts, enabled, ended }: ServiceState,
  { scope }: ServiceName,
): string {
  const begin = scope === 'system' ? 'with the machine' : 'when you log in'
  return [
    oneLine(state),
    pid !== undefined && `process ${pid}${since === undefined ? '' : ` since ${formatLocalTime(since)}`}`,
    restarts && `restarted ${restarts === 1 ? 'once' : `${restarts} times`}`,
    ended !== undefined && `ended: ${oneLine(ended)}`,
    enabled ? `starts ${begin}` : 'does not start by itself',
  ]
    .filter(Boolean)
    .join(', ')
}

/** Returns lines about what to know and do after an install. */
async function listNextSteps(
  { account, dataDir, scope, name, token }: ServicePlan,
  config: Config,
  { title, advice }: ServiceManager,
  io: Io,
): Promise<string[]> {
  const { word } = ownProgramOf(io)
  const as = account ? `sudo -u ${quoteForShell(account.name)} ` : ''
  const where = `${config.sandbox ? ' --sandbox' : ''} -d ${quoteForShell(dataDir)}`
  const makesToken = token === undefined && config.tokenFile === undefined && isExposed(config)
  return [
    `data:   ${dataDir}${account ? `, of the user ${account.name}` : ''}: ${as}${word} status${where}`,
    `log in: ${as}${word} login${where}`,
    ...(makesToken ? [`token:  ${as}${word} token${where}`] : []),
    `log:    ${advice.logs}`,
    `remove: ${account ? 'sudo ' : ''}${word} service uninstall${name === defaultServiceName ? '' : ` --name ${name}`}`,
    ...(title === 'systemd' && scope === 'user'
      ? ['it ends when you log out, unless you let it run always: sudo loginctl enable-linger']
      : []),
  ]
}
