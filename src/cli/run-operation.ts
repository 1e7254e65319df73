/** Runs one operation as a command: reads the typed input, and prints the result for people or as JSON. */
import type { Static, TObject, TSchema } from '@sinclair/typebox'
import type { Config } from '../config.ts'
import type { Gateway } from '../gateway/gateway-api.ts'
import { badArgument, SvcError } from '../model/error.ts'
import { invoke } from '../operations/gate.ts'
import type { CommandShape } from '../operations/operation.ts'
import { agreed } from './ask.ts'
import { againFlags, type Command, toolConfig } from './command.ts'
import { typedInput, typedTimes } from './input-flags.ts'
import { asker, commandCall, configToRead, isAbsent, openForCommand, refuseAbsent } from './open.ts'
import { isJson, writeResult } from './print.ts'
import { progressBar } from './progress.ts'
import { noDirectory, type Shown, writeNote } from './show.ts'
import { type Io, NotPrinted, oneLine } from './terminal.ts'
import type { Input, Run } from './view.ts'

/** Runs the operation and prints its result. @throws SvcError */
export async function runOperation<I extends TObject, O extends TSchema>(run: Run<I, O>): Promise<void> {
  const { command, line, operation, view } = run
  const { meant = typed => typed } = view
  const typed = await typedInput(operation, command)
  const inputAt = (now: number) => meant({ ...typed, ...typedTimes(operation, command, now) }, command, now)
  const input = inputAt(command.io.clock.now())
  // Parse before anything is opened or made: wrong usage leaves no trace.
  const parsed = operation.parse(input)
  refuseUnasked(command, operation.cli, input)
  const config = operation.effect === 'read' ? await configToRead(command) : toolConfig(command)
  if (view.lasting?.when(command)) await view.lasting.run({ command, line, config, input })
  else if (view.nothing && (await isAbsent(config))) {
    refuseAbsent({ session: input.session, user: input.user_id })
    await tell(run, view.nothing(parsed), noDirectory(config.basePath, againFlags(command)))
  } else await runOnce(run, config, inputAt)
}

async function runOnce<I extends TObject, O extends TSchema>(
  run: Run<I, O>,
  config: Config,
  inputAt: (now: number) => Input,
): Promise<void> {
  const { command, line, operation, view } = run
  const bar = progressBar(command.io)
  using call = commandCall(command.io, { progress: bar?.step, onward: view.onward?.(command) })
  let delivered = false
  try {
    await using opened = await openForCommand(config, command.io, { absent: view.absent })
    const { gateway, log } = opened
    const ask = asker(opened, call)
    const input = inputAt(gateway.clock.now())
    const before = <T>(look: (gateway: Gateway, input: Input) => Promise<T>) =>
      invoke({ ...operation, run: look }, gateway, input, call, log)
    try {
      const { refuse, question } = operation.cli
      if (refuse) await before(refuse)
      if (question) await confirm(command, () => before(question), call.signal)
      const result = await invoke(operation, gateway, input, call, log)
      bar?.clear()
      const output: Shown = isJson(command)
        ? {}
        : await view.show(result, againFlags(command), { input: operation.parse(input), ask })
      line.done = typeof view.done === 'function' ? view.done(result) : view.done
      await tell(run, result, call.cutBy ? { text: output.text } : output).catch(error => {
        if (view.unprinted && error instanceof NotPrinted) return view.unprinted(ask, result)
        throw error
      })
      delivered = true
    } finally {
      bar?.clear()
      call.done(delivered)
    }
  } catch (error) {
    // You know that you pressed Ctrl-C, so no error is printed.
    const isCut = call.cutBy !== undefined && error instanceof SvcError && error.code === 'shutting_down'
    if (!isCut) throw error
  }
  line.cutBy = call.cutBy
}

/** Writes the result to stdout and its note to stderr. */
async function tell<I extends TObject, O extends TSchema>(
  { command, line, view }: Run<I, O>,
  result: Static<O>,
  output: Shown,
): Promise<void> {
  if (view.failed?.(result)) line.status = 1
  await writeResult(command, result, output.text ?? '')
  if (!isJson(command)) await writeNote(output, command)
}

/** Returns true if a person can see a question and answer it. */
const canAsk = (io: Io): boolean => io.in.isTerminal && io.err.isTerminal

/**
 * Rejects a command that removes something without a question and without a name. A script that leaves out
 * the name must not hit the default session.
 *
 * @throws SvcError `invalid_arguments`
 */
function refuseUnasked(command: Command, cli: CommandShape, input: Input): void {
  if (!cli.question || command.opts().yes === true || canAsk(command.io)) return
  const [key = ''] = cli.positionals
  if (input[key]) return
  throw badArgument(key, 'expected a name, since there is no terminal to ask on', {
    hint: 'Say which, or give --yes.',
    next: { action: 'run', command: [...cli.path, 'NAME'] },
  })
}

/**
 * Asks the person at the terminal, if there is one, before something is removed.
 *
 * @throws SvcError `forbidden` if the answer is not yes, `shutting_down` if a signal came before an answer
 */
async function confirm(
  command: Command,
  question: () => Promise<string>,
  signal: AbortSignal,
): Promise<void> {
  if (command.opts().yes === true || !canAsk(command.io)) return
  if (await agreed(command.io, oneLine(await question()), signal)) return
  if (signal.aborted) throw new SvcError('shutting_down', 'The question was not answered')
  throw new SvcError('forbidden', 'nothing was done, since the answer was not yes', {
    hint: 'To go ahead without the question give --yes.',
  })
}
