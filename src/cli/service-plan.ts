/** From what was typed, and what the environment says, to the plan of a service. */

import { realpath } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import type { Command } from 'commander'
import {
  type Config,
  calledBySudo,
  type Flags,
  networkEnvironment,
  spelledOut,
  userFolders,
} from '../config.ts'
import { SvcError } from '../model/error.ts'
import { liesIn, realWay } from '../platform/files.ts'
import { canNotify } from '../platform/notify.ts'
import { isCompiled, ownCommand } from '../platform/process.ts'
import { shellWord } from '../platform/shell.ts'
import { isLoopback } from '../server/auth.ts'
import { givenToken } from '../server/token.ts'
import {
  accountFor,
  barrier,
  ensureFolderOf,
  findAccount,
  madeAccount,
  notOfAnother,
  ordinary,
  ownUser,
} from '../service/account.ts'
import { type Made, newTo } from '../service/made.ts'
import type { Account, ServiceFolders, ServiceManager, ServiceName, ServicePlan } from '../service/plan.ts'
import { isStateFolder } from '../service/systemd-unit.ts'
import { isUnspeakable, isUnstartable } from '../service/systemd-words.ts'
import { lastingCommand } from '../setup/setup.ts'
import { configFrom } from './command.ts'

/** What was typed of which service is meant. */
export interface NameFlags {
  readonly system?: boolean
  readonly user?: boolean
  readonly name: string
  readonly json?: boolean
}

/** What was typed. */
export interface InstallFlags extends NameFlags {
  readonly runAs?: string
  readonly print?: boolean
}

/** What is to become of it. */
export interface Intended {
  readonly plan: ServicePlan
  readonly config: Config
  /** To be taken away again when it does not start. */
  readonly made?: Made
  /** Variables that had a say. */
  readonly carried: readonly string[]
  /** A token is made at the first start. */
  readonly makesToken: boolean
  /** For people, before anything is done. */
  readonly warnings: readonly string[]
}

/** How this program is started, and what people type for it. */
export function ownProgram(): { command: string[]; word: string } {
  const { path } = userFolders()
  const command = isCompiled ? lastingCommand(ownCommand(), path) : ownCommand()
  const [program = ''] = command
  const isFound = !isCompiled || path.some(dir => join(dir, 'svc') === program)
  return { command, word: isFound ? 'svc' : shellWord(program) }
}

/** @throws SvcError of an option, a path, a user that will not do */
export async function intended(
  command: Command,
  flags: InstallFlags,
  service: ServiceName,
  manager: ServiceManager,
  folders: ServiceFolders,
): Promise<Intended> {
  const { scope, name } = service
  const isSystem = scope === 'system'
  const isLinux = manager.title === 'systemd'
  const program = ownProgram().command
  const given = configFrom(command)
  if (flags.runAs !== undefined && !isSystem)
    throw wrong(
      '--run-as: expected for a service of the machine',
      'Your own runs as you: leave the option out.',
    )
  const account = isSystem ? await accountOf(flags, isLinux, join(folders.lib, ownUser)) : undefined
  const again = spelledOut('openapi', command.opts() as Flags, given, {
    without: ['basePath', 'banner', 'token'],
  })
  const isPlaceGiven =
    (command.opts() as Flags).basePath !== undefined || again.fromEnvironment.includes('SVC_BASE_PATH')
  const usual = isLinux ? join(folders.lib, name) : join(account?.home ?? '', '.svc')
  const config =
    isSystem && !isPlaceGiven
      ? configFrom(command, { basePath: given.sandbox ? `${usual}-sandbox` : usual })
      : given
  if (config.port === 0)
    throw wrong(
      '--port: expected a port that stays, got 0',
      'A service is called at the same place each time.',
    )
  const token = await givenToken(config)
  const writes = liesIn(config.basePath, config.mediaRoot) ? [] : [config.mediaRoot]
  // What is only shown may be put in place on another machine.
  const network = flags.print ? {} : networkEnvironment()
  let plan: ServicePlan = {
    ...service,
    command: [
      ...program,
      ...['openapi', '--no-banner', '-d', config.basePath],
      ...again.args,
      ...(config.token === undefined ? [] : ['--token-file', manager.tokenPath]),
    ],
    dataDir: config.basePath,
    writes,
    ...(account && { account }),
    lowPort: [config.port, config.adminPort, config.sandbox ? config.sandboxPort : 0].some(
      port => port !== undefined && port > 0 && port < 1024,
    ),
    notifies: isLinux && canNotify,
    environment: { ...again.variables, ...network },
    ...(config.token !== undefined && { token: config.token }),
  }
  for (const word of [...plan.command, ...Object.values(plan.environment)])
    if (isUnspeakable(word))
      throw wrong(
        `a service cannot be told of ${JSON.stringify(word)}, which has a control character in it`,
        'Rename it.',
      )
  if (isLinux && isUnstartable(program[0]!))
    throw wrong(
      `systemd starts no program with a quote or a backslash in its path, as in ${program[0]}`,
      'Put it elsewhere.',
    )
  let made: Made | undefined
  const doubts = await doubtsOf(plan, program, isLinux && !flags.print, flags)
  if (isSystem && account && !flags.print) {
    const [doubt] = doubts
    if (doubt) throw new SvcError('forbidden', doubt.what, { hint: doubt.hint })
    // From here on something is made.
    await manager.check()
    made = await newTo({ account, dataDir: plan.dataDir, folders: writes })
    plan = { ...plan, account: await madeAccount(account) }
    // Where a folder is somebody's, he stays: the error tells to give it to him.
    await makeFolders(plan, isLinux ? folders.lib : undefined)
  }
  return {
    plan,
    config,
    ...(made && { made }),
    carried: [...again.fromEnvironment, ...Object.keys(network)],
    makesToken: token === undefined && !isLoopback(config.host),
    warnings: doubts.map(({ what, hint }) => `warning: ${what}. ${hint}`),
  }
}

/** @param lib where systemd makes the data directory, and gives it to the user with all that is in it */
async function makeFolders({ account, dataDir, writes }: ServicePlan, lib?: string): Promise<void> {
  const [user, all] = [account!, [dataDir, ...writes]]
  for (const path of all) await notOfAnother(user, path)
  for (const path of all)
    if (lib === undefined || path !== dataDir || !isStateFolder(path, lib)) await ensureFolderOf(user, path)
}

/** Whom a service of the machine runs as. */
async function accountOf({ runAs, print }: InstallFlags, isLinux: boolean, home: string): Promise<Account> {
  if (isLinux) return accountFor(runAs, home, !print)
  const name = runAs ?? calledBySudo()
  if (name === undefined)
    throw wrong('--run-as: expected the user whom the service runs as', 'Nobody called this by sudo.')
  return ordinary(name, await findAccount(name, 'darwin'))
}

/** What speaks against a service, and what to do about it. */
interface Doubt {
  readonly what: string
  readonly hint: string
}

/** What speaks against running the program from where it lies, and keeping its data where they are to lie. */
async function doubtsOf(
  plan: ServicePlan,
  program: readonly string[],
  isForSystemd: boolean,
  flags: InstallFlags,
): Promise<Doubt[]> {
  const { account, scope } = plan
  const hint = scope === 'system' ? placeIt(flags) : 'Put it where it stays, and install from there.'
  const files = program.filter(word => isAbsolute(word))
  const real = await Promise.all(files.map(path => realpath(path).catch(() => path)))
  const fleeting = await fleetingOf(plan, real, hint)
  if (fleeting.length > 0 || scope === 'user' || !account || !isForSystemd) return fleeting
  for (const [at, path] of real.entries()) {
    const stopped = await barrier(account, path, at === 0)
    if (stopped === undefined) continue
    const verb = at === 0 ? 'run' : 'read'
    return [{ what: `the user ${account.name} may not ${verb} ${path}, for the rights of ${stopped}`, hint }]
  }
  return []
}

/** What lies where the system cleans up. @param hint what to do about the program */
async function fleetingOf(
  { dataDir, writes }: ServicePlan,
  program: readonly string[],
  hint: string,
): Promise<Doubt[]> {
  const real = (path: string) => realWay(path).catch(() => path)
  const temporary = await Promise.all(['/tmp', '/var/tmp', '/dev/shm', tmpdir()].map(real))
  const places = [
    ...program.map(path => ({ path, named: path, hint })),
    {
      ...{ path: dataDir, named: `the data directory ${dataDir}` },
      hint: 'The logins and messages in it would be lost: choose another with -d.',
    },
    ...writes.map(path => ({
      ...{ path, named: `the media root ${path}` },
      hint: 'Choose another with --media-root.',
    })),
  ]
  const found: Doubt[] = []
  for (const { path, named, hint } of places) {
    const way = await real(path)
    if (!temporary.some(folder => liesIn(folder, way))) continue
    found.push({ what: `${named} lies in a folder for temporary files`, hint })
  }
  return found
}

const placeIt = ({ name }: InstallFlags) =>
  isCompiled
    ? `Put it where all may run it, and install from there: sudo install -m 755 ${shellWord(ownCommand()[0]!)} /usr/local/bin/svc && sudo /usr/local/bin/svc service install${name === 'svc' ? '' : ` --name ${name}`}`
    : 'Build the binary and put it where all may run it: npm run build && sudo install -m 755 dist/svc /usr/local/bin/svc. Or install a service of your own, without sudo.'

const wrong = (what: string, hint: string) => new SvcError('invalid_arguments', what, { hint })
