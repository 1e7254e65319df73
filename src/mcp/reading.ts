/** Extra arguments of `recv` and `history` over MCP: the length and the format of the answer. */

import type { Message } from '../model/message.ts'
import { closed, optional } from '../model/shapes.ts'
import type { CallerLocation, Tool } from '../operations/operation.ts'
import { parse } from '../operations/parse.ts'
import { type JsonSchema, toJsonSchema } from '../operations/schema.ts'
import { createMessageBudget, type Format, type PictureLimits } from '../operations/untrusted.ts'
import { attempt } from '../platform/fields.ts'

/**
 * Default of `max_chars`. Clients cut longer answers: Cline at 8,000 characters of JSON text, Codex at about
 * 10,000 bytes.
 */
const defaultMaxChars = 8000

const commonSettings = {
  max_chars: optional.between(
    1000,
    200_000,
    'Longest answer, in characters of JSON text. What does not fit waits for the next call; a single longer message is cut, and the answer says how to read on.',
    { default: defaultMaxChars },
  ),
  format: optional.oneOf(['concise', 'full'], 'full: every field of each message.', { default: 'concise' }),
}
const settingsOfTool = {
  recv: closed(commonSettings),
  history: closed({
    ...commonSettings,
    text_from: optional.between(
      0,
      10_000_000,
      'Characters to skip of the newest message, since they were read before.',
      {
        default: 0,
      },
    ),
  }),
}

/**
 * Limits of an answer with pictures, which come after its text. Cline (3.0) treats both as one JSON text and
 * cuts out the middle, so that the first 4,000 characters stay. So the text must fit into these.
 */
export const pictureLimits: PictureLimits = {
  maxChars: 3900,
  maxPictures: 4,
  picturesOf: message => receivedPictures(message).length,
}

/** Returns which media of a received message are pictures, by the item numbers of `download`. */
export const receivedPictures = ({ direction, items }: Message): number[] =>
  items
    .filter(item => item.has_media)
    .flatMap(({ kind }, item) => (direction === 'received' && kind === 'IMAGE' ? [item] : []))

/** Length and format of an answer. */
export interface AnswerSettings {
  readonly max_chars: number
  readonly format: Format
  readonly text_from?: number
  /** Same as `Call.startFitCheck`. */
  startFitCheck(): (message: Message) => boolean
}

const hasAnswerSettings = (name: string): name is keyof typeof settingsOfTool =>
  Object.hasOwn(settingsOfTool, name)

/**
 * Returns the input schema of a tool over MCP, for a caller at that location.
 *
 * @param reader default consumer
 */
export function inputSchemaOf(
  { name, inputSchema }: Tool,
  where: CallerLocation,
  reader?: string,
): JsonSchema {
  const { consumer } = inputSchema.properties ?? {}
  const properties = {
    ...inputSchema.properties,
    ...(consumer && reader !== undefined && { consumer: { ...consumer, default: reader } }),
    ...(hasAnswerSettings(name) && toJsonSchema(settingsOfTool[name]).properties),
  }
  return describeInWords({ ...inputSchema, properties }, where)
}

/**
 * Returns the schema of an output over MCP: its shape. The description of the tool says what a model must know of
 * it, and the docs of the route what each field means.
 */
export function shapeOf({ description: _description, items, properties, ...schema }: JsonSchema): JsonSchema {
  return {
    ...schema,
    ...(items && { items: shapeOf(items) }),
    ...(properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, property]) => [name, shapeOf(property)]),
      ),
    }),
  }
}

/** Description of the folders that `download` may name, by the caller's location. `send` describes its paths once. */
const allowedFolders: Readonly<Record<CallerLocation, string>> = {
  remote: "It must lie in the service's media root.",
  anyFile: "Any of this machine, except svc's own.",
  someFiles: "It must lie in the folder that svc was started in, or in svc's media folder.",
}

/**
 * Adds bounds, defaults and allowed folders to the descriptions, since Codex gives its model only the
 * descriptions. Leaves out examples and lengths of strings: `parse` checks them.
 */
function describeInWords(
  { examples: _examples, maxLength: _max, minLength: _min, ...schema }: JsonSchema,
  where: CallerLocation,
  key = '',
): JsonSchema {
  const { anyOf, default: usual, description, items, maximum, minimum, properties } = schema
  const sentences = [
    description,
    minimum !== undefined && maximum !== undefined ? `From ${minimum} to ${maximum}.` : undefined,
    usual !== undefined && usual !== '' ? `Default: ${usual}.` : undefined,
    key === 'save_dir' ? allowedFolders[where] : undefined,
  ].filter(Boolean)
  return {
    ...schema,
    ...(sentences.length > 0 && { description: sentences.join(' ') }),
    ...(anyOf && { anyOf: anyOf.map(({ type }) => ({ type })) }),
    ...(items && { items: describeInWords(items, where) }),
    ...(properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, property]) => [name, describeInWords(property, where, name)]),
      ),
    }),
  }
}

/** Arguments without which a call means more: null could be meant to narrow it. */
const widening: ReadonlySet<string> = new Set(['user_id', 'session_name', 'ack', 'after', 'users'])

/**
 * Reads arguments as models write them: null for absent, and a list or an object as a JSON text.
 *
 * @param schema of the value
 */
export function readGiven({ items, properties, type }: JsonSchema, given: unknown): unknown {
  const isText = (type === 'array' || type === 'object') && typeof given === 'string'
  const value = isText ? (attempt(() => JSON.parse(given)) ?? given) : given
  if (Array.isArray(value)) return items ? value.map(one => readGiven(items, one)) : value
  if (!properties || typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, field]) =>
      field === null && !widening.has(key) ? [] : [[key, readGiven(properties[key] ?? {}, field)]],
    ),
  )
}

/**
 * Splits the arguments of a call into the input of the tool and the settings of its answer.
 *
 * @throws SvcError `invalid_arguments`
 */
export function splitArguments(name: string, args: unknown): { input: unknown; reading?: AnswerSettings } {
  if (!hasAnswerSettings(name) || typeof args !== 'object' || args === null) return { input: args }
  const keys = Object.keys(settingsOfTool[name].properties)
  const [settings, input] = [true, false].map(isSetting =>
    Object.fromEntries(Object.entries(args).filter(([key]) => keys.includes(key) === isSetting)),
  )
  const { max_chars = defaultMaxChars, format = 'concise', ...more } = parse(settingsOfTool[name], settings)
  return {
    input,
    reading: {
      max_chars,
      format,
      ...more,
      startFitCheck: () =>
        createMessageBudget(max_chars, format, name === 'recv' ? pictureLimits : undefined),
    },
  }
}
