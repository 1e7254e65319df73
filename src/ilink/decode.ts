/**
 * Decodes wire messages: `summaryOf` for the columns of the store, `decodeMessage` for callers, `mediaOf` for
 * downloads. None of them throws because of a message's fields: a malformed message is UNKNOWN, with the
 * fields that can be read.
 */
import type { MediaInfo, MediaKind, Message, MessageItem, MessageKind } from '../model/message.ts'
import { attempt, withoutUndefined } from '../platform/fields.ts'
import { nodeCrypto } from '../platform/lazy-crypto.ts'
import { longestValue, parseLossless } from '../platform/lossless.ts'
import { parseAesKey } from './crypto.ts'
import { countOf, filledOf, idOf, kindOfItem, objectOf, payloadOfKind, textOf, timeOf } from './fields.ts'
import { type QuotableMessage, quoteOf } from './quote.ts'
import { messageType, type WeixinMessage } from './wire.ts'

type Fields = Record<string, unknown>

/** The fields of a message that the store's columns and the poller need. */
export interface Summary {
  /** Upstream's id; undefined when upstream sent none (then use `derivedIdOf`). */
  message_id?: string
  from_user: string
  to_user: string
  msg_type: MessageKind
  /** The text for search: texts, file names and transcripts of voices, joined by newlines. */
  text: string
  /** Unix ms: upstream's create time if it is credible, otherwise the `receivedAt` passed in. */
  timestamp: number
  /** Whether the timestamp is upstream's. Only then can it help to recognise a repeat. */
  timed: boolean
  group_id?: string
  /** Secret. */
  contextToken?: string
  /** Hash of the content: equal if the content arrives again under a new id or token; see `contentHashOf`. */
  contentHash: string
}

export function summaryOf(message: WeixinMessage, receivedAt: number): Summary {
  const items = itemsOf(message)
  const created = timeOf(message.create_time_ms, receivedAt)
  return {
    message_id: idOf(message.message_id),
    from_user: userOf(message.from_user_id) ?? '',
    to_user: userOf(message.to_user_id) ?? '',
    msg_type: kindOfFirst(items),
    text: joinTexts(items, true),
    timestamp: created ?? receivedAt,
    timed: created !== undefined,
    group_id: filledOf(message.group_id),
    contextToken: filledOf(message.context_token),
    contentHash: contentHashOf(items),
  }
}

/** Returns the summary of a message that cannot be parsed. The hash is that of its JSON text. */
export function unreadSummaryOf(raw: string, receivedAt: number): Summary {
  const contentHash = nodeCrypto().createHash('sha256').update(raw).digest('base64url')
  const noUsers = { from_user: '', to_user: '' }
  return { ...noUsers, text: '', msg_type: 'UNKNOWN', timestamp: receivedAt, timed: false, contentHash }
}

/**
 * Returns false for messages of a bot, this one or another: some servers return them, and they must not be
 * delivered.
 */
export function isFromUser(message: WeixinMessage, botId: string): boolean {
  const type = countOf(message.message_type) ?? messageType.none
  // Servers leave the type out or set it to 0 by default.
  if (type !== messageType.user && type !== messageType.none) return false
  return message.from_user_id !== botId
}

/**
 * Returns `derived:<hash>` for a received message without an id. The same message gets the same id when it
 * arrives again, even with another context token. Item ids, `client_id` and `seq` keep equal messages apart
 * where upstream sends them.
 */
export function derivedIdOf(message: WeixinMessage): string {
  const items = itemsOf(message)
  const hash = nodeCrypto().createHash('sha256')
  hash.update(
    JSON.stringify([
      ...[message.from_user_id, message.to_user_id, message.group_id].map(toScalar),
      ...[message.create_time_ms, message.client_id].map(toScalar),
      idOf(message.seq),
      items.map(item => idOf(item.msg_id)),
      contentHashOf(items),
    ]),
  )
  return `derived:${hash.digest('hex').slice(0, 32)}`
}

/** Maximum length of a user id, as in the arguments of the tools. Real ids have about 30 characters. */
const longestUserId = 512
/**
 * Reads a user id. It becomes part of URLs and files, which cannot hold lone surrogates, and of every list of
 * users: a huge id, to which no message could be sent, would make each list megabytes long.
 */
const userOf = (value: unknown) => {
  const id = filledOf(value)?.toWellFormed()
  return id !== undefined && id.length <= longestUserId ? id : undefined
}

/** Drops objects: a value that is neither text nor number may be nested deeper than the stack allows. */
const toScalar = (value: unknown) => (typeof value === 'object' ? null : value)

/** What is known about a message from elsewhere. */
export interface DecodeContext
  extends Pick<Message, 'id' | 'message_id' | 'session' | 'bot_id' | 'direction' | 'timestamp'>,
    Partial<
      Pick<
        Message,
        'status' | 'reason' | 'reason_code' | 'reason_quote' | 'sent_with' | 'sent_by' | 'sent_by_name'
      >
    > {
  /** Looks up the message with this upstream id, which a quote names. */
  quoted?: (messageId: string) => QuotableMessage | undefined
}

/**
 * Converts a wire message, or its JSON text, to the public form. Tokens, keys and media references are left
 * out.
 *
 * @throws SyntaxError for a text that is not JSON; RangeError for one that is too large or nested too deep
 */
export function decodeMessage(raw: WeixinMessage | string, context: DecodeContext): Message {
  if (typeof raw === 'string' && raw.length > longestValue) throw new RangeError('it is too large')
  const wire: WeixinMessage = objectOf(typeof raw === 'string' ? parseLossless(raw) : raw) ?? {}
  const items = itemsOf(wire)
  const publicItems = items.map(toPublicItem)
  const first = publicItems[0]
  const { id, message_id, session, bot_id, direction, timestamp, quoted, ...rest } = context
  const isSent = direction === 'sent'
  const message: Message = {
    id,
    message_id,
    session,
    bot_id,
    direction,
    from_user: userOf(wire.from_user_id) ?? (isSent ? bot_id : ''),
    to_user: userOf(wire.to_user_id) ?? (isSent ? '' : bot_id),
    msg_type: first?.kind ?? 'UNKNOWN',
    text: joinTexts(items),
    timestamp,
    items: publicItems,
    ...rest,
  }
  const quote = quoteOf(wire, timestamp, quoted)
  if (quote) message.ref_msg = quote
  const group = filledOf(wire.group_id)
  if (group !== undefined) message.group_id = group
  if (first && isMediaKind(first.kind)) message[mediaKind[first.kind]] = first
  return message
}

/** Where to download one media item of a message. Secret: it carries the key. */
export interface MediaReference {
  info: MediaInfo
  kind: MediaKind
  /** Name that the sender gave to the file; not safe as a path. */
  fileName?: string
  /** Bytes as stated by upstream: the plaintext size for a file, unreliable for other kinds. */
  size?: number
}

/**
 * Returns the media item number `index` of a message, counted from 0 over the items that have media
 * (`has_media`).
 */
export function mediaOf(raw: WeixinMessage | string, index: number): MediaReference | undefined {
  const item = itemsOf(wireOf(raw)).filter(hasMedia)[index]
  if (!item) return undefined
  const kind = kindOfItem(item)
  const payload = payloadOf(item, kind)
  const media = objectOf(payload?.media)
  if (!payload || !media || !isMediaKind(kind)) return undefined
  return {
    info: {
      encrypt_query_param: filledOf(media.encrypt_query_param),
      aes_key: keyOf(payload),
      encrypt_type: countOf(media.encrypt_type),
      full_url: filledOf(media.full_url),
    },
    kind: mediaKind[kind],
    fileName: filledOf(payload.file_name),
    size: sizeOf(payload),
  }
}

/**
 * Returns a hash of the content, the same when upstream delivers the message again. It covers order and kind
 * of the items, texts, names, sizes and quotes. It leaves out what a redelivery changes (ids, context token)
 * or may change (signed URLs, times). The media key counts: it belongs to the file, and two pictures sent in
 * the same second often differ in nothing else. A message that arrives twice is better than a lost one.
 */
export function contentHashOf(items: readonly Fields[]): string {
  const canonicalItems = items.map(toCanonical)
  // A message nested so deep that it cannot be serialized, or takes seconds (Bun 1.4.5: 1.5 s for 40,000
  // levels), is represented by its ids. It may arrive twice, but is never taken for another message.
  const content = isDeep(canonicalItems)
    ? items.map(item => [kindOfItem(item), idOf(item.msg_id)])
    : canonicalItems
  return nodeCrypto().createHash('sha256').update(JSON.stringify(content)).digest('base64url')
}

const isDeep = (value: unknown, levels = 500): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (levels === 0 || Object.values(value).some(inner => isDeep(inner, levels - 1)))

/** Properties of an item that do not describe its content. */
const ignoredFields = new Set(['msg_id', 'create_time_ms', 'update_time_ms', 'is_completed'])

function toCanonical(item: Fields): unknown {
  const kind = kindOfItem(item)
  const ref = objectOf(item.ref_msg)
  const quote = ref && [
    idOf(ref.svr_id),
    idOf(objectOf(ref.message_item)?.msg_id),
    ref.title,
    ref.partial_text,
  ]
  if (kind === 'UNKNOWN')
    return [kind, Object.entries(item).filter(([name]) => !ignoredFields.has(name)), quote]
  const payload = payloadOf(item, kind)
  if (!payload) return [kind, quote]
  if (kind === 'TEXT') return [kind, payload.text, quote]
  const { media, thumb_media, aeskey, url, ...stated } = payload
  return [kind, stated, keyHexOf(payload) ?? objectOf(media)?.encrypt_query_param, quote]
}

const mediaKind = { IMAGE: 'image', VOICE: 'voice', FILE: 'file', VIDEO: 'video' } as const

const isMediaKind = (kind: MessageKind): kind is keyof typeof mediaKind => kind in mediaKind

/**
 * Returns the objects of the item list. Any other entry becomes an empty item, so that positions stay the
 * same.
 */
const itemsOf = (message: WeixinMessage): Fields[] =>
  Array.isArray(message.item_list) ? message.item_list.map(item => objectOf(item) ?? {}) : []

const kindOfFirst = (items: readonly Fields[]): MessageKind => (items[0] ? kindOfItem(items[0]) : 'UNKNOWN')

const payloadOf = (item: Fields, kind: MessageKind): Fields | undefined =>
  kind === 'UNKNOWN' ? undefined : objectOf(item[payloadOfKind[kind]])

/** @param all whether to include transcripts and file names */
function joinTexts(items: readonly Fields[], all = false): string {
  let joined: string | undefined
  for (const item of items) {
    const kind = kindOfItem(item)
    if (kind !== 'TEXT' && !all) continue
    const payload = payloadOf(item, kind)
    const text = textOf(payload?.text) ?? textOf(payload?.file_name)
    if (text !== undefined) joined = joined === undefined ? text : `${joined}\n${text}`
  }
  return joined ?? ''
}

/**
 * Returns the media key. An image's own `aeskey` wins over the one in its media reference (protocol notes
 * 4.1).
 */
const keyOf = (payload: Fields): string | undefined =>
  filledOf(payload.aeskey) ?? filledOf(objectOf(payload.media)?.aes_key)

function keyHexOf(payload: Fields): string | undefined {
  const key = keyOf(payload)
  return key === undefined ? undefined : (attempt(() => parseAesKey(key).toString('hex')) ?? key)
}

function hasMedia(item: Fields): boolean {
  const kind = kindOfItem(item)
  if (!isMediaKind(kind)) return false
  const media = objectOf(payloadOf(item, kind)?.media)
  return Boolean(filledOf(media?.encrypt_query_param) ?? filledOf(media?.full_url))
}

const sizeOf = (payload: Fields): number | undefined =>
  countOf(payload.len) ??
  countOf(payload.video_size) ??
  countOf(payload.mid_size) ??
  countOf(payload.hd_size) ??
  countOf(payload.size)

function toPublicItem(item: Fields): MessageItem {
  const kind = kindOfItem(item)
  const payload = payloadOf(item, kind)
  const base: MessageItem = { kind, has_media: hasMedia(item) }
  if (!payload) return base
  if (kind === 'TEXT') return withoutUndefined({ ...base, text: textOf(payload.text) })
  return withoutUndefined({
    ...base,
    file_name: filledOf(payload.file_name),
    size: sizeOf(payload),
    // Upstream states only the dimensions of the preview, which has the proportions of the original.
    width: countOf(payload.thumb_width),
    height: countOf(payload.thumb_height),
    playtime: countOf(payload.playtime) ?? countOf(payload.play_length),
    transcript: kind === 'VOICE' ? filledOf(payload.text) : undefined,
  })
}

function wireOf(raw: WeixinMessage | string): WeixinMessage {
  if (typeof raw !== 'string') return objectOf(raw) ? raw : {}
  if (raw.length > longestValue) return {}
  return objectOf(attempt(() => parseLossless(raw))) ?? {}
}
