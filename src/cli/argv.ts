/** The words of a command line before its options: which command they name, and what was meant by those that name none. */
import { Command } from 'commander'
import { optionTable } from '../config.ts'
import { quiet } from './command.ts'
import { isCommand } from './commands.ts'

/**
 * The words that name the command.
 *
 * @throws CommanderError for a word that stands where a command must stand and is none, with the one that was meant
 */
export function namedBy(program: Command, args: readonly string[]): string[] {
  let command = program
  const path: string[] = []
  for (const word of args) {
    if (word.startsWith('-')) break
    const next = command.commands.find(one => one.name() === word)
    if (!next) {
      // The library says what was meant, by its idea of what is similar.
      const probe = quiet(new Command()).helpCommand(false)
      for (const one of command.createHelp().visibleCommands(command)) probe.command(one.name())
      if (probe.commands.length > 0 && command.registeredArguments.length === 0)
        probe.parse([word], { from: 'user' })
      break
    }
    command = next
    path.push(word)
  }
  return path
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
