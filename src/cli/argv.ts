/**
 * Reads the words before the options: finds the command that they name, and suggests one for unknown words.
 */
import { CommanderError } from 'commander'
import { optionTable } from '../config.ts'
import { type Command, rejectUnknown } from './command.ts'
import { isCommand } from './commands.ts'

/** What newcomers type, and the command to suggest. Commander alone compares only letters. */
const commandSuggestions: ReadonlyMap<string, string> = new Map(
  Object.entries({
    start: 'openapi',
    serve: 'openapi',
    server: 'openapi',
    run: 'openapi',
    version: '--version',
    'sessions list': 'sessions',
    'sessions rm': 'logout',
    'sessions remove': 'logout',
    'outbox list': 'outbox',
    'outbox rm': 'outbox cancel',
    'outbox remove': 'outbox cancel',
    'approvals list': 'approvals',
    approve: 'approvals yes',
    decline: 'approvals no',
    'sessions add': 'login',
    'sessions login': 'login',
    'sessions logout': 'logout',
    qr: 'login',
    rename: 'sessions rename',
    default: 'sessions default',
    list: 'sessions',
    contacts: 'users',
    message: 'history',
    messages: 'history',
    log: 'history',
    logs: 'history',
    receive: 'recv',
    reply: 'send',
    panel: 'admin',
    ui: 'admin',
    install: 'service install',
    stop: 'service',
    webhooks: 'webhook',
    'webhook rm': 'webhook remove',
    'webhook delete': 'webhook remove',
  }),
)

/**
 * Unknown options and the option to suggest. The key is `COMMAND --option`, or the option alone for every
 * command.
 */
const optionSuggestions: ReadonlyMap<string, string> = new Map(
  Object.entries({
    'admin --port': '--admin-port',
    'admin -p': '--admin-port',
    'sandbox --port': '--sandbox-port',
    'sandbox -p': '--sandbox-port',
    'send --to': 'svc send USER',
    'send -m': '--text',
    'send --message': '--text',
    'login --name': 'svc login NAME',
    '--out': '--save-dir',
    '--output': '--save-dir',
    '-V': '--version',
    '--data-dir': '--base-path',
    '--dir': '--base-path',
    '--data': '--base-path',
  }),
)

/** Returns the suggestion for an unknown option; undefined leaves it to commander, which compares letters. */
export function suggestOption(command: Command, typed: string): string | undefined {
  const suggested = optionSuggestions.get(`${command.name()} ${typed}`) ?? optionSuggestions.get(typed)
  const isKnown = !suggested?.startsWith('--') || command.options.some(({ long }) => long === suggested)
  return isKnown ? suggested : undefined
}

/**
 * Finds the named command, and the words that name it.
 *
 * @throws CommanderError if a word in the place of a command is unknown, with a suggestion
 */
export function findCommand(program: Command, args: readonly string[]): { command: Command; path: string[] } {
  let command = program
  const path: string[] = []
  for (const word of args) {
    if (word.startsWith('-')) break
    const next = command.commands.find(one => one.name() === word)
    if (!next) {
      const guess = commandSuggestions.get([...path, word].join(' '))
      if (guess)
        throw new CommanderError(1, 'svc.meant', `unknown command '${word}' (Did you mean svc ${guess}?)`)
      const below = command.createHelp().visibleCommands(command)
      if (below.length > 0 && command.registeredArguments.length === 0)
        rejectUnknown(
          word,
          below.map(one => one.name()),
        )
      break
    }
    command = next
    path.push(word)
  }
  return { command, path }
}

/**
 * Converts `svc help send` to `svc send --help`. `all` is true if the help also needs shared options
 * (`--all`).
 */
export function parseHelp(typed: readonly string[]): { args: readonly string[]; all: boolean } {
  const args = typed[0] === 'help' ? [...typed.slice(1), '--help'] : typed
  const all = args.includes('--all') && args.some(word => word === '-h' || word === '--help')
  return { args: all ? args.filter(word => word !== '--all') : args, all }
}

/**
 * Splits off the options before the first word, since they belong after the command's words: `svc --sandbox
 * users` is `svc users --sandbox`. Without a word nothing is split off.
 */
export function splitLeadingOptions(args: readonly string[]): {
  leading: readonly string[]
  rest: readonly string[]
} {
  let at = 0
  while (args[at]?.startsWith('-') && args[at] !== '--') {
    const [option, next] = [args[at]!, args[at + 1]]
    const known = optionTable.find(({ flag, short }) => flag === option || short === option)
    // An option that is not in the table may take a value, but the word of a command after it is that
    // command.
    const takesNext = known ? known.placeholder !== undefined : !option.includes('=') && !isNotValue(next)
    at += takesNext ? 2 : 1
  }
  return at < args.length && args[at] !== '--'
    ? { leading: args.slice(0, at), rest: args.slice(at) }
    : { leading: [], rest: args }
}

/** Returns true if this is not the value of the option before it: nothing, an option, or a command. */
const isNotValue = (word: string | undefined) => word === undefined || word.startsWith('-') || isCommand(word)
