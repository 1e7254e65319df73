/** The upstream API, one function per endpoint (protocol notes 2; deadlines are those of the official client). */
import type { BotInfo } from '../model/session.ts'
import type { FetchSlots } from '../platform/slots.ts'
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
import { sliceArray } from './lossless.ts'
import type { QrcodeReply, QrcodeStatusReply, WeixinMessage } from './wire.ts'

/** Whom a request is for. */
export interface Account {
  base_url: string
  token: string
}

export interface ReceivedWire {
  /** The message's own JSON text: a slice of the reply in which long integers are quoted, all else as it came. */
  raw: string
  /** Undefined: it is too large to be looked into. */
  message: WeixinMessage | undefined
}

export interface Updates {
  /** Oldest first. */
  messages: ReceivedWire[]
  /** To store with the messages; undefined: keep yours. */
  cursor?: string
  /** How long upstream wants to hold the next poll. */
  nextHoldMs?: number
  /** Whether `msgs` and a cursor were there, one of them, or neither; absent when no answer came within the hold. */
  form?: 'whole' | 'part' | 'bare'
}

export interface UploadRequest extends Omit<SealedFile, 'file_name'> {
  filekey: string
  to: string
  md5: string
}

/** Where an upload goes; one of the two is there. */
export interface UploadTarget {
  url?: string
  uploadParam?: string
}

export interface ApiOptions {
  fetch: Fetch
  /** The client version told upstream, such as 2.4.9. */
  channelVersion: string
  /** Ours, for `bot_agent`. */
  version: string
  /** Past the hold a reply may still be on its way: the official client's missing slack loses messages (notes 2.4, 6). */
  holdSlackMs?: number
  /** How many requests of a kind may be under way; no bound by default. `getUpdates` leaves that to its caller. */
  slots?: Pick<FetchSlots, 'polls' | 'logins' | 'sends'>
}

/** Of one answer with messages. */
const updatesBytes = 64 * 1024 * 1024
/** A longer hold than this is not believed. */
const holdLimitMs = 300_000
const createMs = 20_000
const statusMs = 40_000
const sendMs = 15_000
const briefMs = 10_000
/** A QR code holds 2,953 bytes at most; the links in them have about 80. */
const qrcodeBytes = 2000

/** WeChat, or the sandbox in its place. */
export interface Upstream {
  api: Api
  /** Where requests of a bot go, and with which token. */
  account(bot: BotInfo): Account
  /** The fixed host that every login goes to. */
  loginUrl: string
  /** It is the sandbox, where there may be as many people as one likes. */
  sandboxed: boolean
}

interface CallOptions {
  timeoutMs: number
  signal?: AbortSignal
  emptyOk?: boolean
  limitBytes?: number
  /** What it takes a slot of. */
  kind?: keyof NonNullable<ApiOptions['slots']>
}

const sending: CallOptions = { timeoutMs: sendMs, kind: 'sends' }
const brief: CallOptions = { timeoutMs: briefMs, kind: 'sends' }
const notice: CallOptions = { timeoutMs: briefMs, emptyOk: true, kind: 'polls' }

/** Every endpoint, for one client version. */
export class Api {
  readonly #options: ApiOptions
  readonly #appHeaders: Record<string, string>

  constructor(options: ApiOptions) {
    this.#options = options
    this.#appHeaders = {
      'iLink-App-Id': 'bot',
      'iLink-App-ClientVersion': clientVersionOf(options.channelVersion),
    }
  }

  /**
   * A new QR code to scan.
   *
   * @param host the login host
   * @param localTokens bot tokens we hold, newest first; lets upstream tell when the scanned bot is one of them
   * @throws ILinkError; `malformed` also when the reply has no code
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
      throw new ILinkError('malformed', 'WeChat answered without a QR code')
    if (Buffer.byteLength(content) > qrcodeBytes || !content.isWellFormed())
      throw new ILinkError('malformed', 'WeChat answered with what no QR code holds')
    return { qrcode, qrcode_img_content: content }
  }

  /**
   * The state of a QR code; upstream holds the question for up to about 30 s.
   *
   * Never throws: whatever goes wrong (timeouts, HTML of a gateway, an abort) means "wait, and ask again". Such a
   * reply carries the error, so that it is not taken for upstream's word.
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
      const known = isILinkError(error) ? error : new ILinkError('network', 'the question was cancelled')
      return { status: 'wait', error: known }
    }
  }

  /**
   * What came after `cursor`; returns at once when there is something, else when upstream ends the hold.
   *
   * @param cursor opaque, from the last reply; '' on first contact
   * @param holdMs how long upstream is expected to hold; no reply some seconds later means no messages, not an error
   * @throws ILinkError, `expired` on -14 in `ret` or in `errcode`; the signal's reason when aborted
   */
  async getUpdates(account: Account, cursor: string, holdMs: number, signal?: AbortSignal): Promise<Updates> {
    const { holdSlackMs = 8000 } = this.#options
    const timeoutMs = Math.min(holdMs, holdLimitMs) + holdSlackMs
    const body = { get_updates_buf: cursor }
    try {
      const options = { timeoutMs, signal, limitBytes: updatesBytes }
      return updatesOf(await this.#post(account, 'getupdates', body, options))
    } catch (error) {
      // A reply that has begun may carry messages: its failure is an error, silence is not.
      if (isILinkError(error, 'timeout') && error.facts.status === undefined) return { messages: [] }
      throw error
    }
  }

  /** Says that polling begins; best effort. @throws ILinkError */
  async notifyStart(account: Account, signal?: AbortSignal): Promise<void> {
    await this.#post(account, 'msg/notifystart', {}, { ...notice, signal })
  }

  /** Says that polling ends; best effort. @throws ILinkError */
  async notifyStop(account: Account, signal?: AbortSignal): Promise<void> {
    await this.#post(account, 'msg/notifystop', {}, { ...notice, signal })
  }

  /**
   * Hands one message over. `message_id` is missing on older servers, and suspect on newer ones.
   *
   * @param message from `outgoing`
   * @throws ILinkError; `neverSent` says that it certainly did not arrive, `refused` that upstream did not take it
   */
  async sendMessage(account: Account, message: WeixinMessage, signal?: AbortSignal) {
    const options = { ...sending, signal, emptyOk: true }
    const { fields } = await this.#post(account, 'sendmessage', { msg: message }, options)
    return { message_id: idOf(fields.message_id) }
  }

  /** Where to upload a file for a user. @throws ILinkError; `malformed` when the reply names no place */
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
    const { fields } = await this.#post(account, 'getuploadurl', body, { ...sending, signal })
    const url = filledOf(fields.upload_full_url)
    const uploadParam = filledOf(fields.upload_param)
    if (url !== undefined && /^https?:/i.test(url) && URL.canParse(url)) return { url }
    if (uploadParam !== undefined) return { uploadParam }
    throw new ILinkError('malformed', 'WeChat answered without an upload address')
  }

  /** The ticket that `sendTyping` needs; undefined when upstream gives none. @throws ILinkError */
  async getConfig(account: Account, userId: string, contextToken?: string, signal?: AbortSignal) {
    const body = { ilink_user_id: userId, ...(contextToken && { context_token: contextToken }) }
    const { fields } = await this.#post(account, 'getconfig', body, { ...brief, signal })
    return { typing_ticket: filledOf(fields.typing_ticket) }
  }

  /** Shows or ends the typing indicator; it fades by itself after a few seconds. @throws ILinkError */
  async sendTyping(
    account: Account,
    { userId, ticket, typing }: { userId: string; ticket: string; typing: boolean },
    signal?: AbortSignal,
  ): Promise<void> {
    const body = { ilink_user_id: userId, typing_ticket: ticket, status: typing ? 1 : 2 }
    await this.#post(account, 'sendtyping', body, { ...brief, signal, emptyOk: true })
  }

  /** What a bot asks: with its token, and `base_info` in the body. */
  #post({ base_url, token }: Account, path: string, body: object, options: CallOptions): Promise<Reply> {
    const { channelVersion, version } = this.#options
    const base_info = { channel_version: channelVersion, bot_agent: `svc/${version}` }
    const url = joinUrl(base_url, `ilink/bot/${path}`)
    return this.#request(url, options, JSON.stringify({ ...body, base_info }), token)
  }

  /** A POST of the body; without one a GET, as a question of a login is. */
  #request(url: string, { kind, ...rest }: CallOptions, body?: string, token?: string): Promise<Reply> {
    const { fetch, slots } = this.#options
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
    return exchange(fetch, { url, method, headers, body, slots: kind && slots?.[kind], ...rest })
  }
}

function updatesOf(reply: Reply): Updates {
  const { fields } = reply
  const messages = messagesOf(reply)
  const hold = countOf(fields.longpolling_timeout_ms)
  const cursor = filledOf(fields.get_updates_buf)
  const there = Number(Array.isArray(fields.msgs)) + Number(cursor !== undefined)
  return {
    messages,
    cursor,
    form: there === 2 ? 'whole' : there === 1 ? 'part' : 'bare',
    nextHoldMs: hold ? Math.min(hold, holdLimitMs) : undefined,
  }
}

function messagesOf({ fields, parts, text }: Reply): ReceivedWire[] {
  if (parts)
    return parts
      .filter(part => part.text.startsWith('{'))
      .map(part => ({ raw: part.text, message: objectOf(part.value) }))
  const all: unknown[] = Array.isArray(fields.msgs) ? fields.msgs : []
  const found = all.filter((message): message is WeixinMessage => objectOf(message) !== undefined)
  // The slices of objects stand for the messages, in order.
  const texts = found.length > 0 ? sliceArray(text, 'msgs')?.filter(one => one.startsWith('{')) : undefined
  return found.map((message, at) => ({
    raw: (texts?.length === found.length ? texts[at] : undefined) ?? JSON.stringify(message),
    message,
  }))
}
