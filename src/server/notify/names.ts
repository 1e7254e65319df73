/**
 * The names of a notice's fields, for headers, queries, forms and JSON alike: those of ntfy, and what other programs call
 * the same.
 *
 * @see https://docs.ntfy.sh/publish/#list-of-all-parameters
 */
import { Buffer } from 'node:buffer'
import { attempt } from '../../platform/fields.ts'
import { decodeBytes } from './bytes.ts'
import { textOf } from './sent-notice.ts'

/** Where the fields of a notice may stand. */
export interface FieldSources {
  readonly headers: Headers
  readonly query: Readonly<Record<string, string>>
  /** The fields of a JSON object or of a form; they come first. */
  readonly json?: Readonly<Record<string, unknown>> | undefined
}

/** The names of each field, the best first; then short ones, which are too common for JSON and forms. */
const namesOf = {
  title: 'title subject text | t',
  message: 'message body desp content msg text | m',
  priority: 'priority prio | p',
  severity: 'severity level urgency importance',
  type: 'type',
  tags: 'tags tag | ta',
  click: 'click url link',
  attach: 'attach attachment attachments attachment_base64 file_url | a',
  filename: 'filename | file f',
  delay: 'delay | at in',
  sequence_id: 'sequence-id sequence_id fingerprint | sid',
  resolved: 'resolved',
  template: 'template | tpl',
} as const
export type Field = keyof typeof namesOf

/** Headers that say something else in HTTP, so they are no fields of a notice. */
const otherHeaders = new Set(['link', 'type'])

/** Returns a name as it is compared: `X-Title` and `title` are one. */
export const plainName = (name: string): string =>
  name
    .slice(0, 100)
    .toLowerCase()
    .replace(/^x-/, '')
    .replace(/[\s_.:-]/g, '')

export interface FoundField {
  readonly value: unknown
  /** Its plain name. */
  readonly name: string
  /** Its key, if it is in the JSON. */
  readonly key?: string
}

const isEmpty = (value: unknown): boolean => value === undefined || value === null || value === ''

type Entry = readonly [key: string, value: unknown]
/** An object may have very many keys, and is asked for each field. */
const indexes = new WeakMap<object, ReadonlyMap<string, Entry>>()

const createIndex = (fields: object): ReadonlyMap<string, Entry> =>
  new Map(
    Object.entries(fields)
      .filter(([, value]) => !isEmpty(value))
      // The first of several counts.
      .reverse()
      .map(entry => [plainName(entry[0]), entry]),
  )

/** Finds what an object has under a name, unless it is empty. */
function findNamed(fields: object, name: string): Entry | undefined {
  const index = indexes.get(fields) ?? createIndex(fields)
  indexes.set(fields, index)
  return index.get(plainName(name))
}

/**
 * Finds a field as it was sent; undefined if it is absent or empty.
 *
 * @param used a name that is another field already
 */
export function findField(sources: FieldSources, field: Field, used?: string): FoundField | undefined {
  const { headers, json = {}, query } = sources
  const [names = [], short = []] = namesOf[field]
    .split(' | ')
    .map(part => part.split(' ').filter(name => name !== used))
  for (const name of names) {
    const [key, value] = findNamed(json, name) ?? []
    if (key !== undefined) return { value, name, key }
  }
  const all = [...names, ...short]
  for (const name of all) {
    const value =
      headerText(headers, `x-${name}`) || (otherHeaders.has(name) ? '' : headerText(headers, name))
    if (value) return { value, name }
  }
  for (const name of all) {
    const value = textOf(findNamed(query, name)?.[1]).trim()
    if (value) return { value, name }
  }
  return undefined
}

/** Whether a name is that of a text for people: a form is known by it. */
export const isTextName = (name: string): boolean =>
  `${namesOf.message} ${namesOf.title} payload`.split(' ').includes(plainName(name))

/** A proxy may add this header, which then says how fast the answer should come (RFC 9218). */
const transferPriority = /^u=\d(,\s*(i|\d))?$/

function headerText(headers: Headers, name: string): string {
  const text = decodeWords(readBytes(headers.get(name) ?? '')).trim()
  return name === 'priority' && transferPriority.test(text) ? '' : text
}

/** Clients write bytes into headers, and the server reads each byte as a character. */
const readBytes = (text: string): string =>
  /[\u0080-\u00ff]/.test(text) && !/[\u0100-\uffff]/.test(text)
    ? (decodeBytes(Buffer.from(text, 'latin1')) ?? text)
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
      return attempt(() => new TextDecoder(charset).decode(bytes)) ?? word
    })
}

/** Returns the text of a field; '' if it is absent or no text. */
export const fieldText = (sources: FieldSources, field: Field): string =>
  textOf(findField(sources, field)?.value).trim()
