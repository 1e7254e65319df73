/** `svc service`: from what was typed to a service that runs, and back. */

import process from 'node:process'
import { setTimeout as wait } from 'node:timers/promises'
import type { Command } from 'commander'
import type { Config } from '../config.ts'
import { addressOf, askHealth, type HealthAnswer } from '../inspect/healthz.ts'
import { badArgument, SvcError } from '../model/error.ts'
import { fileExists } from '../platform/files.ts'
import { localTime } from '../platform/format.ts'
import { spareLoopbackTheProxy } from '../platform/process.ts'
import { shellWord } from '../platform/shell.ts'
import { isExposed } from '../server/auth.ts'
import { install, ownText, uninstall } from '../service/install.ts'
import {
  definitionOf,
  isServiceName,
  type ServiceManager,
  type ServiceName,
  type ServicePlan,
  type ServiceState,
} from '../service/plan.ts'
import { version } from '../version.ts'
import { saidOfHealth } from './health.ts'
import { jsonLine, print } from './print.ts'
import {
  askWithinMs,
  foldersHere,
  intended,
  lookAtService,
  managerHere,
  type NameFlags,
  ownProgram,
  prepare,
  servedAs,
  usualName,
} from './service-plan.ts'
import { colours, writeOut } from './terminal.ts'
import { oneLine } from './text.ts'

const healthyWithinMs = 20_000
const betweenMs = 200

const isRoot = () => process.geteuid?.() === 0

function serviceOf({ system, user, name }: NameFlags): ServiceName {
  if (system && user === true)
    throw badArgument('--user', 'expected a name with --system', {
      hint: 'Without --system it means your own service.',
    })
  if (!isServiceName(name))
    throw badArgument('--name', 'expected a letter, then up to 30 letters (a-z), digits or "-"')
  const isSystem = system || typeof user === 'string' || (user === undefined && isRoot())
  return { name, scope: isSystem ? 'system' : 'user' }
}

/** Only root changes what is the machine's. */
function needRoot({ scope }: ServiceName, what: string): void {
  if (scope === 'user' || isRoot()) return
  throw new SvcError('forbidden', 'a service of the whole machine is a matter of root', {
    hint: `sudo svc service ${what}; without --system it is yours alone.`,
  })
}

/** Runs `svc service install`. @returns its exit status: 0 when the service is healthy */
export async function runInstall(command: Command, flags: NameFlags): Promise<0 | 1> {
  const service = serviceOf(flags)
  const manager = managerHere(service)
  if (!flags.print) needRoot(service, 'install')
  const { plan, config } = await intended(command, flags, service, manager, foldersHere())
  if (flags.print) {
    await writeOut(manager.files.of(plan).at(-1)?.text ?? '')
    return 0
  }
  await prepare(plan, manager, foldersHere())
  spareLoopbackTheProxy()
  const isNew = await install(plan, manager)
  print(`${isNew ? 'installed and started' : 'changed and restarted'} ${named(service, manager)}`)
  const url = addressOf(config.host, config.port)
  const answer = await healthAt(url)
  print(healthLine(answer, url))
  for (const line of await nextSteps(plan, config, manager)) print(line)
  return isHealthy(answer) ? 0 : 1
}

/** Runs `svc service uninstall`. */
export async function runUninstall(flags: NameFlags): Promise<void> {
  const service = serviceOf(flags)
  const manager = managerHere(service)
  needRoot(service, 'uninstall')
  const text = await ownText(manager)
  if (!(await uninstall(manager))) return print(`nothing to do: there is no ${described(service, manager)}`)
  print(`stopped and removed ${named(service, manager)}`)
  const dataDir = servedAs(manager.files.commandOf(text ?? '') ?? [])?.config.basePath
  if (dataDir !== undefined) print(`its data, the logins among them, stay in ${dataDir}`)
}

/** Runs `svc service status`. @returns its exit status: 0 when it runs and is healthy */
export async function runServiceStatus(flags: NameFlags): Promise<0 | 1> {
  const service = await statusOf(flags)
  const manager = managerHere(service)
  spareLoopbackTheProxy()
  const found = await lookAtService(service)
  const { state, served, answered } = found ?? {}
  const health = answered?.kind === 'svc' ? answered.seen : undefined
  const healthy = answered !== undefined && isHealthy(answered)
  const outdated = health !== undefined && health.version !== version
  if (flags.json) {
    const seen = {
      healthy,
      ...{ name: service.name, scope: service.scope, manager: manager.title, path: definitionOf(manager) },
      installed: found !== undefined,
      ...state,
      ...{ base_path: served?.config.basePath, program: served?.program, url: served?.url },
      ...{ running_version: health?.version, version, outdated, health },
    }
    await writeOut(`${jsonLine(seen)}\n`)
    return healthy ? 0 : 1
  }
  if (!state) {
    print(`not installed: there is no ${described(service, manager)}; see svc service install --help`)
    return 1
  }
  const { dim, yellow } = colours
  const { advice } = manager
  const said =
    answered && served ? healthLine(answered, served.url) : `unhealthy: it does not run; see ${advice.logs}`
  print(`${dim('service')}    ${named(service, manager)}`)
  print(`${dim('state')}      ${stateLine(state, service)}`)
  print(`${dim('health')}     ${said}`)
  if (served) print(`${dim('directory')}  ${oneLine(served.config.basePath)}`)
  else print(yellow('its options cannot be read: install it anew'))
  if (outdated) print(yellow(`it runs ${health.version}, this is ${version}: ${advice.restart}`))
  return healthy ? 0 : 1
}

/** The user's own, else that of the machine. */
async function statusOf(flags: NameFlags): Promise<ServiceName> {
  const own = serviceOf(flags)
  const isThere = (service: ServiceName) => fileExists(definitionOf(managerHere(service)))
  if (own.scope === 'system' || flags.user || (await isThere(own))) return own
  const machines: ServiceName = { ...own, scope: 'system' }
  return (await isThere(machines)) ? machines : own
}

/** Its answer, once it is well; else the last one. */
async function healthAt(url: string): Promise<HealthAnswer> {
  for (const deadline = Date.now() + healthyWithinMs; ; await wait(betweenMs)) {
    const answer = await askHealth(url, askWithinMs)
    if (isHealthy(answer) || Date.now() >= deadline) return answer
  }
}

const isHealthy = (answer: HealthAnswer): boolean => answer.kind === 'svc' && answer.status === 200

const healthLine = (answer: HealthAnswer, url: string): string =>
  `${isHealthy(answer) ? colours.green('healthy') : colours.red('unhealthy')}: ${oneLine(saidOfHealth(answer))} (${url})`

const described = ({ name }: ServiceName, manager: ServiceManager): string =>
  `service ${name} of ${manager.title}, ${definitionOf(manager)}`

const named = (service: ServiceName, manager: ServiceManager): string =>
  `${service.scope === 'system' ? 'the' : 'your'} ${described(service, manager)}`

function stateLine(
  { state, pid, since, restarts, enabled, ended }: ServiceState,
  { scope }: ServiceName,
): string {
  const begin = scope === 'system' ? 'with the machine' : 'when you log in'
  return [
    oneLine(state),
    pid !== undefined && `process ${pid}${since === undefined ? '' : ` since ${localTime(since)}`}`,
    restarts && `restarted ${restarts === 1 ? 'once' : `${restarts} times`}`,
    ended !== undefined && `ended: ${oneLine(ended)}`,
    enabled ? `starts ${begin}` : 'does not start by itself',
  ]
    .filter(Boolean)
    .join(', ')
}

/** What to know, and do, after an install. */
async function nextSteps(
  { account, dataDir, scope, name, token }: ServicePlan,
  config: Config,
  { title, advice }: ServiceManager,
): Promise<string[]> {
  const { word } = ownProgram()
  const as = account ? `sudo -u ${shellWord(account.name)} ` : ''
  const where = `${config.sandbox ? ' --sandbox' : ''} -d ${shellWord(dataDir)}`
  const makesToken = token === undefined && config.tokenFile === undefined && isExposed(config)
  return [
    `data:   ${dataDir}${account ? `, of the user ${account.name}` : ''}: ${as}${word} status${where}`,
    `log in: ${as}${word} login${where}`,
    ...(makesToken ? [`token:  ${as}${word} token${where}`] : []),
    `log:    ${advice.logs}`,
    `remove: ${account ? 'sudo ' : ''}${word} service uninstall${name === usualName ? '' : ` --name ${name}`}`,
    ...(title === 'systemd' && scope === 'user'
      ? ['it ends when you log out, unless you let it run always: sudo loginctl enable-linger']
      : []),
  ]
}
