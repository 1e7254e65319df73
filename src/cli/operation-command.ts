/** Operations as commands: what was typed goes in, what came of it is printed, for people or as JSON. */
import type { Static, TObject, TSchema } from '@sinclair/typebox'
import type { Gateway } from '../gateway/gateway-api.ts'
import type { SvcError } from '../model/error.ts'
import { invoke } from '../operations/gate.ts'
import type { TypedOperation } from '../operations/operation.ts'
import { againFlags, type Command, type CommandLine, type CommandSpec, toolConfig } from './command.ts'
import { jsonLine } from './print.ts'
import { noDirectory, type Shown, writeNote } from './show.ts'
import { NotPrinted } from './terminal.ts'
import { exampleLines, toolFlags } from './tool-flags.ts'

type Input = Record<string, unknown>

/** What the command line adds to an operation: how people see its result, and what else may be typed. */
interface View<I, T> {
  /** The result for people; `again` as of `againFlags`. */
  show(result: T, again: string, of: { input: I; gateway: Gateway }): Shown | Promise<Shown>
  /** What `--json` prints. */
  json?: string
  /** Options besides those of the input. */
  takes?(command: Command): unknown
  /** What was typed, as the operation takes it, where that is not the same; `now` is Unix ms. */
  meant?(typed: Input, command: Command, now: number): Input
  /** An error in words of this command. */
  told?(error: SvcError): SvcError
  /** What there is to see where there is no data directory, unless something was named: then none is made. */
  nothing?: T
  /** Exit status 1 then. */
  nothingFails?: boolean
  /** What it has changed, such as `removed`, for who cannot be shown the result. */
  done?: string
  /** Of a result that matters more than the deed: takes that back as far as possible. @throws what to tell */
  unprinted?(gateway: Gateway, result: T): Promise<never>
}

/** The command of an operation: its arguments and options are the fields of its input. */
export function operationCommand<I extends TObject, O extends TSchema>(
  operation: TypedOperation<I, O>,
  view: View<Static<I>, Static<O>>,
): CommandSpec {
  const { cli, title, description } = operation
  if (!cli) throw new Error(`${operation.name} has no command`)
  const { path, also, summary = title.charAt(0).toLowerCase() + title.slice(1), about = description } = cli
  const { json = 'Print the result as one JSON value.', meant = typed => typed, takes, told } = view
  const flags = toolFlags({ ...operation, cli })
  return {
    words: path.join(' '),
    also,
    summary,
    about: about.replaceAll('`', ''),
    config: 'tool',
    json,
    examples: exampleLines({ ...operation, cli }),
    takes(command) {
      flags.declare(command)
      takes?.(command)
    },
    told: (error, command) => flags.told(told?.(error) ?? error, command),
    async run(command, line) {
      const typed = await flags.input(command)
      // Before anything is opened or made: wrong usage leaves no trace.
      operation.parse(meant(typed, command, command.io.clock.now()))
      return await runOperation(operation, view, {
        command,
        line,
        inputAt: now => meant(typed, command, now),
      })
    },
  }
}

async function runOperation<I extends TObject, O extends TSchema>(
  operation: TypedOperation<I, O>,
  { done, nothing, nothingFails = false, show, unprinted }: View<Static<I>, Static<O>>,
  { command, line, inputAt }: { command: Command; line: CommandLine; inputAt: (now: number) => Input },
): Promise<0 | 1> {
  const { commandCall, configToRead, isAbsent, openForCommand, refuseAbsent } = await import('./open.ts')
  const config = operation.effect === 'read' ? await configToRead(command) : toolConfig(command)
  const again = againFlags(command)
  const tell = async (result: Static<O>, seen: Shown) => {
    if (command.opts().json === true) await command.io.out.write(`${jsonLine(result)}\n`)
    else {
      await command.io.out.write(seen.text)
      await writeNote(seen, command)
    }
    return seen.failed ? 1 : 0
  }
  if (nothing !== undefined && command.args.length === 0 && (await isAbsent(config))) {
    refuseAbsent(command.opts())
    return tell(nothing, { ...noDirectory(config.basePath, again), failed: nothingFails })
  }
  using call = commandCall(command.io)
  await using opened = await openForCommand(config, command.io)
  const { gateway, log } = opened
  const input = inputAt(gateway.clock.now())
  const result = await invoke(operation, gateway, input, call, log)
  line.cutBy = call.cutBy
  const seen = await show(result, again, { input: operation.parse(input), gateway })
  line.done = done
  return await tell(result, seen).catch(error => {
    if (unprinted && error instanceof NotPrinted) return unprinted(gateway, result)
    throw error
  })
}
