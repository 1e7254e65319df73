/** Tells by what comes who the sender of a request to a topic is, and reads its notices: no reader guesses at words. */
import { Buffer } from 'node:buffer'
import { badArgument } from '../../model/error.ts'
import { fileOfText, longestNotice, type Priority, type TopicForDoor } from '../../model/topic.ts'
import type { SentNotice } from '../../operations/notices.ts'
import { isObject } from '../../platform/fields.ts'
import {
  type NamedPriorities,
  type ReadPriority,
  readPriority,
  unknownPriorityError,
} from '../../topics/priority.ts'
import { readAlerts } from './alerts.ts'
import { chatKeysOf, plainText, readChat } from './chat.ts'
import { formatFields, urgenciesIn, withoutKeys } from './fields.ts'
import { readFiles } from './files.ts'
import { readForge } from './forges.ts'
import type { ReadBody } from './form.ts'
import { type FieldSources, fieldText, findField, plainName } from './names.ts'
import { isWebAddress, joinLines, textAt, textOf, tidyNotice } from './sent-notice.ts'
import { fillTemplate } from './template.ts'

/** Who can only have sent a request, by its address. */
export type SenderDialect = 'ntfy' | 'gotify'

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
 * @param dialect whose JSON it can only be
 * @throws SvcError `invalid_arguments` for a time at which it should go out, and for a priority of ntfy that is none
 */
export function readNotices(
  sources: Pick<FieldSources, 'headers' | 'query'>,
  body: ReadBody,
  topic: About,
  dialect?: SenderDialect,
): ReadNotices {
  const isNtfy = dialect === 'ntfy'
  const { files = [] } = body
  // A list of one is that one.
  const json = Array.isArray(body.json) && body.json.length === 1 ? body.json[0] : body.json
  const isOther = !isNtfy && files.length === 0 && json !== undefined
  const object = isOther && isObject(json) ? json : undefined
  const read =
    (object && readForge(sources.headers, object)) ??
    (isOther ? readTemplate(sources, json, topic) : undefined)
  if (read) return { notices: [tidyNotice(read)], isNtfy: false }
  const alerts = object && readAlerts(object, topic.priorities)
  const query = isTemplate(sources) ? withoutTemplate(sources.query) : sources.query
  const own = { ...sources, query, json: isObject(json) ? json : undefined }
  const [first, ...others] = (alerts ?? readAny(own, { ...body, json }, topic, dialect)).map(tidyNotice)
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
   sequenceid template messageid topicarn signatureversion signature signingcerturl unsubscribeurl token secret password key apikey appkey sendkey devicekey pushkey routingkey openid automaticallycopy
   apptoken contenttype topicids uids verifypay verifypaytype callbackurl noip sign hookid hookname hookurl`.split(
    /\s+/,
  ),
)
/** What ntfy has for other ways. */
const unshownOfNtfy = new Set('actions cache firebase email call markdown'.split(' '))
const ofHomeAssistant = new Set(['message', 'title', 'target', 'data'])
/** @see https://pushover.net/api#priority */
const ofPushover: readonly Priority[] = ['min', 'low', 'default', 'high', 'max']
/** From 0 to 10. @see https://github.com/gotify/android#message-priorities */
const ofGotify = (count: number): Priority =>
  count >= 8 ? 'high' : count >= 4 ? 'default' : count >= 1 ? 'low' : 'min'
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
  body: ReadBody,
  { priorities }: About,
  dialect: SenderDialect | undefined,
): readonly SentNotice[] {
  const isOfNtfy = dialect === 'ntfy' || textAt(sources.json, 'topic') !== ''
  const delay = findField(sources, 'delay')
  if (delay && (isOfNtfy || delay.key === undefined))
    throw badArgument('delay', 'svc sends notices at once, or in a digest of their topic', {
      hint: 'Leave out Delay, At and In.',
    })
  const urgency = readUrgency(sources, priorities, isOfNtfy ? 'ntfy' : dialect)
  const { priority = 'default', tag = '', unknown } = urgency
  const { files, key, lines } = readFilesOf(sources, body)
  const [tags, click] = [findField(sources, 'tags'), findField(sources, 'click')]
  const words = tagsOf(tags?.value)
  const isLink = isWebAddress(textOf(click?.value))
  const sequence = findField(sources, 'sequence_id')
  const fingerprint = textOf(sequence?.value).trim()
  const resolved = findField(sources, 'resolved')
  const isOver = fingerprint !== '' && /^(true|1|yes)$/i.test(textOf(resolved?.value))
  const used = new Set([
    key,
    words.length > 0 && tags?.key,
    isLink && click?.key,
    fingerprint !== '' && sequence?.key,
    isOver && resolved?.key,
    ...urgency.keys,
  ])
  const { text, title } = readWords(
    sources,
    body,
    key => used.has(key) || (isOfNtfy && unshownOfNtfy.has(key)),
  )
  const isBare = body.json !== undefined && Object.keys(sources.json ?? {}).length === 0 && files.length === 0
  const first = {
    title,
    text: joinLines(text, ...lines) || (isBare ? JSON.stringify(body.json) : ''),
    priority,
    tags: [...words, tag],
    click: textOf(click?.value),
    ...(fingerprint && { fingerprint }),
    ...(isOver && { resolved: true }),
    ...(files[0] && { file: files[0] }),
    ...(unknown !== undefined && { unread: { severity: unknown } }),
  }
  return [first, ...files.slice(1).map(file => ({ text: '', priority, file }))]
}

/** Reads what a body says. @param isUsed keys that say something else */
function readWords(
  sources: FieldSources,
  { json, text: plain = '' }: ReadBody,
  isUsed: (key: string) => boolean,
) {
  const fields = sources.json ?? {}
  const message = findText(sources, 'message')
  const title = findText(sources, 'title', message?.name)
  const chatKeys = chatKeysOf(fields)
  // The names that chat programs have for a text.
  const isChat = chatKeys.length > 0 || /^(text|content|desp)$/.test(message?.key ?? '')
  // Datadog marks Markdown by lines of these signs.
  const plainOf = isChat ? plainText : (text: string) => text.replace(/^%%%$/gm, '')
  const heading = plainOf(title?.text ?? '')
  const spoken = plain.trim() ? plain : plainOf(message?.text ?? '')
  const text = joinLines(spoken, ...chatKeys.flatMap(key => readChat(fields[key])))
  const known = new Set([title?.key, message?.key, ...chatKeys])
  const isForHome = Object.keys(fields).every(key => ofHomeAssistant.has(key))
  const rest = withoutKeys(
    json,
    key =>
      known.has(key) ||
      isUsed(key) ||
      unshown.has(plainName(key)) ||
      (chatKeys.length > 0 && /^(type|summary)$/.test(key)) ||
      (isForHome && key === 'target'),
  )
  return {
    title: heading,
    text: joinLines(text, json === undefined ? '' : formatFields(rest, `${heading}\n${text}`)),
  }
}

/** Returns the files of a body, lines about those that cannot be taken, and the key that names them. */
function readFilesOf(sources: FieldSources, { bytes, files = [], json, text }: ReadBody) {
  const name = fieldText(sources, 'filename') || undefined
  const field = findField(sources, 'attach')
  const named = readFiles(field?.value, name)
  const isLong = Buffer.byteLength(text ?? '') > longestNotice
  const isFile = json === undefined && text === undefined && bytes.length > 0
  const long = isLong ? [fileOfText(findText(sources, 'title')?.text, text ?? '')] : []
  return {
    files: [...files, ...(isFile ? [{ name, bytes }] : long), ...named.files],
    lines: named.lines,
    key: named.files.length + named.lines.length > 0 ? field?.key : undefined,
  }
}

/** Tags are a list, also of objects with names, or a text with commas, or as Server酱 has them. */
const tagsOf = (tags: unknown): string[] =>
  (Array.isArray(tags)
    ? tags.map(tag => textOf(tag) || textAt(tag, 'name'))
    : textOf(tags).slice(0, maxTagsLength).split(/[,|]/)
  ).filter(tag => tag.trim() !== '')
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
function readUrgency(
  sources: FieldSources,
  named: NamedPriorities | undefined,
  dialect: SenderDialect | undefined,
): ReadPriority & { readonly keys: readonly (string | undefined)[]; readonly tag?: string } {
  const { json } = sources
  const found = findField(sources, 'priority')
  const keys = [found?.key]
  if (found?.key !== undefined && textAt(json, 'token') !== '' && textAt(json, 'user') !== '')
    return { priority: ofPushover[Number(found.value) + 2], keys: [...keys, 'user'] }
  const said = textOf(found?.value).trim()
  if (dialect === 'gotify' && /^-?\d{1,3}$/.test(said)) return { priority: ofGotify(Number(said)), keys }
  const isStrict = found?.key === undefined || dialect === 'ntfy'
  const read = readPriority(found?.value, named, isStrict)
  if (read.unknown !== undefined && isStrict) throw unknownPriorityError()
  if (read.priority || read.unknown !== undefined) return { ...read, keys: read.priority ? keys : [] }
  const type = findField(sources, 'type')
  const word = textOf(type?.value)
  if (Object.hasOwn(ofApprise, word))
    return {
      priority: ofApprise[word],
      keys: [...keys, type?.key, 'version'],
      tag: word === 'info' ? '' : word,
    }
  const severity = findField(sources, 'severity')
  // A number here counts in another way.
  const isWord = severity?.key !== undefined && /\p{L}/u.test(textOf(severity.value))
  if (isWord) return { ...readPriority(severity.value, named), keys }
  // Deeper inside, it may be about something else: it makes nothing wait.
  const deeper = urgenciesIn(json).map(word => readPriority(word, named).priority)
  return { priority: (['max', 'high'] as const).find(one => deeper.includes(one)), keys }
}
