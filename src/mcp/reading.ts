/** Extra arguments of `recv` and `history` over MCP: the length and the format of the answer. */

import type { Message } from '../model/message.ts'
import { between, closed, oneOf, optional } from '../model/shapes.ts'
import type { Tool, Whereabouts } from '../operations/operation.ts'
import { parse } from '../operations/parse.ts'
import { type JsonSchema, toJsonSchema } from '../operations/schema.ts'
import { type Format, type PicturedAnswer, roomFor } from '../operations/untrusted.ts'

/**
 * Default of `max_chars`. Clients cut longer answers: Cline at 8,000 characters of JSON text, Codex at about
 * 10,000 bytes.
 */
const usualMaxChars = 8000

const both = {
  max_chars: optional(
    between(
      1000,
      200_000,
      'Maximum length of the answer as JSON text, in characters; a quote or a line end counts as two. What does not fit waits for the next call. A single longer message is cut, and the answer says how to read on.',
      { default: usualMaxChars },
    ),
  ),
  format: optional(
    oneOf(
      ['concise', 'full'],
      'concise: users by an alias, and short times; full: every field of each message.',
      { default: 'concise' },
    ),
  ),
}
const own = {
  recv: closed(both),
  history: closed({
    ...both,
    text_from: optional(
      between(
        0,
        10_000_000,
        'Characters to skip at the start of the text of the newest message of the page, as they were read before.',
        { default: 0 },
      ),
    ),
  }),
}

/**
 * Limits of an answer with pictures, which come after its text. Cline (3.0) treats both as one JSON text and
 * cuts out the middle, so that the first 4,000 characters stay. So the text must fit into these.
 */
export const pictured: PicturedAnswer = {
  maxChars: 3900,
  mostPictures: 4,
  picturesOf: message => sentPictures(message).length,
}

/** Returns which media of a received message are pictures, by the item numbers of `download`. */
export const sentPictures = ({ direction, items }: Message): number[] =>
  items
    .filter(item => item.has_media)
    .flatMap(({ kind }, item) => (direction === 'received' && kind === 'IMAGE' ? [item] : []))

/** Length and format of an answer. */
export interface Reading {
  readonly max_chars: number
  readonly format: Format
  readonly text_from?: number
  /** Same as `Call.room`. */
  room(): (message: Message) => boolean
}

const isRead = (name: string): name is keyof typeof own => Object.hasOwn(own, name)

/**
 * Returns the input schema of a tool over MCP, for a caller at that location.
 *
 * @param reader default consumer
 */
export function inputSchemaOf({ name, inputSchema }: Tool, where: Whereabouts, reader?: string): JsonSchema {
  const { consumer } = inputSchema.properties ?? {}
  const properties = {
    ...inputSchema.properties,
    ...(consumer && reader !== undefined && { consumer: { ...consumer, default: reader } }),
    ...(isRead(name) && toJsonSchema(own[name]).properties),
  }
  return worded({ ...inputSchema, properties }, where)
}

/** Description of the files that a path may name, by the caller's location. */
const paths: Readonly<Record<Whereabouts, string>> = {
  remote:
    "It must lie in the service's media root; send other files by POST /media of the service and the upload_id.",
  anyFile: "Any of this machine, except svc's own files.",
  someFiles: "It must lie in the folder that svc was started in, or in svc's media folder.",
}

/**
 * Adds bounds, defaults and allowed paths to the descriptions, since Codex gives its model only the
 * descriptions.
 */
function worded(schema: JsonSchema, where: Whereabouts, key = ''): JsonSchema {
  const { default: usual, description, items, maximum, minimum, properties } = schema
  const sentences = [
    description,
    minimum !== undefined && maximum !== undefined ? `From ${minimum} to ${maximum}.` : undefined,
    usual !== undefined && usual !== '' ? `Default: ${usual}.` : undefined,
    /^(path|save_dir)$|_path$/.test(key) ? paths[where] : undefined,
  ].filter(Boolean)
  return {
    ...schema,
    ...(sentences.length > 0 && { description: sentences.join(' ') }),
    ...(items && { items: worded(items, where) }),
    ...(properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, property]) => [name, worded(property, where, name)]),
      ),
    }),
  }
}

/**
 * Splits the arguments of a call into the input of the tool and the settings of its answer.
 *
 * @throws SvcError `invalid_arguments`
 */
export function apart(name: string, args: unknown): { input: unknown; reading?: Reading } {
  if (!isRead(name) || typeof args !== 'object' || args === null) return { input: args }
  const keys = Object.keys(own[name].properties)
  const [settings, input] = [true, false].map(isSetting =>
    Object.fromEntries(Object.entries(args).filter(([key]) => keys.includes(key) === isSetting)),
  )
  const { max_chars = usualMaxChars, format = 'concise', ...more } = parse(own[name], settings)
  return {
    input,
    reading: {
      max_chars,
      format,
      ...more,
      room: () => roomFor(max_chars, format, name === 'recv' ? pictured : undefined),
    },
  }
}
