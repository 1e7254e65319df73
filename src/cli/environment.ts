/** What was meant and not said: a sandbox that runs while --sandbox was left out, variables that are written wrong. */
import { type Config, configOf, optionTable, unknownVariables } from '../config.ts'
import type { Log } from '../platform/log.ts'
import { againFlags, type Command, meantAmong } from './command.ts'
import { isJson } from './print.ts'
import { colours, oneLine } from './terminal.ts'

const told = new WeakSet<Command>()

/**
 * For users who leave out `--sandbox`, so that they see an empty directory: nothing where a directory was named, where the
 * usual one has a session, or where it was asked for before.
 *
 * @param command its directory is looked at, if it acts on one
 * @param isOffered false: only where a sandbox service runs for this user
 */
export async function forgottenSandbox(command: Command, isOffered = true): Promise<string | undefined> {
  const takes = (name: string) => command.options.some(option => option.attributeName() === name)
  const isElsewhere = againFlags(command) !== '' || command.opts().url !== undefined
  if (told.has(command) || isElsewhere || !takes('basePath') || !takes('sandbox')) return undefined
  told.add(command)
  const [{ lookAtDirectory }, { notedAddresses }] = await Promise.all([
    import('../inspect/data-directory.ts'),
    import('../inspect/healthz.ts'),
  ])
  const { isSandbox, sessions } = await lookAtDirectory(configOf({}).basePath)
  if (isSandbox || sessions > 0) return undefined
  const { basePath } = configOf({ sandbox: true })
  const [running] = await notedAddresses(basePath)
  if (running) return `A sandbox service runs on ${basePath}: to use it add --sandbox.`
  return isOffered ? 'For the simulated WeChat add --sandbox.' : undefined
}

/** Writes that hint to stderr; not beside JSON. */
export async function hintAtSandbox(command: Command, isOffered = true): Promise<void> {
  if (isJson(command)) return
  const hint = await forgottenSandbox(command, isOffered)
  if (hint) await command.io.err.write(`${colours.dim(oneLine(hint))}\n`)
}

/** The variables that svc does not know, each with the one that was meant, where one is near. Their values are left out. */
export const unknownNamed = ({ io }: Command): string[] =>
  unknownVariables(io.env).map(name => {
    const known = optionTable.map(({ env }) => env.slice('SVC_'.length))
    const [meant] = meantAmong(name.slice('SVC_'.length), known)
    return meant === undefined ? name : `${name} (did you mean SVC_${meant}?)`
  })

/** Logs, as a service starts, what may have been meant otherwise. */
export async function warnAtStart(command: Command, log: Log, { sandbox }: Config): Promise<void> {
  for (const name of unknownNamed(command))
    log.warn(`the environment variable ${name} is not known and ignored`)
  const hint = sandbox ? undefined : await forgottenSandbox(command, false)
  if (hint) log.warn(hint)
}
