/**
 * WeChat's side of the protocol (protocol notes 2, 3, 7.2): how svc writes stored messages for programs that speak it, and reads what
 * these programs send.
 */
import type { MediaKind } from '../model/message.ts'
import { isUserId } from '../model/user-id.ts'
import { attempt } from '../platform/fields.ts'
import { longestValue, parseLossless } from '../platform/lossless.ts'
import { keyB64OfHex, paddedSizeOf } from './crypto.ts'
import { countOf, filledOf, idOf, kindOfItem, objectOf, payloadOfKind, textOf } from './fields.ts'
import { itemType, messageState, messageType, type Outcome, uploadType } from './wire.ts'

type Fields = Record<string, unknown>

/** The answers that clients know. */
export const outcomes = {
  done: { ret: 0, errmsg: '' },
  /** Malformed, or for no user. */
  invalid: { ret: -3, errmsg: 'invalid arguments' },
  /** Clients stop for an hour, or throw their contexts away. WeiLink notices only `errcode`. */
  expired: { ret: -14, errcode: -14, errmsg: 'session timeout' },
} as const satisfies Record<string, Outcome>

/** The refusal of a send. Clients show the text. */
export const refusal = (why: string): Outcome => ({ ret: -2, errmsg: `prepare failed: ${why}` })

// Inside a string every quote is escaped, so a text that contains "message_id":"1" never matches.
const quotedId = /"(message_id|msg_id|svr_id|seq)":"(0|[1-9]\d{0,19})"/g

/** Formats an answer; ids become bare integers, as WeChat's. */
export const formatAnswer = (value: unknown): string => JSON.stringify(value).replace(quotedId, '"$1":$2')

/** The fields of a request. @throws SyntaxError */
export const readRequest = (text: string): Fields => objectOf(parseLossless(text || '{}')) ?? {}

/** The answer to a call that is no send, and fails. Clients show the text. */
export const failure = (why: string): Outcome => ({ ret: -1, errmsg: why })

/** Reads the cursor of getupdates; '' if there is none. */
export const readCursor = ({ get_updates_buf, sync_buf }: Fields): string =>
  filledOf(get_updates_buf) ?? filledOf(sync_buf) ?? ''

/** Reads the request of getconfig. @returns the answer, if it is wrong */
export function readTicketRequest({ ilink_user_id }: Fields): { user: string } | Outcome {
  const user = filledOf(ilink_user_id)
  if (user === undefined) return { ret: -2, errmsg: 'ilink_user_id required' }
  return isUserId(user) ? { user } : outcomes.invalid
}

export const ticketAnswer = (typing_ticket: string): object => ({ ...outcomes.done, typing_ticket })

/** Reads the request of sendtyping. @param userOf returns the user of a ticket @returns the answer, if it is wrong */
export function readTyping(
  request: Fields,
  userOf: (ticket: string) => unknown,
): { user: string; typing: boolean } | Outcome {
  const read = readTicketRequest(request)
  if (!('user' in read)) return read
  const isRight = userOf(textOf(request.typing_ticket) ?? '') === read.user
  return isRight
    ? { ...read, typing: countOf(request.status) !== 2 }
    : { ret: -2, errmsg: 'invalid typing_ticket' }
}

/** @param url of the CDN, where the file goes; it gets the parameter */
export const uploadAnswer = (url: string, upload_param: string, filekey: string): object => ({
  ...outcomes.done,
  upload_full_url: `${url}?encrypted_query_param=${encodeURIComponent(upload_param)}&filekey=${filekey}&taskid=1`,
  upload_param,
})

/** The answer of getupdates. The announced time is longer than polls are held: Tencent's client leaves exactly then. */
export const formatUpdates = (messages: readonly string[], cursor: string, announcedMs: number): string =>
  `{"ret":0,"msgs":[${messages.join(',')}],"get_updates_buf":${JSON.stringify(cursor)},"longpolling_timeout_ms":${announcedMs}}`

/** What a client gets in place of WeChat's secrets. */
export interface ClientReceiver {
  readonly contextToken: string
  /** The address of a file, by the message and the number among its items with media. */
  mediaOf(message: string, item: number): { param: string; keyHex: string; url: string }
}

/** Formats a received message for a client. @returns undefined for one that clients cannot read */
export const formatMessage = (raw: string, id: string, to: ClientReceiver): string | undefined =>
  raw.length > longestValue ? undefined : attempt(() => formatWhole(raw, id, to))

function formatWhole(raw: string, id: string, to: ClientReceiver): string | undefined {
  const wire = objectOf(parseLossless(raw))
  const items = Array.isArray(wire?.item_list) ? wire.item_list.map(item => objectOf(item) ?? {}) : []
  if (items.length === 0 || !filledOf(wire?.from_user_id)) return undefined
  let next = 0
  return formatAnswer({
    ...wire,
    message_id: idOf(wire?.message_id) ?? id,
    message_type: messageType.user,
    message_state: messageState.finish,
    item_list: items.map(item => {
      const shown = hasMedia(item) ? withMedia(item, id, next++, to) : item
      const ref = objectOf(item.ref_msg)
      const quoted = objectOf(ref?.message_item)
      return quoted ? { ...shown, ref_msg: { ...ref, message_item: toQuoted(quoted, to) } } : shown
    }),
    context_token: to.contextToken,
  })
}

const mediaKinds: Readonly<Record<string, MediaKind>> = {
  IMAGE: 'image',
  VOICE: 'voice',
  FILE: 'file',
  VIDEO: 'video',
}

/** The name and the fields of the file of an item, if it has one. */
function payloadOf(item: Fields): readonly [string, Fields] | undefined {
  const kind = kindOfItem(item)
  const name = kind in mediaKinds ? payloadOfKind[kind as keyof typeof payloadOfKind] : ''
  const payload = objectOf(item[name])
  return payload && [name, payload]
}

function hasMedia(item: Fields): boolean {
  const media = objectOf(payloadOf(item)?.[1].media)
  return Boolean(filledOf(media?.encrypt_query_param) ?? filledOf(media?.full_url))
}

/** Returns an item with a file that the client can fetch from svc. The preview of a picture is left out. */
function withMedia(item: Fields, message: string, nth: number, to: ClientReceiver): Fields {
  const [name, payload] = payloadOf(item) ?? ['', {}]
  const { param, keyHex, url } = to.mediaOf(message, nth)
  const media = { encrypt_query_param: param, aes_key: keyB64OfHex(keyHex), encrypt_type: 1, full_url: url }
  // WeiLink uses full_url only without `aeskey` beside the media.
  return { ...item, [name]: { ...payload, aeskey: undefined, thumb_media: undefined, media } }
}

/** The file of a quoted message is that of its own row. Without the id of that message, the quote has no file. */
function toQuoted(quoted: Fields, to: ClientReceiver): Fields {
  const id = idOf(quoted.msg_id)
  if (id !== undefined && hasMedia(quoted)) return withMedia(quoted, id, 0, to)
  const [name] = payloadOf(quoted) ?? []
  return name === undefined ? quoted : { ...quoted, [name]: undefined }
}

/** What a client sends: a text, or a file that it uploaded. */
export interface ClientSend {
  readonly to: string
  readonly clientId?: string | undefined
  readonly text?: string
  readonly file?: { readonly kind: MediaKind; readonly param: string; readonly name?: string | undefined }
}

/** Most characters of a `client_id`. Those of clients have about 40. */
const longestClientId = 200
/** Steps of an agent: WeChat accepts them, and shows nothing. */
const stepTypes = [11, 12]

/** Reads the request of sendmessage. @returns the answer, if there is nothing to send */
export function readSend(request: Fields): ClientSend | Outcome {
  const message = objectOf(request.msg) ?? {}
  const to = textOf(message.to_user_id) ?? ''
  const clientId = filledOf(message.client_id)
  const items: unknown[] = Array.isArray(message.item_list) ? message.item_list : []
  if (!isUserId(to) || items.length > 1 || (clientId?.length ?? 0) > longestClientId) return outcomes.invalid
  const item = objectOf(items[0])
  if (!item) return refusal('no item')
  if (stepTypes.includes(Number(item.type))) return { ret: 0 }
  if (item.type === itemType.text) {
    const text = filledOf(objectOf(item.text_item)?.text)
    return text === undefined ? refusal('no text') : { to, clientId, text }
  }
  const kind = mediaKinds[kindOfItem(item)]
  const payload = payloadOf(item)?.[1]
  const param = filledOf(objectOf(payload?.media)?.encrypt_query_param)
  if (!kind || !param) return refusal('no file')
  return { to, clientId, file: { kind, param, name: filledOf(payload?.file_name) } }
}

/** A file that a client announces. */
export interface ClientUpload {
  readonly kind: MediaKind
  readonly keyHex: string
  readonly size: number
  readonly md5: string
  readonly filekey: string
}

const kindOfUpload = new Map(Object.entries(uploadType).map(([kind, type]) => [type, kind as MediaKind]))

/** Reads the request of getuploadurl. @returns the answer, if it is refused */
export function readUpload(request: Fields, mostBytes: number): ClientUpload | Outcome {
  const kind = kindOfUpload.get(Number(request.media_type) as 1)
  const size = countOf(request.rawsize)
  const [filekey, keyHex, md5] = [request.filekey, request.aeskey, request.rawfilemd5].map(
    one => filledOf(one) ?? '',
  ) as [string, string, string]
  if (!isUserId(textOf(request.to_user_id) ?? '')) return { ret: -1 }
  const isHex = [keyHex, md5].every(hex => /^[0-9a-f]{32}$/i.test(hex))
  if (!kind || !size || !isHex || !/^[\w-]{1,128}$/.test(filekey)) return outcomes.invalid
  if (size > mostBytes) return failure(`a file has at most ${mostBytes} bytes`)
  if (countOf(request.filesize) !== paddedSizeOf(size)) return outcomes.invalid
  return { kind, keyHex, size, md5: md5.toLowerCase(), filekey }
}

/** What a program gets that has logged in. */
export interface LoggedIn {
  readonly token: string
  readonly base_url: string
  readonly bot_id: string
  readonly user_id: string
}

/** The answer of get_bot_qrcode. The program makes a QR code of the link. */
export const codeAnswer = (qrcode: string, qrcode_img_content: string): object => ({
  ...outcomes.done,
  qrcode,
  qrcode_img_content,
})

/** The answer of get_qrcode_status. @param login undefined if the code is over */
export function loginAnswer(login: LoggedIn | 'wait' | undefined): object {
  if (typeof login !== 'object') return { ret: 0, status: login ?? 'expired' }
  const { base_url: baseurl, bot_id: ilink_bot_id, token: bot_token, user_id: ilink_user_id } = login
  return { ret: 0, status: 'confirmed', bot_token, baseurl, ilink_bot_id, ilink_user_id }
}
