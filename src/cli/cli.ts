/** Arguments → commands; help and exit status. The options come from the one table in config. */

import process from 'node:process'
import { Command, CommanderError } from 'commander'
import { SvcError } from '../model/error.ts'
import { version } from '../version.ts'
import { type CommandLine, quiet } from './command.ts'
import { commands, needed } from './commands.ts'
import { hintOf, isBadUsage, printError, printProblem } from './print.ts'

const epilogue = `
Try it in a minute, without an account:
  svc openapi --sandbox       then open the docs and the phone at the addresses it prints

With WeChat itself:
  svc openapi                 then call the tool login and scan its QR code with the phone

Every option can also be set by an environment variable, as its help says.
Exit status: 0 done, 1 failed, 2 wrong usage.`

/**
 * Runs one command line to its end.
 *
 * @param args without the program's name
 * @returns exit status: 0 done, 1 failed, 2 wrong usage
 */
export async function runCli(args: readonly string[]): Promise<number> {
  const program = quiet(new Command('svc'))
    .description('WeChat bot accounts as tools: REST with interactive docs, on this machine.')
    .version(version, '-v, --version', 'print the version')
    .helpOption('-h, --help', 'show help')
    .helpCommand(false)
    .enablePositionalOptions()
    .showSuggestionAfterError()
    .addHelpText('after', epilogue)
  const line: CommandLine = { program, status: 0 }
  for (const { add } of await needed(args)) add(line)
  const known = args.find(arg => arg in commands)
  const help = `${known ? `svc ${known}` : 'svc'} --help`

  try {
    if (args.length === 0) {
      program.outputHelp()
      return 0
    }
    await program.parseAsync([...args], { from: 'user' })
  } catch (error) {
    const status = told(error, { help, json: args.includes('--json') })
    // A prompt hook that ends with 2 would hold the prompt back.
    return known === 'hook-poll' ? Math.min(status, 1) : status
  }
  // Dying of the signal, and not just ending, is what lets a loop in a shell end too.
  if (line.cutBy) process.kill(process.pid, line.cutBy)
  return line.status
}

/** Says what went wrong on stderr, in one line or as one JSON object. @returns the exit status */
function told(error: unknown, { help, json }: { help: string; json: boolean }): number {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return 0
    const text = error.message
      .replace(/^error: /, '')
      .replace(/\n/g, ' ')
      .replace(/[.]$/, '')
    if (json) printProblem(new SvcError('invalid_arguments', text, { hint: `See ${help}.` }))
    else printError(text, `See ${help}.`)
    return 2
  }
  if (error instanceof SvcError) {
    // The reader of the options does not know for which command it reads.
    const hint = hintOf(error).replace('svc --help', help)
    if (json) printProblem(error, hint)
    else printError(error.message, hint)
    return isBadUsage(error) ? 2 : 1
  }
  // Whoever read the output has had enough.
  if ((error as { code?: string }).code === 'EPIPE') return 1
  // What the system refused is nobody's bug.
  const fromSystem = error instanceof Error && 'syscall' in error
  const text = error instanceof Error ? error.message : String(error)
  const hint = fromSystem
    ? 'Check the path, its permissions and the free space.'
    : 'This is a bug in svc; please report it.'
  if (json) printProblem(new SvcError('internal', text, { hint }))
  else printError(text, hint)
  if (error instanceof Error && !fromSystem && process.stderr.isTTY) process.stderr.write(`${error.stack}\n`)
  return 1
}
