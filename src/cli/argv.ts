/** The words of a command line before its options: which command they name, and what was meant by those that name none. */
import { Command, CommanderError } from 'commander'
import { optionTable } from '../config.ts'
import { quiet } from './command.ts'
import { isCommand } from './commands.ts'

/**
 * The command that the words name.
 *
 * @throws CommanderError for a word that stands where a command must stand and is none, with the one that was meant
 */
export function namedBy(program: Command, args: readonly string[]): { command: Command; path: string[] } {
  let command = program
  const path: string[] = []
  for (const word of args) {
    if (word.startsWith('-')) break
    const next = command.commands.find(one => one.name() === word)
    if (!next) {
      if (command.commands.length === 0 || command.registeredArguments.length > 0) break
      throw unknownCommand(program, command, word)
    }
    command = next
    path.push(word)
  }
  return { command, path }
}

/** What other programs call it → what it is called here. */
const commandElsewhere: ReadonlyMap<string, string> = new Map([
  ['start', 'openapi'],
  ['run', 'openapi'],
  ['serve', 'openapi'],
  ['panel', 'admin'],
])

/** Where a command has the option of the others by another name, which no likeness of letters tells. */
const optionHere: ReadonlyMap<string, string> = new Map([
  ['admin --port', '--admin-port'],
  ['admin -p', '--admin-port'],
  ['sandbox --port', '--sandbox-port'],
  ['sandbox -p', '--sandbox-port'],
])

/** The option that was meant by one that the command does not know; undefined where only its letters can tell. */
export const meantOption = (command: string, option: string): string | undefined =>
  optionHere.get(`${command} ${option}`)

/** In the library's own words, and by its idea of what is similar. */
function unknownCommand(program: Command, parent: Command, word: string): unknown {
  const elsewhere = program.commands.find(one => one.commands.some(sub => sub.name() === word))
  const meant = elsewhere ? `${elsewhere.name()} ${word}` : commandElsewhere.get(word)
  if (meant && parent === program) {
    return new CommanderError(
      2,
      'commander.unknownCommand',
      `unknown command '${word}' (Did you mean ${meant}?)`,
    )
  }
  const probe = quiet(new Command()).helpCommand(false)
  for (const one of parent.createHelp().visibleCommands(parent)) probe.command(one.name())
  try {
    probe.parse([word], { from: 'user' })
  } catch (error) {
    return error
  }
  return new CommanderError(2, 'commander.unknownCommand', `unknown command '${word}'`)
}

/** `svc help send` as `svc send --help`. */
export const asHelp = (args: readonly string[]): readonly string[] =>
  args[0] === 'help' ? [...args.slice(1), '--help'] : args

/**
 * The options before the first word, which belong behind the words of its command: `svc --sandbox users` is
 * `svc users --sandbox`. Without a word all is left as it is.
 */
export function leadingOptions(args: readonly string[]): {
  leading: readonly string[]
  rest: readonly string[]
} {
  let at = 0
  while (args[at]?.startsWith('-') && args[at] !== '--') {
    const [option, next] = [args[at]!, args[at + 1]]
    const known = optionTable.find(({ flag, short }) => flag === option || short === option)
    // Of an option that only some commands know: a command's word behind it is that command.
    const takesNext = known ? known.placeholder !== undefined : !option.includes('=') && !isWord(next)
    at += takesNext ? 2 : 1
  }
  return at < args.length && args[at] !== '--'
    ? { leading: args.slice(0, at), rest: args.slice(at) }
    : { leading: [], rest: args }
}

const isWord = (word: string | undefined) => word === undefined || word.startsWith('-') || isCommand(word)
