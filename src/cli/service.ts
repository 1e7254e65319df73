/** `svc service`: from what was typed to a service that runs, and back. */

import { userInfo } from 'node:os'
import process from 'node:process'
import { setTimeout as wait } from 'node:timers/promises'
import type { Command } from 'commander'
import type { Health } from '../gateway/gateway-api.ts'
import { addressOf } from '../inspect/healthz.ts'
import { askHealthOf, type Identified } from '../inspect/service-identity.ts'
import { SvcError } from '../model/error.ts'
import { fileExists } from '../platform/files.ts'
import { runsReplacedProgram } from '../platform/other-process.ts'
import { spareLoopbackTheProxy } from '../platform/process.ts'
import { shellWord } from '../platform/shell.ts'
import { install, ownText, uninstall } from '../service/install.ts'
import {
  definitionOf,
  Failed,
  isServiceName,
  type Scope,
  type ServiceManager,
  type ServiceName,
  type ServiceState,
} from '../service/plan.ts'
import { version } from '../version.ts'
import { saidOfHealth } from './health.ts'
import { jsonLine, print } from './print.ts'
import { askWithinMs, foldersHere, lookAtService, managerHere, servedAs, usualName } from './service-look.ts'
import {
  fleeting,
  type InstallFlags,
  type Intended,
  intended,
  type NameFlags,
  ownProgram,
  prepare,
} from './service-plan.ts'
import { colours, writeErr, writeOut } from './terminal.ts'
import { localTime, oneLine } from './text.ts'

const healthyWithinMs = 20_000
const betweenMs = 200

const isRoot = () => process.geteuid?.() === 0

function serviceOf({ system, user, name }: NameFlags): ServiceName {
  const wrong = (what: string, hint: string) => new SvcError('invalid_arguments', what, { hint })
  if (system && user === true)
    throw wrong('--user: expected a name with --system', 'Without --system it means your own service.')
  if (!isServiceName(name))
    throw wrong(
      '--name: expected a letter, then up to 30 letters (a-z), digits or "-"',
      'See svc service --help.',
    )
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
export async function runInstall(command: Command, typed: object): Promise<0 | 1> {
  const flags = typed as InstallFlags
  const service = serviceOf(flags)
  const manager = managerHere(service)
  if (!flags.print) needRoot(service, 'install')
  const wanted = await intended(command, flags, service, manager, foldersHere())
  const { plan, config } = wanted
  for (const path of fleeting(plan))
    await writeErr(`warning: ${path} lies in a folder for temporary files, which the system empties\n`)
  if (flags.print) {
    const [definition, ...others] = manager.files.of(plan).reverse()
    await writeOut(definition?.text ?? '')
    for (const { path, mode } of others)
      await writeErr(`it needs ${path} besides, with mode ${mode.toString(8)}\n`)
    return 0
  }
  await prepare(plan, manager, foldersHere())
  spareLoopbackTheProxy()
  const url = addressOf(config.host, config.port)
  const ask = () => askHealthOf(plan.dataDir, url, askWithinMs)
  const did = await install(plan, manager, {
    isRunning: async () => {
      const { pid, running } = await manager.state()
      if (!running || (pid !== undefined && (await runsReplacedProgram(pid)))) return false
      return seenOf(await ask())?.version === version
    },
    works: () => untilItWorks(manager, ask),
  })
  const words = {
    installed: 'installed and started',
    changed: 'changed and restarted',
    started: 'restarted',
    nothing: 'nothing to do: it is so already,',
  }
  print(`${words[did]} ${named(service, manager)}`)
  const answer = await ask()
  print(healthLine(answer, url))
  for (const line of await nextSteps(wanted, service, manager)) print(line)
  return isHealthy(answer) ? 0 : 1
}

/** Runs `svc service uninstall`. */
export async function runUninstall(typed: object): Promise<void> {
  const service = serviceOf(typed as NameFlags)
  const manager = managerHere(service)
  needRoot(service, 'uninstall')
  const path = definitionOf(manager)
  const text = await ownText(manager)
  if (!(await uninstall(manager))) {
    print(`nothing to do: there is no ${described(service, manager)}`)
    return
  }
  print(`stopped and removed ${named(service, manager)}`)
  if (await fileExists(`${path}.d`)) print(`your own settings of it stay in ${path}.d`)
  const dataDir = servedAs(manager.files.commandOf(text ?? '') ?? [])?.config.basePath
  if (dataDir !== undefined && (await fileExists(dataDir)))
    print(`its data, the logins among them, stay in ${dataDir}`)
}

/** Runs `svc service status`. @returns its exit status: 0 when it runs and is healthy */
export async function runServiceStatus(typed: object): Promise<0 | 1> {
  const flags = typed as NameFlags
  const service = await statusOf(flags)
  const manager = managerHere(service)
  spareLoopbackTheProxy()
  const found = await lookAtService(service)
  const { state, served, answered, replaced = false } = found ?? {}
  const health = answered && seenOf(answered)
  const running = health?.version
  const healthy = answered !== undefined && isHealthy(answered)
  const outdated = replaced || (running !== undefined && running !== version)
  if (flags.json) {
    const seen = {
      healthy,
      ...{ name: service.name, scope: service.scope, manager: manager.title, path: definitionOf(manager) },
      installed: found !== undefined,
      ...state,
      ...{ base_path: served?.config.basePath, program: served?.program, url: served?.url },
      ...{ running_version: running, version, outdated, health },
    }
    await writeOut(`${jsonLine(seen)}\n`)
  } else if (!state)
    print(`not installed: there is no ${described(service, manager)}; see svc service install --help`)
  else {
    const { dim, yellow } = colours
    const { advice } = manager
    print(`${dim('service')}    ${named(service, manager)}`)
    print(`${dim('state')}      ${stateLine(state, service.scope)}`)
    print(
      `${dim('health')}     ${answered && served ? healthLine(answered, served.url) : `unhealthy: it does not run; see ${advice.logs}`}`,
    )
    if (served) print(`${dim('directory')}  ${oneLine(served.config.basePath)}`)
    else print(yellow('its options cannot be read: install it anew'))
    if (outdated) {
      const what = replaced
        ? 'its program was replaced since it started'
        : `it runs ${running}, this is ${version}`
      print(yellow(`${what}: ${advice.restart}`))
    }
  }
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

/** @throws Failed when it ends, or somebody else answers */
async function untilItWorks(manager: ServiceManager, ask: () => Promise<Identified>): Promise<void> {
  for (const deadline = Date.now() + healthyWithinMs; ; await wait(betweenMs)) {
    const answer = await ask()
    const state = await manager.state()
    if (state.running && isHealthy(answer)) return
    if (!state.running && state.ended !== undefined) throw new Failed(`it ended, ${state.ended}`)
    if (Date.now() < deadline) continue
    // What runs and is not well is for its owner to see.
    if (state.running) return
    throw new Failed(`it is ${state.state}`)
  }
}

/** What it said of itself: the service that was asked for, and not another on its port. */
const seenOf = ({ answer, isElsewhere }: Identified): Health | undefined =>
  answer.kind === 'svc' && !isElsewhere ? answer.seen : undefined

const isHealthy = ({ answer, isElsewhere }: Identified): boolean =>
  answer.kind === 'svc' && answer.status === 200 && !isElsewhere

function healthLine(identified: Identified, url: string): string {
  const { answer, isElsewhere } = identified
  const word = isHealthy(identified) ? colours.green('healthy') : colours.red('unhealthy')
  const what = isElsewhere ? 'what answers there is a svc of another data directory' : saidOfHealth(answer)
  return `${word}: ${oneLine(what)} (${url})`
}

const described = ({ name }: ServiceName, manager: ServiceManager): string =>
  `service ${name} of ${manager.title}, ${definitionOf(manager)}`

const named = (service: ServiceName, manager: ServiceManager): string =>
  `${service.scope === 'system' ? 'the' : 'your'} ${described(service, manager)}`

function stateLine({ state, pid, since, restarts, enabled, ended }: ServiceState, scope: Scope): string {
  return [
    oneLine(state),
    ...(pid === undefined
      ? []
      : [`process ${pid}${since === undefined ? '' : ` since ${localTime(since)}`}`]),
    ...(restarts ? [`restarted ${restarts === 1 ? 'once' : `${restarts} times`}`] : []),
    ...(ended === undefined ? [] : [`ended: ${oneLine(ended)}`]),
    enabled
      ? `starts ${scope === 'system' ? 'with the machine' : 'when you log in'}`
      : 'does not start by itself',
  ].join(', ')
}

/** What to know, and do, after an install. */
async function nextSteps(
  { plan, config, carried, makesToken }: Intended,
  { scope, name }: ServiceName,
  { title, advice }: ServiceManager,
): Promise<string[]> {
  const { account, dataDir } = plan
  const { word } = ownProgram()
  const as = account ? `sudo -u ${shellWord(account.name)} ` : ''
  const where = `${config.sandbox ? ' --sandbox' : ''} -d ${shellWord(dataDir)}`
  const { username } = userInfo()
  const isEndedByLogout =
    title === 'systemd' &&
    scope === 'user' &&
    !(await fileExists(`${foldersHere().lib}/systemd/linger/${username}`))
  return [
    `data:   ${dataDir}${account ? `, of the user ${account.name}` : ''}: ${as}${word} status${where}`,
    `log in: ${as}${word} login${where}`,
    ...(makesToken ? [`token:  ${as}${word} token${where}`] : []),
    `log:    ${advice.logs}`,
    `remove: ${account ? 'sudo ' : ''}${word} service uninstall${name === usualName ? '' : ` --name ${name}`}`,
    ...(carried.length > 0 ? [`taken over from the environment: ${carried.join(', ')}`] : []),
    ...(isEndedByLogout
      ? [`it ends when you log out; to let it run always: sudo loginctl enable-linger ${username}`]
      : []),
  ]
}
