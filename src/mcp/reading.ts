/** What recv and history take at this door besides: how much text an answer may be, and in which form. */

import type { Message } from '../model/message.ts'
import { between, closed, oneOf, optional } from '../model/shapes.ts'
import type { Tool, Whereabouts } from '../operations/operation.ts'
import { parse } from '../operations/parse.ts'
import { type JsonSchema, toJsonSchema } from '../operations/schema.ts'
import { type Format, type PicturedAnswer, roomFor } from '../operations/untrusted.ts'

/** Clients cut what is longer: Cline at 8,000 characters of JSON text, Codex at some 10,000 bytes, others later. */
const usualMaxChars = 8000

const both = {
  max_chars: optional(
    between(
      1000,
      200_000,
      'How many characters the answer may have as JSON text, in which a quote or a line end is two. What does not fit waits for the next call; a single longer message is cut, and the answer says how to read on.',
      { default: usualMaxChars },
    ),
  ),
  format: optional(
    oneOf(
      ['concise', 'full'],
      'concise: each user by an alias, times short; full: every field of each message.',
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
        'Of the newest message of the page: leave out so many characters of its text, which were read before.',
        { default: 0 },
      ),
    ),
  }),
}

/**
 * The pictures of an answer come after its text. Cline (3.0) takes both as one JSON text and cuts its middle out, so that 4,000
 * characters are left at the beginning: all of the text, then.
 */
export const pictured: PicturedAnswer = {
  maxChars: 3900,
  mostPictures: 4,
  picturesOf: message => sentPictures(message).length,
}

/** Which media of a message are pictures that somebody sent, counted as `download` counts them. */
export const sentPictures = ({ direction, items }: Message): number[] =>
  items
    .filter(item => item.has_media)
    .flatMap(({ kind }, item) => (direction === 'received' && kind === 'IMAGE' ? [item] : []))

/** How an answer is to look. */
export interface Reading {
  readonly max_chars: number
  readonly format: Format
  readonly text_from?: number
  /** As of a call. */
  room(): (message: Message) => boolean
}

const isRead = (name: string): name is keyof typeof own => Object.hasOwn(own, name)

/** The arguments of a tool as this door takes them, for a caller there. */
export function inputSchemaOf({ name, inputSchema }: Tool, where: Whereabouts, reader?: string): JsonSchema {
  const { consumer } = inputSchema.properties ?? {}
  const properties = {
    ...inputSchema.properties,
    ...(consumer && reader !== undefined && { consumer: { ...consumer, default: reader } }),
    ...(isRead(name) && toJsonSchema(own[name]).properties),
  }
  return worded({ ...inputSchema, properties }, where)
}

/** Which files a path may name, by where the caller is. */
const paths: Readonly<Record<Whereabouts, string>> = {
  remote:
    "It must lie in the service's media root; send other files by POST /media of the service and the upload_id.",
  anyFile: "Any of this machine, except svc's own files.",
  someFiles: "It must lie in the folder that svc was started in, or in svc's media folder.",
}

/** Bounds, defaults and places stand in the words too: Codex shows its model nothing else. */
function worded(schema: JsonSchema, where: Whereabouts, key = ''): JsonSchema {
  const { default: usual, description, items, maximum, minimum, properties } = schema
  const words = [
    description,
    minimum !== undefined && maximum !== undefined ? `From ${minimum} to ${maximum}.` : undefined,
    usual !== undefined && usual !== '' ? `Default: ${usual}.` : undefined,
    /^(path|save_dir)$|_path$/.test(key) ? paths[where] : undefined,
  ].filter(Boolean)
  return {
    ...schema,
    ...(words.length > 0 && { description: words.join(' ') }),
    ...(items && { items: worded(items, where) }),
    ...(properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, one]) => [name, worded(one, where, name)]),
      ),
    }),
  }
}

/**
 * What was given, apart: what the tool takes, and how the answer is to look.
 *
 * @throws SvcError `invalid_arguments`
 */
export function apart(name: string, given: unknown): { input: unknown; reading?: Reading } {
  if (!isRead(name) || typeof given !== 'object' || given === null) return { input: given }
  const keys = Object.keys(own[name].properties)
  const [mine, rest] = [true, false].map(isMine =>
    Object.fromEntries(Object.entries(given).filter(([key]) => keys.includes(key) === isMine)),
  )
  const { max_chars = usualMaxChars, format = 'concise', ...more } = parse(own[name], mine)
  return {
    input: rest,
    reading: {
      max_chars,
      format,
      ...more,
      room: () => roomFor(max_chars, format, name === 'recv' ? pictured : undefined),
    },
  }
}
