/**
 * send: route, check, split, bring media home, reserve quota, upload, send one item per request, settle.
 *
 * The answer tells the truth: accepted is what upstream took, refused is what certainly did not go out, unknown is
 * what got no answer and must not be sent again blindly, queued is what waits in the outbox. A refusal is never retried
 * here.
 */

import { Buffer } from 'node:buffer'
import type { Account, Api } from '../ilink/api.ts'
import { mediaItem, sentAs, textItem } from '../ilink/encode.ts'
import { isILinkError } from '../ilink/http.ts'
import { isSvcError, SvcError } from '../model/error.ts'
import type { MediaKind, SendPart, SendResult, UploadedMedia } from '../model/message.ts'
import { type BotInfo, quotaPerInbound, rightToAnswer, type UserContext, windowMs } from '../model/session.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Contexts } from '../state/contexts.ts'
import type { Sessions } from '../state/sessions.ts'
import type { Store } from '../store/store.ts'
import type { Accounts } from './accounts.ts'
import type { Call } from './call.ts'
import type { CommitsUnderWay } from './commits-under-way.ts'
import type { SendRequest } from './face.ts'
import { type HandOver, type Outcome, stopped } from './hand-over.ts'
import type { HomeFile } from './home-file.ts'
import type { Judge } from './judge.ts'
import { KeyedCalls } from './keyed-calls.ts'
import type { Media } from './media.ts'
import type { Outbox } from './outbox.ts'
import type { Place, Turnstile } from './pace.ts'
import { type Route, routeTo } from './route.ts'
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
  outbox: Outbox
  pace: Turnstile
  handOver: HandOver
  judge: Judge
  account(bot: BotInfo): Account
  commits: CommitsUnderWay
  clock: Clock
  log: Log
  /** Aborts when the service stops. */
  closing: AbortSignal
}

/** One request to upstream: one item, since mixed messages are not shown (protocol notes 3.5). */
type Piece = { kind: 'text'; text: string } | { kind: MediaKind; file: HomeFile }

type Caller = Pick<Call, 'signal' | 'local' | 'progress'>

export class Sender {
  readonly #ports: SenderPorts
  readonly #keyed: KeyedCalls
  readonly #running = new Set<Promise<unknown>>()

  constructor(ports: SenderPorts) {
    this.#ports = ports
    this.#keyed = new KeyedCalls(ports)
  }

  /**
   * Sends text, then media, to one user.
   *
   * With `when_closed: 'queue'` what the window or the quota does not let through waits in the outbox instead. With
   * `idempotency_key` the first call's result answers every later one for 24 h.
   *
   * @returns what became of each part; thrown instead when certainly nothing reached the user and nothing waits
   * @throws SvcError `not_connected`, `session_not_found`, `session_expired`, `window_closed`, `quota_exhausted`,
   *   `text_too_long`, `rate_limited`, `upstream_error`, `idempotency_conflict`, `shutting_down`, and what bringing
   *   media home throws
   */
  async send(request: SendRequest, call: Call): Promise<SendResult> {
    const { closing } = this.#ports
    if (closing.aborted) throw stopped(closing)
    using either = linked(call.signal, closing)
    const { signal } = either
    const { local } = call
    const progress = call.progress?.bind(call)
    const run = (signal: AbortSignal) => this.#send(request, { signal, local, ...(progress && { progress }) })
    const running =
      request.idempotency_key === undefined ? run(signal) : this.#keyed.once(request, signal, run)
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
    const { clock, closing, handOver, outbox } = this.#ports
    for (const waitMs of [graceMs, 500]) {
      const over = new AbortController()
      const all = Promise.allSettled([...this.#running, outbox.closed()])
      await Promise.race([all, clock.sleep(waitMs, over.signal)])
      over.abort()
      handOver.cut(stopped(closing))
    }
  }

  async #send(request: SendRequest, call: Caller): Promise<SendResult> {
    const { clock, commits, contexts, media, outbox, pace, store } = this.#ports
    const queues = request.when_closed === 'queue'
    if (queues && !store.durable) {
      throw new SvcError('invalid_arguments', 'when_closed: queue needs the message store, which is off')
    }
    // The message that is answered may have come this moment.
    await commits.ended()
    const route = await routeTo(this.#ports, request.to, request.session)
    const texts = request.text === undefined || request.text === '' ? [] : partsOf(request.text)
    const count = texts.length + request.media.length
    if (count === 0) throw new SvcError('invalid_arguments', 'send: expected text, media or both')
    // What can never be sent is told before a wait: whoever heard of the wait alone would come back with it in vain.
    for (const [nth, content] of request.media.entries())
      await media.sources.look(content, call).catch(error => Promise.reject(ofEntry(error, nth)))
    // What waits goes first.
    let waits = queues && outbox.waits(route.session.name, request.to)
    if (!waits) {
      // Looked at before anything is read, fetched or uploaded: a shut window should cost nothing.
      const closed = this.#closed(route.context, request, texts.length, count)
      if (closed && !(queues && mayWait(closed))) throw closed
      if (closed) waits = true
      else pace.look(route.session.name, request.to, count)
    }

    const files: HomeFile[] = []
    try {
      for (const [nth, content] of request.media.entries()) {
        const bringing = media.sources.bring(content, call)
        files.push(await bringing.catch(error => Promise.reject(ofEntry(error, nth))))
      }
      const pieces: Piece[] = [
        ...texts.map(text => ({ kind: 'text' as const, text })),
        ...files.map(file => ({ kind: file.kind, file })),
      ]
      if (waits) return await this.#queueAll(route, request, pieces, call.signal)
      const reserved = await contexts.reserve(route.session.name, request.to, count, {
        limit: quotaPerInbound,
        windowMs,
        now: clock.now(),
      })
      if (!reserved.ok) {
        // Somebody else used the window or the quota while the media came home.
        const closed =
          this.#closed(reserved.context, request, texts.length, count) ??
          new SvcError('quota_exhausted', `all ${quotaPerInbound} answers to this user are used`)
        if (!queues || !mayWait(closed)) throw closed
        return await this.#queueAll(route, request, pieces, call.signal)
      }
      return await this.#sendPieces(route, request, pieces, reserved.context, call)
    } finally {
      await Promise.all(files.map(file => file.release()))
    }
  }

  async #sendPieces(
    route: Route,
    request: SendRequest,
    pieces: Piece[],
    context: UserContext,
    { signal, progress }: Caller,
  ): Promise<SendResult> {
    const { account, clock, contexts, handOver, judge, log, media, pace, store } = this.#ports
    const { to, idempotency_key: key } = request
    const { name, bot } = route.session
    const reservedAt = context.received_at
    const stopTyping = showTyping(this.#ports, account(bot), to, context.token, () => judge.doubt(name, bot))
    const outcomes: Outcome[] = []
    let place: Place | undefined
    try {
      const uploaded = new Map<Piece, UploadedMedia>()
      for (const piece of pieces) {
        if ('file' in piece)
          uploaded.set(
            piece,
            await judge.settled(name, bot, () =>
              media.upload(account(bot), to, piece.file, signal, progress),
            ),
          )
      }
      place = await pace.line(name, to, pieces.length, signal)
      if (key !== undefined) this.#keyed.plan(key, name, pieces)
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
        let row: number | undefined
        outcomes.push(
          await handOver.send({
            ...{ session: name, bot, to, item, context: { ...context, used }, place, signal },
            begin: message => {
              row = store.insertSent(name, bot.bot_id, message, key)
              return row
            },
            end: ({ status, message_id, error }) =>
              store.settleSent(row!, status, message_id, error?.message),
          }),
        )
      }
    } catch (error) {
      throw translated(error, to)
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
    const outboxId =
      request.when_closed === 'queue'
        ? await this.#queueRest(route, request, pieces, outcomes, signal)
        : undefined
    return this.#result(route, to, pieces, outcomes, outboxId)
  }

  /** The whole send waits until the user writes. */
  async #queueAll(
    route: Route,
    request: SendRequest,
    pieces: Piece[],
    signal: AbortSignal,
  ): Promise<SendResult> {
    const { name, bot } = route.session
    const { to, idempotency_key: key } = request
    if (key !== undefined) this.#keyed.plan(key, name, pieces)
    const outboxId = await this.#ports.outbox.add(
      { session: name, bot_id: bot.bot_id, to, pieces, ...(key !== undefined && { key }) },
      signal,
    )
    const outcomes = pieces.map((): Outcome => ({ status: 'queued', spent: false }))
    return this.#result(route, to, pieces, outcomes, outboxId)
  }

  /** Upstream refused, and our counters say that it is the window or the quota: what is left of the send waits. */
  async #queueRest(
    route: Route,
    request: SendRequest,
    pieces: Piece[],
    outcomes: Outcome[],
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const at = outcomes.findIndex(({ status }) => status === 'refused' || status === 'unknown')
    const refused = outcomes[at]
    if (refused?.status !== 'refused' || !mayWait(refused.error)) return undefined
    const { name, bot } = route.session
    const { to, idempotency_key: key } = request
    const rest = pieces.slice(at).map((piece, nth) => {
      const row = outcomes[at + nth]?.row
      return row === undefined ? piece : { ...piece, row }
    })
    try {
      const id = await this.#ports.outbox.add(
        { session: name, bot_id: bot.bot_id, to, pieces: rest, ...(key !== undefined && { key }) },
        signal,
      )
      for (let nth = at; nth < outcomes.length; nth++) outcomes[nth] = { status: 'queued', spent: false }
      return id
    } catch (error) {
      // Refused it stays; some of it may have gone out, so the result is worth more than this error.
      this.#ports.log.error('refused messages not queued', { session: name, error })
      return undefined
    }
  }

  #result(
    route: Route,
    to: string,
    pieces: Piece[],
    outcomes: Outcome[],
    outboxId: string | undefined,
  ): SendResult {
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
    if (went.length === 0 && !doubtful && outboxId === undefined)
      throw outcomes[0]!.error ?? new SvcError('upstream_error', 'nothing was sent')
    const status = outboxId !== undefined ? 'queued' : statusOf(outcomes)
    const lastId = went.at(-1)?.message_id
    const context = this.#ports.contexts.known(route.session.name).get(to)
    return {
      success: status === 'accepted',
      status,
      ...(lastId !== undefined && { message_id: lastId }),
      ...(went.some(outcome => outcome.status === 'suspect') && { suspect: true }),
      session: route.session.name,
      parts,
      ...rightToAnswer(context),
      ...(outboxId !== undefined && { outbox_id: outboxId }),
    }
  }

  /** Why the send cannot succeed as it is, by our own counters of window, quota and size. */
  #closed(
    context: UserContext | undefined,
    request: SendRequest,
    texts: number,
    count: number,
  ): SvcError | undefined {
    if (context?.received_at !== undefined && this.#ports.clock.now() - context.received_at >= windowMs) {
      return new SvcError(
        'window_closed',
        `this user last wrote ${hoursAgo(this.#ports.clock.now() - context.received_at)} ago`,
      )
    }
    const left = rightToAnswer(context).remaining
    if (count <= left) return undefined
    if (left === 0)
      return new SvcError('quota_exhausted', `all ${quotaPerInbound} answers to this user are used`)
    if (texts > 1) {
      return new SvcError(
        'text_too_long',
        `the text needs ${texts} messages of ${textLimitBytes} bytes${request.media.length ? ` beside ${request.media.length} media` : ''}, and ${left} answers are left`,
      )
    }
    return new SvcError(
      'quota_exhausted',
      `${count} messages are to be sent, and ${left} answers to this user are left`,
    )
  }
}

/** What an upload that failed means for its send. */
function translated(error: unknown, to: string): unknown {
  if (!isILinkError(error)) return error
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

/** What the answers to one message can never hold is refused before anything is made of it. */
function partsOf(text: string): string[] {
  const bytes = Buffer.byteLength(text)
  const parts =
    bytes > quotaPerInbound * textLimitBytes ? undefined : splitText(text, textLimitBytes, quotaPerInbound)
  if (parts) return parts
  throw new SvcError(
    'text_too_long',
    `the text has ${bytes} bytes; it does not fit into ${quotaPerInbound} messages of ${textLimitBytes} bytes, the most there are`,
  )
}

/** Whether waiting for the user to write helps. */
const mayWait = (why: SvcError | undefined): boolean =>
  isSvcError(why, 'window_closed') || isSvcError(why, 'quota_exhausted') || isSvcError(why, 'text_too_long')

/** What is wrong with a source of media, said of its place in the list. */
function ofEntry(error: unknown, nth: number): unknown {
  const [, rest = '', problem] =
    (isSvcError(error, 'invalid_arguments') && /^media(\.\w+)?: (.+)$/s.exec(error.message)) || []
  if (problem === undefined) return error
  const field = `media[${nth}]${rest}`
  const { hint } = error as SvcError
  return new SvcError('invalid_arguments', `${field}: ${problem}`, {
    ...{ hint, cause: error, details: { errors: [{ field, problem }] } },
  })
}

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

/** Of a send of which nothing waits. */
function statusOf(outcomes: readonly Outcome[]): SendResult['status'] {
  const went = outcomes.filter(({ status }) => status === 'accepted' || status === 'suspect').length
  return went === outcomes.length ? 'accepted' : went > 0 ? 'partial' : 'unknown'
}
