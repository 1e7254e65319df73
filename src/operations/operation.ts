/**
 * Definition of an operation: something that callers can ask of svc. The REST route, MCP tool, command, docs
 * and library method are derived from this one value. A tool is an operation that agents are offered.
 */
import type { Static, TObject, TSchema } from '@sinclair/typebox'
import type { Gateway } from '../gateway/gateway-api.ts'
import type { Right } from '../model/access.ts'
import type { Call } from '../model/call.ts'
import type { ErrorCode } from '../model/error.ts'
import { closed } from '../model/shapes.ts'
import type { NewAuditLine } from '../storage/audit.ts'
import { checkVocabulary, parse } from './parse.ts'
import { type JsonSchema, toJsonSchema } from './schema.ts'

/** read: changes nothing. write: changes or sends something. destroy: takes something away. */
type Effect = 'read' | 'write' | 'destroy'

/** The command of an operation. What is not set here comes from the schema of the input. */
export interface CommandShape {
  /** Words of the command after `svc`. */
  readonly path: readonly string[]
  /** Optional last word without effect: `svc webhook list` is `svc webhook`. */
  readonly alias?: string
  /** Input keys that need no flag, in this order. Optional ones also have a flag. */
  readonly positionals?: readonly string[]
  /**
   * Set if the only positional may be several values, and the command then runs for each: the form that each must have, so
   * that words of something else are no ids, and a flag that is for one value alone.
   */
  readonly many?: { readonly form: RegExp; readonly without?: string }
  /** Required positionals that may be left out if another option of the command replaces them. */
  readonly optionalPositionals?: readonly string[]
  /** Input key → one-letter flag. */
  readonly short?: Readonly<Record<string, string>>
  /** Input key → name of its flag. Default: the key with dashes. Example: `image_path` is `--image`. */
  readonly names?: Readonly<Record<string, string>>
  /** Input keys without a flag: the command has options of its own for them. */
  readonly untyped?: readonly string[]
  /** Input key → its help, if the description in the schema is meant for callers on other machines. */
  readonly help?: Readonly<Record<string, string>>
  /** Input key → its default on the command line, if it differs from that of the schema. */
  readonly defaults?: Readonly<Record<string, string | number>>
  /** Input key that is read from stdin if its value is `-`. */
  readonly stdin?: string
  /** It is also read from stdin that is no terminal if neither this input key nor any of these is typed. */
  readonly stdinUnless?: readonly string[]
  /**
   * Flags that may be repeated and mixed. Each use becomes an entry of the array `into`, in the order on the
   * command line.
   */
  readonly series?: {
    readonly into: string
    /** Key of the entry that gets the value of the flag. */
    readonly value: string
    /** Input key of the flag → the other keys of its entry. */
    readonly entries: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  }
  /** What the help says besides the description. */
  readonly about?: string
  /** The help shows only `about`: the command does more than one call, which the description explains. */
  readonly ownAbout?: true
  /**
   * Returns the question that a person at a terminal must answer first, as the effect cannot be undone. Every
   * tool with the effect `destroy` has it. `input` is the result of `parse`.
   */
  question?(gateway: Gateway, input: Readonly<Record<string, unknown>>): Promise<string>
  /**
   * Rejects input that is clear for a program, but that a person may have typed by mistake. `input` is the
   * result of `parse`.
   *
   * @throws SvcError `invalid_arguments`, `session_not_found`
   */
  reject?(gateway: Gateway, input: Readonly<Record<string, unknown>>): Promise<void>
  /** Example command lines, each with what it does. Default: those that the examples of the operation make. */
  readonly examples?: readonly (readonly [line: string, does: string])[]
  /** The help shows the examples of the operation, too. */
  readonly addsExamples?: true
}

/**
 * Location of a caller: remote, or on this machine with the right to name any or some files by their paths.
 */
export type CallerLocation = 'remote' | 'anyFile' | 'someFiles'

/** Returns the description of an operation for a caller at that location. */
export const describeFor = (
  { about, description }: Pick<Operation, 'about' | 'description'>,
  where: CallerLocation,
): string => (about?.[where] === undefined ? description : `${description}\n\n${about[where]}`)

/** An example call in the docs. */
interface Example {
  readonly summary: string
  /** Input of the call; absent if the operation needs none. */
  readonly input?: Readonly<Record<string, unknown>>
  readonly output: unknown
}

/** The REST route of an operation, and its differences over HTTP. */
export interface RestShape<Input = unknown, Output = unknown> {
  /**
   * Method and path. `{key}` in the path is that key of the input. The other keys are in the query of GET and
   * DELETE, and in the JSON body of the other methods.
   */
  readonly route: `${'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'} /${string}`
  /** Heading in the docs. */
  readonly tag:
    | 'tools'
    | 'messages'
    | 'accounts'
    | 'invitations'
    | 'media'
    | 'webhooks'
    | 'topics'
    | 'keys'
    | 'agents'
    | 'panel'
    | 'service'
  /** Operation id in the docs. Default: the name of the operation. */
  readonly operationId?: string
  /** Only the panel serves the route, below its own prefix. */
  readonly panelOnly?: true
  /** The docs do not contain the route. */
  readonly isHidden?: true
  /** Any caller may call it, without a token. The caller counts as anonymous. */
  readonly isPublic?: true
  /** Input key → the header that contains it. */
  readonly headers?: Readonly<Record<string, string>>
  /** Input key → the header that may contain it in place of the body. Not together with `headers`. */
  readonly bodyOrHeader?: Readonly<Record<string, string>>
  /** Input keys that a HEAD request ignores. */
  readonly ignoredByHead?: readonly string[]
  /** Query parameters that the REST door reads itself, for the docs. */
  readonly ownQuery?: Readonly<Record<string, JsonSchema>>
  /**
   * must: a call without a body is rejected, even if no key is required. may: a body is read and checked,
   * even if the operation has no keys. Default: the body of an operation without keys is not read.
   */
  readonly body?: 'must' | 'may'
  /**
   * The body is the key `file`, a `SentFile`: raw bytes, or the file of a form. The other form fields are
   * keys, too.
   */
  readonly hasFileBody?: true
  /** Kind of the answer. Default: JSON. */
  readonly answerKind?: 'events' | 'bytes' | 'file' | 'prometheus'
  /** Status for outputs for which `when` returns true. All others have 200. */
  readonly otherStatus?: { readonly status: number; when(output: Output): boolean }
  /** Returns headers of the answer, for facts that are not part of the output. */
  answerHeaders?(
    gateway: Gateway,
    input: Input,
    output: Output,
  ): Promise<Readonly<Record<string, string>> | undefined>
}

/** A file in the body of a request, as a stream. */
export interface SentFile {
  readonly body: ReadableStream<Uint8Array>
  /** Maximum size in bytes, if the caller announced it. */
  readonly size?: number
}

/** Definition of an operation as its author writes it. */
export interface OperationDefinition<I extends TObject, O extends TSchema> {
  readonly name: string
  readonly title: string
  readonly effect: Effect
  /** Right that a caller needs, or several of which one is enough. The gate checks it. */
  readonly right: Right | readonly Right[]
  /** Name of the tool that this operation is a part of. A caller with that tool may call it too. */
  readonly partOf?: string
  /**
   * Whether a call has a line in the audit log. Default: unless the effect is `read`. False for an operation that
   * is called all the time, or whose line is written elsewhere; true for one that hands out very much. counted: calls of a
   * key to one subject have a line in a minute, and one with the number of the others.
   */
  readonly audited?: boolean | 'counted'
  /** Calls that look at what an earlier one began: only the one that brings its end has a line. */
  readonly poll?: {
    isOne(gateway: Gateway, input: Static<I>, call: Call): Promise<boolean>
    isEnd(output: Static<O>): boolean
  }
  /** Input keys with the subject of its line in the audit log. Default: ids, and names of sessions. */
  readonly subject?: readonly Extract<keyof Static<I>, string>[]
  /** Returns what its line in the audit log has in addition, before the call runs. It does not throw. */
  findAuditDetails?(gateway: Gateway, input: Static<I>, call: Call): Promise<Partial<NewAuditLine>>
  /**
   * Description for people and agents: what it does, when to use it, its errors, and the limits of WeChat.
   */
  readonly description: string
  /** Default: no keys. */
  readonly input?: I
  readonly output: O
  /** Error codes of this operation. Those of every call are added. */
  readonly errors?: readonly ErrorCode[]
  readonly examples?: readonly Example[]
  /** Maximum size of the JSON body in bytes. Default: 1 MiB. */
  readonly maxBodyBytes?: number
  /** Additional description by the location of the caller. */
  readonly about?: { readonly [W in CallerLocation]?: string }
  readonly rest?: RestShape<Static<I>, Static<O>>
  readonly cli?: CommandShape
  /**
   * Input keys that are arguments of the library method, in this order, before an object with the other keys; also the
   * default of the command. Default: the keys in the path of the route.
   */
  readonly positionals?: readonly Extract<keyof Static<I>, string>[]
  /**
   * Checks what a schema cannot express.
   *
   * @param given the input without defaults
   * @throws SvcError `invalid_arguments`
   */
  check?(input: Static<I>, given: Readonly<Record<string, unknown>>): void
  /** Returns the rights that a caller needs in addition for this input, of a list one. The gate checks them. */
  furtherRights?(input: Static<I>): readonly (Right | readonly Right[])[]
  run(gateway: Gateway, input: Static<I>, call: Call): Promise<Static<O>>
}

/** An operation as the doors use it: its input is unknown, and `parse` checks it. */
export interface Operation
  extends Omit<
    OperationDefinition<TObject, TSchema>,
    | 'run'
    | 'check'
    | 'furtherRights'
    | 'subject'
    | 'findAuditDetails'
    | 'maxBodyBytes'
    | 'rest'
    | 'positionals'
    | 'input'
  > {
  readonly maxBodyBytes: number
  readonly errors: readonly ErrorCode[]
  readonly examples: readonly Example[]
  readonly rest?: RestShape
  readonly positionals?: readonly string[]
  readonly input: TObject
  /** Input and output as plain JSON Schema. */
  readonly inputSchema: JsonSchema
  readonly outputSchema: JsonSchema
  /** Checks the input. @throws SvcError `invalid_arguments` that names every wrong field */
  parse(input: unknown): Record<string, unknown>
  readonly subject?: readonly string[]
  findAuditDetails?(
    gateway: Gateway,
    input: Record<string, unknown>,
    call: Call,
  ): Promise<Partial<NewAuditLine>>
  furtherRights?(input: Record<string, unknown>): readonly (Right | readonly Right[])[]
  /**
   * Runs the operation. Only the gate calls it: it checks the right of the caller, and `input` is the result
   * of `parse`.
   */
  run(gateway: Gateway, input: Record<string, unknown>, call: Call): Promise<unknown>
}

/** Error codes that every call may end with. */
const commonErrors: readonly ErrorCode[] = [
  'store_unavailable',
  'invalid_arguments',
  'internal',
  'shutting_down',
]

const mebibyte = 1024 * 1024

/** An operation with its types, from which the library's methods and the panel's calls are derived. */
export interface TypedOperation<I extends TObject, O extends TSchema, N extends string = string>
  extends Omit<Operation, 'positionals'> {
  readonly name: N
  readonly input: I
  readonly output: O
  parse(input: unknown): Static<I>
  furtherRights?(input: Static<I>): readonly (Right | readonly Right[])[]
  run(gateway: Gateway, input: Static<I>, call: Call): Promise<Static<O>>
}

/** The input keys in the path of a route. */
type PathKeys<Route extends string> = Route extends `${string}{${infer Key}}${infer Rest}`
  ? [Key, ...PathKeys<Rest>]
  : []

/** Creates an operation from its definition. @throws Error if its schema is not supported */
export function defineOperation<
  O extends TSchema,
  const N extends string,
  I extends TObject = TObject<Record<never, never>>,
  const R extends string = '',
  const P extends readonly string[] = PathKeys<R>,
>(
  definition: Omit<OperationDefinition<I, O>, 'positionals'> & {
    readonly name: N
    readonly rest?: { readonly route: R }
    readonly positionals?: P
  },
): TypedOperation<I, O, N> & { readonly positionals: P } {
  const { cli, input = closed({}) as unknown as I, rest } = definition
  const inputSchema = toJsonSchema(input)
  if (inputSchema.type !== 'object' || inputSchema.additionalProperties !== false)
    throw new Error(`${definition.name}: input must be an object that rejects unknown keys`)
  checkVocabulary(inputSchema, definition.name)
  const pathKeys = [...(rest?.route.matchAll(/\{(\w+)\}/g) ?? [])].map(([, key]) => key)
  const positionals = definition.positionals ?? (pathKeys as unknown as P)
  return {
    ...definition,
    input,
    positionals,
    cli: cli && { positionals, ...cli },
    errors: [...new Set([...(definition.errors ?? []), ...commonErrors])],
    examples: definition.examples ?? [],
    maxBodyBytes: definition.maxBodyBytes ?? mebibyte,
    inputSchema,
    outputSchema: toJsonSchema(definition.output),
    parse(given) {
      const parsed = parse(input, given)
      definition.check?.(parsed, Object(given))
      return parsed
    },
  }
}

/** Definition of a tool as its author writes it. */
export interface ToolDefinition<I extends TObject, O extends TSchema>
  extends Omit<OperationDefinition<I, O>, 'rest'> {
  /** The tool works only with data of this machine: neither with WeChat nor with what people wrote there. */
  readonly machineOnly?: true
  readonly rest?: Partial<Pick<RestShape<Static<I>, Static<O>>, 'answerHeaders' | 'bodyOrHeader'>>
  readonly cli: CommandShape
}

/** A tool as the doors use it. */
export interface Tool extends Operation, Pick<ToolDefinition<TObject, TSchema>, 'machineOnly'> {
  readonly rest: RestShape
  readonly cli: CommandShape
}

/** A tool with its types. */
export type TypedTool<I extends TObject, O extends TSchema, N extends string = string> = Omit<
  TypedOperation<I, O, N>,
  'cli' | 'rest'
> &
  Pick<Tool, 'cli' | 'rest' | 'machineOnly'>

/**
 * Creates a tool from its definition.
 *
 * @throws Error if its schema is not supported, or a question is missing
 */
export function defineTool<I extends TObject, O extends TSchema, const N extends string>(
  definition: ToolDefinition<I, O> & { readonly name: N },
): TypedTool<I, O, N> {
  const { name, effect, cli } = definition
  if (effect === 'destroy' && !cli.question)
    throw new Error(`${name}: its effect is destroy, so its command needs a question`)
  const rest: RestShape = {
    route: `POST /tools/default/${name}`,
    tag: 'tools',
    body: 'must',
    ...definition.rest,
  }
  return { ...definition, ...defineOperation({ ...definition, rest }), rest, cli }
}
