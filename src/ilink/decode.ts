/**
 * A wire message → what the store indexes (`summary`), what the doors show (`decodeMessage`), where its media lies
 * (`mediaOf`). None of them throws for a message of whatever fields: a malformed one is UNKNOWN, with what is there.
 */
import type { MediaInfo, MediaKind, Message, MessageItem, MessageKind } from '../model/message.ts'
import { defined } from '../platform/fields.ts'
import { nodeCrypto } from '../platform/lazy-crypto.ts'
import { parseAesKey } from './crypto.ts'
import { countOf, filledOf, idOf, kindOfItem, objectOf, payloadOfKind, textOf, timeOf } from './fields.ts'
import { longestValue, parseLossless } from './lossless.ts'
import { type KnownMessage, quoteOf } from './quote.ts'
import { messageType, type WeixinMessage } from './wire.ts'

type Fields = Record<string, unknown>

/** What a message says of itself, for the store's columns and the poller's decisions. */
export interface Summary {
  /** Upstream's id; undefined when it sent none (then see `derivedId`). */
  message_id?: string
  from_user: string
  to_user: string
  msg_type: MessageKind
  /** What it is found by: texts, names of files, what WeChat heard in voices; joined by a newline. */
  text: string
  /** Unix ms: upstream's create time, else the `receivedAt` given. */
  timestamp: number
  /** True when the timestamp is upstream's: only then may it serve to recognise a repeat. */
  timed: boolean
  group_id?: string
  /** Secret. */
  contextToken?: string
  /** Equal for the same content delivered again under a new id or token; see `contentHash`. */
  contentHash: string
}

export function summary(message: WeixinMessage, receivedAt: number): Summary {
  const items = itemsOf(message)
  const created = timeOf(message.create_time_ms)
  return {
    message_id: idOf(message.message_id),
    from_user: userOf(message.from_user_id) ?? '',
    to_user: userOf(message.to_user_id) ?? '',
    msg_type: kindOfFirst(items),
    text: joinedText(items, true),
    timestamp: created ?? receivedAt,
    timed: created !== undefined,
    group_id: filledOf(message.group_id),
    contextToken: filledOf(message.context_token),
    contentHash: contentHash(items),
  }
}

/** What is known of a message that cannot be read; its JSON text stands for its content. */
export function unreadSummary(raw: string, receivedAt: number): Summary {
  const contentHash = nodeCrypto().createHash('sha256').update(raw).digest('base64url')
  const nobody = { from_user: '', to_user: '' }
  return { ...nobody, text: '', msg_type: 'UNKNOWN', timestamp: receivedAt, timed: false, contentHash }
}

/** False for what the bot itself or another bot wrote: those come back on some servers and must not be dispatched. */
export function isFromUser(message: WeixinMessage, botId: string): boolean {
  const type = countOf(message.message_type) ?? messageType.none
  // 0 is what a server leaves out or fills in by default.
  if (type !== messageType.user && type !== messageType.none) return false
  return message.from_user_id !== botId
}

/**
 * `derived:<hash>` for a received message without an id: the same message delivered again gives the same id, whatever
 * its context token. Item ids, `client_id` and `seq` tell equal messages apart where upstream sends them.
 */
export function derivedId(message: WeixinMessage): string {
  const items = itemsOf(message)
  const hash = nodeCrypto().createHash('sha256')
  hash.update(
    JSON.stringify([
      ...[message.from_user_id, message.to_user_id, message.group_id].map(plain),
      ...[message.create_time_ms, message.client_id].map(plain),
      idOf(message.seq),
      items.map(item => idOf(item.msg_id)),
      contentHash(items),
    ]),
  )
  return `derived:${hash.digest('hex').slice(0, 32)}`
}

/** As the tools have it for their arguments; ids have about 30 characters. */
const longestUserId = 512
/**
 * A user id becomes part of addresses and of files, which hold no lone surrogates, and of every list of users: one so long
 * that nobody could be answered by it would make each list megabytes.
 */
const userOf = (value: unknown) => {
  const id = filledOf(value)?.toWellFormed()
  return id !== undefined && id.length <= longestUserId ? id : undefined
}

/** What is no text and no number may be nested deeper than the stack. */
const plain = (value: unknown) => (typeof value === 'object' ? null : value)

/** What is known of a message besides. */
export interface DecodeContext
  extends Pick<Message, 'id' | 'message_id' | 'session' | 'bot_id' | 'direction'>,
    Partial<Pick<Message, 'status' | 'reason' | 'reason_code' | 'reason_quote' | 'sent_with'>> {
  /** Unix ms for messages that carry no create time (all sent ones). */
  timestamp?: number
  /** Looks up, by upstream id, a message that a quote names. */
  quoted?: (messageId: string) => KnownMessage | undefined
}

/**
 * The public form of a wire message, or of its JSON text. Tokens, keys and media references stay behind.
 *
 * @throws SyntaxError, RangeError for a text that is no JSON, is too large or nested too deep
 */
export function decodeMessage(raw: WeixinMessage | string, context: DecodeContext): Message {
  if (typeof raw === 'string' && raw.length > longestValue) throw new RangeError('it is too large')
  const wire: WeixinMessage = objectOf(typeof raw === 'string' ? parseLossless(raw) : raw) ?? {}
  const items = itemsOf(wire)
  const shown = items.map(publicItem)
  const first = shown[0]
  const { id, message_id, session, bot_id, direction, timestamp = 0, quoted, ...rest } = context
  const sent = direction === 'sent'
  const message: Message = {
    ...{ id, message_id, session, bot_id, direction },
    from_user: userOf(wire.from_user_id) ?? (sent ? bot_id : ''),
    to_user: userOf(wire.to_user_id) ?? (sent ? '' : bot_id),
    msg_type: first?.kind ?? 'UNKNOWN',
    text: joinedText(items),
    timestamp: timeOf(wire.create_time_ms) ?? timestamp,
    items: shown,
    ...rest,
  }
  const quote = quoteOf(wire, quoted)
  if (quote) message.ref_msg = quote
  const group = filledOf(wire.group_id)
  if (group !== undefined) message.group_id = group
  if (first && isMediaKind(first.kind)) message[mediaKind[first.kind]] = first
  return message
}

/** Where one piece of media of a message lies. Secret: it carries the key. */
export interface MediaReference {
  info: MediaInfo
  kind: MediaKind
  /** As the sender named it: not safe as a path. */
  fileName?: string
  /** Bytes as upstream states them: plaintext of a file, unreliable for the rest. */
  size?: number
}

/** The `index`-th piece of media of a message, counted from 0 over the items that have media (`has_media`). */
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
 * A hash of what was said, equal when upstream delivers the message again: order and kind of the items, texts, names,
 * sizes, quotes. Left out is what redelivery is known to change (ids, context token) or may renew (signed addresses,
 * times). The media key counts: it belongs to the file, and of two pictures sent in the same second often nothing
 * else differs; better a message twice than one lost.
 */
export function contentHash(items: readonly Fields[]): string {
  const told = items.map(canonical)
  // Nested so deep that nothing can write it down, or takes seconds (Bun 1.4.5: 1.5 s for 40,000 levels): the ids stand
  // in, so such a message may come twice but is never taken for another.
  const content = isDeep(told) ? items.map(item => [kindOfItem(item), idOf(item.msg_id)]) : told
  return nodeCrypto().createHash('sha256').update(JSON.stringify(content)).digest('base64url')
}

const isDeep = (value: unknown, levels = 500): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (levels === 0 || Object.values(value).some(inner => isDeep(inner, levels - 1)))

/** Properties of an item that say nothing about its content. */
const passing = new Set(['msg_id', 'create_time_ms', 'update_time_ms', 'is_completed'])

function canonical(item: Fields): unknown {
  const kind = kindOfItem(item)
  const ref = objectOf(item.ref_msg)
  const quote = ref && [
    idOf(ref.svr_id),
    idOf(objectOf(ref.message_item)?.msg_id),
    ref.title,
    ref.partial_text,
  ]
  if (kind === 'UNKNOWN') return [kind, Object.entries(item).filter(([name]) => !passing.has(name)), quote]
  const payload = payloadOf(item, kind)
  if (!payload) return [kind, quote]
  if (kind === 'TEXT') return [kind, payload.text, quote]
  const { media, thumb_media, aeskey, url, ...stated } = payload
  return [kind, stated, keyHex(payload) ?? objectOf(media)?.encrypt_query_param, quote]
}

const mediaKind = { IMAGE: 'image', VOICE: 'voice', FILE: 'file', VIDEO: 'video' } as const

const isMediaKind = (kind: MessageKind): kind is keyof typeof mediaKind => kind in mediaKind

/** The objects of the item list; anything else in it is an empty item, so that positions stay. */
const itemsOf = (message: WeixinMessage): Fields[] =>
  Array.isArray(message.item_list) ? message.item_list.map(item => objectOf(item) ?? {}) : []

const kindOfFirst = (items: readonly Fields[]): MessageKind => (items[0] ? kindOfItem(items[0]) : 'UNKNOWN')

const payloadOf = (item: Fields, kind: MessageKind): Fields | undefined =>
  kind === 'UNKNOWN' ? undefined : objectOf(item[payloadOfKind[kind]])

/** @param all also transcripts, and names of files */
function joinedText(items: readonly Fields[], all = false): string {
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

/** An image's own `aeskey` goes before the one in its media reference (protocol notes 4.1). */
const keyOf = (payload: Fields): string | undefined =>
  filledOf(payload.aeskey) ?? filledOf(objectOf(payload.media)?.aes_key)

function keyHex(payload: Fields): string | undefined {
  const key = keyOf(payload)
  if (key === undefined) return undefined
  try {
    return parseAesKey(key).toString('hex')
  } catch {
    return key
  }
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

function publicItem(item: Fields): MessageItem {
  const kind = kindOfItem(item)
  const payload = payloadOf(item, kind)
  const shown: MessageItem = { kind, has_media: hasMedia(item) }
  if (!payload) return shown
  if (kind === 'TEXT') return defined({ ...shown, text: textOf(payload.text) })
  return defined({
    ...shown,
    file_name: filledOf(payload.file_name),
    size: sizeOf(payload),
    // Upstream states no other dimensions than those of the preview, which has the shape of the original.
    width: countOf(payload.thumb_width),
    height: countOf(payload.thumb_height),
    playtime: countOf(payload.playtime) ?? countOf(payload.play_length),
    transcript: kind === 'VOICE' ? filledOf(payload.text) : undefined,
  })
}

function wireOf(raw: WeixinMessage | string): WeixinMessage {
  if (typeof raw !== 'string') return objectOf(raw) ? raw : {}
  if (raw.length > longestValue) return {}
  try {
    return objectOf(parseLossless(raw)) ?? {}
  } catch {
    return {}
  }
}
