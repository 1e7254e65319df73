/** What we send, in the shapes of the official client (protocol notes 2.5, 4.2): one item per message. */
import type { MediaKind } from '../model/message.ts'
import { keyB64OfHex } from './crypto.ts'
import { itemType, messageState, messageType, uploadType, type WeixinMessage, type WireItem } from './wire.ts'

/** How a kind is sent: voice goes as a file, because WeChat accepts a bot's voice and never shows it (notes 4.3). */
export type SentAs = Exclude<MediaKind, 'voice'>
export const sentAs = (kind: MediaKind): SentAs => (kind === 'voice' ? 'file' : kind)

/** `media_type` of an upload; voice is uploaded as the file it is sent as. */
export const uploadTypeOf = (kind: MediaKind): number => uploadType[sentAs(kind)]

/** `svc:<ms>-<8 hex>`. A retry of the same attempt must reuse it: upstream shows one `client_id` once. */
export function newClientId(nowMs: number): string {
  const [random = 0] = crypto.getRandomValues(new Uint32Array(1))
  return `svc:${nowMs}-${random.toString(16).padStart(8, '0')}`
}

export const textItem = (text: string): WireItem => ({ type: itemType.text, text_item: { text } })

/** A file as it is uploaded. Never leaves through any surface: it carries the key. */
export interface SealedFile {
  kind: MediaKind
  file_name: string
  /** Plaintext bytes. */
  size: number
  /** Ciphertext bytes. */
  cipherSize: number
  aesKeyHex: string
}

/** What an upload to the CDN gave. */
export interface UploadedMedia extends SealedFile {
  /** From the CDN's `x-encrypted-param` header. */
  downloadParam: string
}

/** The item that shows an uploaded file. Image and video state the ciphertext size, a file the plaintext size as text. */
export const mediaItem = ({ aesKeyHex, cipherSize, downloadParam, ...file }: UploadedMedia): WireItem =>
  fileItem(file, cipherSize, {
    encrypt_query_param: downloadParam,
    aes_key: keyB64OfHex(aesKeyHex),
    // Without it the image is accepted and stays invisible.
    encrypt_type: 1,
  })

/** A media item as the log shows it before it is uploaded: there is nothing to download yet. */
export const waitingItem = (file: ShownFile): WireItem => fileItem(file, file.size)

type ShownFile = Pick<SealedFile, 'kind' | 'file_name' | 'size'>

function fileItem({ kind, file_name, size }: ShownFile, seenSize: number, media?: object): WireItem {
  switch (sentAs(kind)) {
    case 'image':
      return { type: itemType.image, image_item: { media, mid_size: seenSize } }
    case 'video':
      return { type: itemType.video, video_item: { media, video_size: seenSize } }
    case 'file':
      return { type: itemType.file, file_item: { media, file_name, len: String(size) } }
  }
}

export interface Outgoing {
  /** Receiver, exactly as upstream spelled it: ids are case-sensitive. */
  to: string
  item: WireItem
  clientId: string
  /** The newest one of this user; upstream takes messages without, delivery is then uncertain. */
  contextToken?: string
}

/** The `msg` of a sendmessage request. Upstream fills `from_user_id`. */
export function outgoingMessage(outgoing: Outgoing): WeixinMessage {
  const message: WeixinMessage = {
    from_user_id: '',
    to_user_id: outgoing.to,
    client_id: outgoing.clientId,
    message_type: messageType.bot,
    message_state: messageState.finish,
    item_list: [outgoing.item],
  }
  if (outgoing.contextToken) message.context_token = outgoing.contextToken
  return message
}
