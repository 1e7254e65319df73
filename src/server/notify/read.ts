/** Tells by what comes who the sender of a request to a topic is, and reads its notices: no reader guesses at words. */
import { Buffer } from 'node:buffer'
import { badArgument, SvcError } from '../../model/error.ts'
import { longestNotice, type Priority, type TopicForDoor } from '../../model/topic.ts'
import type { AttachedFile, SentNotice } from '../../operations/notices.ts'
import { isObject } from '../../platform/fields.ts'
import { type NamedPriorities, readPriority, unknownPriorityError } from '../../topics/priority.ts'
import { checkShape } from '../body.ts'
import { readAlerts } from './alerts.ts'
import { decodeBytes } from './bytes.ts'
import { chatKeysOf, plainText, readChat } from './chat.ts'
import { formatFields, withoutKeys } from './fields.ts'
import { readFiles } from './files.ts'
import { readForge } from './forges.ts'
import { type FieldSources, fieldText, findField, isTextName, plainName } from './names.ts'
import { isWebAddress, joinLines, textAt, textOf, tidyNotice } from './sent-notice.ts'
import { fillTemplate } from './template.ts'

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
 * @throws SvcError `payload_too_large` for JSON with too many values, or a form with too many parts
 */
export async function readBodyForm(
  sources: Pick<FieldSources, 'headers' | 'query'>,
  bytes: Bytes,
  parse: Parse,
): Promise<ReadBody> {
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
    if (fields) return withPayload({ bytes, json: fields }, fields, parse)
  }
  const isMarked = /^application\/([\w.-]+\+)?json/i.test(type)
  const json = isMarked || /^\s*\{/.test(text) ? await parseJson(text, parse) : undefined
  return json === undefined ? { bytes, text } : { bytes, json }
}

/** The checks of a longer text would block the process. */
const maxFormBytes = 4 * 1024 * 1024

function decodeAsUtf8(bytes: Bytes): string | undefined {
  const text = new TextDecoder().decode(bytes)
  return text.includes('\ufffd') ? undefined : text
}

async function parseJson(text: string, parse: Parse): Promise<unknown> {
  await checkShape(text)
  try {
    return parse(text)
  } catch {
    return undefined
  }
}

/**
 * Reads the fields of a form; undefined for another text, which curl sends under the same type: a form is known by the name of a
 * text, or by what was encoded.
 *
 * @param charset of the percent codes
 */
function readFields(text: string, charset: string | undefined): Record<string, string> | undefined {
  const pairs = text.trim().split('&')
  const isStrict = pairs.every(pair => /^[\w.%*+~[\]-]+=[\w.%*+~!'()/:,@-]*$/.test(pair))
  const names = pairs.map(pair => pair.split('=', 1)[0]!)
  const isForm = isStrict
    ? names.some(isTextName) || pairs.length > 1 || /%[0-9a-f]{2}/i.test(text)
    : /^[\w-]+=/.test(text) && isTextName(names[0]!) && pairs.every(pair => /^[\w-]+=/.test(pair))
  if (!isForm) return undefined
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

/** A form's field `payload` is JSON: so GitHub sends it, and programs that know Slack. */
async function withPayload(
  body: ReadBody,
  { payload }: Record<string, string>,
  parse: Parse,
): Promise<ReadBody> {
  const json = payload && (await parseJson(payload, parse))
  return isObject(json) ? { ...body, json } : body
}

/** Parsing more would block the process. */
const maxParts = 1000

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
  if (count > maxParts) throw new SvcError('payload_too_large', 'The form has too many parts')
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
  return withPayload({ bytes, json: fields, files }, fields, parse)
}

/** Notices of one request. */
export interface ReadNotices {
  readonly notices: readonly SentNotice[]
  /** Whether the sender expects the answer of ntfy. */
  readonly isNtfy: boolean
}

type About = Pick<TopicForDoor, 'priorities' | 'template'>

/**
 * Reads the notices of a request.
 *
 * @param isNtfy its JSON can only be that of ntfy
 * @throws SvcError `invalid_arguments` for a time at which it should go out, and for a priority of ntfy that is none
 */
export function readNotices(
  sources: Pick<FieldSources, 'headers' | 'query'>,
  body: ReadBody,
  topic: About,
  isNtfy: boolean,
): ReadNotices {
  const { files = [], json } = body
  const isOther = !isNtfy && files.length === 0 && json !== undefined
  const object = isOther && isObject(json) ? json : undefined
  const read =
    (object && readForge(sources.headers, object)) ??
    (isOther ? readTemplate(sources, json, topic) : undefined)
  if (read) return { notices: [tidyNotice(read)], isNtfy: false }
  const alerts = object && readAlerts(object, topic.priorities)
  const query = isTemplate(sources) ? withoutTemplate(sources.query) : sources.query
  const own = { ...sources, query, json: isObject(json) ? json : undefined }
  const [first, ...others] = (alerts ?? readAny(own, body, topic, isNtfy)).map(tidyNotice)
  const isMissed = isOther && topic.template !== undefined
  const unread = isMissed && { unread: { ...first!.unread, template: true as const } }
  const isKnown = textOf(findField(own, 'message')?.value) !== '' && !textAt(json, 'type')
  return {
    notices: [{ ...first!, ...unread }, ...others],
    isNtfy: isNtfy || json === undefined || (!alerts && isKnown),
  }
}

const isTemplate = (sources: FieldSources): boolean => /^(1|yes|true)$/i.test(fieldText(sources, 'template'))
/** The templates of a query are no texts. */
const withoutTemplate = (query: FieldSources['query']) =>
  Object.fromEntries(Object.entries(query).filter(([, text]) => !text.includes('{{')))

/** Reads JSON by a template, of the request or of the topic; undefined if that finds nothing. */
function readTemplate(sources: FieldSources, json: unknown, { template }: About): SentNotice | undefined {
  const priority = 'default'
  if (isTemplate(sources)) {
    const text = fillTemplate(fieldText(sources, 'message'), json)
    if (text !== undefined)
      return { title: fillTemplate(fieldText(sources, 'title'), json) ?? '', text, priority }
  }
  const text = template === undefined ? undefined : fillTemplate(template, json)
  return text === undefined ? undefined : { text, priority }
}

/** What a body has beside the notice: where it goes, and how it looks. */
const unshown = new Set(
  `topic channel username iconurl iconemoji avatarurl icon format parsemode mrkdwn linknames unfurllinks unfurlmedia
   parse tts allowedmentions threadts responsetype sound badge extras themecolor @type @context $schema msgtype at filename
   sequenceid template token secret password key apikey appkey sendkey devicekey routingkey openid`.split(
    /\s+/,
  ),
)
/** What ntfy has for other ways. */
const unshownOfNtfy = new Set('actions cache firebase email call markdown'.split(' '))
const ofHomeAssistant = new Set(['message', 'title', 'target', 'data'])
/** @see https://pushover.net/api#priority */
const ofPushover: readonly Priority[] = ['min', 'low', 'default', 'high', 'max']
/** @see https://github.com/caronc/apprise/wiki/Development_API#message-types-and-themes */
const ofApprise: Readonly<Record<string, Priority>> = {
  info: 'default',
  success: 'default',
  warning: 'default',
  failure: 'high',
}

/** Reads a text, a file, a form or JSON by the names of its fields. What has no such name follows as lines. */
function readAny(
  sources: FieldSources,
  { bytes, files: parts = [], json, text: plain }: ReadBody,
  { priorities = {} }: About,
  isNtfy: boolean,
): readonly SentNotice[] {
  const fields = isObject(json) ? json : {}
  const isOfNtfy = isNtfy || textAt(json, 'topic') !== ''
  const delay = findField(sources, 'delay')
  if (delay && (isOfNtfy || delay.key === undefined))
    throw badArgument('delay', 'svc sends notices at once, or in a digest of their topic', {
      hint: 'Leave out Delay, At and In.',
    })
  const chatKeys = chatKeysOf(fields)
  const message = findText(sources, 'message')
  const title = findText(sources, 'title', message?.name)
  const click = findField(sources, 'click')
  const type = findField(sources, 'type')
  const isTyped = Object.hasOwn(ofApprise, textOf(type?.value))
  const urgency = readUrgency(sources, priorities, isOfNtfy)
  const name = fieldText(sources, 'filename') || undefined
  const attached = findField(sources, 'attach')
  const named = readFiles(attached?.value, name)
  const isTaken = named.files.length + named.lines.length > 0
  const tags = findField(sources, 'tags')
  const isLong = Buffer.byteLength(plain ?? '') > longestNotice
  const isFile = json === undefined && plain === undefined && bytes.length > 0
  const own = isFile
    ? [{ name, bytes }]
    : isLong
      ? [{ name: 'notice.txt', bytes: new TextEncoder().encode(plain) }]
      : []
  const files = [...parts, ...own, ...named.files]
  const isChat =
    chatKeys.length > 0 || (message?.key !== undefined && ['text', 'content'].includes(message.name))
  const said = [
    title?.key,
    message?.key,
    click && isWebAddress(textOf(click.value)) && click.key,
    isTyped && type?.key,
  ]
  const used = new Set([
    ...said,
    isTaken && attached?.key,
    tags?.key,
    ...chatKeys,
    ...urgency.keys,
    ...(isTyped ? ['version'] : []),
  ])
  const isForHome = Object.keys(fields).every(key => ofHomeAssistant.has(key))
  const isUsed = (key: string) =>
    used.has(key) ||
    unshown.has(plainName(key)) ||
    (isOfNtfy && unshownOfNtfy.has(plainName(key))) ||
    (isForHome && key === 'target')
  const spoken = isChat ? plainText(message?.text ?? '') : (message?.text ?? '')
  const chat = chatKeys.flatMap(key => readChat(fields[key]))
  const text = joinLines(plain ?? '', plain?.trim() ? '' : spoken, ...chat)
  const rest =
    json === undefined ? '' : formatFields(withoutKeys(json, isUsed), `${title?.text ?? ''}\n${text}`)
  const isBare = json !== undefined && Object.keys(fields).length === 0 && files.length === 0
  const first = {
    title: isChat ? plainText(title?.text ?? '') : (title?.text ?? ''),
    text: joinLines(text, rest, ...named.lines) || (isBare ? JSON.stringify(json) : ''),
    priority:
      isTyped && !urgency.priority ? ofApprise[textOf(type?.value)]! : (urgency.priority ?? 'default'),
    tags: [...tagsOf(tags?.value), ...(isTyped && type?.value !== 'info' ? [textOf(type?.value)] : [])],
    click: textOf(click?.value),
    ...(findField(sources, 'sequence_id') && { fingerprint: fieldText(sources, 'sequence_id') }),
    ...(files[0] && { file: files[0] }),
    ...(urgency.unknown !== undefined && { unread: { severity: urgency.unknown } }),
  }
  return [first, ...files.slice(1).map(file => ({ text: '', priority: first.priority, file }))]
}

const tagsOf = (tags: unknown): string[] =>
  Array.isArray(tags) ? tags.map(textOf) : textOf(tags).slice(0, maxTagsLength).split(',')
const maxTagsLength = 64 * 1024

/** Finds a field that is a text. In headers and queries, `\n` is the end of a line. */
function findText(sources: FieldSources, field: 'message' | 'title', used?: string) {
  const found = findField(sources, field, used)
  const text = textOf(found?.value).trim()
  if (!found || text === '') return undefined
  return { ...found, text: found.key === undefined ? text.replaceAll('\\n', '\n') : text }
}

/**
 * Reads how urgent a notice is, and which keys say so.
 *
 * @throws SvcError `invalid_arguments` if only ntfy can have sent it, and it is no priority of ntfy
 */
function readUrgency(sources: FieldSources, named: NamedPriorities, isOfNtfy: boolean) {
  const { json } = sources
  const found = findField(sources, 'priority')
  if (found) {
    const isPushover = found.key !== undefined && textAt(json, 'token') !== '' && textAt(json, 'user') !== ''
    const { priority, unknown } = isPushover
      ? { priority: ofPushover[Number(found.value) + 2] }
      : readPriority(found.value, named)
    if (unknown !== undefined && (found.key === undefined || isOfNtfy)) throw unknownPriorityError()
    if (priority || unknown !== undefined)
      return { priority, unknown, keys: unknown === undefined ? [found.key] : [] }
    return { keys: [found.key] }
  }
  const severity = findField(sources, 'severity')
  // A number here counts in another way.
  return severity?.key === undefined || !/\p{L}/u.test(textOf(severity.value))
    ? { keys: [] }
    : { ...readPriority(severity.value, named), keys: [] }
}
