/**
 * Requests and replies as upstream spells them (protocol notes 2 and 3; official client 2.4.9).
 *
 * Nothing here is guaranteed to arrive: every field is optional, may be null, and may have another type than stated, so
 * readers check each value (`fields.ts`). Ids are strings once `lossless.ts` has quoted them, since upstream's uint64
 * exceed 2^53; one short enough to be exact may still be a number, which `idOf` evens out.
 */

/** Sender's side of a message: `WeixinMessage.message_type`. */
export const messageType = { none: 0, user: 1, bot: 2 } as const
/** `WeixinMessage.message_state`. */
export const messageState = { finish: 2 } as const
/** `MessageItem.type` of what we send and decode. */
export const itemType = { none: 0, text: 1, image: 2, voice: 3, file: 4, video: 5 } as const
/** `media_type` of getuploadurl: not the item type numbers. */
export const uploadType = { image: 1, video: 2, file: 3, voice: 4 } as const

/** An object with unknown fields: sections 3.2, 3.3 and 4 of the protocol notes list them. */
type Fields = Readonly<Record<string, unknown>>

/** One item of a message (upstream: MessageItem; ours is model/message.ts). */
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

/** Success is: `ret` absent or 0, and `errcode` absent or 0. Real servers leave out either. */
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
  /** wait, scaned, need_verifycode, verify_code_blocked, expired, scaned_but_redirect, binded_redirect, confirmed; others are ignored. */
  status?: string
  /** With scaned_but_redirect: host[:port] only. */
  redirect_host?: string
  bot_token?: string
  ilink_bot_id?: string
  baseurl?: string
  ilink_user_id?: string
}

/** The simulated WeChat alone says in each answer by how many milliseconds its phone has moved the time ahead. */
export const sandboxClockHeader = 'svc-sandbox-ahead-ms'
