/**
 * A verb, written once: REST route, MCP tool, command, docs and library method are derived from this one value. A tool is one
 * that agents are offered.
 */
import type { Static, TObject, TSchema } from '@sinclair/typebox'
import type { Gateway } from '../gateway/gateway-api.ts'
import type { Call } from '../model/call.ts'
import type { ErrorCode } from '../model/error.ts'
import { checkVocabulary, parse } from './parse.ts'
import type { Right } from './rights.ts'
import { type JsonSchema, toJsonSchema } from './schema.ts'

/** read: changes nothing. write: changes or sends something. destroy: takes something away. */
export type Effect = 'read' | 'write' | 'destroy'

/** How the command line spells an operation; what is not said here comes from the schema of the input. */
export interface CommandShape {
  /** The words after `svc`. */
  readonly path: readonly string[]
  /** One more word that changes nothing: `svc webhook list` is `svc webhook`. */
  readonly also?: string
  /** What lists of commands say, where that is not the title. */
  readonly summary?: string
  /** Input keys that may be given without a flag, in this order. Those that are not required have a flag besides. */
  readonly positionals: readonly string[]
  /** Required positionals that may be left out where another option of the command stands for them. */
  readonly leftOut?: readonly string[]
  /** Input key → one letter. */
  readonly short: Readonly<Record<string, string>>
  /** Input key → its name there, where that is not the key with dashes: `image_path` is `--image`. */
  readonly names?: Readonly<Record<string, string>>
  /** Input key → what its help says, where a person at this machine is told something else than a distant caller. */
  readonly help?: Readonly<Record<string, string>>
  /** Input key → its default there, where that is not the schema's. */
  readonly defaults?: Readonly<Record<string, string | number>>
  /** Input key whose value `-` stands for what comes on stdin. */
  readonly stdin?: string
  /** Flags that may be given several times, together: then each is an entry of `into`, in the order given. */
  readonly series?: {
    readonly into: string
    /** The entry's key that takes the flag's value. */
    readonly value: string
    /** Input key of the flag → the rest of its entry. */
    readonly entries: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  }
  /** What the command's help says instead of the description, where that speaks to callers from elsewhere. */
  readonly about?: string
  /**
   * What a person at a terminal is asked before it is done, as what it takes away is gone; every tool whose effect is
   * `destroy` has it. `input` is what `parse` gave.
   */
  question?(gateway: Gateway, input: Readonly<Record<string, unknown>>): Promise<string>
  /**
   * Refuses what is clear enough for a program and not for a person who typed it. `input` is what `parse` gave.
   *
   * @throws SvcError `invalid_arguments`, `session_not_found`
   */
  refuse?(gateway: Gateway, input: Readonly<Record<string, unknown>>): Promise<void>
  /** Command lines worth showing besides the tool's examples, each with what it does. */
  readonly examples?: readonly (readonly [line: string, does: string])[]
  /** The command shows those alone: it does more than one call, so the tool's examples are not its own. */
  readonly ownExamples?: true
}

/** Where a caller is, and which files it may name by their paths. */
export type Whereabouts = 'remote' | 'anyFile' | 'someFiles'

/** The description of an operation for a caller there. */
export const describedFor = (
  { about, description }: Pick<Operation, 'about' | 'description'>,
  where: Whereabouts,
): string => (about?.[where] === undefined ? description : `${description}\n\n${about[where]}`)

/** A call worth showing in the docs. */
export interface Example {
  readonly summary: string
  /** Absent where nothing is asked. */
  readonly input?: Readonly<Record<string, unknown>>
  readonly output: unknown
}

/** Where HTTP callers find an operation, and what HTTP does there in a way of its own. */
export interface RestShape<Input = unknown, Output = unknown> {
  /** `{key}` in the path takes that key of the input. The others stand in the query of GET and DELETE, else in the JSON body. */
  readonly place: `${'GET' | 'POST' | 'PUT' | 'DELETE'} /${string}`
  /** Under which heading the docs have it. */
  readonly tag: 'messages' | 'sessions' | 'accounts' | 'media' | 'webhooks' | 'panel' | 'service'
  /** What the docs call it, where that is not its name. */
  readonly operationId?: string
  /** The panel has it, below its own prefix, and the service does not. */
  readonly panelOnly?: true
  /** The docs do not show it. */
  readonly hidden?: true
  /** Anybody may call it, so its caller is nobody in particular. */
  readonly open?: true
  /** Input key → the header that it comes in. */
  readonly headers?: Readonly<Record<string, string>>
  /** Input keys that a HEAD leaves out. */
  readonly notByHead?: readonly string[]
  /** Query parameters that the door itself reads, for the docs. */
  readonly ownQuery?: Readonly<Record<string, JsonSchema>>
  /**
   * must: a call without a body is refused, even if no key is required. may: a body is read and judged, even if the operation
   * has no keys. Without it, that of an operation without keys is not read.
   */
  readonly body?: 'must' | 'may'
  /** The body is the key `file`, a `SentFile`: raw bytes, or the file of a form, whose other fields are keys too. */
  readonly takesFile?: true
  /** What the answer is if it is not JSON. */
  readonly answers?: 'events' | 'bytes' | 'prometheus'
  /** The status of some outputs; that of the others is 200. */
  readonly otherStatus?: { readonly status: number; when(output: Output): boolean }
  /** Headers of the answer that say what the output has no place for. */
  answerHeaders?(
    gateway: Gateway,
    input: Input,
    output: Output,
  ): Promise<Readonly<Record<string, string>> | undefined>
}

/** A body that is taken as it comes. */
export interface SentFile {
  readonly body: ReadableStream<Uint8Array>
  /** Bytes at most, if the caller announced it. */
  readonly size?: number
}

/** How a program calls an operation of the library: keys of the input in order, then an object of the rest. */
export interface MethodShape<Key extends string = string> {
  readonly positionals: readonly Key[]
}

/** What the author of a verb writes. */
export interface OperationDefinition<I extends TObject, O extends TSchema> {
  readonly name: string
  readonly title: string
  readonly effect: Effect
  /** What a caller must hold; the gate asks for it. */
  readonly right: Right
  /** To people and agents alike: what, when, what goes wrong, what WeChat does not allow. */
  readonly description: string
  readonly input: I
  readonly output: O
  /** Codes of its own; those of every call are added. */
  readonly errors?: readonly ErrorCode[]
  readonly examples?: readonly Example[]
  /** Longest JSON body in bytes, where the usual 1 MiB is too little. */
  readonly maxBodyBytes?: number
  /** What else a caller is told, by where it is: elsewhere, or on this machine with the right to name any or some files. */
  readonly about?: { readonly [W in Whereabouts]?: string }
  readonly rest?: RestShape<Static<I>, Static<O>>
  readonly cli?: CommandShape
  readonly library?: MethodShape<Extract<keyof Static<I>, string>>
  /** What a schema cannot say. @param given the input without defaults @throws SvcError `invalid_arguments` */
  check?(input: Static<I>, given: Readonly<Record<string, unknown>>): void
  run(gateway: Gateway, input: Static<I>, call: Call): Promise<Static<O>>
}

/** A verb as the doors see it: input unknown, checked by `parse`. */
export interface Operation
  extends Omit<OperationDefinition<TObject, TSchema>, 'run' | 'check' | 'maxBodyBytes' | 'rest' | 'library'> {
  readonly maxBodyBytes: number
  readonly errors: readonly ErrorCode[]
  readonly examples: readonly Example[]
  readonly rest?: RestShape
  readonly library?: MethodShape
  /** Plain JSON Schema of input and output. */
  readonly inputSchema: JsonSchema
  readonly outputSchema: JsonSchema
  /** @throws SvcError `invalid_arguments` naming every wrong field */
  parse(input: unknown): Record<string, unknown>
  /** For the gate alone: it asks who calls, and `input` is what `parse` gave. */
  run(gateway: Gateway, input: Record<string, unknown>, call: Call): Promise<unknown>
}

/** Every call may end so. */
const everywhere: readonly ErrorCode[] = ['invalid_arguments', 'internal', 'shutting_down']

const mebibyte = 1024 * 1024

/** An operation whose types are still known: what the library's methods and the panel's calls derive from. */
export interface TypedOperation<I extends TObject, O extends TSchema, N extends string = string>
  extends Omit<Operation, 'library'> {
  readonly name: N
  readonly input: I
  readonly output: O
  parse(input: unknown): Static<I>
  run(gateway: Gateway, input: Static<I>, call: Call): Promise<Static<O>>
}

/** Makes the operation of a definition, whose types are checked here; most doors forget them. */
export function operation<
  I extends TObject,
  O extends TSchema,
  const N extends string,
  const P extends readonly string[] = [],
>(
  definition: Omit<OperationDefinition<I, O>, 'library'> & {
    readonly name: N
    readonly library?: { readonly positionals: P }
  },
): TypedOperation<I, O, N> & { readonly library?: { readonly positionals: P } } {
  const inputSchema = toJsonSchema(definition.input)
  if (inputSchema.type !== 'object' || inputSchema.additionalProperties !== false)
    throw new Error(`${definition.name}: input must be an object that refuses unknown keys`)
  checkVocabulary(inputSchema, definition.name)
  return {
    ...definition,
    errors: [...new Set([...(definition.errors ?? []), ...everywhere])],
    examples: definition.examples ?? [],
    maxBodyBytes: definition.maxBodyBytes ?? mebibyte,
    inputSchema,
    outputSchema: toJsonSchema(definition.output),
    parse(input) {
      const parsed = parse(definition.input, input)
      definition.check?.(parsed, Object(input))
      return parsed
    },
  }
}

/** What the author of a tool writes. */
export interface ToolDefinition<I extends TObject, O extends TSchema>
  extends Omit<OperationDefinition<I, O>, 'rest'> {
  /** Meets nothing beyond this machine: neither WeChat nor what people wrote there. */
  readonly machineOnly?: true
  readonly rest?: Partial<Pick<RestShape<Static<I>, Static<O>>, 'tag' | 'answerHeaders'>>
  readonly cli: CommandShape
}

/** A tool as the doors see it. */
export interface Tool extends Operation, Pick<ToolDefinition<TObject, TSchema>, 'machineOnly'> {
  readonly rest: RestShape
  readonly cli: CommandShape
}

/** A tool whose types are still known. */
export type TypedTool<I extends TObject, O extends TSchema, N extends string = string> = Omit<
  TypedOperation<I, O, N>,
  'cli' | 'rest'
> &
  Pick<Tool, 'cli' | 'rest' | 'machineOnly'>

export function defineTool<I extends TObject, O extends TSchema, const N extends string>(
  definition: ToolDefinition<I, O> & { readonly name: N },
): TypedTool<I, O, N> {
  const { name, effect, cli } = definition
  if (effect === 'destroy' && !cli.question)
    throw new Error(`${name}: it takes something away, so its command needs a question`)
  const rest: RestShape = {
    place: `POST /tools/default/${name}`,
    tag: 'messages',
    body: 'must',
    ...definition.rest,
  }
  return { ...definition, ...operation({ ...definition, rest }), rest, cli }
}
