/**
 * The upstream API: one function per endpoint (protocol notes 2). The official client has the same
 * deadlines.
 */
import type { BotInfo } from '../model/session.ts'
import { sliceArray } from '../platform/lossless.ts'
import type { RequestPermits } from '../platform/permits.ts'
import { RoomPart } from '../platform/runtime.ts'
import { type SealedFile, uploadTypeOf } from './encode.ts'
import { countOf, filledOf, idOf, objectOf } from './fields.ts'
import {
  clientVersionOf,
  exchange,
  type Fetch,
  ILinkError,
  isILinkError,
  joinUrl,
  type Reply,
  randomUin,
} from './http.ts'
import type { QrcodeReply, QrcodeStatusReply, WeixinMessage } from './wire.ts'

/** The account that a request is made for. */
export interface Account {
  base_url: string
  token: string
}

/** A received message: its JSON text and its parsed form. */
export interface WireMessage {
  /**
   * The message's own JSON text: a slice of the response with long integers quoted, and everything else
   * unchanged.
   */
  raw: string
  /** Undefined when the message is too large to be parsed. */
  message: WeixinMessage | undefined
}

export interface Updates {
  /** Oldest first. */
  messages: WireMessage[]
  /** The cursor to store with the messages. Undefined: keep the old one. */
  cursor?: string
  /** How long upstream wants to hold the next poll, in ms. */
  nextHoldMs?: number
  /**
   * Whether the response had `msgs` and a cursor, one of them, or neither. Absent when none came within the
   * hold.
   */
  form?: 'whole' | 'part' | 'bare'
}

export interface UploadRequest extends Omit<SealedFile, 'file_name'> {
  filekey: string
  to: string
  md5: string
}

/** Where an upload goes. Exactly one of `url` and `uploadParam` is set. */
export interface UploadTarget {
  url?: string
  uploadParam?: string
}

export interface ApiOptions {
  fetch: Fetch
  /** The client version sent to upstream, such as 2.4.9. */
  channelVersion: string
  /** The version of svc, for `bot_agent`, which does not get the commit. */
  version: string
  /**
   * Extra wait after the hold for a late response. The official client has none and loses messages (notes
   * 2.4, 6).
   */
  holdSlackMs?: number
  /**
   * Limits the requests of each kind at the same time; unlimited by default. `getUpdates` leaves this to its
   * caller.
   */
  permits?: Pick<RequestPermits, 'polls' | 'logins' | 'sends'>
}

/** Limit for one response with messages. */
const updatesBytes = 64 * 1024 * 1024
/** A longer hold than this is not accepted from upstream. */
const holdLimitMs = 300_000
const createMs = 20_000
const statusMs = 40_000
const sendMs = 15_000
const briefMs = 10_000
/** A QR code holds at most 2,953 bytes; the links in them have about 80. */
const qrcodeBytes = 2000

/** WeChat, or the sandbox instead of it. */
export interface Upstream {
  api: Api
  /** Returns the address and the token for requests of a bot. */
  account(bot: BotInfo): Account
  /** The fixed host for every login. */
  loginUrl: string
  /** Whether this is the sandbox, where you can have as many people as you like. */
  sandboxed: boolean
}

interface CallOptions {
  timeoutMs: number
  signal?: AbortSignal
  emptyOk?: boolean
  limitBytes?: number
  readsToEnd?: boolean
  /** The kind of permit that the request takes. */
  kind?: keyof NonNullable<ApiOptions['permits']>
}

const sendOptions: CallOptions = { timeoutMs: sendMs, kind: 'sends' }
const briefOptions: CallOptions = { timeoutMs: briefMs, kind: 'sends' }
const noticeOptions: CallOptions = { timeoutMs: briefMs, emptyOk: true, kind: 'polls' }

/** All endpoints, for one client version. */
export class Api extends RoomPart<ApiOptions> {
  readonly #appHeaders = {
    'iLink-App-Id': 'bot',
    'iLink-App-ClientVersion': clientVersionOf(this.ports.channelVersion),
  }

  /**
   * Requests a new QR code to scan.
   *
   * @param host the login host
   * @param localTokens known bot tokens, newest first; upstream can then see that the scanned bot is one of
   *   them
   * @throws ILinkError; `malformed` also when the response has no code
   */
  async getBotQrcode(
    host: string,
    localTokens: readonly string[],
    signal?: AbortSignal,
  ): Promise<QrcodeReply> {
    const url = joinUrl(host, 'ilink/bot/get_bot_qrcode?bot_type=3')
    const body = { local_token_list: localTokens.slice(0, 10) }
    const options: CallOptions = { timeoutMs: createMs, signal, kind: 'logins' }
    const { fields } = await this.#request(url, options, JSON.stringify(body))
    const qrcode = filledOf(fields.qrcode)
    const content = filledOf(fields.qrcode_img_content)
    if (qrcode === undefined || content === undefined)
      throw new ILinkError('malformed', 'WeChat responded without a QR code')
    if (Buffer.byteLength(content) > qrcodeBytes || !content.isWellFormed())
      throw new ILinkError('malformed', 'WeChat responded with a text that does not fit in a QR code')
    return { qrcode, qrcode_img_content: content }
  }

  /**
   * Returns the state of a QR code. Upstream holds the request for up to about 30 s.
   *
   * Never throws: any failure (a timeout, HTML of a gateway, an abort) means "wait, and ask again". Such a
   * result carries the error, so that it can be told from a real `wait` of upstream.
   */
  async getQrcodeStatus(
    host: string,
    qrcode: string,
    verifyCode?: string,
    signal?: AbortSignal,
  ): Promise<QrcodeStatusReply & { error?: ILinkError }> {
    const query = new URLSearchParams({ qrcode })
    if (verifyCode) query.set('verify_code', verifyCode)
    const url = joinUrl(host, `ilink/bot/get_qrcode_status?${query}`)
    try {
      const { fields } = await this.#request(url, { timeoutMs: statusMs, signal, kind: 'logins' })
      return {
        status: filledOf(fields.status) ?? 'wait',
        redirect_host: filledOf(fields.redirect_host),
        bot_token: filledOf(fields.bot_token),
        ilink_bot_id: filledOf(fields.ilink_bot_id),
        baseurl: filledOf(fields.baseurl),
        ilink_user_id: filledOf(fields.ilink_user_id),
      }
    } catch (error) {
      const known = isILinkError(error) ? error : new ILinkError('network', 'the request was cancelled')
      return { status: 'wait', error: known }
    }
  }

  /**
   * Returns the messages after `cursor`: at once when there are some, otherwise when upstream ends the hold.
   *
   * @param cursor opaque, from the last response; '' on first contact
   * @param holdMs how long upstream should hold. No response even some seconds later means no messages, not
   *   an error
   * @throws ILinkError, `expired` on -14 in `ret` or in `errcode`; the signal's reason when aborted before the
   *   answer began
   */
  async getUpdates(account: Account, cursor: string, holdMs: number, signal?: AbortSignal): Promise<Updates> {
    const { holdSlackMs = 8000 } = this.ports
    const timeoutMs = Math.min(holdMs, holdLimitMs) + holdSlackMs
    const body = { get_updates_buf: cursor }
    try {
      const options = { timeoutMs, signal, limitBytes: updatesBytes, readsToEnd: true }
      return updatesOf(await this.#post(account, 'getupdates', body, options))
    } catch (error) {
      // A response that has begun may carry messages, so its failure is an error. Silence is not.
      if (isILinkError(error, 'timeout') && error.facts.status === undefined) return { messages: [] }
      throw error
    }
  }

  /** Reports that polling begins; best effort. @throws ILinkError */
  async notifyStart(account: Account, signal?: AbortSignal): Promise<void> {
    await this.#post(account, 'msg/notifystart', {}, { ...noticeOptions, signal })
  }

  /** Reports that polling ends; best effort. @throws ILinkError */
  async notifyStop(account: Account, signal?: AbortSignal): Promise<void> {
    await this.#post(account, 'msg/notifystop', {}, { ...noticeOptions, signal })
  }

  /**
   * Hands one message to upstream. `message_id` is missing on older servers; on newer ones its absence is
   * suspect.
   *
   * @param message from `createOutgoingMessage`
   * @throws ILinkError; `neverSent` means that it certainly did not arrive, `refused` that upstream did not
   *   accept it
   */
  async sendMessage(account: Account, message: WeixinMessage, signal?: AbortSignal) {
    const options = { ...sendOptions, signal, emptyOk: true }
    const { fields } = await this.#post(account, 'sendmessage', { msg: message }, options)
    return { message_id: idOf(fields.message_id) }
  }

  /**
   * Returns where to upload a file for a user.
   *
   * @throws ILinkError; `malformed` when the response has no address
   */
  async getUploadUrl(account: Account, upload: UploadRequest, signal?: AbortSignal): Promise<UploadTarget> {
    const body = {
      filekey: upload.filekey,
      media_type: uploadTypeOf(upload.kind),
      to_user_id: upload.to,
      rawsize: upload.size,
      rawfilemd5: upload.md5.toLowerCase(),
      filesize: upload.cipherSize,
      aeskey: upload.aesKeyHex,
      no_need_thumb: true,
    }
    const { fields } = await this.#post(account, 'getuploadurl', body, { ...sendOptions, signal })
    const url = filledOf(fields.upload_full_url)
    const uploadParam = filledOf(fields.upload_param)
    if (url !== undefined && /^https?:/i.test(url) && URL.canParse(url)) return { url }
    if (uploadParam !== undefined) return { uploadParam }
    throw new ILinkError('malformed', 'WeChat responded without an upload address')
  }

  /** Returns the ticket that `sendTyping` needs; undefined when upstream gives none. @throws ILinkError */
  async getConfig(account: Account, userId: string, contextToken?: string, signal?: AbortSignal) {
    const body = { ilink_user_id: userId, ...(contextToken && { context_token: contextToken }) }
    const { fields } = await this.#post(account, 'getconfig', body, { ...briefOptions, signal })
    return { typing_ticket: filledOf(fields.typing_ticket) }
  }

  /** Shows or ends the typing indicator, which fades by itself after a few seconds. @throws ILinkError */
  async sendTyping(
    account: Account,
    { userId, ticket, typing }: { userId: string; ticket: string; typing: boolean },
    signal?: AbortSignal,
  ): Promise<void> {
    const body = { ilink_user_id: userId, typing_ticket: ticket, status: typing ? 1 : 2 }
    await this.#post(account, 'sendtyping', body, { ...briefOptions, signal, emptyOk: true })
  }

  /** Sends a request of a bot: with its token, and with `base_info` in the body. */
  #post({ base_url, token }: Account, path: string, body: object, options: CallOptions): Promise<Reply> {
    const { channelVersion, version } = this.ports
    const base_info = { channel_version: channelVersion, bot_agent: `svc/${version.replace(/\+.*/, '')}` }
    const url = joinUrl(base_url, `ilink/bot/${path}`)
    return this.#request(url, options, JSON.stringify({ ...body, base_info }), token)
  }

  /** POSTs the body. Without a body it sends a GET, which the login status needs. */
  #request(url: string, { kind, ...rest }: CallOptions, body?: string, token?: string): Promise<Reply> {
    const { fetch, permits } = this.ports
    const headers = {
      ...(body !== undefined && {
        'Content-Type': 'application/json',
        AuthorizationType: 'ilink_bot_token',
        'X-WECHAT-UIN': randomUin(),
      }),
      ...this.#appHeaders,
      ...(token !== undefined && { Authorization: `Bearer ${token.trim()}` }),
    }
    const method = body === undefined ? 'GET' : 'POST'
    return exchange(fetch, { url, method, headers, body, permits: kind && permits?.[kind], ...rest })
  }
}

function updatesOf(reply: Reply): Updates {
  const { fields } = reply
  const messages = messagesOf(reply)
  const hold = countOf(fields.longpolling_timeout_ms)
  const cursor = filledOf(fields.get_updates_buf)
  const partCount = Number(Array.isArray(fields.msgs)) + Number(cursor !== undefined)
  return {
    messages,
    cursor,
    form: partCount === 2 ? 'whole' : partCount === 1 ? 'part' : 'bare',
    nextHoldMs: hold ? Math.min(hold, holdLimitMs) : undefined,
  }
}

function messagesOf({ fields, parts, text }: Reply): WireMessage[] {
  if (parts)
    return parts
      .filter(part => part.text.startsWith('{'))
      .map(part => ({ raw: part.text, message: objectOf(part.value) }))
  const all: unknown[] = Array.isArray(fields.msgs) ? fields.msgs : []
  const found = all.filter((message): message is WeixinMessage => objectOf(message) !== undefined)
  // The text slices that are objects match the messages, in order.
  const texts =
    found.length > 0 ? sliceArray(text, 'msgs')?.filter(slice => slice.startsWith('{')) : undefined
  return found.map((message, at) => ({
    raw: (texts?.length === found.length ? texts[at] : undefined) ?? JSON.stringify(message),
    message,
  }))
}
