/** Types for commands made from operations: the typed input, and the view that prints the result. */
import type { Static, TObject, TSchema } from '@sinclair/typebox'
import type { Config } from '../config.ts'
import type { ErrorCode, SvcError } from '../model/error.ts'
import type { CommandShape, TypedOperation } from '../operations/operation.ts'
import type { CallerInput } from '../operations/schema.ts'
import type { Command, CommandLine } from './command.ts'
import type { CommandOutput, Shown } from './show.ts'

/** Input as typed, before `parse` converts it. */
export type TypedInput = Record<string, unknown>

/** The checked input of an operation's command, with the settings. */
export interface OperationRequest {
  readonly command: Command
  readonly line: CommandLine
  readonly config: Config
  readonly input: TypedInput
}

/**
 * Calls another operation as the caller of this command and returns its result.
 *
 * @throws SvcError as `invoke`
 */
export type Ask = <I extends TObject, O extends TSchema>(
  operation: TypedOperation<I, O>,
  input: CallerInput<I>,
) => Promise<Static<O>>

/**
 * What the command line adds to an operation: text for people, further options, and errors in its own words.
 */
export interface View<I, T> {
  /** Formats the result for people. @param again the flags from `directoryFlagsOf` */
  render(result: T, again: string, of: { input: I; ask: Ask }): Shown | Promise<Shown>
  /** Returns true if the command did not reach its goal: then the exit status is 1. */
  hasFailed?(result: T): boolean
  /** Help text of `--json`. */
  jsonHelp?: string
  /** Adds options that are no field of the input. */
  addOptions?(command: Command): unknown
  /** Converts the typed input to the operation's input. @param now Unix ms */
  toInput?(typed: TypedInput, command: Command, now: number): TypedInput
  /** Rewords an error for this command. */
  reword?(error: SvcError): SvcError
  /** Returns the result for a missing data directory. Such a command does not make the directory. */
  createEmpty?(input: I): T
  /** Error code for a missing data directory. Default: `not_connected`. */
  absentCode?: ErrorCode
  /** What the command has changed, such as `removed`. Printed if the result itself cannot be printed. */
  changeMade?: string | ((result: T) => string)
  /**
   * Undoes the change as far as possible, if the result cannot be printed and the change is useless without
   * it.
   *
   * @throws SvcError the error to print
   */
  undoUnprinted?(ask: Ask, result: T): Promise<never>
  /**
   * Does what the change needs on this machine, after the result was printed. Returns what people have to
   * know.
   */
  finish?(ask: Ask, command: Command, result: T): Promise<CommandOutput>
  /** Returns what a program has to know too, beside the result: a line for stderr, with `--json` as without. */
  warnOf?(result: T, again: string): string | undefined
  /** Same meaning as `Call.onward`. */
  isOnward?(command: Command): boolean
  /** For a command that can run for long: `when` says with which options, `run` replaces the single call. */
  longRun?: {
    when(command: Command): boolean
    run(typed: OperationRequest): Promise<unknown>
  }
}

/** An operation's command that is running. */
export interface OperationRun<I extends TObject, O extends TSchema> {
  readonly operation: TypedOperation<I, O> & { readonly cli: CommandShape }
  readonly view: View<Static<I>, Static<O>>
  readonly command: Command
  readonly line: CommandLine
}
