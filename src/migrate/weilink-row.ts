/**
 * A row of WeiLink's message log → a message as upstream would have sent it (facts from its release 0.6.2).
 *
 * WeiLink keeps of a message its first item alone, as JSON of its own shape beside the columns; of a sent one the text.
 */
import { createHash } from 'node:crypto'
import { derivedId, summary } from '../ilink/decode.ts'
import { countOf, filledOf, idOf, objectOf, textOf, timeOf } from '../ilink/fields.ts'
import { parseLossless } from '../ilink/lossless.ts'
import { itemType, messageState, messageType, type WeixinMessage, type WireItem } from '../ilink/wire.ts'
import type { MediaKind } from '../model/message.ts'
import type { Row } from '../platform/sqlite.ts'
import type { PastMessage } from '../storage/messages.ts'
import type { HistoryTally } from './source.ts'

type Fields = Record<string, unknown>

const sentByBot = 2
const hexKey = /^[0-9a-f]{32}$/i

/** The columns that `pastOf` wants; ids as text, since they exceed 2^53. */
export const rowColumns = `m.id, CAST(m.message_id AS TEXT) AS message_id, m.user_id, m.bot_id, m.msg_type, m.direction,
  m.text, CAST(m.timestamp_ms AS TEXT) AS timestamp_ms, m.data, CAST(m.stored_at * 1000 AS INTEGER) AS stored_ms`

/**
 * The message of a row; what it lacks is counted in `tally`.
 *
 * @param equals counts received messages without an id that are otherwise equal, over the whole log
 */
export function pastOf(
  row: Row,
  sessionOf: (botId: string) => string,
  tally: HistoryTally,
  equals: Map<string, number>,
): PastMessage {
  const stored = storedForm(row.data)
  if (!stored) tally.damaged += 1
  const sent = Number(row.direction) === sentByBot
  const user = textOf(row.user_id) ?? ''
  const bot_id = textOf(row.bot_id) ?? ''
  const at = timeOf(row.timestamp_ms) ?? 0
  const storedAt = countOf(row.stored_ms) ?? 0
  const id =
    idOf(stored?.message_id) ?? (/^\d+$/.test(String(row.message_id)) ? idOf(row.message_id) : undefined)
  const form = stored ?? { msg_type: row.msg_type, text: row.text }
  const items = itemsOf(form, textOf(row.text))
  if (stored && !sent && items.length === 0) tally.empty += 1
  if (stored && isMediaLost(items[0])) tally.mediaLost += 1
  tally[sent ? 'sent' : 'received'] += 1

  const context_token = filledOf(form.context_token)
  const message: WeixinMessage = sent
    ? {
        from_user_id: '',
        to_user_id: user,
        message_type: messageType.bot,
        message_state: messageState.finish,
        item_list: items,
      }
    : {
        message_id: id,
        from_user_id: user,
        to_user_id: bot_id,
        ...(at > 0 && { create_time_ms: at }),
        message_type: messageType.user,
        message_state: messageState.finish,
        item_list: items,
        context_token,
      }
  const { msg_type, text, timed, contentHash } = summary(message, 0)
  return {
    session: sessionOf(bot_id),
    bot_id,
    direction: sent ? 'sent' : 'received',
    message_id: id,
    derived_id: id === undefined ? (sent ? sentId(row) : countedId(derivedId(message), equals)) : '',
    from_user: user,
    msg_type,
    text,
    timestamp: at || storedAt,
    timed,
    contentHash,
    raw: JSON.stringify(message),
  }
}

function storedForm(data: unknown): Fields | undefined {
  if (typeof data !== 'string') return undefined
  try {
    const form = objectOf(parseLossless(data))
    return form && Object.keys(form).length > 0 ? form : undefined
  } catch {
    return undefined
  }
}

/** Sent messages have no id of upstream's. The same row of the same log is the same message, whenever it is read. */
function sentId(row: Row): string {
  const { id, bot_id, user_id, timestamp_ms, text } = row
  const hash = createHash('sha256').update(JSON.stringify([id, bot_id, user_id, timestamp_ms, text]))
  return `weilink-${hash.digest('hex').slice(0, 24)}`
}

function countedId(derived: string, equals: Map<string, number>): string {
  const ordinal = (equals.get(derived) ?? 0) + 1
  equals.set(derived, ordinal)
  return ordinal === 1 ? derived : `${derived}-${ordinal}`
}

/** The one item that was kept, with what it quotes; none when nothing of it was. */
function itemsOf(form: Fields, columnText: string | undefined): WireItem[] {
  const item = itemOf(form, columnText)
  const quoted = objectOf(form.ref_msg)
  const inner = quoted && itemOf(quoted, undefined)
  if (!inner) return item ? [item] : []
  return [{ ...(item ?? { type: itemType.none }), ref_msg: { message_item: inner } }]
}

function itemOf(form: Fields, columnText: string | undefined): WireItem | undefined {
  const [image, voice, file, video] = [form.image, form.voice, form.file, form.video].map(objectOf)
  if (image) return mediaItem('image', imageOf(image))
  if (voice) return mediaItem('voice', voice)
  if (file) {
    const { file_size, ...rest } = file
    return mediaItem('file', { ...rest, len: countOf(file_size)?.toString() })
  }
  if (video) return mediaItem('video', video)
  const text = textOf(form.text) ?? columnText
  if (text !== undefined) return { type: itemType.text, text_item: { text } }
  // WeiLink calls a text what it does not know, and what has no item at all.
  const type = countOf(form.msg_type)
  return type === undefined || type <= itemType.text || type > itemType.video ? undefined : { type }
}

/** WeiLink keeps an image's own key, which is hex, in the place of the reference's. */
function imageOf(image: Fields): Fields {
  const { aes_key, ...media } = objectOf(image.media) ?? {}
  const key = filledOf(aes_key)
  if (key === undefined || !hexKey.test(key)) return image
  return { ...image, media, aeskey: key }
}

/** WeiLink's names are upstream's but for a file's size. */
const mediaItem = (kind: MediaKind, payload: Fields): WireItem => ({
  type: itemType[kind],
  [`${kind}_item`]: stated({ ...payload, media: stated(objectOf(payload.media) ?? {}) }),
})

/** Without what WeiLink fills in for what upstream did not say: '' and 0. */
const stated = (fields: Fields): Fields =>
  Object.fromEntries(
    Object.entries(fields).filter(
      ([, value]) => value !== undefined && value !== null && value !== '' && value !== 0,
    ),
  )

function isMediaLost(item: WireItem | undefined): boolean {
  const payload = objectOf(item?.image_item ?? item?.voice_item ?? item?.file_item ?? item?.video_item)
  const media = objectOf(payload?.media)
  const isMedia = item?.type !== undefined && item.type >= itemType.image && item.type <= itemType.video
  return isMedia && !filledOf(media?.encrypt_query_param) && !filledOf(media?.full_url)
}
