/** Runs one operation as a command: reads the typed input, and prints the result for people or as JSON. */
import type { Static, TObject, TSchema } from '@sinclair/typebox'
import type { Config } from '../config.ts'
import type { Gateway } from '../gateway/gateway-api.ts'
import { badArgument, SvcError } from '../model/error.ts'
import { adviceOf } from '../model/next-step.ts'
import { invoke } from '../operations/gate.ts'
import type { CommandShape } from '../operations/operation.ts'
import { askYesNo } from './ask.ts'
import { type Command, directoryFlagsOf, toolConfig, wordingOf } from './command.ts'
import { readTypedInput, readTypedTimes, withFlagNames } from './input-flags.ts'
import { commandCall, configToRead, createAsk, isAbsent, openForCommand, rejectAbsent } from './open.ts'
import { isJson, printError, writeResult } from './print.ts'
import { progressBar } from './progress.ts'
import { type CommandOutput, formatLines, formatNote, missingDirectoryOutput, printNote } from './show.ts'
import { type Io, NotPrintedError, oneLine } from './terminal.ts'
import type { OperationRun, TypedInput } from './view.ts'

/** Runs the operation, for each value if there are several, and prints what comes of it. @throws SvcError */
export async function runOperation<I extends TObject, O extends TSchema>(
  run: OperationRun<I, O>,
): Promise<void> {
  const { command, line, operation, view } = run
  const { many, positionals = [] } = operation.cli
  const values = [...command.args]
  if (!many || values.length < 2) return await runForOne(run)
  const [key = ''] = positionals
  if (!values.every(value => many.form.test(value))) throw badArgument(key, 'expected several ids, or one')
  if (many.without !== undefined && command.opts()[many.without] !== undefined)
    throw badArgument(many.without, 'expected with one id alone')
  for (const value of values) {
    if (line.stopSignal) return
    command.args = [value]
    await runForOne(run).catch(error => {
      if (!(error instanceof SvcError)) throw error
      const { code, message, options } = withFlagNames(operation, command, view.reword?.(error) ?? error)
      const named = new SvcError(code, `${value}: ${message}`, { ...options, field: undefined })
      printError(command.io.err, named, adviceOf(named, wordingOf(command)), isJson(command))
      line.status = 1
    })
  }
}

async function runForOne<I extends TObject, O extends TSchema>(run: OperationRun<I, O>): Promise<void> {
  const { command, line, operation, view } = run
  const { toInput = typed => typed } = view
  const typed = await readTypedInput(operation, command)
  const inputAt = (now: number) =>
    toInput({ ...typed, ...readTypedTimes(operation, command, now) }, command, now)
  const input = inputAt(command.io.clock.now())
  // Parse before anything is opened or made: wrong usage leaves no trace.
  const parsed = operation.parse(input)
  rejectUnasked(command, operation.cli, input)
  const config = operation.effect === 'read' ? await configToRead(command) : toolConfig(command)
  if (view.longRun?.when(command)) await view.longRun.run({ command, line, config, input })
  else if (view.createEmpty && (await isAbsent(config))) {
    rejectAbsent({ session: input.session, user: input.user_id })
    await printResult(
      run,
      view.createEmpty(parsed),
      missingDirectoryOutput(config.basePath, directoryFlagsOf(command)),
    )
  } else await runOnce(run, config, inputAt)
}

async function runOnce<I extends TObject, O extends TSchema>(
  run: OperationRun<I, O>,
  config: Config,
  inputAt: (now: number) => TypedInput,
): Promise<void> {
  const { command, line, operation, view } = run
  const bar = progressBar(command.io)
  using call = commandCall(command.io, { progress: bar?.step, onward: view.isOnward?.(command) })
  let delivered = false
  try {
    await using opened = await openForCommand(config, command.io, {
      absentCode: view.absentCode,
      onlyReads: operation.effect === 'read',
    })
    const { gateway, log } = opened
    const ask = createAsk(opened, call)
    const input = inputAt(gateway.clock.now())
    const before = <T>(look: (gateway: Gateway, input: TypedInput) => Promise<T>) =>
      invoke({ ...operation, audited: false, run: look }, gateway, input, call, log)
    try {
      const { reject, question } = operation.cli
      if (reject) await before(reject)
      if (question) await confirm(command, () => before(question), call.signal)
      const result = await invoke(operation, gateway, input, call, log)
      bar?.clear()
      const warning = view.warnOf?.(result, directoryFlagsOf(command))
      if (warning !== undefined) await command.io.err.write(formatNote(warning))
      const shown = isJson(command)
        ? {}
        : await view.render(result, directoryFlagsOf(command), { input: operation.parse(input), ask })
      const output: CommandOutput = 'length' in shown ? { text: shown } : shown
      line.changeMade = typeof view.changeMade === 'function' ? view.changeMade(result) : view.changeMade
      await printResult(run, result, call.stopSignal ? { text: output.text } : output).catch(error => {
        if (view.undoUnprinted && error instanceof NotPrintedError) return view.undoUnprinted(ask, result)
        throw error
      })
      delivered = true
      const note = await view.finish?.(ask, command, result)
      if (note && (!isJson(command) || command.io.err.isTerminal)) await printNote(note, command)
    } finally {
      bar?.clear()
      call.done(delivered)
    }
  } catch (error) {
    // You know that you pressed Ctrl-C, so no error is printed.
    const isCut = call.stopSignal !== undefined && error instanceof SvcError && error.code === 'shutting_down'
    if (!isCut) throw error
  }
  line.stopSignal = call.stopSignal
}

/** Writes the result to stdout and its note to stderr. */
async function printResult<I extends TObject, O extends TSchema>(
  { command, line, view }: OperationRun<I, O>,
  result: Static<O>,
  output: CommandOutput,
): Promise<void> {
  if (view.hasFailed?.(result)) line.status = 1
  const { text = [] } = output
  await writeResult(command, result, typeof text === 'string' ? text : formatLines(text))
  if (!isJson(command)) await printNote(output, command)
}

/** Returns true if a person can see a question and answer it. */
const canAsk = (io: Io): boolean => io.in.isTerminal && io.err.isTerminal

/**
 * Rejects a command that removes something without a question and without a name. A script that leaves out
 * the name must not hit the default session.
 *
 * @throws SvcError `invalid_arguments`
 */
function rejectUnasked(command: Command, cli: CommandShape, input: TypedInput): void {
  if (!cli.question || command.opts().yes === true || canAsk(command.io)) return
  const [key = ''] = cli.positionals ?? []
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
  if (await askYesNo(command.io, oneLine(await question()), signal)) return
  if (signal.aborted) throw new SvcError('shutting_down', 'The question was not answered')
  throw new SvcError('forbidden', 'nothing was done, since the answer was not yes', {
    hint: 'To go ahead without the question give --yes.',
  })
}
