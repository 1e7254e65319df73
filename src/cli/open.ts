/**
 * Opens the gateway for a command that does one thing, alone or beside a running service, and makes the call
 * that Ctrl-C aborts.
 */
import { access, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Config } from '../config.ts'
import { claimDirectory } from '../gateway/directory.ts'
import { openGateway, type RunningGateway } from '../gateway/gateway.ts'
import { inspectDirectory } from '../inspect/data-directory.ts'
import type { StoreChange } from '../model/audit.ts'
import { type Call, createDirectCall } from '../model/call.ts'
import { badArgument, type ErrorCode, SvcError } from '../model/error.ts'
import { formatPrincipal, owner } from '../model/principal.ts'
import { sessionNotFoundError } from '../model/session.ts'
import { isUserId } from '../model/user-id.ts'
import { invoke } from '../operations/gate.ts'
import { createLog, type Log } from '../platform/log.ts'
import { bypassProxyForLoopback, findSystemUser, type StopSignal } from '../platform/process.ts'
import type { NewAuditLine } from '../storage/audit.ts'
import { version } from '../version.ts'
import { type Command, StoppedBySignalError, toolConfig } from './command.ts'
import { openSandboxFor } from './serving.ts'
import type { Io } from './terminal.ts'
import type { Ask } from './view.ts'

/** A data directory opened for one command. */
export interface OpenedGateway extends AsyncDisposable {
  readonly gateway: RunningGateway
  readonly log: Log
  /** True if this command made the data directory. */
  readonly isNew: boolean
  /** Address of the simulated phone, with `--sandbox`. */
  readonly phoneUrl?: string
}

type OpenSandbox = (...args: Parameters<typeof openSandboxFor>) => Promise<{ url: string }>

/**
 * Returns true if there is no data directory, and no store on PostgreSQL. A command that only reads must not make a
 * directory.
 */
export const isAbsent = async ({ basePath, storeUrl }: Config): Promise<boolean> =>
  storeUrl === undefined && (await inspectDirectory(basePath)).state === 'missing'

/**
 * Rejects a session or a user's name as a filter if there is no data directory: there are no sessions and no
 * names.
 *
 * @throws SvcError the same errors as with an empty data directory
 */
export function rejectAbsent({ session, user }: { session?: unknown; user?: unknown }): void {
  const next = { action: 'login' } as const
  if (typeof session === 'string') throw sessionNotFoundError(session, { next })
  if (typeof user === 'string' && !isUserId(user))
    throw badArgument('user_id', 'expected a user id: nobody has a name yet', { next })
}

interface OpenOptions {
  createsDirectory?: true
  absentCode?: ErrorCode
  onlyReads?: boolean
  openSandbox?: OpenSandbox
}

/**
 * Opens the data directory for a command; disposing closes it. With `--sandbox` it uses the simulated WeChat
 * that runs for the directory, or runs one as long as the command.
 *
 * @param options.createsDirectory true: make a missing directory
 * @param options.onlyReads no folder is made: one that is missing is replaced by one that is removed at the end
 * @param options.absentCode error code for a missing directory; `not_connected` by default
 * @throws SvcError `invalid_arguments` for a directory of another kind, `absentCode` for a missing one,
 *   `store_unavailable`
 */
export async function openForCommand(
  given: Config,
  io: Io,
  options: OpenOptions = {},
): Promise<OpenedGateway> {
  const { createsDirectory, absentCode = 'not_connected', onlyReads, openSandbox = openSandboxFor } = options
  if (!createsDirectory && (await isAbsent(given)))
    throw new SvcError(absentCode, `there is no data directory ${given.basePath}`, {
      hint: 'Name the one that is meant with --base-path.',
      next: { action: 'login' },
    })
  bypassProxyForLoopback()
  await using stack = new AsyncDisposableStack()
  const config = onlyReads ? await withFolders(given, stack) : given
  const log = createLog(config.logLevel, io.log, config.logFormat)
  const isNew = await claimDirectory(config)
  const sandbox = config.sandbox ? await openSandbox(config, log, stack, io) : undefined
  const gateway = stack.use(
    await openGateway({ config, log, version, oneShot: true, sandboxUrl: sandbox?.url, wallClock: io.clock }),
  )
  return Object.assign(stack.move(), { gateway, log, isNew, phoneUrl: sandbox && `${sandbox.url}/phone` })
}

/** Replaces the folders that are missing by some that are removed when the stack is disposed of. */
async function withFolders(config: Config, stack: AsyncDisposableStack): Promise<Config> {
  const { basePath, mediaRoot } = config
  const [hasBase, hasMedia] = await Promise.all([basePath, mediaRoot].map(isThere))
  if (hasBase && hasMedia) return config
  const folder = await mkdtemp(join(tmpdir(), 'svc-'))
  stack.defer(() => rm(folder, { recursive: true, force: true }))
  return {
    ...config,
    basePath: hasBase ? basePath : folder,
    mediaRoot: hasMedia ? mediaRoot : join(folder, 'media'),
  }
}

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )

/**
 * Reads the settings of a command that only reads. The directory of a sandbox implies `--sandbox`, also in
 * the command lines that this command proposes.
 */
export async function configToRead(command: Command): Promise<Config> {
  const config = toolConfig(command)
  if (config.sandbox || !(await inspectDirectory(config.basePath)).isSandbox) return config
  command.setOptionValue('sandbox', true)
  return { ...config, sandbox: true }
}

/** Returns the address of a call of the command line. */
export const commandAddress = () => `cli:${findSystemUser()}`

/**
 * Returns the line about a change of the whole store, which a command makes while no gateway has the store open.
 */
export const auditLineOf = ({ io }: Command, operation: StoreChange | 'backup'): NewAuditLine => ({
  at: io.clock.now(),
  principal: formatPrincipal(owner),
  operation,
  outcome: 'done',
  address: commandAddress(),
})

/** The call of one command. Disposing removes the signal handlers. */
interface CommandCall extends Call, Disposable {
  /** The signal that aborted it; undefined if none did. */
  readonly stopSignal: StopSignal | undefined
  /** Aborts it without a signal. */
  end(): void
  /** Reports whether the result was written. */
  done(delivered: boolean): void
}

/** Returns a function that runs operations on the opened directory as this call. */
export const createAsk =
  ({ gateway, log }: Pick<OpenedGateway, 'gateway' | 'log'>, call: Call): Ask =>
  (operation, input) =>
    invoke(operation, gateway, input, call, log)

/** Creates a call that the first SIGINT or SIGTERM aborts. A second signal ends the process. */
export function commandCall(io: Io, more: Pick<Call, 'progress' | 'ask' | 'onward'> = {}): CommandCall {
  const stop = new AbortController()
  let stopSignal: CommandCall['stopSignal']
  const forget = io.onStop(signal => {
    stopSignal = signal
    stop.abort(new StoppedBySignalError(signal))
  })
  return {
    ...more,
    ...createDirectCall({ address: commandAddress(), signal: stop.signal }),
    end: () => stop.abort(),
    get stopSignal() {
      return stopSignal
    },
    [Symbol.dispose]: forget,
  }
}
