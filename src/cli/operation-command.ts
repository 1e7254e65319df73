/**
 * Makes commands from operations: words, arguments, options and help come from the operation's definition,
 * and a view formats the result for people.
 */
import type { Static, TObject, TSchema } from '@sinclair/typebox'
import type { CommandShape, TypedOperation } from '../operations/operation.ts'
import type { CommandSpec } from './command.ts'
import { declareFlags, formatExamples, toHelpText, withFlagNames } from './input-flags.ts'
import type { View } from './view.ts'

/** Returns the command of an operation. Its arguments and options are the fields of the operation's input. */
export function operationCommand<I extends TObject, O extends TSchema>(
  operation: TypedOperation<I, O>,
  view: View<Static<I>, Static<O>>,
): CommandSpec {
  const { cli, title, description } = operation
  if (!cli) throw new Error(`${operation.name} has no command`)
  const { about = '', ownAbout, path } = cli
  const shape = operation as typeof operation & { readonly cli: CommandShape }
  return {
    words: path.join(' '),
    alias: cli.alias,
    summary: title.charAt(0).toLowerCase() + title.slice(1),
    about: ownAbout ? about : toHelpText(shape, `${description}\n\n${about}`.trim()),
    config: 'tool',
    jsonHelp: view.jsonHelp ?? 'Print the result as one JSON value.',
    examples: formatExamples(shape),
    isLasting: view.longRun?.when,
    addOptions(command) {
      declareFlags(shape, command)
      view.addOptions?.(command)
      if (cli.question)
        command.option(
          '-y, --yes',
          'Do not ask first; without a terminal it also allows leaving out the name.',
        )
    },
    reword: (error, command) => withFlagNames(shape, command, view.reword?.(error) ?? error),
    async run(command, line) {
      const { runOperation } = await import('./run-operation.ts')
      return runOperation({ operation: shape, view, command, line })
    },
  }
}
