/**
 * Requests and replies with upstream's field names (protocol notes 2 and 3; official client 2.4.9).
 *
 * No field is guaranteed: each is optional, may be null, and may have another type than stated here. So
 * readers check each value (`fields.ts`). Ids are strings after `lossless.ts` has quoted them, because
 * upstream's uint64 exceed 2^53. An id short enough to be exact may still be a number; `idOf` converts it.
 */

/** `WeixinMessage.message_type`: who sent the message. */
export const messageType = { none: 0, user: 1, bot: 2 } as const
/** `WeixinMessage.message_state`. */
export const messageState = { finish: 2 } as const
/** `MessageItem.type` of the kinds that svc sends and decodes. */
export const itemType = { none: 0, text: 1, image: 2, voice: 3, file: 4, video: 5 } as const
/** `media_type` of getuploadurl. Its numbers differ from those of the item types. */
export const uploadType = { image: 1, video: 2, file: 3, voice: 4 } as const

/** An object with unknown fields. Sections 3.2, 3.3 and 4 of the protocol notes list them. */
type Fields = Readonly<Record<string, unknown>>

/** One item of a message (upstream: MessageItem). The public form is in model/message.ts. */
export interface WireItem {
  type?: number
  ref_msg?: Fields
  text_item?: { text?: string }
  image_item?: Fields
  voice_item?: Fields
  file_item?: Fields
  video_item?: Fields
}

export interface WeixinMessage {
  seq?: string
  message_id?: string
  from_user_id?: string
  to_user_id?: string
  client_id?: string
  create_time_ms?: number
  session_id?: string
  group_id?: string
  message_type?: number
  message_state?: number
  item_list?: WireItem[]
  context_token?: string
}

/**
 * The result of a call. Success means `ret` absent or 0, and `errcode` absent or 0. Servers may leave out
 * either.
 */
export interface Outcome {
  ret?: number
  errcode?: number
  errmsg?: string
}

export interface QrcodeReply {
  /** Opaque key to poll with. */
  qrcode: string
  /** The text to draw as a QR code; not an image. */
  qrcode_img_content: string
}

export interface QrcodeStatusReply {
  /**
   * wait, scaned, need_verifycode, verify_code_blocked, expired, scaned_but_redirect, binded_redirect,
   * confirmed. Others are ignored.
   */
  status?: string
  /** With scaned_but_redirect: host[:port] only. */
  redirect_host?: string
  bot_token?: string
  ilink_bot_id?: string
  baseurl?: string
  ilink_user_id?: string
}

/** Only the sandbox sends this header: by how many ms its phone's clock was moved ahead. */
export const sandboxClockHeader = 'svc-sandbox-ahead-ms'
