/**
 * Shell completion. The offers come from the commands themselves at each Tab, so they always match this
 * version. The scripts only pass the words on and show the answers; without an answer they offer files.
 */
import type { Option } from 'commander'
import { withSecrets } from '../../config/secrets.ts'
import { findCredentials, optionTable, readConfig } from '../../config.ts'
import {
  addCommand,
  addConfigOptions,
  Command,
  type CommandLine,
  type CommandSpec,
  createChoice,
  ListOption,
} from '../command.ts'
import { type Io, oneLine } from '../terminal.ts'

/**
 * Completion scripts by shell. They call `svc complete -- <words>`, which prints lines of a word, a tab and
 * a help text.
 */
const scripts: Readonly<Record<string, string>> = {
  // bash splits words at characters such as `@` and `=`, and replaces only the last piece ($2) by the offer.
  // So the script joins the pieces to the words of the line, and removes the part before $2 from each offer.
  bash: `_svc() {
  local line=\${COMP_LINE:0:COMP_POINT} piece nth=-1 before
  local -a words=()
  for piece in "\${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
    (( nth >= 0 )) && [[ -n $piece && $line == "$piece"* ]] || words[++nth]=
    line=\${line#"\${line%%[![:space:]]*}"}
    [[ $line == "$piece"* ]] || piece=$line
    words[nth]+=$piece
    line=\${line#"$piece"}
  done
  before=\${words[nth]}
  [[ $before == *"$2" ]] && before=\${before%"$2"} || before=
  COMPREPLY=()
  while IFS= read -r line; do
    line=\${line%%$'\\t'*}
    COMPREPLY+=("\${line#"$before"}")
  done < <("$1" complete -- "\${words[@]:1}" 2>/dev/null)
}
complete -o default -F _svc svc
`,
  zsh: `#compdef svc
_svc() {
  local -a found
  local line
  for line in "\${(@f)$("\${words[1]}" complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n $line ]] && found+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done
  if (( \${#found} )); then _describe svc found; else _files; fi
}
if [[ \${funcstack[1]} = _svc ]]; then _svc "$@"; else compdef _svc svc; fi
`,
  fish: `function __svc_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l found ($words[1] complete -- $words[2..-1] 2>/dev/null)
  if test (count $found) -gt 0
    printf '%s\\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c svc -f -a '(__svc_complete)'
`,
}

export const commands: readonly CommandSpec[] = [
  {
    words: 'completion',
    summary: 'print the completion script for your shell',
    about: 'Prints a script that completes commands, options, sessions, users and webhooks with the Tab key.',
    addOptions: command => command.addArgument(createChoice('<shell>', 'your shell', Object.keys(scripts))),
    examples: [
      ['eval "$(svc completion bash)"', 'bash: add this line to ~/.bashrc'],
      ['eval "$(svc completion zsh)"', 'zsh: add this line to ~/.zshrc, after compinit'],
      ['svc completion fish > ~/.config/fish/completions/svc.fish', 'fish: once'],
    ],
    run: command => command.io.out.write(scripts[command.args[0] ?? ''] ?? ''),
  },
  {
    words: 'complete',
    summary: 'what those scripts ask at each Tab',
    hidden: true,
    addOptions: command => command.argument('[words...]').allowUnknownOption().passThroughOptions(),
    examples: [],
    run: async ({ args, io }, { loadCommands }) =>
      io.out.write((await listCompletions(args, { io, loadCommands })).map(line => `${line}\n`).join('')),
  },
]

/** Loads commands, and gives access to the environment. */
type CompletionContext = Pick<CommandLine, 'loadCommands'> & { readonly io: Io }

type Offer = readonly [word: string, means: string]

/** Returns completions of the last word, each as a word, a tab and a help text. None means: offer files. */
async function listCompletions(words: readonly string[], context: CompletionContext): Promise<string[]> {
  const last = words.at(-1) ?? ''
  const assigned = /^(--[^=]+)=(.*)$/.exec(last)
  const current = assigned?.[2] ?? last
  // `svc help send` is `svc send --help`.
  const before = words.slice(words[0] === 'help' ? 1 : 0, -1)
  const offers = await listOffers(assigned?.[1] ? [...before, assigned[1]] : before, current, context)
  return offers
    .filter(([word]) => word.startsWith(current) && isShellSafe(word))
    .map(([word, means]) => `${assigned ? `${assigned[1]}=` : ''}${word}\t${means.split(/[.;] |\n/)[0]}`)
}

/**
 * Returns true if the shell gives no character of the word a meaning: names and ids are inserted without
 * quotes.
 */
const isShellSafe = (word: string) => /^[\p{L}\p{M}\p{N}@%+,./_-]+$/u.test(word)

async function listOffers(
  before: readonly string[],
  current: string,
  context: CompletionContext,
): Promise<Offer[]> {
  const { io, loadCommands } = context
  const program = addConfigOptions(new Command('svc', io).enablePositionalOptions(), 'openapi')
  for (const spec of await loadCommands(before)) addCommand({ program, loadCommands, status: 0 }, spec)

  let command: Command = program
  let placed = 0
  let waiting: Option | undefined
  const typed = new Set<Option>()
  for (const word of before) {
    if (waiting) {
      waiting = undefined
      continue
    }
    if (word.startsWith('-') && word !== '-') {
      const [flag] = word.split('=')
      const option = command.options.find(one => one.long === flag || one.short === flag)
      if (option) typed.add(option)
      if (option && (option.required || option.optional) && !word.includes('=')) waiting = option
      continue
    }
    const next = command.commands.find(one => one.name() === word)
    if (next && placed === 0) command = next
    else placed++
  }

  if (waiting) {
    const { argChoices, long } = waiting
    const chosen = waiting instanceof ListOption ? current.slice(0, current.lastIndexOf(',') + 1) : ''
    const choices = argChoices ?? optionTable.find(({ flag }) => flag === long)?.choices
    if (choices) return choices.map(word => [chosen + word, ''])
    return listNames(/<([^>]+)>/.exec(waiting.flags)?.[1], before, io)
  }
  if (current.startsWith('-')) {
    return [
      ...command.options
        .filter(option => !option.hidden && !typed.has(option))
        .flatMap(({ long, description }) => (long ? [[long, description] as const] : [])),
      ['--help', 'show help'],
    ]
  }
  const subcommands = placed > 0 ? [] : listSubcommands(command)
  const argument = command.registeredArguments[placed]
  const values: Offer[] = argument?.argChoices
    ? argument.argChoices.map(word => [word, ''] as const)
    : await listNames(argument?.name(), before, io)
  return [...subcommands, ...values]
}

const listSubcommands = (command: Command): Offer[] =>
  command
    .createHelp()
    .visibleCommands(command)
    .filter(one => one.name() !== 'help')
    .map(one => [one.name(), one.summary()] as const)

/**
 * Returns sessions, users or webhooks of the data directory. Only reads its files; opens and makes nothing.
 */
async function listNames(what: string | undefined, before: readonly string[], { env }: Io): Promise<Offer[]> {
  const isWebhook = what === 'id' && before[0] === 'webhook'
  if (what !== 'session' && what !== 'user' && !isWebhook) return []
  try {
    const { openInspection } = await import('../../inspect/data-directory.ts')
    const at = before.findIndex(word => word === '-d' || word === '--base-path')
    const config = readConfig(
      {
        ...(at >= 0 && before[at + 1] !== undefined && { basePath: before[at + 1] }),
        ...(before.includes('--sandbox') && { sandbox: true }),
      },
      env,
    )
    const inspection = await openInspection(withSecrets(config, findCredentials(env)))
    if (isWebhook)
      return (await inspection.readNames()).webhooks.map(({ id, url }) => [id, oneLine(url)] as const)
    const { sessions } = await inspection.listSessions()
    if (what === 'session') return sessions.map(({ name }) => [name, 'session'] as const)
    const ids = sessions.flatMap(({ name, users }) => [...users].map(user => [user, name] as const))
    const { users } = await inspection.readNames().catch(() => ({ users: [] }))
    return [...users.map(({ name, session }) => [name, session] as const), ...ids]
  } catch {
    return []
  }
}
