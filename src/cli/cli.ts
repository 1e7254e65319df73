/** Runs a command line: finds the command, prints help and errors, and returns the exit status. */

import { CommanderError } from 'commander'
import { adoptTimeZone } from '../config/time-zone.ts'
import { type Environment, type Flags, findGivenLogFormat } from '../config.ts'
import { SvcError, withFieldNames } from '../model/error.ts'
import { adviceOf } from '../model/next-step.ts'
import { attempt } from '../platform/fields.ts'
import { reasonOf } from '../platform/system-error.ts'
import { version } from '../version.ts'
import { findCommand, parseHelp, splitLeadingOptions, suggestOption } from './argv.ts'
import {
  addCommand,
  addConfigOptions,
  Command,
  type CommandLine,
  configFrom,
  hideShared,
  parseSuggestions,
  StoppedBySignalError,
  toolDefaults,
  wordingOf,
  wrapToTerminal,
} from './command.ts'
import { commandGroups, isCommand, loadNeededCommands } from './commands.ts'
import { findForgottenSandbox, hintAtSandbox } from './environment.ts'
import { isBadUsage, printError } from './print.ts'
import { BrokenPipeError, type Io, NotPrintedError, processIo } from './terminal.ts'

const epilogue = `
Try it, without an account and without internet:
  svc --sandbox            starts the service with a simulated WeChat and its
                           phone; once an account is logged in, shows the
                           status instead
With WeChat itself:
  svc                      starts the service, shows the QR code to scan, and
                           waits for the first message (options as of svc
                           openapi); once an account is logged in, shows the
                           status instead
Then, in another terminal (with the simulated WeChat add --sandbox to each):
  svc recv --follow        prints what people write, as it arrives
  svc users                lists who has written, and the answers left
  svc send USER "Hello!"   answers one of them
For programs, over HTTP:
  svc openapi              with WeChat itself
  svc openapi --sandbox    with the simulated WeChat

svc <command> --help shows the options of a command, with examples; add --all to see the options that it shares with other commands. Every option of the service can also be set by an environment variable, which its help names.
Exit status: 0 done, 1 failed, 2 wrong usage.`

/**
 * Runs one command line to its end.
 *
 * @param typed the arguments, without the program's name
 * @param io the streams, environment and clock to use
 * @returns exit status: 0 done, 1 failed, 2 wrong usage
 */
export async function runCli(typed: readonly string[], io: Io = processIo()): Promise<number> {
  const { leading, rest } = isBare(typed) ? splitLeadingOptions(typed) : { leading: [], rest: typed }
  const { args: typedArgs, all } = parseHelp(rest)
  let args = typedArgs
  // Help and version are collected and written like every result: commander's own write fails on a closed
  // pipe.
  let helpText = ''
  const program: Command = new Command('svc', io)
    .configureOutput({
      writeOut: text => {
        helpText += text
      },
    })
    .description('WeChat bot accounts as tools: in the shell, over HTTP, and for agents over MCP.')
    .version(version, '-v, --version', 'print the version')
    .helpOption('-h, --help', 'show help')
    .enablePositionalOptions()
    .showSuggestionAfterError()
    .addHelpText('after', () => wrapToTerminal(program, epilogue))
  const line: CommandLine = {
    program,
    loadCommands: loadNeededCommands,
    printHint: command => hintAtSandbox(command),
    status: 0,
  }
  if (isBare(args)) addQuickStart(line, args.length > 0 || io.out.isTerminal)
  else for (const spec of await loadNeededCommands(args)) addCommand(line, spec)
  for (const command of program.commands) {
    const group = Object.entries(commandGroups).find(([, words]) => command.name() in words)
    if (group) command.helpGroup(group[0])
    const more = command
      .createHelp()
      .visibleCommands(command)
      .map(one => one.name())
      .join(', ')
    if (more) command.summary(`${command.summary()}; also ${more}`)
  }
  if (!all) hideShared(program)
  const known = args.find(isCommand)
  let help = `${known ? `svc ${known}` : 'svc'} --help`
  let named = program

  try {
    adoptTimeZone()
    if (!isBare(args)) {
      const { command, path } = findCommand(program, args)
      named = command
      help = ['svc', ...path, '--help'].join(' ')
      args = [...path, ...leading, ...args.slice(path.length)]
    }
    await program.parseAsync([...args], { from: 'user' }).catch(ignoreShownHelp)
    if (helpText) await io.out.write(helpText)
    await printHintAfter(line)
  } catch (error) {
    // You know that you pressed Ctrl-C, so no error is printed.
    if (error instanceof StoppedBySignalError) line.stopSignal = error.signal
    else if (error instanceof NotPrintedError && line.changeMade)
      io.err.print(formatUnprinted(line.changeMade, error, args.includes('--json')))
    else {
      const status = await printFailure(error, line, { help, args, named })
      // A hook that exits with 2 blocks the agent.
      return known?.startsWith('hook-') ? Math.min(status, 1) : status
    }
  }
  // The process ends by the signal itself, so that a loop in a shell ends too.
  if (line.stopSignal) io.die(line.stopSignal)
  return line.status
}

/** Formats the line about a change that was made although its result could not be printed. */
const formatUnprinted = (done: string, { problem: detail }: NotPrintedError, json: boolean): string =>
  json ? JSON.stringify({ done, detail }) : `${done}, but ${detail}`

/** Ignores the error of status 0 that commander throws after help and version. @throws every other error */
function ignoreShownHelp(error: unknown): void {
  if (!(error instanceof CommanderError) || error.exitCode !== 0) throw error
}

/** Prints the hint at a forgotten `--sandbox` at the end of a command. */
async function printHintAfter({ activeSpec, stopSignal, activeCommand, status }: CommandLine): Promise<void> {
  const isDone = status === 0
  if (
    !activeCommand ||
    !activeSpec ||
    activeSpec.isServer ||
    stopSignal ||
    activeSpec.noSandboxHint === 'ever'
  )
    return
  if (isDone && activeSpec.noSandboxHint === 'done') return
  // A command that failed, or that acts on accounts ('tool'), gets the hint even if no sandbox service runs.
  await hintAtSandbox(activeCommand, !isDone || activeSpec.config === 'tool')
}

/** Returns true if no command was typed: `svc` alone, or with options only. */
const isBare = ([first = '-']: readonly string[]): boolean =>
  first.startsWith('-') && !['-h', '--help', '-v', '--version'].includes(first)

/** Adds the action of `svc` alone: the quick start, or the help if that does nothing. */
function addQuickStart(line: CommandLine, mayServe: boolean): void {
  const { program } = line
  addConfigOptions(program, 'openapi').action(async () => {
    line.activeCommand = program
    line.activeSpec = { isServer: true }
    const config = configFrom(program, {}, toolDefaults)
    const { quickStart } = await import('./quick-start.ts')
    if (!(await quickStart(config, program, mayServe))) line.status = await runCli(['--help'], program.io)
  })
}

/**
 * Reads commander's message, which is all that its error has, and improves its suggestion where svc knows
 * better.
 */
function describeUsageError(
  { code, message }: CommanderError,
  command: Command,
): { problem: string; meant: string[] } {
  const text = message
    .replace(/^error: /, '')
    .replace(/\n/g, ' ')
    .replace(/[.]$/, '')
  const unknown = /^unknown option '([^']+)'/.exec(text)
  const option = unknown?.[1] && suggestOption(command, unknown[1])
  if (option) return { problem: `${unknown?.[0]} (Did you mean ${option}?)`, meant: [option] }
  if (code !== 'commander.excessArguments') return { problem: text, meant: parseSuggestions(text) }
  const [below] = command.commands
  if (below) {
    const line = `svc ${command.name()} ${below.name()}`
    return { problem: `${text} (Did you mean ${line}?)`, meant: [line] }
  }
  const last = command.registeredArguments.at(-1)?.name() ?? ''
  const quoted = `too many arguments for '${command.name()}': put the ${last} in quotes, as in 'two words'`
  return { problem: multiWordArguments.includes(last) ? quoted : text, meant: [] }
}

/** Arguments that may be several words. */
const multiWordArguments = ['text', 'name']

/**
 * Converts an error of commander to an SvcError: `details` has the field, the problem and the suggestions.
 */
function toUsageError(error: CommanderError, command: Command): SvcError {
  const { problem, meant } = describeUsageError(error, command)
  const [, word = ''] = /'([^']+)'/.exec(problem) ?? []
  const field =
    error.code === 'commander.missingArgument' ? `<${word}>` : (/--[\w-]+/.exec(word)?.[0] ?? word)
  const details = { errors: [{ field, problem }], ...(meant.length > 0 && { meant }) }
  return new SvcError('invalid_arguments', problem, { details })
}

/** Returns the error with its fields as they were typed: `-n` if `--limit` was not typed. */
const withShort = (error: SvcError, { options }: Command, typed: readonly string[]): SvcError =>
  withFieldNames(error, ({ field, problem }) => {
    const short = options.find(({ long }) => long === field)?.short
    const isLong = typed.some(word => word === field || word.startsWith(`${field}=`))
    const isShort = short !== undefined && !isLong && typed.some(word => word.startsWith(short))
    return { field: isShort ? short : field, problem }
  })

/** Converts Deno's error about a missing permission. Only the error's message names the permission. */
function toDenoDenial(error: unknown): SvcError | undefined {
  if (!(error instanceof Error) || !['NotCapable', 'PermissionDenied'].includes(error.name)) return undefined
  const permission = /^Requires (.+), run again with /.exec(error.message)?.[1]
  return permission === undefined
    ? undefined
    : new SvcError('forbidden', `Deno denies ${permission}`, {
        hint: 'Start it with deno run -A.',
        cause: error,
      })
}

/** Returns true if the log is JSON. Returns false if Deno does not allow svc to read the environment. */
const isJsonLog = (flags: Flags, env: Environment): boolean =>
  attempt(() => findGivenLogFormat(flags, env)) === 'json'

/** Prints an error to stderr, as one line or one JSON object. @returns the exit status */
async function printFailure(
  thrown: unknown,
  { activeSpec, activeCommand }: CommandLine,
  { help, args, named }: { help: string; args: readonly string[]; named: Command },
): Promise<number> {
  const { env, err } = named.io
  const asLog = activeCommand && activeSpec?.isServer && isJsonLog(activeCommand.opts<Flags>(), env)
  const json = asLog ? 'log' : args.includes('--json')
  const denied = toDenoDenial(thrown) ?? thrown
  const error = denied instanceof SvcError ? withShort(denied, named, args) : denied
  if (error instanceof CommanderError) {
    printError(err, toUsageError(error, named), `See ${help}.`, json)
    return 2
  }
  if (error instanceof SvcError) {
    // The hint is about a forgotten `--sandbox`, which selects the wrong data directory. Wrong usage gets no
    // hint, because it is wrong in every directory. An unknown name gets it (its advice is to log in).
    const isOfDirectory = !isBadUsage(error) || error.advice.next?.action === 'login'
    const isHinted = activeCommand !== undefined && isOfDirectory && activeSpec?.noSandboxHint !== 'ever'
    // Deno may not allow svc to read the directory. Then the error is printed without the hint.
    const more =
      isHinted && (await findForgottenSandbox(activeCommand, !activeSpec?.isServer).catch(() => undefined))
    printError(
      err,
      error,
      [adviceOf(error, wordingOf(activeCommand, help)), more].filter(Boolean).join(' '),
      json,
    )
    return isBadUsage(error) ? 2 : 1
  }
  // The reader closed the pipe: exit 0.
  if (error instanceof BrokenPipeError) return 0
  // An error of the operating system is no bug in svc.
  const fromSystem = error instanceof Error && 'syscall' in error
  const path = fromSystem && 'path' in error ? `${error.path}: ` : ''
  const system = fromSystem ? `${path}${reasonOf(error)}` : undefined
  const hint = fromSystem
    ? 'Check the path, its permissions and the free space.'
    : 'This is a bug in svc; please report it.'
  printError(
    err,
    new SvcError('internal', system ?? (error instanceof Error ? error.message : String(error))),
    hint,
    json,
  )
  if (error instanceof Error && !fromSystem && !asLog && err.isTerminal) err.print(String(error.stack))
  return 1
}
