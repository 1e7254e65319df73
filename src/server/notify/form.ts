/** The form of a body: text, JSON, the fields and files of a form, or bytes. */
import { Buffer } from 'node:buffer'
import { SvcError } from '../../model/error.ts'
import type { AttachedFile } from '../../operations/notices.ts'
import { attempt, isObject } from '../../platform/fields.ts'
import { checkShape, smallBytes, takeTurn } from '../body.ts'
import { decodeBytes } from './bytes.ts'
import { type FieldSources, findField, isTextName } from './names.ts'
import { textAt } from './sent-notice.ts'

type Bytes = Uint8Array<ArrayBuffer>
type Parse = (text: string) => unknown

/** A body, as far as it has a form. */
export interface ReadBody {
  /** The whole body. */
  readonly bytes: Bytes
  /** Its text, if it is one and has no other form. */
  readonly text?: string | undefined
  /** JSON, or the fields of a form. */
  readonly json?: unknown
  /** The files of a form. */
  readonly files?: readonly AttachedFile[]
}

/**
 * Reads the form of a body. What claims to be JSON or a form and is neither stays bytes: it is sent as text.
 *
 * @param parse parses JSON
 * @throws SvcError `payload_too_large` for JSON with too many values, or a form with too many fields or parts
 */
export async function readBodyForm(
  sources: Pick<FieldSources, 'headers' | 'query'>,
  bytes: Bytes,
  parse: Parse,
): Promise<ReadBody> {
  if (bytes.length > smallBytes) await takeTurn()
  const type = sources.headers.get('content-type') ?? ''
  if (/^multipart\/form-data/i.test(type)) return readMultipart(bytes, type, parse)
  // With a file name, the body is a file whatever is in it.
  if (bytes.length === 0 || findField(sources, 'filename')) return { bytes }
  const [, charset] = /;\s*charset\s*=\s*"?([^\s;"]{1,40})/i.exec(type) ?? []
  const isFile = /^(image|audio|video)\/|^application\/(octet-stream|pdf|zip|gzip)/i.test(type)
  const text = isFile ? decodeAsUtf8(bytes) : decodeBytes(bytes, charset)
  if (text === undefined) return { bytes }
  if (/^application\/x-www-form-urlencoded/i.test(type)) {
    const fields = bytes.length > maxFormBytes ? undefined : readFields(text, charset)
    if (fields) return ofForm({ bytes }, fields, parse)
  }
  const isMarked = /^application\/([\w.-]+\+)?json/i.test(type)
  const json = isMarked || /^\s*\{/.test(text) ? await parseJson(text, parse) : undefined
  // What ntfy is given as a text is one.
  if (textAt(json, 'topic') === '') await unfold(json, parse)
  return json === undefined ? { bytes, text } : { bytes, json }
}

/** The checks of a longer text would block the process. */
const maxFormBytes = 4 * 1024 * 1024

function decodeAsUtf8(bytes: Bytes): string | undefined {
  const text = new TextDecoder().decode(bytes)
  return text.includes('\ufffd') ? undefined : text
}

async function parseJson(text: string, parse: Parse): Promise<unknown> {
  await checkShape(text, smallBytes)
  return attempt(() => parse(text))
}

/**
 * Reads the fields of a form; undefined for another text, which curl sends under the same type: a form is known by the name of a
 * text, or by what was encoded.
 *
 * @param charset of the percent codes
 */
function readFields(text: string, charset: string | undefined): Record<string, string> | undefined {
  const pairs = text.trim().split('&', maxParts + 1)
  const isStrict = pairs.every(pair => /^[\w.%*+~[\]-]+=[\w.%*+~!'()/:,@-]*$/.test(pair))
  const names = pairs.map(pair => pair.split('=', 1)[0]!)
  const isForm = isStrict
    ? names.some(isTextName) || pairs.length > 1 || /%[0-9a-f]{2}/i.test(text)
    : /^[\w-]+=/.test(text) && isTextName(names[0]!) && pairs.every(pair => /^[\w-]+=/.test(pair))
  if (!isForm) return undefined
  if (pairs.length > maxParts) throw tooManyPartsError()
  const decode = (part: string): string => {
    const bytes = Buffer.from(
      part
        .replaceAll('+', ' ')
        .replace(/[^\0-\x7f]+/g, encodeURIComponent)
        .replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
      'latin1',
    )
    return decodeBytes(bytes, /%/.test(part) ? charset : undefined) ?? bytes.toString('latin1')
  }
  return Object.fromEntries(
    pairs.map(pair => [decode(pair.split('=', 1)[0]!), decode(pair.slice(pair.indexOf('=') + 1))]),
  )
}

/** Texts with JSON that are read in one body, and how deep they may lie. */
const [mostUnfolded, deepestUnfolded] = [20, 6]

/** Puts JSON in the place of texts that are an object, as AWS SNS sends its messages. */
async function unfold(json: unknown, parse: Parse): Promise<void> {
  const found = textsOfObjects(json, 0).take(mostUnfolded).toArray()
  for (const { holder, key, text } of found) {
    const inner = await parseJson(text, parse)
    if (isObject(inner) && Object.keys(inner).length > 0) holder[key] = inner
  }
}

interface FoundText {
  readonly holder: Record<string, unknown>
  readonly key: string
  readonly text: string
}

function* textsOfObjects(value: unknown, depth: number): Generator<FoundText> {
  if (typeof value !== 'object' || value === null || depth > deepestUnfolded) return
  const holder = value as Record<string, unknown>
  for (const [key, inner] of Object.entries(holder)) {
    const text = typeof inner === 'string' ? inner.trim() : ''
    if (text.startsWith('{') && text.endsWith('}')) yield { holder, key, text }
    else yield* textsOfObjects(inner, depth + 1)
  }
}

/** A form's field `payload`, or its only one, may be JSON: so GitHub, programs that know Slack, Plex and Uptime Kuma send it. */
async function ofForm(body: ReadBody, texts: Record<string, string>, parse: Parse): Promise<ReadBody> {
  const fields: Record<string, unknown> = { ...texts }
  await unfold(fields, parse)
  const [only, ...others] = Object.values(fields)
  const whole = fields.payload ?? (others.length === 0 ? only : undefined)
  return { ...body, json: isObject(whole) ? whole : fields }
}

/** Fields of a form, or its parts. Parsing more would block the process. */
const maxParts = 1000
const tooManyPartsError = () =>
  new SvcError('payload_too_large', `The form has more than ${maxParts} fields`, {
    hint: 'Send JSON, or fewer fields.',
  })

/**
 * Returns the type with which a form is parsed, with the boundary whose parts were counted.
 *
 * @throws SvcError `payload_too_large` for a multipart form with too many parts
 */
function countParts({ buffer, byteLength, byteOffset }: Bytes, type: string): string {
  const [, boundary] = /^multipart.*boundary="?([^\s";]+)/i.exec(type) ?? []
  if (!boundary) return type
  const body = Buffer.from(buffer, byteOffset, byteLength)
  const mark = `--${boundary}`
  let count = 0
  for (let at = body.indexOf(mark); at >= 0; at = body.indexOf(mark, at + mark.length)) count++
  if (count > maxParts) throw tooManyPartsError()
  return `multipart/form-data; boundary=${boundary}`
}

async function readMultipart(bytes: Bytes, type: string, parse: Parse): Promise<ReadBody> {
  const form = await new Response(bytes, { headers: { 'content-type': countParts(bytes, type) } })
    .formData()
    .catch(() => undefined)
  if (!form) return { bytes, text: decodeBytes(bytes) }
  const fields: Record<string, string> = {}
  const files: AttachedFile[] = []
  for (const [key, value] of form)
    if (typeof value === 'string') fields[key] = value
    else files.push({ name: value.name, bytes: new Uint8Array(await value.arrayBuffer()) })
  return ofForm({ bytes, files }, fields, parse)
}
