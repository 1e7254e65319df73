/** Plans a service from the typed options and the environment, and reads the state of an installed one. */

import { isIP, isIPv6 } from 'node:net'
import { join } from 'node:path'
import { Command as Commander } from 'commander'
import { isGuessable, secretFilesOf } from '../config/token-file.ts'
import {
  type Config,
  type Flags,
  findSudoUser,
  findUserFolders,
  pickNetworkVariables,
  portsOf,
  readConfig,
  writeOptions,
} from '../config.ts'
import type { InstalledService } from '../doctor/service.ts'
import { askHealth, configuredUrlOf, findConfigured } from '../inspect/healthz.ts'
import { badArgument } from '../model/error.ts'
import { readCertificate } from '../platform/certificate.ts'
import { attempt } from '../platform/fields.ts'
import { isInside } from '../platform/files.ts'
import { quoteForShell } from '../platform/format.ts'
import { canNotify } from '../platform/notify.ts'
import { isCompiled } from '../platform/process.ts'
import { isExposed } from '../server/auth.ts'
import { guessableTokenError, readTokenOption } from '../server/token.ts'
import { ensureFolders, findAccount, parseServiceUser, rootError } from '../service/account.ts'
import { managerOf, readOwnDefinition } from '../service/install.ts'
import {
  machineFolders,
  type ServiceAccount,
  type ServiceManager,
  type ServiceName,
  type ServicePlan,
} from '../service/plan.ts'
import { isStateFolder } from '../service/systemd.ts'
import { toLastingCommand } from '../setup/setup.ts'
import { addConfigOptions, type Command, configFrom, silenceOutput } from './command.ts'
import { certificateFilesOf } from './listening.ts'
import type { Io } from './terminal.ts'

/** The typed flags that choose a service and how its command prints. */
export interface ServiceFlags {
  readonly system?: boolean
  /** `true`: the service of this user; a name: the machine's, and the user it runs as. */
  readonly user?: string | true
  readonly name: string
  readonly json?: boolean
  readonly print?: boolean
  readonly socketActivation?: boolean
}

const keyVariables = [
  ['secretKey', 'SVC_SECRET_KEY', '--secret-key-file'],
  ['newSecretKey', 'SVC_NEW_SECRET_KEY', '--new-secret-key-file'],
] as const

/** Returns the command that starts this program (for a definition), and the word that people type for it. */
export function ownProgramOf({ program }: Io): { command: string[]; word: string } {
  const { path } = findUserFolders()
  const command = isCompiled ? toLastingCommand(program, path) : [...program]
  const [first = ''] = command
  const isFound = !isCompiled || path.some(dir => join(dir, 'svc') === first)
  return { command, word: isFound ? 'svc' : quoteForShell(first) }
}

/**
 * Plans the service; changes nothing.
 *
 * @throws SvcError for an option, a path or a user that cannot be used
 */
export async function planService(
  command: Command,
  flags: ServiceFlags,
  service: ServiceName,
  manager: ServiceManager,
): Promise<{ plan: ServicePlan; config: Config }> {
  const isSystem = service.scope === 'system'
  const account = isSystem ? await chooseAccount(flags, service.name, manager) : undefined
  // What connects to a socket that systemd holds waits for all of it.
  const drain = manager.title !== 'systemd' ? '0' : flags.socketActivation ? '1' : '5'
  const config = serviceConfigOf(command, service, account, drain)
  // A printed definition may be meant for another machine, which has the files.
  const token = flags.print && config.token === undefined ? undefined : await readTokenOption(config)
  // Such a service would refuse to start, after the running one was stopped for it.
  if (token !== undefined && isExposed(config) && isGuessable(token)) throw guessableTokenError()
  const certificate = certificateFilesOf(config)
  if (certificate && !flags.print) await readCertificate(certificate)
  for (const [name, variable, flag] of keyVariables)
    if (config[name] !== undefined)
      throw badArgument(variable, 'an installed service takes the secret key from a file only', {
        hint: `Write the key into a file that the user of the service may read, unset the variable, and add ${flag} FILE.`,
      })
  const notifies = manager.title === 'systemd' && canNotify
  if (flags.socketActivation && !(notifies && isIP(config.host)))
    throw badArgument('--socket-activation', 'expected systemd, svc on Bun, and an IP address as --host')
  const host = isIPv6(config.host) ? `[${config.host}]` : config.host
  const ports = Object.values(portsOf(config)).flatMap(port => port || [])
  const again = writeOptions('openapi', command.opts<Flags>(), config, {
    without: ['basePath', 'banner', 'drain', 'token'],
    env: command.io.env,
  })
  const plan: ServicePlan = {
    ...service,
    command: [
      ...ownProgramOf(command.io).command,
      ...['openapi', '--no-banner', '-d', config.basePath],
      ...again.args,
      ...(config.drain === 0 ? [] : ['--drain', String(config.drain)]),
      ...(config.token === undefined ? [] : ['--token-file', manager.files.tokenPath]),
    ],
    dataDir: config.basePath,
    readFiles: [config.tlsCert, ...secretFilesOf(config)].filter(path => path !== undefined),
    writtenFolders: [config.mediaRoot, ...(config.backupTo === undefined ? [] : [config.backupTo])].filter(
      folder => !isInside(config.basePath, folder),
    ),
    account,
    heldAddresses: flags.socketActivation ? ports.map(port => `${host}:${port}`) : undefined,
    bindsLowPort: [...(flags.socketActivation ? [] : ports), config.sandbox ? config.sandboxPort : 0].some(
      port => port > 0 && port < 1024,
    ),
    drain: config.drain,
    notifies,
    // A printed definition may be meant for another machine, so it gets no network settings of this one.
    environment: { ...again.variables, ...(flags.print ? {} : pickNetworkVariables(command.io.env)) },
    token: config.token,
  }
  return { plan, config }
}

/**
 * Reads the configuration of the service.
 *
 * @throws SvcError `invalid_arguments` for options that no service can have
 */
function serviceConfigOf(
  command: Command,
  { scope, name }: ServiceName,
  account: ServiceAccount | undefined,
  drain: string,
): Config {
  const typed = configFrom(command, {}, { drain })
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
    findUserFolders().platform === 'darwin'
      ? join(account?.home ?? '', '.svc')
      : join(machineFolders.lib, name)
  return configFrom(command, { basePath: typed.sandbox ? `${defaultPath}-sandbox` : defaultPath }, { drain })
}

/**
 * Chooses the user of a machine service: the named one, else the one it was installed with, else the
 * default.
 */
async function chooseAccount(
  { user, print }: ServiceFlags,
  name: string,
  manager: ServiceManager,
): Promise<ServiceAccount> {
  const { platform } = findUserFolders()
  const installed = print ? undefined : parseServiceUser((await readOwnDefinition(manager)) ?? '')
  const defaultUser = platform === 'darwin' ? findSudoUser() : 'svc'
  const chosen = (typeof user === 'string' ? user : undefined) ?? installed ?? defaultUser
  if (chosen === undefined)
    throw badArgument('--user', 'expected the user whom the service runs as', {
      hint: 'Name one that exists.',
    })
  if (!print) return findAccount(chosen, platform, join(machineFolders.lib, name))
  if (chosen === 'root') throw rootError()
  return { name: chosen, uid: -1, gid: -1, home: join('/Users', chosen) }
}

/** Makes the folders of a machine service. @throws SvcError `forbidden` for a folder of another user */
export async function prepareFolders(
  { account, dataDir, writtenFolders }: ServicePlan,
  manager: ServiceManager,
): Promise<void> {
  if (!account) return
  const isSystemds = (path: string) =>
    manager.title === 'systemd' && path === dataDir && isStateFolder(path, machineFolders.lib)
  await ensureFolders(account, [dataDir, ...writtenFolders], isSystemds)
}

/** Default name of a service. */
export const defaultServiceName = 'svc'
/** Longest wait for an answer from a service on this machine. */
export const answerTimeoutMs = 2000

/** Finds the service manager of this machine. @throws SvcError if svc knows none here */
export function findManager(service: ServiceName, io: Io): ServiceManager {
  const { home, platform, xdgConfig } = findUserFolders()
  const folders = { home, config: xdgConfig, ...machineFolders }
  return managerOf(platform, service, folders, ownProgramOf(io).command)
}

/**
 * Reads the state of an installed service, and its answer to a health check if it runs.
 *
 * @returns undefined if there is no such service
 * @throws SvcError `forbidden` if svc did not install it
 */
export async function inspectService(service: ServiceName, io: Io): Promise<InstalledService | undefined> {
  const { scope, name } = service
  const manager = findManager(service, io)
  const text = await readOwnDefinition(manager)
  if (text === undefined) return undefined
  const served = parseServed(manager.files.parseCommand(text) ?? [])
  const state = await manager.readState()
  const isSystem = scope === 'system'
  return {
    title: `${isSystem ? 'the' : 'your'} service ${name} of ${manager.title}`,
    state,
    served,
    advice: manager.advice,
    answered:
      served && state.running
        ? await askHealth(await findConfigured(served.config), answerTimeoutMs)
        : undefined,
    install: `${isSystem ? 'sudo ' : ''}svc service install${name === defaultServiceName ? '' : ` --name ${name}`}`,
  }
}

/**
 * Parses the command of a definition. Returns undefined if another version wrote it with options unknown
 * here.
 */
export function parseServed(
  words: readonly string[],
): { program: string; config: Config; url: string } | undefined {
  const [program = '', ...args] = words
  const command = addConfigOptions(silenceOutput(new Commander()), 'openapi')
  return attempt(() => {
    command.parse(args.slice(args.indexOf('openapi') + 1), { from: 'user' })
    const config = readConfig(command.opts<Flags>(), {})
    return { program, config, url: configuredUrlOf(config) }
  })
}

/** Finds your service and the machine's by their default name, for `svc doctor`. */
export async function listInstalledServices(io: Io): Promise<InstalledService[]> {
  const scopes = ['user', 'system'] as const
  // No service manager, and a service that svc did not install, count as none.
  const found = await Promise.all(
    scopes.map(async scope => inspectService({ scope, name: defaultServiceName }, io).catch(() => undefined)),
  )
  return found.filter(one => one !== undefined)
}
