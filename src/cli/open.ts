/** The gateway of a command that does one thing: a second process beside a running service, or alone. */
import type { Config } from '../config.ts'
import { claimDirectory, claimMediaRoot } from '../gateway/directory.ts'
import { openGateway, type RunningGateway } from '../gateway/gateway.ts'
import { lookAtDirectory } from '../inspect/data-directory.ts'
import type { Log } from '../platform/log.ts'
import { spareLoopbackTheProxy } from '../platform/process.ts'
import { version } from '../version.ts'
import { openSandboxFor } from './serving.ts'

export interface Opened {
  readonly gateway: RunningGateway
  /** Of the simulated phone, with --sandbox. */
  readonly phoneUrl?: string
}

/** Whether there is no data directory yet: then there is nothing to see, and a look is not to make one. */
export const isAbsent = async ({ basePath }: Config): Promise<boolean> =>
  (await lookAtDirectory(basePath)).state === 'missing'

/**
 * Opens the data directory for a command; `stack` closes it. With `--sandbox` the simulated WeChat that runs for the
 * directory is used, or one is run as long as the command.
 *
 * @throws SvcError `invalid_arguments` for a directory of another kind, `store_unavailable`
 */
export async function openForCommand(config: Config, log: Log, stack: AsyncDisposableStack): Promise<Opened> {
  spareLoopbackTheProxy()
  await claimDirectory(config)
  await claimMediaRoot(config)
  const sandbox = config.sandbox ? await openSandboxFor(config, log, stack) : undefined
  const gateway = stack.use(
    await openGateway({ ...{ config, log, version, oneShot: true }, sandboxUrl: sandbox?.url }),
  )
  return { gateway, ...(sandbox && { phoneUrl: `${sandbox.url}/phone` }) }
}
