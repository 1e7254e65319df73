/** Plans a service from the typed options and the environment, and reads the state of an installed one. */
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

/** The typed flags that choose a service and how its command prints. */
export interface NameFlags {
  readonly system?: boolean
  /** `true`: the service of this user; a name: the machine's, and the user it runs as. */
  readonly user?: string | true
  readonly name: string
  readonly json?: boolean
  readonly print?: boolean
}

/** Returns the command that starts this program (for a definition), and the word that people type for it. */
export function ownProgram({ program }: Io): { command: string[]; word: string } {
  const { path } = userFolders()
  const command = isCompiled ? lastingCommand(program, path) : [...program]
  const [first = ''] = command
  const isFound = !isCompiled || path.some(dir => join(dir, 'svc') === first)
  return { command, word: isFound ? 'svc' : shellWord(first) }
}

/**
 * Plans the service; changes nothing.
 *
 * @throws SvcError for an option, a path or a user that cannot be used
 */
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
  // Such a service would refuse to start, after the running one was stopped for it.
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
    // A printed definition may be meant for another machine, so it gets no network settings of this one.
    environment: { ...again.variables, ...(flags.print ? {} : networkEnvironment(command.io.env)) },
    token: config.token,
  }
  return { plan, config }
}

/**
 * Reads the configuration of the service.
 *
 * @throws SvcError `invalid_arguments` for options that no service can have
 */
function serves(command: Command, { scope, name }: ServiceName, account: Account | undefined): Config {
  const typed = configFrom(command)
  if (typed.socket !== undefined)
    throw badArgument('--socket', 'expected a port', {
      hint: 'A service of the system listens on a port: use --port.',
    })
  if (typed.port === 0)
    throw badArgument('--port', 'expected a fixed port, got 0', {
      hint: 'Callers need the same address after each restart.',
    })
  const isPathTyped = typed.basePath !== readConfig({ sandbox: typed.sandbox }, {}).basePath
  if (scope === 'user' || isPathTyped) return typed
  const defaultPath =
    userFolders().platform === 'darwin' ? join(account?.home ?? '', '.svc') : join(machineFolders.lib, name)
  return configFrom(command, { basePath: typed.sandbox ? `${defaultPath}-sandbox` : defaultPath })
}

/**
 * Chooses the user of a machine service: the named one, else the one it was installed with, else the
 * default.
 */
async function accountFor(
  { user, print }: NameFlags,
  name: string,
  manager: ServiceManager,
): Promise<Account> {
  const { platform } = userFolders()
  const installed = print ? undefined : userOf((await ownText(manager)) ?? '')
  const defaultUser = platform === 'darwin' ? calledBySudo() : 'svc'
  const chosen = (typeof user === 'string' ? user : undefined) ?? installed ?? defaultUser
  if (chosen === undefined)
    throw badArgument('--user', 'expected the user whom the service runs as', {
      hint: 'Name one that exists.',
    })
  if (!print) return accountOf(chosen, platform, join(machineFolders.lib, name))
  if (chosen === 'root') throw runsAsRoot()
  return { name: chosen, uid: -1, gid: -1, home: join('/Users', chosen) }
}

/** Makes the folders of a machine service. @throws SvcError `forbidden` for a folder of another user */
export async function prepare(
  { account, dataDir, writes }: ServicePlan,
  manager: ServiceManager,
): Promise<void> {
  if (!account) return
  const isSystemds = (path: string) =>
    manager.title === 'systemd' && path === dataDir && isStateFolder(path, machineFolders.lib)
  await ensureFolders(account, [dataDir, ...writes], isSystemds)
}

/** Default name of a service. */
export const usualName = 'svc'
/** Longest wait for an answer from a service on this machine. */
export const askWithinMs = 2000

/** Finds the service manager of this machine. @throws SvcError if svc knows none here */
export function managerHere(service: ServiceName, io: Io): ServiceManager {
  const { home, platform, xdgConfig } = userFolders()
  const folders = { home, config: xdgConfig, ...machineFolders }
  return managerOf(platform, service, folders, ownProgram(io).command)
}

/**
 * Reads the state of an installed service, and its answer to a health check if it runs.
 *
 * @returns undefined if there is no such service
 * @throws SvcError `forbidden` if svc did not install it
 */
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
    state,
    served,
    advice: manager.advice,
    answered: served && state.running ? await askHealth(served.url, askWithinMs) : undefined,
    install: `${isSystem ? 'sudo ' : ''}svc service install${name === usualName ? '' : ` --name ${name}`}`,
  }
}

/**
 * Parses the command of a definition. Returns undefined if another version wrote it with options unknown
 * here.
 */
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

/** Finds your service and the machine's by their default name, for `svc doctor`. */
export async function installedServices(io: Io): Promise<SeenService[]> {
  const scopes = ['user', 'system'] as const
  // No service manager, and a service that svc did not install, count as none.
  const found = await Promise.all(
    scopes.map(async scope => lookAtService({ scope, name: usualName }, io).catch(() => undefined)),
  )
  return found.filter(one => one !== undefined)
}
