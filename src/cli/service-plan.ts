/** From what was typed, and what the environment says, to the plan of a service. */

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
import { liesIn } from '../platform/files.ts'
import { canNotify } from '../platform/notify.ts'
import { isCompiled, ownCommand } from '../platform/process.ts'
import { shellWord } from '../platform/shell.ts'
import { isExposed } from '../server/auth.ts'
import { givenToken } from '../server/token.ts'
import { accountOf, ensureCanRun, ensureFolders, runsAsRoot, userOf } from '../service/account.ts'
import { ownText } from '../service/install.ts'
import type { Account, ServiceFolders, ServiceManager, ServiceName, ServicePlan } from '../service/plan.ts'
import { isUnspeakable } from '../service/systemd-escape.ts'
import { isStateFolder } from '../service/systemd-unit.ts'
import { lastingCommand } from '../setup/setup.ts'
import { configFrom } from './command.ts'

/** What was typed of which service is meant. */
export interface NameFlags {
  readonly system?: boolean
  /** `true`: the service of this user; a name: the machine's, and the user it runs as. */
  readonly user?: string | true
  readonly name: string
  readonly json?: boolean
}

/** What was typed. */
export interface InstallFlags extends NameFlags {
  readonly print?: boolean
}

/** What is to become of it. */
export interface Intended {
  readonly plan: ServicePlan
  readonly config: Config
  /** The environment variables that had a say. */
  readonly carried: readonly string[]
  /** A token is made at the first start. */
  readonly makesToken: boolean
}

/** How this program is started, and what people type for it. */
export function ownProgram(): { command: string[]; word: string } {
  const { path } = userFolders()
  const command = isCompiled ? lastingCommand(ownCommand(), path) : ownCommand()
  const [program = ''] = command
  const isFound = !isCompiled || path.some(dir => join(dir, 'svc') === program)
  return { command, word: isFound ? 'svc' : shellWord(program) }
}

/** Changes nothing. @throws SvcError of an option, a path, a user that will not do */
export async function intended(
  command: Command,
  flags: InstallFlags,
  service: ServiceName,
  manager: ServiceManager,
  folders: ServiceFolders,
): Promise<Intended> {
  const account =
    service.scope === 'system' ? await accountFor(flags, service.name, manager, folders) : undefined
  const { config, again } = serves(command, service, account, folders)
  const token = await givenToken(config)
  // What is only shown may be put in place on another machine.
  const network = flags.print ? {} : networkEnvironment()
  const plan: ServicePlan = {
    ...service,
    command: [
      ...ownProgram().command,
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
    environment: { ...again.variables, ...network },
    token: config.token,
  }
  for (const word of [account?.name ?? '', ...plan.command, ...Object.values(plan.environment)])
    if (isUnspeakable(word))
      throw wrong(
        `a service cannot be told of ${JSON.stringify(word)}, which has a control character in it`,
        'Rename it.',
      )
  return {
    ...{ plan, config },
    carried: [...again.fromEnvironment, ...Object.keys(network)],
    makesToken: token === undefined && isExposed(config),
  }
}

/** The options that the service gets. */
function serves(
  command: Command,
  { scope, name }: ServiceName,
  account: Account | undefined,
  { lib }: ServiceFolders,
) {
  const flags = command.opts() as Flags
  const given = configFrom(command)
  const again = spelledOut('openapi', flags, given, { without: ['basePath', 'banner', 'token'] })
  const isPlaceGiven = flags.basePath !== undefined || again.fromEnvironment.includes('SVC_BASE_PATH')
  const usual = userFolders().platform === 'darwin' ? join(account?.home ?? '', '.svc') : join(lib, name)
  const config =
    scope === 'system' && !isPlaceGiven
      ? configFrom(command, { basePath: given.sandbox ? `${usual}-sandbox` : usual })
      : given
  if (config.socket !== undefined)
    throw wrong('--socket: expected a port', 'A service of the system is called at one.')
  if (config.port === 0)
    throw wrong(
      '--port: expected a port that stays, got 0',
      'A service is called at the same place each time.',
    )
  return { config, again }
}

/** The user of a service of the machine: the one that was named, else the one it was installed with. */
async function accountFor(
  { user, print }: InstallFlags,
  name: string,
  manager: ServiceManager,
  { lib }: ServiceFolders,
): Promise<Account> {
  const { platform } = userFolders()
  const installed = print ? undefined : userOf((await ownText(manager)) ?? '')
  const usual = platform === 'darwin' ? calledBySudo() : 'svc'
  const wanted = (typeof user === 'string' ? user : undefined) ?? installed ?? usual
  if (wanted === undefined)
    throw wrong('--user: expected the user whom the service runs as', 'Name one that exists.')
  if (!print) return accountOf(wanted, platform, join(lib, name))
  if (wanted === 'root') throw runsAsRoot()
  return { name: wanted, uid: -1, gid: -1, home: join('/Users', wanted) }
}

/** Makes what a service of the machine needs. @throws SvcError `forbidden` for what its user may not use */
export async function prepare(
  { account, dataDir, writes }: ServicePlan,
  manager: ServiceManager,
  { lib }: ServiceFolders,
): Promise<void> {
  if (!account) return
  const isLinux = manager.title === 'systemd'
  const hint = isCompiled
    ? `Put it where all may run it, and install from there: sudo install -m 755 ${shellWord(ownCommand()[0]!)} /usr/local/bin/svc`
    : 'Build the binary and put it where all may run it: npm run build && sudo install -m 755 dist/svc /usr/local/bin/svc.'
  if (isLinux) await ensureCanRun(account, ownProgram().command, hint)
  await ensureFolders(
    account,
    [dataDir, ...writes],
    path => isLinux && path === dataDir && isStateFolder(path, lib),
  )
}

/** What of a service lies where the system cleans up, for people. */
export function fleeting({ command, dataDir, writes }: ServicePlan): string[] {
  const temporary = ['/tmp', '/var/tmp', '/dev/shm', tmpdir()]
  const places = new Set([...command.slice(0, 2), dataDir, ...writes].filter(isAbsolute))
  return [...places].filter(path => temporary.some(folder => liesIn(folder, path)))
}

const wrong = (what: string, hint: string) => new SvcError('invalid_arguments', what, { hint })
