/** What we send, in the shapes of the official client (protocol notes 2.5, 4.2): one item per message. */
import type { MediaKind, UploadedMedia } from '../model/message.ts'
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

/** The item that shows an uploaded file. Image and video state the ciphertext size, a file the plaintext size as text. */
export function mediaItem(uploaded: UploadedMedia): WireItem {
  const media = {
    encrypt_query_param: uploaded.download_param,
    aes_key: keyB64OfHex(uploaded.aes_key_hex),
    // Without it the image is accepted and stays invisible.
    encrypt_type: 1,
  }
  switch (sentAs(uploaded.media_type)) {
    case 'image':
      return { type: itemType.image, image_item: { media, mid_size: uploaded.cipher_size } }
    case 'video':
      return { type: itemType.video, video_item: { media, video_size: uploaded.cipher_size } }
    case 'file':
      return {
        type: itemType.file,
        file_item: { media, file_name: uploaded.file_name, len: String(uploaded.file_size) },
      }
  }
}

/** A media item as the log shows it before it is uploaded: there is nothing to download yet. */
export function waitingItem(file: { kind: MediaKind; file_name: string; size: number }): WireItem {
  switch (sentAs(file.kind)) {
    case 'image':
      return { type: itemType.image, image_item: { mid_size: file.size } }
    case 'video':
      return { type: itemType.video, video_item: { video_size: file.size } }
    case 'file':
      return { type: itemType.file, file_item: { file_name: file.file_name, len: String(file.size) } }
  }
}

export interface Outgoing {
  /** Receiver, exactly as upstream spelled it: ids are case-sensitive. */
  to: string
  item: WireItem
  clientId: string
  /** The newest one of this user; upstream takes messages without, delivery is then uncertain. */
  contextToken?: string
  /** Groups the sends of one task. */
  runId?: string
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
  if (outgoing.runId) message.run_id = outgoing.runId
  return message
}
