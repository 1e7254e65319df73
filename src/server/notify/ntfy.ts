/**
 * What clients of ntfy send: a text or a file as the body, and its fields as headers or in the query; or one JSON object.
 *
 * @see https://docs.ntfy.sh/publish/#list-of-all-parameters for the names
 * @see https://github.com/binwiederhier/ntfy/blob/main/server/server.go `parsePublishParams`, `handlePublishBody`,
 *   `transformBodyJSON`
 */
import { Buffer } from 'node:buffer'
import { badArgument } from '../../model/error.ts'
import type { SentNotice } from '../../operations/notices.ts'
import { isWebAddress, maxLength, priorityOf, textOf, textOfUtf8 } from './sent-notice.ts'

/** Where the fields of a notice may stand. */
export interface FieldSources {
  readonly headers: Headers
  readonly query: Readonly<Record<string, string>>
  /** The fields of a JSON object or of a form; they come first. */
  readonly json?: Readonly<Record<string, unknown>> | undefined
}

/** The names of each field. The first one, without `x-`, is that of JSON. */
const namesOf = {
  title: ['title', 't'],
  message: ['message', 'm'],
  priority: ['priority', 'prio', 'p'],
  tags: ['tags', 'tag', 'ta'],
  click: ['click'],
  attach: ['attach', 'a'],
  filename: ['filename', 'file', 'f'],
  delay: ['delay', 'at', 'in'],
  sequence_id: ['sequence-id', 'sequence_id', 'sid'],
  template: ['template', 'tpl'],
} as const
type Field = keyof typeof namesOf

/** Returns a field as it was sent; undefined if it is absent or empty. */
export function readField({ headers, query, json }: FieldSources, field: Field): unknown {
  const inJson = json && Object.hasOwn(json, field) ? json[field] : undefined
  if (inJson !== undefined && inJson !== null && inJson !== '') return inJson
  const [name, ...aliases] = namesOf[field]
  const names = [`x-${name}`, name, ...aliases]
  const inHeaders = names.map(one => headerText(headers, one)).find(Boolean)
  return inHeaders ?? names.map(one => query[one]?.trim()).find(Boolean)
}

/** A proxy may add this header, which then says how fast the answer should come (RFC 9218). */
const transferPriority = /^u=\d(,\s*(i|\d))?$/

function headerText(headers: Headers, name: string): string {
  const text = decodeWords(readBytesAsUtf8(headers.get(name) ?? '')).trim()
  return name === 'priority' && transferPriority.test(text) ? '' : text
}

/** Clients write UTF-8 into headers, and the server reads each byte as a character. */
const readBytesAsUtf8 = (text: string): string =>
  /[\u0080-\u00ff]/.test(text) && !/[\u0100-\uffff]/.test(text)
    ? (textOfUtf8(Buffer.from(text, 'latin1')) ?? text)
    : text

const encodedWord = /=\?([\w-]{1,40})(?:\*[^?]*)?\?([bq])\?([^?\s]*)\?=/gi

/** Decodes the words of RFC 2047, `=?utf-8?B?…?=`. What cannot be decoded stays. */
function decodeWords(text: string): string {
  return text
    .replace(/\?=\s+(?==\?[\w-]{1,40}\?[bq]\?)/gi, '?=')
    .replace(encodedWord, (word, charset: string, coding: string, data: string) => {
      const escaped = data
        .replaceAll('_', ' ')
        .replace(/=([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
      const bytes =
        coding.toLowerCase() === 'b' ? Buffer.from(data, 'base64') : Buffer.from(escaped, 'latin1')
      try {
        return new TextDecoder(charset).decode(bytes)
      } catch {
        return word
      }
    })
}

/** A longer text becomes a file, as ntfy does from 4 KiB on. */
const maxTextBytes = 16 * 1024

/**
 * Reads a notice with ntfy's fields. The body is a file if a file name is given, and if it is long or no text.
 *
 * @throws SvcError `invalid_arguments` for a time at which it should go out
 */
export function readNtfy(
  sources: FieldSources,
  body: Uint8Array<ArrayBuffer>,
  fileName?: string,
): SentNotice {
  const field = (name: Field) => textOf(readField(sources, name)).trim()
  if (field('delay'))
    throw badArgument('delay', 'svc sends notices at once, or in a digest of their topic', {
      hint: 'Leave out Delay, At and In.',
    })
  const attach = field('attach')
  const name = fileName || field('filename')
  const url = isWebAddress(attach) ? attach : undefined
  const text = url === undefined && (name || body.length > maxTextBytes) ? undefined : textOfUtf8(body)
  const isFile = body.length > 0 && text === undefined
  const file = isFile ? { name: name || undefined, bytes: body } : url && { name: name || undefined, url }
  const message = sources.json ? field('message') : field('message').replaceAll('\\n', '\n')
  const tags = readField(sources, 'tags')
  return {
    title: field('title'),
    text: (text ?? '').trim() || message || (url === undefined ? attach : ''),
    priority: priorityOf(readField(sources, 'priority')) ?? 'default',
    tags: Array.isArray(tags) ? tags.map(textOf) : textOf(tags).slice(0, maxLength).split(','),
    click: field('click'),
    ...(field('sequence_id') && { fingerprint: field('sequence_id') }),
    ...(file && { file }),
  }
}
