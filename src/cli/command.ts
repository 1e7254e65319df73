/**
 * Base of all commands: their declaration, options from the table in config, exit status, and the command
 * lines that svc proposes.
 */

import { Argument, Command as Commander, Option } from 'commander'
import { withSecrets } from '../config/secrets.ts'
import {
  type CommandName,
  type Config,
  type ConfigDefaults,
  type Flags,
  findCredentials,
  findGivenPlace,
  optionTable,
  readConfig,
  rejectUnreadSecrets,
} from '../config.ts'
import { quoteProposed } from '../inspect/advised-commands.ts'
import { badArgument, SvcError, withFieldNames } from '../model/error.ts'
import type { Wording } from '../model/next-step.ts'
import { quoteForShell } from '../platform/format.ts'
import type { StopSignal } from '../platform/process.ts'
import type { Io } from './terminal.ts'

/** A command with its subcommands, and the streams that they use. */
export class Command extends Commander {
  declare readonly commands: readonly Command[]
  readonly io: Io
  /**
   * Values of the flags that form a series (`send --text … --image …`), in the typed order: input key and
   * value.
   */
  readonly series: [key: string, value: string][] = []
  /** The typed input of the operation, unchecked. */
  input: Readonly<Record<string, unknown>> = {}

  constructor(name: string, io: Io) {
    super(name)
    this.io = io
    silenceOutput(this).helpCommand(false)
    this.configureOutput({ getOutHelpWidth: () => io.out.columns ?? 80 })
  }

  override createCommand(name = ''): Command {
    return new Command(name, this.io)
  }
}

/** A command line that is being run. */
export interface CommandLine {
  /** The root command. */
  readonly program: Command
  /** Loads the commands that these arguments need. */
  loadCommands(args: readonly string[]): Promise<CommandSpec[]>
  /** Prints once that `--sandbox` may be missing. */
  printHint?(command: Command): Promise<void>
  /** Exit status of a run that throws nothing: 0 done, 1 failed. */
  status: number
  /**
   * What the command has changed so far, such as `sent`. It counts as done even if its result cannot be
   * printed.
   */
  changeMade?: string
  /** The command that runs. Set when it starts. */
  activeCommand?: Command
  /** Declaration of that command. */
  activeSpec?: Pick<CommandSpec, 'config' | 'isServer' | 'noSandboxHint'>
  /**
   * The signal that ended the run. The process then ends by this signal, so that a loop in a shell ends too.
   */
  stopSignal?: StopSignal
}

/** Abort reason of a call that a signal ended. */
export class StoppedBySignalError extends SvcError {
  readonly signal: StopSignal

  constructor(by: StopSignal) {
    super('shutting_down', `stopped by ${by}; nothing more was sent`)
    this.signal = by
  }
}

/** Declaration of a command. The code that runs it is loaded when it runs. */
export interface CommandSpec {
  /** The words that name the command, such as `webhook add`. */
  words: string
  /** An optional further word without effect: `svc webhook list` is `svc webhook`. */
  alias?: string
  summary: string
  /** Left out of the help: for programs. */
  hidden?: true
  /** Description in the help. Default: the summary. */
  about?: string
  /** Name under which the table in config lists the options of this command. */
  config?: CommandName
  /** Help texts that replace those of the table. */
  ownHelp?: OwnHelp
  /** Runs until a signal, and writes log lines. */
  isServer?: true
  /**
   * Suppresses the hint at a forgotten `--sandbox`. `'ever'`: always, since the command has another
   * directory or a program calls it. `'done'`: if the command succeeds.
   */
  noSandboxHint?: 'ever' | 'done'
  /** Returns true if the command runs for long with these options. Then the `--sandbox` hint comes first. */
  isLasting?(command: Command): boolean
  /** Adds further arguments and options. */
  addOptions?(command: Command): unknown
  /** Help text of `--json`. Without it the command has no `--json`. */
  jsonHelp?: string
  examples: readonly (readonly [line: string, does: string])[]
  /** Text below the examples, such as this command's own meaning of the exit status. */
  helpFooter?: string
  /** Rewords an error for the command line, if `withTypedNames` is not enough. */
  reword?(error: SvcError, command: Command): SvcError
  /** @returns the exit status, or anything that is no number for 0 */
  run(command: Command, line: CommandLine): Promise<unknown>
}

/** Defaults of a command that does one thing: few log lines between its output. */
export const toolDefaults: ConfigDefaults = { logLevel: 'WARNING' }

/**
 * Adds a command under the commands that its first words name. Options after its last word are its own; its
 * parent does not take them.
 */
export function addCommand(line: CommandLine, spec: CommandSpec): void {
  const { about = spec.summary, alias, examples, words } = spec
  const path = words.split(' ')
  const word = path.pop() ?? ''
  const parent = path.reduce(
    (above, name) => above.commands.find(one => one.name() === name) ?? above,
    line.program,
  )
  const command = parent.command(word, { hidden: spec.hidden }).summary(spec.summary).description(about)
  spec.addOptions?.(command)
  if (spec.jsonHelp) command.option('--json', spec.jsonHelp)
  if (spec.config) addConfigOptions(command, spec.config, spec.ownHelp)
  const exampleText = examples.map(([line, does]) => `  # ${does}\n  ${line}\n`).join('')
  const status = `Exit status: 0 done, 1 failed, 2 wrong usage.${spec.helpFooter ? `\n${spec.helpFooter}` : ''}`
  command.addHelpText(
    'after',
    () => `${exampleText && `\nExamples:\n${exampleText}`}\n${wrapToTerminal(command, status)}`,
  )
  command.action(async () => {
    line.activeCommand = command
    line.activeSpec = spec
    takeOptionsOfParents(command)
    rejectEmptyName(command)
    if (spec.isLasting?.(command)) await line.printHint?.(command)
    const status = await spec.run(command, line).catch(error => {
      throw error instanceof SvcError
        ? (spec.reword?.(error, command) ?? withTypedNames(command, error))
        : error
    })
    if (typeof status === 'number') line.status = status
  })
  if (alias) {
    const lines = examples.map(([line, does]) => [`${line} ${alias}`, does] as const)
    addCommand(line, { ...spec, words: `${words} ${alias}`, alias: undefined, hidden: true, examples: lines })
  }
}

/**
 * Gives a subcommand the options that were typed before its name: `svc users -d DIR name …`.
 *
 * @throws SvcError `invalid_arguments` for an option that the subcommand does not have
 */
function takeOptionsOfParents(command: Command): void {
  for (let parent = command.parent; parent; parent = parent.parent)
    for (const option of parent.options) {
      const name = option.attributeName()
      if (parent.getOptionValueSource(name) !== 'cli') continue
      if (!command.options.some(own => own.attributeName() === name))
        throw badArgument(
          option.long ?? option.flags,
          `"${parent.name()} ${command.name()}" does not have this option`,
        )
      if (command.getOptionValueSource(name) !== 'cli')
        command.setOptionValueWithSource(name, parent.getOptionValue(name), 'cli')
    }
}

/** Arguments and option values that name something. */
const nameArguments = ['id', 'message-id', 'session', 'old-name', 'user']

/**
 * Rejects an empty name: it does not mean "no name" but comes from an unset variable of a script.
 *
 * @throws SvcError `invalid_arguments`
 */
function rejectEmptyName(command: Command): void {
  const opts = command.opts<Flags>()
  const options = command.options.map(option => ({
    typed: option.long ?? option.flags,
    name: /<([^>]+)>/.exec(option.flags)?.[1],
    value: opts[option.attributeName()],
  }))
  const words = command.registeredArguments.map((argument, nth) => ({
    typed: `<${argument.name()}>`,
    name: argument.name(),
    value: command.args[nth],
  }))
  const empty = [...words, ...options].find(
    ({ name = '', value }) => value === '' && nameArguments.includes(name),
  )
  if (empty) throw badArgument(empty.typed, 'expected a name or id, got an empty one')
}

/** Makes commander throw wrong usage instead of printing it: `runCli` prints all errors in one form. */
export const silenceOutput = <C extends Commander>(command: C): C =>
  command
    .exitOverride()
    .configureOutput({ outputError: () => {} })
    // Beside a long subcommand a narrow terminal has less space than commander's minimum of 40 columns.
    .configureHelp({ minWidthToWrap: 15 })

/** Wraps help text to the width of the terminal. */
export const wrapToTerminal = (command: Command, text: string): string =>
  command.createHelp().boxWrap(text, command.io.out.columns ?? 80)

/** Help texts of one command, by option, that replace those of the table. */
type OwnHelp = { readonly [Name in keyof Config]?: string }

const sharedHeading = 'Shared options:'
/** Shared options that newcomers need. */
const newcomerOptions = ['--base-path', '--sandbox', '--port']

/** Hides most shared options in the help of a command and its subcommands, and says how to see them. */
export function hideShared(command: Command): void {
  for (const one of command.commands) hideShared(one)
  for (const option of command.options.filter(({ helpGroupHeading }) => helpGroupHeading === sharedHeading))
    if (newcomerOptions.includes(option.long ?? ''))
      option.helpGroup('Shared options (all of them: --help --all):')
    else option.hideHelp()
}

/** Adds the options of `name` from the table in config. */
export function addConfigOptions<C extends Commander>(command: C, name: CommandName, own: OwnHelp = {}): C {
  for (const spec of optionTable) {
    if (!spec.flag || !spec.commands.includes(name)) continue
    const flags = `${spec.short ? `${spec.short}, ` : ''}${spec.flag}${spec.placeholder ? ` ${spec.placeholder}` : ''}`
    const presetText =
      (name === 'tool' ? toolDefaults[spec.name] : undefined) ??
      spec.displayedDefault ??
      (typeof spec.default === 'string' && spec.default !== '' ? spec.default : undefined)
    const help = own[spec.name] ?? `${spec.help}${presetText ? ` (${presetText})` : ''}`
    const option = new Option(flags, `${help} [${spec.env}]`)
    if (spec.repeatable)
      option.argParser((value: string, before: string[] | undefined) => [...(before ?? []), value])
    // Shared options come after the command's own.
    if (command.name() !== name) option.helpGroup(sharedHeading)
    command.addOption(option)
  }
  return command
}

/**
 * Reads the Config from a command's options, its environment and the defaults.
 *
 * @param preset values that the command sets itself
 * @param defaults defaults that replace those of the table
 * @throws SvcError `invalid_arguments` naming the option
 */
export function configFrom(command: Command, preset: Flags = {}, defaults: ConfigDefaults = {}): Config {
  const flags = new Set(command.options.map(({ long }) => long))
  rejectUnreadSecrets(
    command.io.env,
    optionTable.filter(({ flag }) => flag !== undefined && flags.has(flag)),
  )
  return readConfig({ ...command.opts<Flags>(), ...preset }, command.io.env, defaults)
}

/** Reads the Config as `configFrom` does, with the secret key in `secretKey`. For commands that read secrets. */
export const keyedConfig = (command: Command, preset?: Flags, defaults?: ConfigDefaults): Config =>
  withSecrets(configFrom(command, preset, defaults), findCredentials(command.io.env))

/**
 * Reads the settings of a command that does one thing: few log lines, and its own sandbox takes any free
 * port.
 */
export const toolConfig = (command: Command): Config =>
  keyedConfig(command, { port: '0', sandboxPort: '0' }, toolDefaults)

/**
 * Creates an argument that takes one of these values.
 *
 * @throws SvcError `invalid_arguments` for another value
 */
export const createChoice = (name: string, about: string, values: readonly string[]) =>
  new Argument(name, about).choices(values).argParser<string>(value => {
    if (values.includes(value)) return value
    const meant = findSimilar(value, values)
    // If every value is similar, the list above is enough.
    const guess =
      meant.length > 0 && meant.length < values.length ? ` (Did you mean ${meant.join(' or ')}?)` : ''
    throw badArgument(name, `expected one of ${values.join(', ')}, got '${value}'${guess}`, {
      ...(guess && { details: { meant } }),
    })
  })

/**
 * An option that takes several of these values, separated by commas. The command that reads the value checks
 * it.
 */
export class ListOption extends Option {
  constructor(flags: string, about: string, values: readonly string[]) {
    super(flags, about)
    this.argChoices = [...values]
  }
}

/** Returns the words that begin with this one; if none does, those that commander finds similar. */
export function findSimilar(word: string, words: readonly string[]): readonly string[] {
  const longer = words.filter(one => word !== '' && one.startsWith(word))
  if (longer.length > 0) return longer
  try {
    rejectUnknown(word, words)
  } catch (error) {
    return error instanceof Error ? parseSuggestions(error.message) : []
  }
  return []
}

/** @throws CommanderError if the word is not in the list, with the words that commander finds similar */
export function rejectUnknown(word: string, words: readonly string[]): void {
  const probe = silenceOutput(new Commander()).helpCommand(false)
  for (const one of words) probe.command(one)
  probe.parse([word], { from: 'user' })
}

/** Returns commander's suggestions, which only the message of its error has. */
export const parseSuggestions = (message: string): string[] =>
  /\(Did you mean (?:one of )?(.+)\?\)/.exec(message)?.[1]?.split(', ') ?? []

/** Returns the `run` of a command that needs a subcommand. It always throws `invalid_arguments`. */
export const requireSubcommand = (command: string, words: string) => async () => {
  throw badArgument(command, `expected ${words}`)
}

/**
 * Returns the flags that name the data directory, for command lines that svc proposes. They are needed
 * because another terminal may not have this one's environment.
 */
export function directoryFlagsOf(command: Command): string {
  const { sandbox, basePath } = findGivenPlace(command.opts<Flags>(), command.io.env)
  return `${sandbox ? ' --sandbox' : ''}${basePath === undefined ? '' : ` -d ${quoteForShell(basePath)}`}`
}

/** Returns the command line's wording of advice. @param command the running command, if one was found */
export const wordingOf = (command: Command | undefined, help?: string): Wording => ({
  door: 'cli',
  command: words =>
    ['svc', ...words.map(quoteProposed)].join(' ') + (command ? directoryFlagsOf(command) : ''),
  help,
})

/** Names of fields on the command line, if they differ. */
const typedNames: Readonly<Record<string, string>> = { to: 'user', user_id: 'user' }

/** Returns the error with its fields named as the command's options and arguments. */
const withTypedNames = (command: Command, error: SvcError): SvcError =>
  withFieldNames(error, ({ field, problem }) => {
    const key = field.replace(/\[\d+\]$/, '')
    const name = typedNames[key] ?? key
    const option = command.options.find(one => one.attributeName() === name)
    const isArgument = command.registeredArguments.some(one => one.name() === name)
    return { field: option?.long ?? (isArgument ? `<${name}>` : field), problem }
  })
