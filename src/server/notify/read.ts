/** Tells by what comes who the sender of a request to a topic is, and reads its notices: no reader guesses at words. */
import { Buffer } from 'node:buffer'
import { SvcError } from '../../model/error.ts'
import type { TopicForDoor } from '../../model/topic.ts'
import type { SentNotice } from '../../operations/notices.ts'
import { isObject } from '../../platform/fields.ts'
import { checkShape } from '../body.ts'
import { readAlerts } from './alerts.ts'
import { readApprise } from './apprise.ts'
import { formatFields } from './fields.ts'
import { readGithub } from './github.ts'
import { type FieldSources, readField, readNtfy } from './ntfy.ts'
import { textAt, textOf, textOfUtf8, tidyNotice } from './sent-notice.ts'
import { fillTemplate } from './template.ts'

/** A body, as far as it has a form. */
export interface ReadBody {
  /** The whole body. */
  readonly bytes: Uint8Array<ArrayBuffer>
  /** JSON, or the fields of a form. */
  readonly json?: unknown
  /** The first file of a form. */
  readonly file?: { readonly name: string; readonly bytes: Uint8Array<ArrayBuffer> } | undefined
}

/**
 * Reads the form of a body. What claims to be JSON or a form and is neither stays bytes: it is sent as text.
 *
 * @param parse parses JSON
 * @throws SvcError `payload_too_large` for JSON with too many values, or a form with too many parts
 */
export async function readBodyForm(
  sources: Pick<FieldSources, 'headers' | 'query'>,
  bytes: Uint8Array<ArrayBuffer>,
  parse: (text: string) => unknown,
): Promise<ReadBody> {
  const type = sources.headers.get('content-type')?.toLowerCase() ?? ''
  if (type.startsWith('multipart/form-data')) return readForm(bytes, sources.headers, parse)
  // With a file name, the body is a file whatever is in it.
  if (bytes.length === 0 || readField(sources, 'filename') !== undefined) return { bytes }
  if (type.startsWith('application/x-www-form-urlencoded') && isForm(bytes))
    return readForm(bytes, sources.headers, parse)
  const isMarked = /^application\/([\w.-]+\+)?json/.test(type)
  return isMarked || bytes[0] === openBrace ? { bytes, json: await parseJson(bytes, parse) } : { bytes }
}

/** The checks of a longer text would block the process. */
const maxFormBytes = 4 * 1024 * 1024
const openBrace = '{'.charCodeAt(0)

async function parseJson(bytes: Uint8Array, parse: (text: string) => unknown): Promise<unknown> {
  const text = textOfUtf8(bytes)
  if (text === undefined) return undefined
  await checkShape(text)
  try {
    return parse(text)
  } catch {
    return undefined
  }
}

/** curl sends any text as `application/x-www-form-urlencoded`: it is one if nothing in it had to be encoded. */
const isForm = (bytes: Uint8Array): boolean =>
  bytes.length <= maxFormBytes &&
  /^[\w.%*+~-]+=[\w.%*+~!'()-]*(&[\w.%*+~-]+=[\w.%*+~!'()-]*)*$/.test(
    new TextDecoder('latin1').decode(bytes),
  ) &&
  ['message', 'body', 'payload'].some(key => new URLSearchParams(new TextDecoder().decode(bytes)).has(key))

/** Parsing more would block the process. */
const maxParts = 1000

/**
 * Returns the type with which a form is parsed, with the boundary whose parts were counted.
 *
 * @throws SvcError `payload_too_large` for a multipart form with too many parts
 */
function countParts({ buffer, byteLength, byteOffset }: Uint8Array<ArrayBuffer>, type: string): string {
  const [, boundary] = /^multipart.*boundary="?([^\s";]+)/i.exec(type) ?? []
  if (!boundary) return type
  const body = Buffer.from(buffer, byteOffset, byteLength)
  const mark = `--${boundary}`
  let count = 0
  for (let at = body.indexOf(mark); at >= 0; at = body.indexOf(mark, at + mark.length)) count++
  if (count > maxParts) throw new SvcError('payload_too_large', 'The form has too many parts')
  return `multipart/form-data; boundary=${boundary}`
}

/** Reads a form. Its field `payload` is JSON: so GitHub sends it, and programs that know Slack. */
async function readForm(
  bytes: Uint8Array<ArrayBuffer>,
  headers: Headers,
  parse: (text: string) => unknown,
): Promise<ReadBody> {
  const type = countParts(bytes, headers.get('content-type') ?? '')
  const form = await new Response(bytes, { headers: { 'content-type': type } })
    .formData()
    .catch(() => undefined)
  if (!form) return { bytes }
  const fields: Record<string, string> = {}
  let file: File | undefined
  for (const [key, value] of form)
    if (typeof value === 'string') fields[key] = value
    else file ??= value
  const payload = fields.payload && (await parseJson(new TextEncoder().encode(fields.payload), parse))
  const sent = file && { name: file.name, bytes: new Uint8Array(await file.arrayBuffer()) }
  return { bytes, json: isObject(payload) ? payload : fields, file: sent }
}

/** Notices of one request. */
export interface ReadNotices {
  readonly notices: readonly SentNotice[]
  /** Whether the sender expects the answer of ntfy. */
  readonly isNtfy: boolean
}

/**
 * Reads the notices of a request.
 *
 * @param isNtfy its JSON can only be that of ntfy
 * @throws SvcError `invalid_arguments`
 */
export function readNotices(
  sources: Pick<FieldSources, 'headers' | 'query'>,
  { bytes, file, json }: ReadBody,
  topic: Pick<TopicForDoor, 'priorities' | 'template'>,
  isNtfy: boolean,
): ReadNotices {
  // The API of Apprise has `body`, and Slack's webhooks, which many programs know, have `text`.
  const fields = isObject(json) ? { message: textOf(json.body) || textOf(json.text), ...json } : undefined
  const others = isNtfy || file || json === undefined ? undefined : readOthers(sources, json, fields, topic)
  const content = file?.bytes ?? (json === undefined ? bytes : noBytes)
  const notices = others ?? [readNtfy({ ...sources, json: fields }, content, file?.name)]
  return { notices: notices.map(tidyNotice), isNtfy: others === undefined }
}

const noBytes = new Uint8Array()

/** Reads JSON that is not for the reader of ntfy, which also reads a plain `message` with its `title`. */
function readOthers(
  sources: Pick<FieldSources, 'headers' | 'query'>,
  json: unknown,
  fields: Record<string, unknown> | undefined,
  { priorities, template }: Pick<TopicForDoor, 'priorities' | 'template'>,
): SentNotice[] | undefined {
  const { headers } = sources
  const field = (name: 'message' | 'title' | 'template') => textOf(readField(sources, name))
  const priority = 'default'
  const event = headers.get(githubEvent)
  if (fields && event !== null)
    return [readGithub(event.slice(0, 100), headers.get('x-github-delivery') ?? '', fields)]
  if (/^(1|yes|true)$/i.test(field('template')))
    return [
      { title: fillTemplate(field('title'), json), text: fillTemplate(field('message'), json), priority },
    ]
  if (template) return [{ text: fillTemplate(template, json), priority }]
  const known = fields && (readAlerts(fields, priorities) ?? readApprise(fields))
  if (known || textAt(fields, 'message')) return known
  return [{ title: field('title'), text: formatFields(json) || JSON.stringify(json), priority }]
}

/** The header by which an event of GitHub is known. */
export const githubEvent = 'x-github-event'
