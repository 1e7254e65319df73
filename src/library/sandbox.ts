/** The simulated WeChat of a program that uses one. */
import { localFilesOf } from '../config/local-files.ts'
import { badArgument } from '../model/error.ts'
import { systemClock } from '../platform/clock.ts'
import { bypassProxyForLoopback, isNode } from '../platform/process.ts'
import type { ResolvedOptions } from './options.ts'

/** The simulated WeChat that this program uses. */
export interface UsedSandbox {
  url: string
  /** Stops it, if this program started it, or stops following it. */
  stop?: () => Promise<void>
}

/** Opens the simulated WeChat that the options name; starts one if none runs. */
export async function openSandbox({
  config,
  log,
  sandboxUrl,
}: ResolvedOptions): Promise<UsedSandbox | undefined> {
  if (!config.sandbox) return undefined
  bypassProxyForLoopback()
  if (sandboxUrl !== undefined) return { url: sandboxUrl }
  if (isNode)
    throw badArgument(
      'sandbox',
      'the simulated WeChat needs Bun or Deno, and this program runs on Node: give the address of a running one as sandboxUrl',
      { hint: 'Run `svc sandbox`, and pass the address that it prints as sandboxUrl.' },
    )
  // Loaded only with the sandbox, so that programs for the real WeChat start faster.
  const { followSandbox, startSandbox } = await import('../sandbox/sandbox.ts')
  const options = {
    dir: localFilesOf(config.basePath).sandbox,
    host: '127.0.0.1',
    port: config.sandboxPort,
    clock: systemClock,
    log: log.child('sandbox'),
  }
  return (await followSandbox(options)) ?? startSandbox(options)
}
