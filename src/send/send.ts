/**
 * The send operation: plan → entry in the outbox → wait for it → result.
 *
 * The result is exact: `accepted` means WeChat took it; `refused` means it was certainly not sent;
 * `unknown` means no clear answer came, so do not send it again blindly; `queued` means it waits in the
 * outbox.
 */
import { createTextItem } from '../ilink/encode.ts'
import { grantsUser, type Scope } from '../model/access.ts'
import { badArgument, isSvcError, SvcError } from '../model/error.ts'
import type { SendResult } from '../model/message.ts'
import { type Principal, scopeOf } from '../model/principal.ts'
import { type BotInfo, rightToAnswerOf, type UserContext } from '../model/session.ts'
import { isIssuedId, isPlainUserId } from '../model/user-id.ts'
import { RunningPart } from '../platform/runtime.ts'
import { linkSignals, waitForAbort } from '../platform/signals.ts'
import type { EnqueueResult, KeptFile, StoredEntry } from '../storage/outbox.ts'
import { composeMessage } from './delivery.ts'
import type { SendPorts } from './delivery-attempt.ts'
import { explainWaits } from './foresight.ts'
import type { SendCaller } from './media-files.ts'
import {
  checkRequest,
  createEntry,
  createWaitingParts,
  type Draft,
  hashNames,
  isSameRequest,
  limitRequest,
  releaseFiles,
  requireUser,
  type SendPiece,
  type SendRequest,
  stageMedia,
} from './plan.ts'
import {
  countsOf,
  endReasonOf,
  keyConflictError,
  neverWroteError,
  notAdmittedError,
  notApprovedError,
  requireSoon,
  stoppedError,
  wroteBeforeLoginError,
  wroteElsewhereError,
} from './problems.ts'
import { resultOf, withRenamedFiles } from './result.ts'
import { SharedCalls } from './shared-calls.ts'
import { sendTypingOnce, showTyping } from './typing.ts'
import type { Worker } from './worker.ts'

export interface SenderPorts extends SendPorts {
  worker: Worker
  /**
   * Resolves the name of a user in the scope to an id.
   *
   * @throws SvcError `session_not_found`; `invalid_arguments` for a name of no user, or of several
   */
  resolveUser(user: string, session: string | undefined, scope: Scope): Promise<string>
  /**
   * Selects the session of the scope that sends to a user. @throws SvcError `not_connected`, `session_not_found`,
   * `session_expired`
   */
  route(to: string, session: string | undefined, scope: Scope): Promise<Route>
}

/** Returns whether the request only sets the typing indicator and sends no message. */
const isTypingOnly = ({ typing, text, media }: SendRequest): boolean =>
  typing !== undefined && !text && media.length === 0

/** Returns whether the message waits if it may not go when it is tried. */
const waitsIfClosed = ({ send_at, when_closed }: SendRequest): boolean =>
  when_closed === 'queue' || send_at !== undefined

interface Route {
  name: string
  bot: BotInfo
  /** What the session knows of the user. */
  context?: UserContext | undefined
  /** The session that the user wrote to, if no current login got a message from them. */
  before?: { session: string; isLoggedIn: boolean } | undefined
}

/** Longest wait for an earlier call with the same key that runs in another process. */
const keyWaitMs = 30_000
const checkEveryMs = 100
/** After this time the earlier call may be finished. */
const retryAfterS = 5
/**
 * A call that takes longer shows that the bot is typing. A call with `typing: true` shows it immediately.
 */
const typingDelayMs = 700
/** Interval at which a running call renews its entry. */
const renewEveryMs = 60_000

export class Sender extends RunningPart<SenderPorts> {
  readonly #shared = new SharedCalls()
  readonly #running = new Set<Promise<unknown>>()

  /**
   * Sends text, then media, to one user.
   *
   * With `when_closed: 'queue'` messages that may not go now wait in the outbox. With `idempotency_key`,
   * later calls within 24 h get the result of the first call.
   *
   * @returns the result of each part. Throws instead if nothing can have reached the user and nothing
   *   waits.
   * @throws SvcError `invalid_arguments` for a name of no user or of several; `not_connected`,
   *   `session_not_found`, `session_expired`, `window_closed`, `quota_exhausted`, `text_too_long`,
   *   `rate_limited`, `upstream_error`, `idempotency_conflict`, `shutting_down`, and the errors of staging
   *   media; `forbidden` for a send that needs approval and cannot wait for it
   */
  async send(input: SendRequest, caller: SendCaller): Promise<SendResult> {
    const { bus, closing } = this.runtime
    if (closing.aborted) throw stoppedError(closing)
    const given = limitRequest(input, caller.by)
    // What a key stands for includes the id.
    const request =
      given.idempotency_key === undefined ? given : await this.#resolve(given, scopeOf(caller.by))
    using either = linkSignals(caller.signal, closing)
    const { signal } = either
    const progress = caller.progress?.bind(caller)
    const callerWith = (signal: AbortSignal): SendCaller => ({
      by: caller.by,
      address: caller.address,
      requestId: caller.requestId,
      signal,
      local: caller.local,
      below: caller.below,
      progress,
      countBytes: caller.countBytes?.bind(caller),
    })
    const key = request.idempotency_key
    const isBare = isTypingOnly(request)
    if (request.approval && (isBare || !this.ports.store.durable)) throw notApprovedError(request.approval)
    const running = isBare
      ? this.#withRoute(request, caller, (route, request) => this.#setTyping(route, request, signal))
      : key === undefined
        ? this.#sendUnkeyed(request, callerWith(signal))
        : this.#shared.run(key, hashNames(request), signal, signal =>
            this.#sendKeyed(key, request, callerWith(signal)),
          )
    this.#running.add(running)
    try {
      const result = await running
      if (!result) throw keyConflictError()
      if (!isBare) bus.notify('sent', result.status)
      return result
    } catch (error) {
      const svcError = signal.aborted && !(error instanceof SvcError) ? stoppedError(signal) : error
      bus.notify('sent', isSvcError(svcError) ? svcError.code : 'internal')
      throw svcError
    } finally {
      this.#running.delete(running)
    }
  }

  /**
   * Checks a send without sending, for a caller that asks a person first.
   *
   * @returns `known` if a call with this key was made before, so that `send` sends nothing
   * @throws SvcError the errors of `send` that are known before anything is read, fetched or uploaded
   */
  async foresee(input: SendRequest, caller: SendCaller): Promise<'new' | 'known'> {
    const { durable, outbox } = this.ports.store
    const { idempotency_key: key } = input
    if (key !== undefined && durable && (await outbox.findByKey(key))) return 'known'
    const given = limitRequest(input, caller.by)
    await this.#withRoute(given, caller, async (route, request) => {
      if (isTypingOnly(request)) return
      requireSoon(request.send_at, this.runtime.clock.now())
      const texts = await checkRequest(request, this.ports.media, caller)
      await this.#requireAdmission(route.name, request, texts.length)
    })
    return 'new'
  }

  /** Returns the request with the user's id. @throws SvcError `invalid_arguments` */
  async #resolve(request: SendRequest, scope: Scope): Promise<SendRequest> {
    const { to, session } = request
    if (isIssuedId(to)) return { ...request, to: requireUser(to, 'to', scope) }
    return { ...request, to: await this.ports.resolveUser(to, session, scope) }
  }

  /** @throws SvcError if the send may neither go now nor wait */
  async #requireAdmission(session: string, request: SendRequest, texts: number): Promise<void> {
    const { rules, store, upstream } = this.ports
    const { to, media } = request
    if (waitsIfClosed(request)) return
    const count = texts + media.length
    const verdict = await store.outbox.checkAdmission(session, to, count, rules)
    if (verdict.go === 'no') throw notAdmittedError(verdict, { count, texts }, upstream.sandboxed)
  }

  /** Waits up to `graceMs` for messages being sent. Then aborts them: their status becomes unknown. */
  async close(graceMs: number): Promise<void> {
    for (const waitMs of [graceMs, 500]) {
      await this.waitUntilIdle(waitMs)
      this.ports.worker.attempts.abortRequests(stoppedError(this.runtime.closing))
    }
  }

  /** Waits up to `graceMs` for running calls. @returns whether all have ended */
  async waitUntilIdle(graceMs: number): Promise<boolean> {
    const { worker } = this.ports
    const done = new AbortController()
    const running = Promise.allSettled([...this.#running, ...worker.runningFlushes.values()])
    const all = running.then(() => worker.attempts.pendingNotes).then(() => true)
    const timeout = this.runtime.clock.sleep(graceMs, done.signal).then(() => false)
    const isIdle = await Promise.race([all, timeout])
    done.abort()
    return isIdle
  }

  /** Returns the result of the first call with this key. If there is none, this call becomes the first. */
  async #sendKeyed(key: string, request: SendRequest, caller: SendCaller): Promise<SendResult> {
    const { clock } = this.runtime
    const { media, store } = this.ports
    const deadline = clock.monotonic() + keyWaitMs
    for (let compared = -1; ; ) {
      const entry = await store.outbox.findByKey(key)
      if (!entry) {
        const result = await this.#sendUnkeyed(request, caller)
        if (result) return result
        continue
      }
      if (entry.id !== compared && !(await isSameRequest(entry.content, request, media, caller)))
        throw keyConflictError()
      compared = entry.id
      if (entry.ended || entry.mode === 'queue')
        return { ...(await this.#buildResult(entry)), repeated: true }
      if (clock.monotonic() >= deadline)
        throw new SvcError(
          'rate_limited',
          'the first call with this idempotency key still runs in another process',
          {
            retryAfter: retryAfterS,
            hint: 'Call again with the same key: it answers with the result of the first call and sends nothing.',
          },
        )
      await clock.sleep(checkEveryMs, caller.signal)
      if (caller.signal.aborted) throw stoppedError(caller.signal)
    }
  }

  /** @returns undefined if another call took the key in the meantime */
  async #sendUnkeyed(request: SendRequest, caller: SendCaller): Promise<SendResult | undefined> {
    requireSoon(request.send_at, this.runtime.clock.now())
    for (const field of ['when_closed', 'send_at'] as const)
      if (waitsIfClosed(request) && request[field] !== undefined && !this.ports.store.durable)
        throw badArgument(field, 'waiting needs the message store, which is off')
    return this.#withRoute(request, caller, (route, request) => this.#sendBy(route, request, caller))
  }

  /** Runs `work` with the session that sends, and the request with the user's id. */
  async #withRoute<T>(
    given: SendRequest,
    { by }: Pick<SendCaller, 'by'>,
    work: (route: Route, request: SendRequest) => Promise<T>,
  ): Promise<T> {
    const { request, route } = await this.#findRoute(given, by)
    const { before } = route
    // Such a session would wait for a message that never comes, because the user does not know its bot.
    if (waitsIfClosed(request) && before?.isLoggedIn === false)
      throw wroteElsewhereError(route.name, before.session)
    try {
      return await work(route, request)
    } catch (error) {
      if (!before || !isSvcError(error, 'window_closed')) throw error
      throw before.isLoggedIn
        ? wroteBeforeLoginError(error, before.session)
        : wroteElsewhereError(route.name, before.session, error)
    }
  }

  /** Finds the session that sends, and the user's id. An id that this session knows as it is needs no look-up. */
  async #findRoute(given: SendRequest, by: Principal): Promise<{ request: SendRequest; route: Route }> {
    const scope = scopeOf(by)
    // The login and the contexts that decide must be of one moment.
    const find = ({ session, to }: SendRequest) =>
      this.ports.state.readTogether(() => this.ports.route(to, session, scope))
    const { to } = given
    if (!isIssuedId(to) && isPlainUserId(to) && grantsUser(scope, to)) {
      const route = await find(given).catch(() => undefined)
      if (route?.context?.token !== undefined) return { request: given, route }
    }
    const request = await this.#resolve(given, scope)
    return { request, route: await find(request) }
  }

  async #sendBy(route: Route, request: SendRequest, caller: SendCaller): Promise<SendResult | undefined> {
    const { media } = this.ports
    const { name: session, bot, context: known } = route
    const { approval } = request
    // Rejected before any wait: a caller told only to wait would come back in vain.
    const texts = await checkRequest(request, media, caller)
    // Checked before anything is read, fetched or uploaded: a closed window should cost nothing.
    if (approval || request.media.length > 0) await this.#requireAdmission(session, request, texts.length)
    const files = await stageMedia(request, media, caller)
    try {
      if (caller.signal.aborted) throw stoppedError(caller.signal)
      const pieces: SendPiece[] = [
        ...texts.map(text => ({ kind: 'text' as const, text })),
        ...files.map(file => ({ kind: file.kind, file })),
      ]
      const { address, by, requestId } = caller
      const draft = { by, address, requestId, request, session, bot, known, pieces, files }
      const isPatient = waitsIfClosed(request) || approval !== undefined
      const entry = await (isPatient ? this.#queue(draft, caller) : this.#sendNow(draft, caller))
      return entry && withRenamedFiles(await this.#buildResult(entry), files)
    } finally {
      await releaseFiles(files)
    }
  }

  /**
   * Sends a draft in mode `fail`: this process sends it now, or nobody does.
   *
   * @returns the ended entry; undefined if another call took its key
   */
  async #sendNow(draft: Draft, caller: SendCaller): Promise<StoredEntry | undefined> {
    const { clock } = this.runtime
    const { rules, store, upstream, worker } = this.ports
    const { request, session, bot, pieces } = draft
    const { to } = request
    using line = worker.lines.join(session, to)
    const texts = pieces.flatMap(piece => (piece.kind === 'text' ? piece.text : []))
    // A plain text begins in the commit that stores it.
    const isPlain = line.isFirst && pieces.length === texts.length
    const first = isPlain ? composeMessage(to, createTextItem(texts[0]!), clock.now()) : undefined
    const parts = pieces.map(({ kind }) => ({ kind }))
    const enqueued = await store.outbox.enqueue(createEntry(draft, parts), rules, first?.row)
    if (enqueued.state === 'known') return undefined
    if (enqueued.state === 'closed')
      throw notAdmittedError(enqueued.verdict, countsOf(pieces), upstream.sandboxed)
    const { begun, entry } = enqueued
    using _shown = this.#keepAlive(draft, entry)
    const started = begun && first && { begun, ...first }
    // Awaited here, so that the place in the line and the typing indicator last until it has ended.
    return await worker.sendNow({ entry, bot, token: draft.known?.token, pieces, line, started }, caller)
  }

  /**
   * Queues a draft: it waits in the outbox until it may go, or until a person approves it.
   *
   * @returns the entry; undefined if another call took its key
   */
  async #queue(draft: Draft, caller: SendCaller): Promise<StoredEntry | undefined> {
    const { closing, log } = this.runtime
    const { store, worker } = this.ports
    const enqueued = await this.#enqueue(draft, caller)
    if (enqueued.state !== 'new') return undefined
    const { entry, lane, verdict } = enqueued
    const isNext = verdict !== 'behind' && verdict.go !== 'no' && !worker.isCrowded(entry.session)
    if (!entry.asked && entry.send_at === undefined && isNext) {
      using _shown = this.#keepAlive(draft, entry)
      const abort = waitForAbort(caller.signal).then(() => 'left' as const)
      const ended = await Promise.race([worker.flushWithProgress(entry, lane, caller.progress), abort])
      if (ended === 'left' && !closing.aborted) return this.#cancel(entry, caller.signal)
    }
    const now = (await store.outbox.getEntry(entry.id)) ?? entry
    if (!now.ended)
      log.info('send queued', { session: entry.session, outbox: entry.id, messages: entry.parts.length })
    return now
  }

  /** Enqueues a draft. Copied files are removed again if no new entry is made. */
  async #enqueue(draft: Draft, { signal }: SendCaller): Promise<EnqueueResult> {
    const { media, rules, store } = this.ports
    const kept: KeptFile[] = []
    let isNew = false
    try {
      const parts = await createWaitingParts(draft, { media, clock: this.runtime.clock, kept, signal })
      const enqueued = await store.outbox.enqueue(createEntry(draft, parts), rules)
      isNew = enqueued.state === 'new'
      return enqueued
    } finally {
      if (!isNew) await media.kept.discard(kept)
    }
  }

  /** Ends the entry: a caller that left before the answer could not know that it waits. */
  async #cancel(entry: StoredEntry, signal: AbortSignal): Promise<StoredEntry> {
    const { media, store } = this.ports
    const ended = await store.outbox.end(entry.id, endReasonOf(stoppedError(signal)))
    await media.kept.discard(ended?.files ?? [])
    return ended?.entry ?? entry
  }

  /** Shows during a long call that the bot is typing, and renews the entry. Dispose it to stop. */
  #keepAlive({ session, bot, request }: Draft, entry: StoredEntry): Disposable {
    const ended = new AbortController()
    const over = ended.signal
    const { check, upstream } = this.ports
    const { account, api } = upstream
    const doubt = () => check.checkAfterRefusal(session, bot)
    const token = () => this.#contextTokenOf(session, request.to)
    const show = async () => {
      // Most calls end before this time.
      if (!request.typing) await this.runtime.clock.sleep(typingDelayMs, over)
      if (over.aborted) return
      void this.#keepRenewing(entry, over)
      if (request.typing !== false)
        await showTyping({ api, ...this.runtime }, account(bot), request.to, token, doubt, over)
    }
    const showing: Promise<void> = show().finally(() => this.#running.delete(showing))
    this.#running.add(showing)
    // An abort without a reason creates an exception with a stack.
    return { [Symbol.dispose]: () => ended.abort('over') }
  }

  async #contextTokenOf(session: string, user: string): Promise<string | undefined> {
    return (await this.ports.state.contexts.find(session, user))?.token
  }

  /** Returns what is left of the right to answer a user. */
  async #rightToAnswerOf(session: string, user: string): Promise<ReturnType<typeof rightToAnswerOf>> {
    const counters = await this.ports.store.outbox.getCounters(session, user)
    return rightToAnswerOf(counters.get(user) ?? { used: 0 }, this.runtime.clock.now())
  }

  /** Shows or removes the typing indicator, and sends no message. */
  async #setTyping(
    { name: session, bot, context }: Route,
    { to, typing = true }: SendRequest,
    signal: AbortSignal,
  ): Promise<SendResult> {
    const { check, upstream } = this.ports
    const contextToken = context?.token
    if (contextToken === undefined) throw neverWroteError()
    const at = { user: to, contextToken, typing }
    await check.runChecked(session, bot, () =>
      sendTypingOnce(upstream.api, upstream.account(bot), at, signal),
    )
    const right = await this.#rightToAnswerOf(session, to)
    return { success: true, status: 'accepted', session, parts: [], ...right }
  }

  /** Renews the entry of a running call at intervals: an upload may take long. */
  async #keepRenewing(entry: StoredEntry, over: AbortSignal): Promise<void> {
    const { clock, log } = this.runtime
    const { store } = this.ports
    for (;;) {
      await clock.sleep(renewEveryMs, over)
      if (over.aborted) return
      await store.outbox.renew(entry.id).catch(error => log.warn('call not renewed', { error }))
    }
  }

  async #buildResult(entry: StoredEntry): Promise<SendResult> {
    const { counter, session, user } = entry
    // Stored counters: a repeated call gets the answer of the first one.
    if (counter) return resultOf(entry, rightToAnswerOf(counter, 0))
    const [waiting] = await explainWaits(this.ports, [entry], this.runtime.clock.now())
    return resultOf(entry, await this.#rightToAnswerOf(session, user), waiting)
  }
}
