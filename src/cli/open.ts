/** What a command that does one thing works with: the gateway, a second process beside a running service or alone, and a call that Ctrl-C cuts off. */
import type { Config } from '../config.ts'
import { claimDirectory } from '../gateway/directory.ts'
import { openGateway, type RunningGateway } from '../gateway/gateway.ts'
import { lookAtDirectory } from '../inspect/data-directory.ts'
import { type Call, directCall } from '../model/call.ts'
import { badArgument, type ErrorCode, SvcError } from '../model/error.ts'
import { sessionNotFound } from '../model/session.ts'
import { invoke } from '../operations/gate.ts'
import { createLog, type Log } from '../platform/log.ts'
import { type StopSignal, spareLoopbackTheProxy } from '../platform/process.ts'
import { isUserId } from '../send/plan.ts'
import { version } from '../version.ts'
import { type Command, CutShort, toolConfig } from './command.ts'
import { openSandboxFor } from './serving.ts'
import type { Io } from './terminal.ts'
import type { Ask } from './view.ts'

export interface Opened extends AsyncDisposable {
  readonly gateway: RunningGateway
  readonly log: Log
  /** Of the simulated phone, with --sandbox. */
  readonly phoneUrl?: string
}

type SandboxOf = (...given: Parameters<typeof openSandboxFor>) => Promise<{ url: string }>

/** Whether there is no data directory yet: then there is nothing to see, and a look is not to make one. */
export const isAbsent = async ({ basePath }: Config): Promise<boolean> =>
  (await lookAtDirectory(basePath)).state === 'missing'

/** What a look there is asked to choose by: no session is there, and nobody has a name. @throws SvcError as where there is one */
export function refuseAbsent({ session, user }: { session?: unknown; user?: unknown }): void {
  const next = { action: 'login' } as const
  if (typeof session === 'string') throw sessionNotFound(session, { next })
  if (typeof user === 'string' && !isUserId(user))
    throw badArgument('user_id', 'expected a user id: nobody has a name yet', { next })
}

interface OpenOptions {
  makes?: true
  absent?: ErrorCode
  sandboxOf?: SandboxOf
}

/**
 * Opens the data directory for a command, until it is disposed of. With `--sandbox` the simulated WeChat that runs for the
 * directory is used, or one is run as long as the command.
 *
 * @param options.makes whether a directory that is not there is made: by a mistyped name that is not what was meant
 * @throws SvcError `invalid_arguments` for a directory of another kind, `absent` where there is none, `store_unavailable`
 */
export async function openForCommand(config: Config, io: Io, options: OpenOptions = {}): Promise<Opened> {
  const { makes, absent = 'not_connected', sandboxOf = openSandboxFor } = options
  if (!makes && (await isAbsent(config)))
    throw new SvcError(absent, `there is no data directory ${config.basePath}`, {
      hint: 'Name the one that is meant with --base-path.',
      next: { action: 'login' },
    })
  spareLoopbackTheProxy()
  await using stack = new AsyncDisposableStack()
  const log = createLog(config.logLevel, io.log, config.logFormat)
  await claimDirectory(config)
  const sandbox = config.sandbox ? await sandboxOf(config, log, stack) : undefined
  const gateway = stack.use(
    await openGateway({ config, log, version, oneShot: true, sandboxUrl: sandbox?.url }),
  )
  return Object.assign(stack.move(), { gateway, log, phoneUrl: sandbox && `${sandbox.url}/phone` })
}

/**
 * The settings of a command that only reads: without `--sandbox` it takes the directory as what it is, and so do the
 * command lines that it proposes.
 */
export async function configToRead(command: Command): Promise<Config> {
  const config = toolConfig(command)
  if (config.sandbox || !(await lookAtDirectory(config.basePath)).isSandbox) return config
  command.setOptionValue('sandbox', true)
  return { ...config, sandbox: true }
}

/** The call of one command; disposing takes the signal handlers away. */
interface CommandCall extends Call, Disposable {
  /** The signal that ended it, if one did. */
  readonly cutBy: StopSignal | undefined
  /** Aborts it without a signal from outside. */
  end(): void
  /** The answer was written, or not. */
  done(delivered: boolean): void
}

/** Calls operations of what was opened, each as this call. */
export const asker =
  ({ gateway, log }: Pick<Opened, 'gateway' | 'log'>, call: Call): Ask =>
  (operation, input) =>
    invoke(operation, gateway, input, call, log)

/** A call whose first SIGINT or SIGTERM aborts it; a second one ends the process. */
export function commandCall(io: Io, more: Pick<Call, 'progress' | 'ask' | 'onward'> = {}): CommandCall {
  const stop = new AbortController()
  let cutBy: CommandCall['cutBy']
  const forget = io.onStop(signal => {
    cutBy = signal
    stop.abort(new CutShort(signal))
  })
  return {
    ...more,
    ...directCall({ signal: stop.signal }),
    end: () => stop.abort(),
    get cutBy() {
      return cutBy
    },
    [Symbol.dispose]: forget,
  }
}
