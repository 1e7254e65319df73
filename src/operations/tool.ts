/**
 * A verb, written once: REST route, MCP tool, command, docs and library method are derived from this one value.
 */
import type { Static, TObject, TSchema } from '@sinclair/typebox'
import type { Gateway } from '../gateway/gateway-api.ts'
import type { Call } from '../model/call.ts'
import type { ErrorCode } from '../model/error.ts'
import { checkVocabulary, parse } from './parse.ts'
import { type JsonSchema, toJsonSchema } from './schema.ts'

/** read: changes nothing. write: changes or sends something. destroy: takes something away. */
export type Effect = 'read' | 'write' | 'destroy'

/** How the command line spells a tool; what is not said here comes from the schema of the input. */
export interface CommandShape {
  /** The words after `svc`. */
  readonly path: readonly string[]
  /** Input keys that may be given without a flag, in this order. Those that are not required have a flag besides. */
  readonly positionals: readonly string[]
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

/** The description of a tool for a caller there. */
export const describedFor = ({ about, description }: Tool, where: Whereabouts): string =>
  about?.[where] === undefined ? description : `${description}\n\n${about[where]}`

/** A call worth showing in the docs. */
export interface Example {
  readonly summary: string
  readonly input: Readonly<Record<string, unknown>>
  readonly output: unknown
}

/** What the author of a verb writes. */
export interface ToolDefinition<I extends TObject, O extends TSchema> {
  readonly name: string
  readonly title: string
  readonly effect: Effect
  /** Meets nothing beyond this machine: neither WeChat nor what people wrote there. */
  readonly machineOnly?: true
  /** To a person and an agent alike: what, when, what goes wrong, what WeChat does not allow. */
  readonly description: string
  /** What else a caller is told, by where it is: elsewhere, or on this machine with the right to name any or some files. */
  readonly about?: { readonly [W in Whereabouts]?: string }
  readonly input: I
  readonly output: O
  /** Codes of its own; those of every call are added. */
  readonly errors: readonly ErrorCode[]
  readonly cli: CommandShape
  readonly examples: readonly Example[]
  /** Longest JSON body in bytes, where the usual 1 MiB is too little. */
  readonly maxBodyBytes?: number
  /** What a schema cannot say. @param given the input without defaults @throws SvcError `invalid_arguments` */
  check?(input: Static<I>, given: Readonly<Record<string, unknown>>): void
  run(gateway: Gateway, input: Static<I>, call: Call): Promise<Static<O>>
}

/** A verb as the doors see it: input unknown, checked by `parse`. */
export interface Tool extends Omit<ToolDefinition<TObject, TSchema>, 'run' | 'check' | 'maxBodyBytes'> {
  readonly maxBodyBytes: number
  /** Plain JSON Schema of input and output. */
  readonly inputSchema: JsonSchema
  readonly outputSchema: JsonSchema
  /** @throws SvcError `invalid_arguments` naming every wrong field */
  parse(input: unknown): Record<string, unknown>
  /** `input` is what `parse` gave. */
  run(gateway: Gateway, input: Record<string, unknown>, call: Call): Promise<unknown>
}

/** Every call may end so. */
const everywhere: readonly ErrorCode[] = ['invalid_arguments', 'internal', 'shutting_down']

const mebibyte = 1024 * 1024

/** A tool whose types are still known: what the library's methods derive from. */
export interface TypedTool<I extends TObject, O extends TSchema> extends Tool {
  readonly input: I
  readonly output: O
  parse(input: unknown): Static<I>
  run(gateway: Gateway, input: Static<I>, call: Call): Promise<Static<O>>
}

/** Makes the Tool of a definition, whose types are checked here; most doors forget them. */
export function defineTool<I extends TObject, O extends TSchema>(
  definition: ToolDefinition<I, O>,
): TypedTool<I, O> {
  const inputSchema = toJsonSchema(definition.input)
  if (inputSchema.type !== 'object' || inputSchema.additionalProperties !== false)
    throw new Error(`${definition.name}: input must be an object that refuses unknown keys`)
  checkVocabulary(inputSchema, definition.name)
  if (definition.effect === 'destroy' && !definition.cli.question)
    throw new Error(`${definition.name}: it takes something away, so its command needs a question`)
  return {
    ...definition,
    errors: [...new Set([...definition.errors, ...everywhere])],
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
