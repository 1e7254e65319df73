/**
 * send: route, check, split, bring media home, reserve quota, upload, send one item per request, settle.
 *
 * The answer tells the truth: accepted is what upstream took, refused is what certainly did not go out, unknown is
 * what got no answer and must not be sent again blindly. A refusal is never retried here.
 */

import type { Account, Api } from '../ilink/api.ts'
import { mediaItem, newClientId, outgoingMessage, sentAs, textItem } from '../ilink/encode.ts'
import { type ILinkError, isILinkError } from '../ilink/http.ts'
import type { WireItem } from '../ilink/wire.ts'
import { SvcError } from '../model/error.ts'
import type { MediaKind, SendPart, SendResult, SentStatus, UploadedMedia } from '../model/message.ts'
import { type BotInfo, quotaPerInbound, sessionName, type UserContext, windowMs } from '../model/session.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Contexts } from '../state/contexts.ts'
import type { Sessions } from '../state/sessions.ts'
import type { Store } from '../store/store.ts'
import type { Accounts, ConnectedSession } from './accounts.ts'
import type { Call } from './call.ts'
import type { SendRequest } from './face.ts'
import type { HomeFile } from './home-file.ts'
import type { Media } from './media.ts'
import type { Place, Turnstile } from './pace.ts'
import { linked } from './signals.ts'
import { splitText, textLimitBytes } from './split.ts'
import { showTyping } from './typing.ts'

export interface SenderPorts {
  api: Api
  accounts: Accounts
  sessions: Sessions
  contexts: Contexts
  store: Store
  media: Media
  pace: Turnstile
  account(bot: BotInfo): Account
  clock: Clock
  log: Log
  /** Aborts when the service stops. */
  closing: AbortSignal
}

/** One request to upstream: one item, since mixed messages are not shown (protocol notes 3.5). */
type Piece = { kind: 'text'; text: string } | { kind: MediaKind; file: HomeFile }

interface Route {
  session: ConnectedSession
  context: UserContext | undefined
}

/** What became of one piece, and whether it may have cost a unit of quota. */
interface Outcome {
  status: SentStatus
  message_id?: string
  error?: SvcError
  spent: boolean
}

export class Sender {
  readonly #ports: SenderPorts
  readonly #running = new Set<Promise<unknown>>()
  /** Ends even the requests that hand a message over. */
  readonly #cut = new AbortController()

  constructor(ports: SenderPorts) {
    this.#ports = ports
  }

  /**
   * Sends text, then media, to one user.
   *
   * @returns what became of each part; thrown instead when certainly nothing reached the user
   * @throws SvcError `not_connected`, `session_not_found`, `session_expired`, `window_closed`, `quota_exhausted`,
   *   `text_too_long`, `rate_limited`, `upstream_error`, `shutting_down`, and what bringing media home throws
   */
  async send(request: SendRequest, call: Call): Promise<SendResult> {
    const { closing } = this.#ports
    if (closing.aborted) throw stopped(closing)
    using either = linked(call.signal, closing)
    const { signal } = either
    const running = this.#send(request, { signal, local: call.local })
    this.#running.add(running)
    try {
      return await running
    } catch (error) {
      throw signal.aborted && !(error instanceof SvcError) ? stopped(signal) : error
    } finally {
      this.#running.delete(running)
    }
  }

  /** Waits for what is being handed over, at most `graceMs`; then ends it, and its fate is recorded as unknown. */
  async close(graceMs: number): Promise<void> {
    const { clock } = this.#ports
    for (const waitMs of [graceMs, 500]) {
      const over = new AbortController()
      await Promise.race([Promise.allSettled([...this.#running]), clock.sleep(waitMs, over.signal)])
      over.abort()
      this.#cut.abort(stopped(this.#ports.closing))
    }
  }

  async #send(request: SendRequest, call: Pick<Call, 'signal' | 'local'>): Promise<SendResult> {
    const { clock, contexts, media, pace } = this.#ports
    const route = await this.#route(request.to, request.session)
    const texts = request.text === undefined || request.text === '' ? [] : splitText(request.text)
    const count = texts.length + request.media.length
    if (count === 0) throw new SvcError('invalid_arguments', 'send: expected text, media or both')
    // Looked at before anything is fetched or uploaded: a shut window should cost nothing.
    this.#check(route.context, request, texts.length, count)
    pace.look(route.session.name, request.to, count)

    const files: HomeFile[] = []
    try {
      for (const content of request.media) files.push(await media.bring(content, call))
      const pieces: Piece[] = [
        ...texts.map(text => ({ kind: 'text' as const, text })),
        ...files.map(file => ({ kind: file.kind, file })),
      ]
      const reserved = await contexts.reserve(route.session.name, request.to, count, {
        limit: quotaPerInbound,
        windowMs,
        now: clock.now(),
      })
      if (!reserved.ok) {
        // Somebody else used the window or the quota while the media came home.
        this.#check(reserved.context, request, texts.length, count)
        throw new SvcError('quota_exhausted', `all ${quotaPerInbound} answers to this user are used`)
      }
      return await this.#sendPieces(route, request.to, pieces, reserved.context, call.signal)
    } finally {
      await Promise.all(files.map(file => file.release()))
    }
  }

  async #sendPieces(
    route: Route,
    to: string,
    pieces: Piece[],
    context: UserContext,
    signal: AbortSignal,
  ): Promise<SendResult> {
    const { account, clock, contexts, log, media, pace } = this.#ports
    const { name, bot } = route.session
    const reservedAt = context.received_at
    const stopTyping = showTyping(this.#ports, account(bot), to, context.token)
    const outcomes: Outcome[] = []
    let place: Place | undefined
    try {
      const uploaded = new Map<Piece, UploadedMedia>()
      for (const piece of pieces) {
        if ('file' in piece) uploaded.set(piece, await media.upload(account(bot), to, piece.file, signal))
      }
      place = await pace.line(name, to, pieces.length, signal)
      for (const [nth, piece] of pieces.entries()) {
        const failed = outcomes.find(outcome => outcome.status === 'refused' || outcome.status === 'unknown')
        if (failed) {
          // What follows a failed part would arrive out of its order, and a refusal must not be hammered.
          outcomes.push({ status: 'refused', spent: false, error: notTried(failed) })
          continue
        }
        const item = 'file' in piece ? mediaItem(uploaded.get(piece)!) : textItem(piece.text)
        // How many of the quota are used with this one: the whole send was reserved at once.
        const used = context.used - pieces.length + nth + 1
        outcomes.push(await this.#sendOne(name, bot, to, item, { ...context, used }, place, signal))
      }
    } catch (error) {
      throw await this.#translated(error, route, to)
    } finally {
      place?.leave()
      const typed = stopTyping()
      this.#running.add(typed)
      void typed.finally(() => this.#running.delete(typed))
      const free = pieces.length - outcomes.filter(outcome => outcome.spent).length
      if (free > 0) {
        await contexts
          .giveBack(name, to, free, reservedAt)
          .catch(error => log.error('quota not given back', { session: name, error }))
      }
    }
    await contexts.markSent(name, to, clock.now()).catch(error => log.warn('last send not noted', { error }))
    return this.#result(route, to, pieces, outcomes)
  }

  /** One item: recorded as intent, sent, settled. Never throws for what upstream or the network does. */
  async #sendOne(
    session: string,
    bot: BotInfo,
    to: string,
    item: WireItem,
    context: UserContext,
    place: Place,
    signal: AbortSignal,
  ): Promise<Outcome> {
    const { account, api, clock, log, sessions, store } = this.#ports
    const clientId = newClientId(clock.now())
    const message = outgoingMessage({
      to,
      item,
      clientId,
      ...(context.token && { contextToken: context.token }),
    })
    let row: number
    try {
      await place.turn()
      if (signal.aborted) throw stopped(signal)
      // The intent goes to disk first: after a crash the row says that something may have gone out.
      row = store.insertSent(session, bot.bot_id, {
        client_id: clientId,
        to_user: to,
        timestamp: clock.now(),
        raw: JSON.stringify(message),
        ...described(item),
      })
    } catch (error) {
      if (error instanceof SvcError) return { status: 'refused', spent: false, error }
      throw error
    }
    let outcome: Outcome
    try {
      // Not cancelled when the caller leaves: half a request is the one thing that cannot be told apart later.
      const { message_id } = await api.sendMessage(account(bot), message, this.#cut.signal)
      outcome =
        message_id === undefined
          ? { status: 'suspect', spent: true }
          : { status: 'accepted', spent: true, message_id }
    } catch (error) {
      outcome = isILinkError(error) ? this.#failure(error, context, session, to) : doubtful(error)
      log.warn('send failed', { session, error, as: outcome.status, code: outcome.error?.code })
      if (isILinkError(error, 'expired')) {
        await sessions.markExpired(session, bot.token, clock.now()).catch(() => {})
      }
    }
    try {
      store.settleSent(row, outcome.status, outcome.message_id)
    } catch (error) {
      // The send happened whatever the disk says: the caller must hear of it.
      log.error('status of a sent message not stored', { session, row, error })
    }
    return outcome
  }

  /** What a failed request means for its message. */
  #failure(error: ILinkError, context: UserContext, session: string, to: string): Outcome {
    switch (error.kind) {
      case 'expired':
        return {
          status: 'refused',
          spent: false,
          error: new SvcError('session_expired', `WeChat refuses the token of session "${session}"`),
        }
      case 'refused':
        // "No such user" costs nothing; any other refusal may have counted.
        return {
          status: 'refused',
          spent: !isUnknownUser(error),
          error: this.#refusal(error, context, to),
        }
      default:
        if (error.neverSent) {
          return {
            status: 'refused',
            spent: false,
            error: new SvcError('upstream_error', 'WeChat cannot be reached', { cause: error }),
          }
        }
        return doubtful(error)
    }
  }

  /** -2 is one code for many causes; our own counters say which (protocol notes 5.2). */
  #refusal(error: ILinkError, context: UserContext, to: string): SvcError {
    const now = this.#ports.clock.now()
    const options = { cause: error, details: { ret: error.ret, errcode: error.errcode } }
    if (isUnknownUser(error)) {
      return new SvcError('invalid_arguments', `to: WeChat knows no user "${to}"`, {
        ...options,
        hint: 'Copy the user id exactly as received; it is case-sensitive.',
      })
    }
    if (context.received_at === undefined) {
      return new SvcError(
        'window_closed',
        'WeChat refused: this user has never written to this session',
        options,
      )
    }
    if (now - context.received_at >= windowMs)
      return new SvcError('window_closed', 'WeChat refused: the window is shut', options)
    if (context.used >= quotaPerInbound)
      return new SvcError('quota_exhausted', 'WeChat refused: the answers are used up', options)
    const lastHour = context.last_sent_at !== undefined && now - context.last_sent_at < 60 * 60_000
    return new SvcError(
      lastHour ? 'rate_limited' : 'upstream_error',
      'WeChat refused the message and gave no reason',
      {
        ...options,
        ...(lastHour && { retryAfter: 300 }),
        hint: 'Most often this is a throttle. Do not repeat now: refused tries count too. Wait some minutes, or until the user writes.',
      },
    )
  }

  #result(route: Route, to: string, pieces: Piece[], outcomes: Outcome[]): SendResult {
    const parts = outcomes.map((outcome, index): SendPart => {
      const { kind } = pieces[index]!
      return {
        kind,
        sent_as: kind === 'text' ? 'text' : sentAs(kind),
        status: outcome.status,
        ...(outcome.message_id !== undefined && { message_id: outcome.message_id }),
        ...(outcome.error && { error: shown(outcome.error) }),
      }
    })
    const went = outcomes.filter(({ status }) => status === 'accepted' || status === 'suspect')
    const doubtful = outcomes.some(({ status }) => status === 'unknown')
    if (went.length === 0 && !doubtful)
      throw outcomes[0]!.error ?? new SvcError('upstream_error', 'nothing was sent')
    const status = went.length === outcomes.length ? 'accepted' : went.length > 0 ? 'partial' : 'unknown'
    const lastId = went.at(-1)?.message_id
    const context = this.#ports.contexts.known(route.session.name).get(to)
    return {
      success: status === 'accepted',
      status,
      ...(lastId !== undefined && { message_id: lastId }),
      ...(went.some(outcome => outcome.status === 'suspect') && { suspect: true }),
      session: route.session.name,
      parts,
      remaining: Math.max(0, quotaPerInbound - (context?.used ?? 0)),
      ...(context?.received_at !== undefined && { window_expires_at: context.received_at + windowMs }),
    }
  }

  /**
   * The specification's rule: the session that most recently got a context token for that user; else the first
   * connected one (the default, else the oldest).
   */
  async #route(to: string, wanted: string | undefined): Promise<Route> {
    const { accounts, contexts } = this.#ports
    if (wanted !== undefined) {
      const record = await accounts.named(sessionName(wanted))
      if (!record.bot) throw new SvcError('not_connected', `session "${record.name}" is not connected`)
      if (record.bot.expired_at !== undefined) throw expired(record.name)
      return {
        session: { name: record.name, bot: record.bot },
        context: (await contexts.users(record.name)).get(to),
      }
    }
    const connected = await accounts.connected()
    const known = await Promise.all(
      connected.map(async session => ({ session, context: (await contexts.users(session.name)).get(to) })),
    )
    const newest = known
      .filter(route => route.context?.token !== undefined)
      .sort((a, b) => (b.context!.received_at ?? 0) - (a.context!.received_at ?? 0))[0]
    if (newest) return newest
    for (const { name, status } of await accounts.list()) {
      if (status === 'expired' && (await contexts.users(name)).get(to)?.token !== undefined)
        throw expired(name)
    }
    const first = known[0]
    if (!first) {
      throw new SvcError(
        'not_connected',
        'no session is connected, and none has a context token for this user',
      )
    }
    return first
  }

  /** Window, quota and size by our own counters. @throws SvcError when the send cannot succeed as it is */
  #check(context: UserContext | undefined, request: SendRequest, texts: number, count: number): void {
    if (context?.received_at !== undefined && this.#ports.clock.now() - context.received_at >= windowMs) {
      throw new SvcError(
        'window_closed',
        `this user last wrote ${hoursAgo(this.#ports.clock.now() - context.received_at)} ago`,
      )
    }
    const left = Math.max(0, quotaPerInbound - (context?.used ?? 0))
    if (count <= left) return
    if (left === 0)
      throw new SvcError('quota_exhausted', `all ${quotaPerInbound} answers to this user are used`)
    if (texts > 1) {
      throw new SvcError(
        'text_too_long',
        `the text needs ${texts} messages of ${textLimitBytes} bytes${request.media.length ? ` beside ${request.media.length} media` : ''}, and ${left} answers are left`,
      )
    }
    throw new SvcError(
      'quota_exhausted',
      `${count} messages are to be sent, and ${left} answers to this user are left`,
    )
  }

  async #translated(error: unknown, route: Route, to: string): Promise<unknown> {
    if (!isILinkError(error)) return error
    const { clock, sessions } = this.#ports
    const { name, bot } = route.session
    if (error.kind === 'expired') {
      await sessions.markExpired(name, bot.token, clock.now()).catch(() => {})
      return expired(name)
    }
    if (error.kind === 'refused') {
      return new SvcError('upstream_error', `WeChat refused the upload for ${to}; nothing was sent`, {
        cause: error,
        hint: 'Check that the user id is exactly the one received, then try again.',
      })
    }
    return new SvcError(
      error.kind === 'timeout' ? 'upstream_timeout' : 'upstream_error',
      'the upload to WeChat failed; nothing was sent',
      { cause: error },
    )
  }
}

const stopped = (signal: AbortSignal): SvcError =>
  signal.reason instanceof SvcError
    ? signal.reason
    : new SvcError('shutting_down', 'the caller left; nothing more was sent')

const isUnknownUser = ({ ret, errcode }: ILinkError) => ret === -3 || errcode === -3

/** What got no clear answer. */
const doubtful = (cause: unknown): Outcome => ({
  status: 'unknown',
  spent: true,
  error: new SvcError(
    isILinkError(cause, 'timeout') ? 'upstream_timeout' : 'upstream_error',
    'no clear answer came from WeChat; the message may have arrived',
    { cause, hint: 'Do not send it again before you know: ask the user, or look at the phone.' },
  ),
})

const expired = (name: string) => new SvcError('session_expired', `session "${name}" has expired`)

const hoursAgo = (ms: number) => `${Math.floor(ms / 3_600_000)} hours`

const notTried = (failed: Outcome) =>
  new SvcError(failed.error?.code ?? 'upstream_error', 'not tried, because an earlier part failed', {
    ...(failed.error?.retryAfter !== undefined && { retryAfter: failed.error.retryAfter }),
  })

const shown = (error: SvcError): NonNullable<SendPart['error']> => ({
  code: error.code,
  detail: error.message,
  hint: error.hint,
  ...(error.retryAfter !== undefined && { retry_after: error.retryAfter }),
})

function described(item: WireItem): { msg_type: 'TEXT' | 'IMAGE' | 'FILE' | 'VIDEO'; text: string } {
  if (item.text_item) return { msg_type: 'TEXT', text: item.text_item.text ?? '' }
  return { msg_type: item.image_item ? 'IMAGE' : item.video_item ? 'VIDEO' : 'FILE', text: '' }
}
