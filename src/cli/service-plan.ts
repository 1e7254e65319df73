/** Of a service: what it is to be, by what was typed and what the environment says, and how an installed one stands. */
import { join } from 'node:path'
import { Command as Commander } from 'commander'
import {
  type Config,
  calledBySudo,
  type Flags,
  networkEnvironment,
  readConfig,
  spelledOut,
  userFolders,
} from '../config.ts'
import type { SeenService } from '../doctor/service.ts'
import { addressOf, askHealth } from '../inspect/healthz.ts'
import { badArgument } from '../model/error.ts'
import { liesIn } from '../platform/files.ts'
import { shellWord } from '../platform/format.ts'
import { canNotify } from '../platform/notify.ts'
import { isCompiled } from '../platform/process.ts'
import { isExposed } from '../server/auth.ts'
import { givenToken, guessableToken, isGuessable } from '../server/token.ts'
import { accountOf, ensureFolders, runsAsRoot, userOf } from '../service/account.ts'
import { managerOf, ownText } from '../service/install.ts'
import {
  type Account,
  machineFolders,
  type ServiceManager,
  type ServiceName,
  type ServicePlan,
} from '../service/plan.ts'
import { isStateFolder } from '../service/systemd.ts'
import { lastingCommand } from '../setup/setup.ts'
import { addConfigOptions, type Command, configFrom, quiet } from './command.ts'
import type { Io } from './terminal.ts'

/** What was typed of which service is meant. */
export interface NameFlags {
  readonly system?: boolean
  /** `true`: the service of this user; a name: the machine's, and the user it runs as. */
  readonly user?: string | true
  readonly name: string
  readonly json?: boolean
  readonly print?: boolean
}

/** How this program is started, and what people type for it. */
export function ownProgram({ program }: Io): { command: string[]; word: string } {
  const { path } = userFolders()
  const command = isCompiled ? lastingCommand(program, path) : [...program]
  const [first = ''] = command
  const isFound = !isCompiled || path.some(dir => join(dir, 'svc') === first)
  return { command, word: isFound ? 'svc' : shellWord(first) }
}

/** Changes nothing. @throws SvcError of an option, a path, a user that will not do */
export async function intended(
  command: Command,
  flags: NameFlags,
  service: ServiceName,
  manager: ServiceManager,
): Promise<{ plan: ServicePlan; config: Config }> {
  const isSystem = service.scope === 'system'
  const account = isSystem ? await accountFor(flags, service.name, manager) : undefined
  const config = serves(command, service, account)
  const token = await givenToken(config)
  // The one that runs would give way to one that refuses to start.
  if (token !== undefined && isExposed(config) && isGuessable(token)) throw guessableToken()
  const again = spelledOut('openapi', command.opts<Flags>(), config, {
    without: ['basePath', 'banner', 'token'],
    env: command.io.env,
  })
  const plan: ServicePlan = {
    ...service,
    command: [
      ...ownProgram(command.io).command,
      ...['openapi', '--no-banner', '-d', config.basePath],
      ...again.args,
      ...(config.token === undefined ? [] : ['--token-file', manager.files.tokenPath]),
    ],
    dataDir: config.basePath,
    writes: liesIn(config.basePath, config.mediaRoot) ? [] : [config.mediaRoot],
    account,
    lowPort: [config.port, config.adminPort, config.sandbox ? config.sandboxPort : 0].some(
      port => port !== undefined && port > 0 && port < 1024,
    ),
    notifies: manager.title === 'systemd' && canNotify,
    // What is only shown may be put in place on another machine.
    environment: { ...again.variables, ...(flags.print ? {} : networkEnvironment(command.io.env)) },
    token: config.token,
  }
  return { plan, config }
}

/** What the service is told. */
function serves(command: Command, { scope, name }: ServiceName, account: Account | undefined): Config {
  const given = configFrom(command)
  if (given.socket !== undefined)
    throw badArgument('--socket', 'expected a port', { hint: 'A service of the system is called at one.' })
  if (given.port === 0)
    throw badArgument('--port', 'expected a port that stays, got 0', {
      hint: 'A service is called at the same place each time.',
    })
  const isPlaceGiven = given.basePath !== readConfig({ sandbox: given.sandbox }, {}).basePath
  if (scope === 'user' || isPlaceGiven) return given
  const usual =
    userFolders().platform === 'darwin' ? join(account?.home ?? '', '.svc') : join(machineFolders.lib, name)
  return configFrom(command, { basePath: given.sandbox ? `${usual}-sandbox` : usual })
}

/** The user of a service of the machine: the one that was named, else the one it was installed with. */
async function accountFor(
  { user, print }: NameFlags,
  name: string,
  manager: ServiceManager,
): Promise<Account> {
  const { platform } = userFolders()
  const installed = print ? undefined : userOf((await ownText(manager)) ?? '')
  const usual = platform === 'darwin' ? calledBySudo() : 'svc'
  const wanted = (typeof user === 'string' ? user : undefined) ?? installed ?? usual
  if (wanted === undefined)
    throw badArgument('--user', 'expected the user whom the service runs as', {
      hint: 'Name one that exists.',
    })
  if (!print) return accountOf(wanted, platform, join(machineFolders.lib, name))
  if (wanted === 'root') throw runsAsRoot()
  return { name: wanted, uid: -1, gid: -1, home: join('/Users', wanted) }
}

/** Makes the folders of a service of the machine. @throws SvcError `forbidden` for those of another user */
export async function prepare(
  { account, dataDir, writes }: ServicePlan,
  manager: ServiceManager,
): Promise<void> {
  if (!account) return
  const isSystemds = (path: string) =>
    manager.title === 'systemd' && path === dataDir && isStateFolder(path, machineFolders.lib)
  await ensureFolders(account, [dataDir, ...writes], isSystemds)
}

/** The name of a service that was given no other. */
export const usualName = 'svc'
/** Longest wait for an answer of a service on this machine. */
export const askWithinMs = 2000

/** @throws SvcError where there is no manager that svc knows */
export function managerHere(service: ServiceName, io: Io): ServiceManager {
  const { home, platform, xdgConfig } = userFolders()
  const folders = { home, config: xdgConfig, ...machineFolders }
  return managerOf(platform, service, folders, ownProgram(io).command)
}

/** @returns undefined when there is none @throws SvcError `forbidden` for one that svc did not install */
export async function lookAtService(service: ServiceName, io: Io): Promise<SeenService | undefined> {
  const { scope, name } = service
  const manager = managerHere(service, io)
  const text = await ownText(manager)
  if (text === undefined) return undefined
  const served = servedAs(manager.files.commandOf(text) ?? [])
  const state = await manager.state()
  const isSystem = scope === 'system'
  return {
    title: `${isSystem ? 'the' : 'your'} service ${name} of ${manager.title}`,
    ...{ state, served, advice: manager.advice },
    answered: served && state.running ? await askHealth(served.url, askWithinMs) : undefined,
    install: `${isSystem ? 'sudo ' : ''}svc service install${name === usualName ? '' : ` --name ${name}`}`,
  }
}

/** What a definition starts; undefined for one of a version that knew other options. */
export function servedAs(
  words: readonly string[],
): { program: string; config: Config; url: string } | undefined {
  const [program = '', ...args] = words
  const command = addConfigOptions(quiet(new Commander()), 'openapi')
  try {
    command.parse(args.slice(args.indexOf('openapi') + 1), { from: 'user' })
    const config = readConfig(command.opts<Flags>(), {})
    return { program, config, url: addressOf(config.host, config.port) }
  } catch {
    return undefined
  }
}

/** Yours and the machine's, by their usual name: for svc doctor. */
export async function installedServices(io: Io): Promise<SeenService[]> {
  const scopes = ['user', 'system'] as const
  // None where there is no manager that svc knows, and none of somebody else's.
  const found = await Promise.all(
    scopes.map(async scope => lookAtService({ scope, name: usualName }, io).catch(() => undefined)),
  )
  return found.filter(one => one !== undefined)
}
