/** What the command line says of an operation besides its definition, and what was typed for it. */
import type { Static, TObject, TSchema } from '@sinclair/typebox'
import type { Config } from '../config.ts'
import type { ErrorCode, SvcError } from '../model/error.ts'
import type { CommandShape, TypedOperation } from '../operations/operation.ts'
import type { GivenInput } from '../operations/schema.ts'
import type { Command, CommandLine } from './command.ts'
import type { Shown } from './show.ts'

/** As it was typed: what `parse` has not converted. */
export type Input = Record<string, unknown>

/** What was typed for an operation, checked, with the settings. */
export interface Typed {
  readonly command: Command
  readonly line: CommandLine
  readonly config: Config
  readonly input: Input
}

/** What another operation gives to the caller of a command. @throws SvcError as `invoke` */
export type Ask = <I extends TObject, O extends TSchema>(
  operation: TypedOperation<I, O>,
  input: GivenInput<I>,
) => Promise<Static<O>>

/** What the command line adds to an operation: how people see its result, and what else may be typed. */
export interface View<I, T> {
  /** The result for people; `again` as of `againFlags`. */
  show(result: T, again: string, of: { input: I; ask: Ask }): Shown | Promise<Shown>
  /** The command did not reach what it was called for: exit status 1. */
  failed?(result: T): boolean
  /** What `--json` prints. */
  json?: string
  /** Options besides those of the input. */
  takes?(command: Command): unknown
  /** What was typed, as the operation takes it, where that is not the same; `now` is Unix ms. */
  meant?(typed: Input, command: Command, now: number): Input
  /** An error in words of this command. */
  told?(error: SvcError): SvcError
  /** What there is to see where there is no data directory: then none is made. */
  nothing?(input: I): T
  /** The error where there is no data directory; `not_connected` without it. */
  absent?: ErrorCode
  /** What it has changed, such as `removed`, for somebody who cannot be shown the result. */
  done?: string | ((result: T) => string)
  /** Of a result that matters more than the deed: takes that back as far as possible. @throws what to tell */
  unprinted?(ask: Ask, result: T): Promise<never>
  /** As of a call. */
  onward?(command: Command): boolean
  /** A command that goes on: with which options it does, and what it does then instead of one call. */
  lasting?: {
    when(command: Command): boolean
    run(typed: Typed): Promise<unknown>
  }
}

/** A command of an operation under way. */
export interface Run<I extends TObject, O extends TSchema> {
  readonly operation: TypedOperation<I, O> & { readonly cli: CommandShape }
  readonly view: View<Static<I>, Static<O>>
  readonly command: Command
  readonly line: CommandLine
}
