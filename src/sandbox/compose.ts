/**
 * Builds the wire items of a user's message: texts, media, quotes in every known form (protocol notes 3.2,
 * 3.3, 4).
 */
import { createHash, randomBytes } from 'node:crypto'
import { badArgument, SvcError } from '../model/error.ts'
import { isObject } from '../platform/fields.ts'
import type { Core } from './core.ts'
import type { MediaPiece } from './media.ts'
import { type Fields, fieldsOf, parseWire, textOf } from './wire.ts'

/** Facts about a media item that its bytes do not give. */
export interface MediaDetails {
  /** Base URL for `full_url`. */
  origin: string
  width?: number
  height?: number
  playtime_ms?: number
  transcript?: string
}

/** Builds the item of a text. */
export const createTextItem = (text: string): Fields => ({ type: 1, text_item: { text } })

/** Builds the item of a media piece that the user sent. */
export function createMediaItem(core: Core, piece: MediaPiece, details: MediaDetails): Fields {
  const { image_key } = core.switches
  const spelledA = Buffer.from(piece.key_hex, 'hex').toString('base64')
  const spelledB = Buffer.from(piece.key_hex).toString('base64')
  const imageKey = { a: spelledA, b: spelledB, c: spelledB, none: undefined }[image_key]
  const media = createMediaField(core, piece, details.origin, piece.kind === 'image' ? imageKey : spelledB)
  const { width, height, transcript, playtime_ms } = details
  // Sizes only if the caller gave them: clients would take an invented size for the picture's real size.
  const shape = { ...(height && { thumb_height: height }), ...(width && { thumb_width: width }) }
  switch (piece.kind) {
    case 'image': {
      const aeskey = image_key === 'c' ? { aeskey: piece.key_hex } : {}
      const sizes = { mid_size: piece.cipher_size, hd_size: piece.cipher_size, thumb_size: 0, ...shape }
      // `url` is not an address. It is WeChat's own id of the picture.
      return { type: 2, image_item: { media, ...aeskey, url: randomBytes(40).toString('hex'), ...sizes } }
    }
    case 'voice': {
      // Values captured from WeChat. The bytes are SILK, whatever these fields say.
      const format = { encode_type: 4, bits_per_sample: 16, sample_rate: 16_000 }
      return { type: 3, voice_item: { media, ...format, playtime: playtime_ms ?? 3000, text: transcript } }
    }
    case 'file': {
      const { name, md5, raw_size } = piece
      return { type: 4, file_item: { media, file_name: name ?? 'file.bin', md5, len: String(raw_size) } }
    }
    case 'video': {
      const play_length = Math.round((playtime_ms ?? 10_000) / 1000)
      const sizes = { video_size: piece.cipher_size, video_md5: piece.md5, thumb_size: 0, ...shape }
      return { type: 5, video_item: { media, play_length, ...sizes } }
    }
  }
}

/** Builds the `media` field of an item: where its bytes are, and the key to decrypt them. */
const createMediaField = (
  { switches }: Core,
  { param }: MediaPiece,
  origin: string,
  key: string | undefined,
): Fields => ({
  encrypt_query_param: param,
  aes_key: key,
  encrypt_type: 1,
  ...(switches.full_url === 'present' && {
    full_url: `${origin}/c2c/download?encrypted_query_param=${encodeURIComponent(param)}`,
  }),
})

/** The known forms of a quote; the switch `quote` selects one. */
export const quoteForms = ['id', 'partial', 'full', 'type0', 'type8'] as const
type QuoteForm = (typeof quoteForms)[number]

/**
 * Builds the `ref_msg` that quotes a message.
 *
 * @param part for `partial`: the quoted words; default: the middle of the text
 * @throws SvcError `message_not_found`; `invalid_arguments` if `part` is not in the text
 */
export function quoteOf(core: Core, messageId: string, form: QuoteForm, part: string | undefined): Fields {
  const row = core.db.get`SELECT * FROM message WHERE message_id = ${messageId} ORDER BY seq DESC LIMIT 1`
  if (!row) {
    throw new SvcError('message_not_found', 'no such message', {
      field: 'quote',
      hint: 'GET /phone/messages shows the ids.',
    })
  }
  const message = fieldsOf(parseWire(String(row.wire)))
  const items = Array.isArray(message.item_list) ? message.item_list.filter(isObject) : []
  const item = items[0] ?? {}
  const stamp = { create_time_ms: Number(row.at), update_time_ms: Number(row.at) }
  switch (form) {
    case 'id':
      return { svr_id: messageId }
    case 'partial': {
      const text = textOf(fieldsOf(item.text_item).text)
      return { svr_id: messageId, partial_text: partialOf(text, part ?? middleOf(text)) }
    }
    case 'full':
      return {
        title: textOf(fieldsOf(item.text_item).text).slice(0, 40),
        message_item: { ...item, ...stamp, msg_id: messageId },
      }
    case 'type0':
      return { message_item: { type: 0, msg_id: messageId, ...stamp } }
    case 'type8':
      return { message_item: { type: 8, ...stamp } }
  }
}

/** Returns the middle third of a text, cut between whole characters. */
function middleOf(text: string): string {
  const letters = [...text]
  const third = Math.floor(letters.length / 3)
  return letters.slice(third, letters.length - third).join('')
}

/**
 * Builds `partial_text`: the first and last characters of `part`, each with its occurrence index (from 0)
 * in the text.
 */
function partialOf(text: string, part: string): Fields {
  const at = part ? text.indexOf(part) : -1
  if (at < 0) throw badArgument('part', 'not found in the quoted text')
  const letters = [...part]
  const few = Math.min(8, letters.length)
  const start = letters.slice(0, few).join('')
  const end = letters.slice(-few).join('')
  return {
    start,
    end,
    startindex: countBefore(text, start, at),
    endindex: countBefore(text, end, at + part.length - end.length),
    quotemd5: createHash('md5').update(part).digest('hex'),
  }
}

/** Counts the non-overlapping occurrences of `word` before index `at`. */
function countBefore(text: string, word: string, at: number): number {
  let count = 0
  for (let from = text.indexOf(word); from >= 0 && from < at; from = text.indexOf(word, from + word.length))
    count++
  return count
}
