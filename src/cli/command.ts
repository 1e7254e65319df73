/** What the commands share: how one is declared, its options from the table in config, its exit status, and how we propose what to type next. */

import { Argument, Command as Commander, Option } from 'commander'
import {
  type CommandName,
  type Config,
  type Flags,
  optionTable,
  placeGiven,
  readConfig,
  type Usual,
} from '../config.ts'
import { proposed } from '../inspect/advised-commands.ts'
import { badArgument, renamed, SvcError } from '../model/error.ts'
import type { Wording } from '../model/next-step.ts'
import { shellWord } from '../platform/format.ts'
import type { StopSignal } from '../platform/process.ts'
import type { Io } from './terminal.ts'

/** A command, and those below it, with what they read and write. */
export class Command extends Commander {
  declare readonly commands: readonly Command[]
  readonly io: Io
  /** Flags that may be given several times together, in the order given: input key and value. */
  readonly series: [key: string, value: string][] = []
  /** What was typed, as an operation takes it. */
  input: Readonly<Record<string, unknown>> = {}

  constructor(name: string, io: Io) {
    super(name)
    this.io = io
    quiet(this).helpCommand(false)
    this.configureOutput({ getOutHelpWidth: () => io.out.columns ?? 80 })
  }

  override createCommand(name = ''): Command {
    return new Command(name, this.io)
  }
}

/** A command line under way. */
export interface CommandLine {
  /** What the commands are added to. */
  readonly program: Command
  /** The commands that a command line needs. */
  needed(args: readonly string[]): Promise<CommandSpec[]>
  /** Says once that --sandbox may be missing. */
  hint?(command: Command): Promise<void>
  /** Exit status of a run that throws nothing: 0 done, 1 failed. */
  status: number
  /** What the command has changed by now, such as `sent`: it counts as done even where its result cannot be printed. */
  done?: string
  /** The command that runs, from the moment that it does. */
  ran?: Command
  /** How it is declared. */
  as?: Pick<CommandSpec, 'config' | 'serves' | 'noSandboxHint'>
  /** The signal that cut the run short: the process then dies of it, so that a loop in a shell ends too. */
  cutBy?: StopSignal
}

/** The abort reason of a call that a signal ended. */
export class CutShort extends SvcError {
  readonly by: StopSignal

  constructor(by: StopSignal) {
    super('shutting_down', `stopped by ${by}; nothing more was sent`)
    this.by = by
  }
}

/** A command, as data. What it does is loaded when it runs. */
export interface CommandSpec {
  /** As they are typed. */
  words: string
  /** One more word that changes nothing: `svc webhook list` is `svc webhook`. */
  also?: string
  summary: string
  /** Left out of the help: for programs. */
  hidden?: true
  /** The summary, where there is none. */
  about?: string
  /** Whose options of the table in config it takes, and its own words for some. */
  config?: CommandName
  own?: OwnWords
  /** It goes on until a signal, and what it writes are log lines. */
  serves?: true
  /** When it does not hint at a forgotten `--sandbox`: its directory is another one, a program calls it; or it succeeded. */
  noSandboxHint?: 'ever' | 'done'
  /** Whether it goes on for long, with these options: the hint at `--sandbox` comes first then. */
  lasts?(command: Command): boolean
  /** Its further arguments and options. */
  takes?(command: Command): unknown
  /** What `--json` prints, where it has it. */
  json?: string
  examples: readonly (readonly [line: string, does: string])[]
  /** Below the examples, such as a meaning of the exit status of its own. */
  after?: string
  /** An error in the words of the command line, where `asTyped` would not find them. */
  told?(error: SvcError, command: Command): SvcError
  /** @returns the exit status where it is 0 or 1 */
  run(command: Command, line: CommandLine): Promise<unknown>
}

/** Defaults of a command that does one thing: its output is not to drown in log lines. */
export const toolUsual: Usual = { logLevel: 'WARNING' }

/**
 * Adds a command, under those that its first words name. Its own options stand after its last word: those of its parent do
 * not catch them.
 */
export function addCommand(line: CommandLine, spec: CommandSpec): void {
  const { about = spec.summary, also, examples, words } = spec
  const path = words.split(' ')
  const word = path.pop() ?? ''
  const parent = path.reduce(
    (above, name) => above.commands.find(one => one.name() === name) ?? above,
    line.program,
  )
  const command = parent.command(word, { hidden: spec.hidden }).summary(spec.summary).description(about)
  spec.takes?.(command)
  if (spec.json) command.option('--json', spec.json)
  if (spec.config) addConfigOptions(command, spec.config, spec.own)
  const shown = examples.map(([line, does]) => `  # ${does}\n  ${line}\n`).join('')
  const status = `Exit status: 0 done, 1 failed, 2 wrong usage.${spec.after ? `\n${spec.after}` : ''}`
  command.addHelpText('after', () => `${shown && `\nExamples:\n${shown}`}\n${fitted(command, status)}`)
  command.action(async () => {
    line.ran = command
    line.as = spec
    refuseEmpty(command)
    if (spec.lasts?.(command)) await line.hint?.(command)
    const status = await spec.run(command, line).catch(error => {
      throw error instanceof SvcError ? (spec.told?.(error, command) ?? asTyped(command, error)) : error
    })
    if (typeof status === 'number') line.status = status
  })
  if (also) {
    const lines = examples.map(([line, does]) => [`${line} ${also}`, does] as const)
    addCommand(line, { ...spec, words: `${words} ${also}`, also: undefined, hidden: true, examples: lines })
  }
}

/** What names a thing, as arguments and the values of options are called. */
const naming = ['id', 'message-id', 'session', 'old-name', 'user']

/**
 * An empty name is no name left out: it comes from a variable of a script that was never set.
 *
 * @throws SvcError `invalid_arguments`
 */
function refuseEmpty(command: Command): void {
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
  const empty = [...words, ...options].find(({ name = '', value }) => value === '' && naming.includes(name))
  if (empty) throw badArgument(empty.typed, 'expected a name or id, got an empty one')
}

/** Wrong usage is thrown, not printed: one place says it, in one form. */
export const quiet = <C extends Commander>(command: C): C =>
  command
    .exitOverride()
    .configureOutput({ outputError: () => {} })
    // Beside a long subcommand, in a narrow terminal, there is less room than the 40 columns that commander wraps in at the least.
    .configureHelp({ minWidthToWrap: 15 })

/** Lines of a help, broken where the terminal ends. */
export const fitted = (command: Command, text: string): string =>
  command.createHelp().boxWrap(text, command.io.out.columns ?? 80)

/** What the help of one command says of an option in place of the table's words. */
type OwnWords = { readonly [Name in keyof Config]?: string }

const sharedHeading = 'Shared options:'
/** Those of them that newcomers need. */
const alwaysShown = ['--base-path', '--sandbox', '--port']

/** Leaves what commands share out of the help of this one and those below it, and says how to see it. */
export function hideShared(command: Command): void {
  for (const one of command.commands) hideShared(one)
  for (const option of command.options.filter(({ helpGroupHeading }) => helpGroupHeading === sharedHeading))
    if (alwaysShown.includes(option.long ?? ''))
      option.helpGroup('Shared options (all of them: --help --all):')
    else option.hideHelp()
}

/** Adds the options of `name` from the table in config. */
export function addConfigOptions<C extends Commander>(command: C, name: CommandName, own: OwnWords = {}): C {
  for (const spec of optionTable) {
    if (!spec.flag || !spec.commands.includes(name)) continue
    const flags = `${spec.short ? `${spec.short}, ` : ''}${spec.flag}${spec.placeholder ? ` ${spec.placeholder}` : ''}`
    const shown =
      (name === 'tool' ? toolUsual[spec.name] : undefined) ??
      spec.shownDefault ??
      (typeof spec.default === 'string' && spec.default !== '' ? spec.default : undefined)
    const help = own[spec.name] ?? `${spec.help}${shown ? ` (${shown})` : ''}`
    const option = new Option(flags, `${help} [${spec.env}]`)
    if (spec.repeatable)
      option.argParser((value: string, before: string[] | undefined) => [...(before ?? []), value])
    // What a command shares with others stands behind its own.
    if (command.name() !== name) option.helpGroup(sharedHeading)
    command.addOption(option)
  }
  return command
}

/**
 * The Config of a command's options, its environment and the defaults.
 *
 * @param preset what this command decides itself
 * @param usual its defaults, where they are not those of the table
 * @throws SvcError `invalid_arguments` naming the option
 */
export const configFrom = (command: Command, preset: Flags = {}, usual: Usual = {}): Config =>
  readConfig({ ...command.opts<Flags>(), ...preset }, command.io.env, usual)

/** Settings of a command that does one thing: quiet, and its own sandbox takes any free port. */
export const toolConfig = (command: Command): Config =>
  configFrom(command, { port: '0', sandboxPort: '0' }, toolUsual)

/** An argument that has one of these values. */
export const choice = (name: string, about: string, values: readonly string[]) =>
  new Argument(name, about).choices(values).argParser<string>(value => {
    if (values.includes(value)) return value
    const meant = meantAmong(value, values)
    // Where all of them are alike, the list says it.
    const guess =
      meant.length > 0 && meant.length < values.length ? ` (Did you mean ${meant.join(' or ')}?)` : ''
    throw badArgument(name, `expected one of ${values.join(', ')}, got '${value}'${guess}`, {
      ...(guess && { details: { meant } }),
    })
  })

/** An option that takes several of these values, separated by commas. What takes the value checks it. */
export class ListOption extends Option {
  constructor(flags: string, about: string, values: readonly string[]) {
    super(flags, about)
    this.argChoices = [...values]
  }
}

/** The words that begin with this one; else those that the library, which suggests commands, finds similar. */
export function meantAmong(word: string, words: readonly string[]): readonly string[] {
  const longer = words.filter(one => word !== '' && one.startsWith(word))
  if (longer.length > 0) return longer
  try {
    refuseUnknown(word, words)
  } catch (error) {
    return error instanceof Error ? meantIn(error.message) : []
  }
  return []
}

/** @throws CommanderError for a word that is none of these, with those that the library finds similar */
export function refuseUnknown(word: string, words: readonly string[]): void {
  const probe = quiet(new Commander()).helpCommand(false)
  for (const one of words) probe.command(one)
  probe.parse([word], { from: 'user' })
}

/** What the library guesses that was meant: it says so in its message alone. */
export const meantIn = (message: string): string[] =>
  /\(Did you mean (?:one of )?(.+)\?\)/.exec(message)?.[1]?.split(', ') ?? []

/** A command that only holds others. */
export const chosen = (command: string, words: string) => async () => {
  throw badArgument(command, `expected ${words}`)
}

/** The flags that name the data directory, for command lines that we propose: another terminal has not this one's environment. */
export function againFlags(command: Command): string {
  const { sandbox, basePath } = placeGiven(command.opts<Flags>(), command.io.env)
  return `${sandbox ? ' --sandbox' : ''}${basePath === undefined ? '' : ` -d ${shellWord(basePath)}`}`
}

/** How the command line words what to do next; `command` is the one that runs, where it came to that. */
export const wordingOf = (command: Command | undefined, help?: string): Wording => ({
  door: 'cli',
  command: words => ['svc', ...words.map(proposed)].join(' ') + (command ? againFlags(command) : ''),
  help,
})

/** How else a field is called where it is typed. */
const typedNames: Readonly<Record<string, string>> = { to: 'user', user_id: 'user' }

/** An error in the words of the command: fields as its options and arguments. */
const asTyped = (command: Command, error: SvcError): SvcError =>
  renamed(error, ({ field, problem }) => {
    const key = field.replace(/\[\d+\]$/, '')
    const name = typedNames[key] ?? key
    const option = command.options.find(one => one.attributeName() === name)
    const isArgument = command.registeredArguments.some(one => one.name() === name)
    return { field: option?.long ?? (isArgument ? `<${name}>` : field), problem }
  })
