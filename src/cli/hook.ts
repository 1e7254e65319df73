/** Opens the data directory for a hook of an agent program, which must not wait and leaves no trace. */
import { localFilesOf } from '../config/local-files.ts'
import { withSecrets } from '../config/secrets.ts'
import { type Config, type Flags, findCredentials, readConfig } from '../config.ts'
import { inspectDirectory } from '../inspect/data-directory.ts'
import type { Command } from './command.ts'
import { type OpenedGateway, openForCommand } from './open.ts'

/** @returns undefined for a directory that is not used: a hook may run long before anyone logs in */
export async function openForHook(command: Command): Promise<OpenedGateway | undefined> {
  const { env } = command.io
  const config = withSecrets(
    readConfig(command.opts<Flags>(), env, { logLevel: 'ERROR' }),
    findCredentials(env),
  )
  // An unused directory is left alone. It says nothing about a shared store.
  if (config.storeUrl === undefined && !(await inspectDirectory(config.basePath)).isUsed) return undefined
  return openForCommand(config, command.io, { openSandbox: joinRunningSandbox })
}

/** Returns the directory's simulated WeChat if it runs. None is started for one hook. */
async function joinRunningSandbox(config: Config): Promise<{ url: string }> {
  const { joinSandbox } = await import('../sandbox/sandbox.ts')
  // A port that nobody uses: messages in the store are read without WeChat.
  return (await joinSandbox(localFilesOf(config.basePath).sandbox)) ?? { url: 'http://127.0.0.1:9' }
}
