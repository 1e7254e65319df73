/**
 * Builds outgoing messages in the shapes of the official client (protocol notes 2.5, 4.2): one item per
 * message.
 */
import type { MediaKind } from '../model/message.ts'
import { keyB64OfHex } from './crypto.ts'
import { itemType, messageState, messageType, uploadType, type WeixinMessage, type WireItem } from './wire.ts'

/**
 * How a kind is sent: voice is sent as a file, because WeChat accepts voice from a bot but never shows it
 * (notes 4.3).
 */
export type KindAsSent = Exclude<MediaKind, 'voice'>
export const kindAsSentOf = (kind: MediaKind): KindAsSent => (kind === 'voice' ? 'file' : kind)

/** Returns `media_type` of an upload. Voice is uploaded as a file. */
export const uploadTypeOf = (kind: MediaKind): number => uploadType[kindAsSentOf(kind)]

/**
 * Returns `svc:<ms>-<8 hex>`. A retry of the same attempt must reuse it: upstream shows each `client_id` only
 * once.
 */
export function createClientId(nowMs: number): string {
  const [random = 0] = crypto.getRandomValues(new Uint32Array(1))
  return `svc:${nowMs}-${random.toString(16).padStart(8, '0')}`
}

export const createTextItem = (text: string): WireItem => ({ type: itemType.text, text_item: { text } })

/** An encrypted file as it is uploaded. Must never leave svc in any output, because it carries the key. */
export interface SealedFile {
  kind: MediaKind
  file_name: string
  /** Plaintext bytes. */
  size: number
  /** Ciphertext bytes. */
  cipherSize: number
  aesKeyHex: string
}

/** The result of an upload to the CDN. */
export interface UploadedMedia extends SealedFile {
  /** Value of the CDN's header `x-encrypted-param`. */
  downloadParam: string
}

/**
 * Builds the item of an uploaded file. Image and video state the ciphertext size, a file its plaintext size
 * as text.
 */
export const createMediaItem = ({ aesKeyHex, cipherSize, downloadParam, ...file }: UploadedMedia): WireItem =>
  createFileItem(file, cipherSize, {
    encrypt_query_param: downloadParam,
    aes_key: keyB64OfHex(aesKeyHex),
    // Without `encrypt_type`, WeChat accepts an image but never shows it.
    encrypt_type: 1,
  })

/**
 * Builds the item for a file that is not uploaded yet, for the message history: there is nothing to download
 * yet.
 */
export const createWaitingItem = (file: FileFacts): WireItem => createFileItem(file, file.size)

type FileFacts = Pick<SealedFile, 'kind' | 'file_name' | 'size'>

function createFileItem({ kind, file_name, size }: FileFacts, statedSize: number, media?: object): WireItem {
  switch (kindAsSentOf(kind)) {
    case 'image':
      return { type: itemType.image, image_item: { media, mid_size: statedSize } }
    case 'video':
      return { type: itemType.video, video_item: { media, video_size: statedSize } }
    case 'file':
      return { type: itemType.file, file_item: { media, file_name, len: String(size) } }
  }
}

export interface Outgoing {
  /** The recipient, exactly as upstream spelled the id: ids are case-sensitive. */
  to: string
  item: WireItem
  clientId: string
}

/** Builds the `msg` of a sendmessage request. Upstream fills in `from_user_id`. */
export function createOutgoingMessage(outgoing: Outgoing): WeixinMessage {
  return {
    from_user_id: '',
    to_user_id: outgoing.to,
    client_id: outgoing.clientId,
    message_type: messageType.bot,
    message_state: messageState.finish,
    item_list: [outgoing.item],
  }
}

/** Adds the newest context token of the user. Upstream also accepts messages without one, but may not deliver them. */
export const withContextToken = (message: WeixinMessage, token: string | undefined): WeixinMessage =>
  token ? { ...message, context_token: token } : message
