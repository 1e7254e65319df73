/**
 * Requests and replies as upstream spells them (protocol notes 2 and 3; official client 2.4.9).
 *
 * Nothing here is guaranteed to arrive: every field is optional, may be null, and may have another type than stated, so
 * readers check each value (`fields.ts`). Ids are strings once `lossless.ts` has quoted them, since upstream's uint64
 * exceed 2^53; one short enough to be exact may still be a number, which `idOf` evens out.
 */

/** Sender's side of a message: `WeixinMessage.message_type`. */
export const messageType = { none: 0, user: 1, bot: 2 } as const
/** `WeixinMessage.message_state`; GENERATING does not work (protocol notes 3.4). */
export const messageState = { new: 0, generating: 1, finish: 2 } as const
/** `MessageItem.type`. 8 is a placeholder seen in quotes; 11 and 12 are never sent by us. */
export const itemType = {
  none: 0,
  text: 1,
  image: 2,
  voice: 3,
  file: 4,
  video: 5,
  unsupported: 8,
  toolCallStart: 11,
  toolCallResult: 12,
} as const
/** `GetUploadUrlRequest.media_type`: not the item type numbers. */
export const uploadType = { image: 1, video: 2, file: 3, voice: 4 } as const

/** Where a piece of media lies on the CDN, with its key in one of three spellings (protocol notes 4.1). */
export interface CDNMedia {
  encrypt_query_param?: string
  aes_key?: string
  /** 1: packed with thumb and size; without it WeChat accepts an outgoing image and never shows it. */
  encrypt_type?: number
  full_url?: string
}

export interface ImageItem {
  media?: CDNMedia
  thumb_media?: CDNMedia
  /** 32 hex characters; preferred over `media.aes_key`. */
  aeskey?: string
  /** A hex blob, internal to WeChat: not an address. */
  url?: string
  mid_size?: number
  hd_size?: number
  thumb_size?: number
  thumb_height?: number
  thumb_width?: number
}

export interface VoiceItem {
  media?: CDNMedia
  /** Not to be trusted: real captures say 4 (speex) and carry SILK. */
  encode_type?: number
  bits_per_sample?: number
  sample_rate?: number
  /** Milliseconds. */
  playtime?: number
  /** Upstream's transcript. */
  text?: string
  size?: number
}

export interface FileItem {
  media?: CDNMedia
  file_name?: string
  md5?: string
  /** Plaintext bytes as a decimal string. */
  len?: string
}

export interface VideoItem {
  media?: CDNMedia
  video_size?: number
  /** Seconds by some reports, milliseconds by others. */
  play_length?: number
  video_md5?: string
  thumb_media?: CDNMedia
  thumb_size?: number
  thumb_height?: number
  thumb_width?: number
}

/** Which part of the quoted text was quoted (protocol notes 3.3). */
export interface PartialText {
  start?: string
  end?: string
  /** 0-based occurrence of `start`. */
  startindex?: number
  /** 0-based occurrence of `end`, over the whole text or from after `start`. */
  endindex?: number
  /** MD5 of the quoted part in UTF-8, hex. */
  quotemd5?: string
}

export interface RefMsg {
  title?: string
  message_item?: WireItem
  /** Id of the quoted message; newer WeChat clients send nothing else. */
  svr_id?: string
  partial_text?: PartialText
}

/** One item of a message (upstream: MessageItem; ours is model/message.ts). */
export interface WireItem {
  type?: number
  create_time_ms?: number
  update_time_ms?: number
  is_completed?: boolean
  msg_id?: string
  ref_msg?: RefMsg
  text_item?: { text?: string }
  image_item?: ImageItem
  voice_item?: VoiceItem
  file_item?: FileItem
  video_item?: VideoItem
}

export interface WeixinMessage {
  seq?: string
  message_id?: string
  from_user_id?: string
  to_user_id?: string
  client_id?: string
  create_time_ms?: number
  update_time_ms?: number
  delete_time_ms?: number
  session_id?: string
  group_id?: string
  message_type?: number
  message_state?: number
  item_list?: WireItem[]
  context_token?: string
  run_id?: string
}

/** Success is: `ret` absent or 0, and `errcode` absent or 0. Real servers leave out either. */
export interface Outcome {
  ret?: number
  errcode?: number
  errmsg?: string
}

export interface BaseInfo {
  channel_version?: string
  bot_agent?: string
}

export interface QrcodeReply extends Outcome {
  /** Opaque key to poll with. */
  qrcode?: string
  /** The text to draw as a QR code; not an image. */
  qrcode_img_content?: string
}

export interface QrcodeStatusReply extends Outcome {
  /** wait, scaned, need_verifycode, verify_code_blocked, expired, scaned_but_redirect, binded_redirect, confirmed; others are ignored. */
  status?: string
  /** With scaned_but_redirect: host[:port] only. */
  redirect_host?: string
  bot_token?: string
  ilink_bot_id?: string
  baseurl?: string
  ilink_user_id?: string
}

export interface GetUpdatesReply extends Outcome {
  msgs?: WeixinMessage[]
  get_updates_buf?: string
  longpolling_timeout_ms?: number
}

export interface SendMessageReply extends Outcome {
  message_id?: string
}

export interface GetConfigReply extends Outcome {
  typing_ticket?: string
}

export interface GetUploadUrlRequest {
  /** 32 hex characters, made by us. */
  filekey: string
  /** One of `uploadType`. */
  media_type: number
  /** Must be a real user. */
  to_user_id: string
  /** Plaintext bytes. */
  rawsize: number
  /** MD5 of the plaintext, lower-case hex. */
  rawfilemd5: string
  /** Ciphertext bytes. */
  filesize: number
  /** 32 hex characters. */
  aeskey: string
  no_need_thumb: true
}

export interface GetUploadUrlReply extends Outcome {
  upload_full_url?: string
  /** Legacy: the address is to be built from it. */
  upload_param?: string
}
