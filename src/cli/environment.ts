/**
 * Hints about likely mistakes: a forgotten `--sandbox` while a sandbox service runs, and misspelled SVC_
 * variables.
 */
import { type Config, configFromValues, listUnknownVariables, optionTable } from '../config.ts'
import type { Log } from '../platform/log.ts'
import { type Command, directoryFlagsOf, findSimilar } from './command.ts'
import { isJson } from './print.ts'
import { colours, oneLine } from './terminal.ts'

/** Commands that were already checked: the hint is given once. */
const checkedCommands = new WeakSet<Command>()

/**
 * Returns a hint for users who leave out `--sandbox` and therefore see an empty directory.
 *
 * @param command the command; one that takes no data directory or no `--sandbox` gets no hint
 * @param isOffered false: give the hint only if a sandbox service of this user runs
 * @returns undefined if the command names a directory or a store on PostgreSQL, if the default directory has a session or is a
 *   sandbox, or if this was already called for the command
 */
export async function findForgottenSandbox(command: Command, isOffered = true): Promise<string | undefined> {
  const takes = (name: string) => command.options.some(option => option.attributeName() === name)
  const { storeUrlFile = command.io.env.SVC_STORE_URL_FILE, url } = command.opts()
  const isOnPostgres = (storeUrlFile || command.io.env.SVC_STORE_URL) !== undefined
  const isElsewhere = directoryFlagsOf(command) !== '' || url !== undefined || isOnPostgres
  if (checkedCommands.has(command) || isElsewhere || !takes('basePath') || !takes('sandbox')) return undefined
  checkedCommands.add(command)
  const [{ inspectDirectory }, { listNotedAddresses }] = await Promise.all([
    import('../inspect/data-directory.ts'),
    import('../inspect/healthz.ts'),
  ])
  const { isSandbox, sessions } = await inspectDirectory(configFromValues({}).basePath)
  if (isSandbox || sessions > 0) return undefined
  const { basePath } = configFromValues({ sandbox: true })
  const [running] = await listNotedAddresses(basePath)
  if (running) return `A sandbox service runs on ${basePath}: to use it add --sandbox.`
  return isOffered ? 'For the simulated WeChat add --sandbox.' : undefined
}

/** Writes the hint of `findForgottenSandbox` to stderr, but not with `--json`. */
export async function hintAtSandbox(command: Command, isOffered = true): Promise<void> {
  if (isJson(command)) return
  const hint = await findForgottenSandbox(command, isOffered)
  if (hint) await command.io.err.write(`${colours.dim(oneLine(hint))}\n`)
}

/**
 * Returns the names of unknown SVC_ variables, each with a similar known name if there is one. Leaves out
 * values.
 */
export const describeUnknownVariables = ({ io }: Command): string[] =>
  listUnknownVariables(io.env).map(name => {
    const known = optionTable.map(({ env }) => env.slice('SVC_'.length))
    const [meant] = findSimilar(name.slice('SVC_'.length), known)
    return meant === undefined ? name : `${name} (did you mean SVC_${meant}?)`
  })

/** Logs likely mistakes at the start of a service: unknown variables, a forgotten `--sandbox`. */
export async function warnAtStart(command: Command, log: Log, { sandbox }: Config): Promise<void> {
  for (const name of describeUnknownVariables(command))
    log.warn(`the environment variable ${name} is not known and ignored`)
  const hint = sandbox ? undefined : await findForgottenSandbox(command, false)
  if (hint) log.warn(hint)
}
