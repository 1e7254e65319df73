/**
 * send: plan → entry in the outbox → wait for it → result.
 *
 * The answer tells the truth: accepted is what upstream took, refused is what certainly did not go out, unknown is
 * what got no answer and must not be sent again blindly, queued is what waits in the outbox.
 */
import { textItem } from '../ilink/encode.ts'
import { badArgument, isSvcError, SvcError } from '../model/error.ts'
import type { SendResult } from '../model/message.ts'
import { type BotInfo, rightToAnswer } from '../model/session.ts'
import type { Runtime } from '../platform/runtime.ts'
import { linked, untilAborted } from '../platform/signals.ts'
import type { Enqueued, Entry, KeptFile } from '../storage/outbox.ts'
import { rowOf } from './delivery.ts'
import type { SendPorts } from './delivery-attempt.ts'
import { explainWaits } from './foresight.ts'
import type { Caller } from './media-files.ts'
import {
  type Draft,
  isSame,
  isUserId,
  look,
  namesOf,
  newEntry,
  type Piece,
  release,
  type SendRequest,
  stage,
  waitingParts,
} from './plan.ts'
import {
  closedError,
  conflict,
  countsOf,
  endReasonOf,
  neverWrote,
  stopped,
  unasked,
  wroteBefore,
  wroteElsewhere,
} from './problems.ts'
import { resultOf, withNames } from './result.ts'
import { SharedCalls } from './shared-calls.ts'
import { showTyping, typeOnce } from './typing.ts'
import type { Worker } from './worker.ts'

export interface SenderPorts extends SendPorts {
  worker: Worker
  /** Who is meant by a name. @throws SvcError `session_not_found`; `invalid_arguments` for a name that nobody has, or several */
  meant(user: string, session: string | undefined): Promise<string>
  /** Which session sends to a user. @throws SvcError `not_connected`, `session_not_found`, `session_expired` */
  route(to: string, session: string | undefined): Promise<Route>
}

/** Nothing that reaches the user. */
const isTypingAlone = ({ typing, text, media }: SendRequest): boolean =>
  typing !== undefined && !text && media.length === 0

interface Route {
  name: string
  bot: BotInfo
  /** The session that the user wrote to, where no login that there is now has heard of them. */
  before?: { session: string; isLoggedIn: boolean } | undefined
}

/** An earlier call with the same key that runs in another process is waited for so long. */
const patienceMs = 30_000
const lookEveryMs = 100
/** When it may be over. */
const retryAfterS = 5
/** A call that takes longer shows that the bot is typing; one that asks for it does at once. */
const quietMs = 700
/** It tells this often that it is still at it. */
const renewEveryMs = 60_000

export class Sender {
  readonly #ports: SenderPorts
  readonly #runtime: Runtime
  readonly #shared = new SharedCalls()
  readonly #running = new Set<Promise<unknown>>()

  constructor(ports: SenderPorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
  }

  /**
   * Sends text, then media, to one user.
   *
   * With `when_closed: 'queue'` what may not go now waits in the outbox instead. With `idempotency_key` the first
   * call's result answers every later one for 24 h.
   *
   * @returns what became of each part; thrown instead when certainly nothing reached the user and nothing waits
   * @throws SvcError `invalid_arguments` for a name that is not one user's, `not_connected`, `session_not_found`, `session_expired`, `window_closed`, `quota_exhausted`,
   *   `text_too_long`, `rate_limited`, `upstream_error`, `idempotency_conflict`, `shutting_down`, and what staging media
   *   throws; `forbidden` for what has to wait for a yes and cannot
   */
  async send(asked: SendRequest, caller: Caller): Promise<SendResult> {
    const { bus, closing } = this.#runtime
    if (closing.aborted) throw stopped(closing)
    const request = await this.#addressed(asked)
    using either = linked(caller.signal, closing)
    const { signal } = either
    const progress = caller.progress?.bind(caller)
    const as = (signal: AbortSignal): Caller => ({ by: caller.by, signal, local: caller.local, progress })
    const key = request.idempotency_key
    const isBare = isTypingAlone(request)
    if (request.approval && (isBare || !this.#ports.store.durable)) throw unasked(request.approval)
    const running = isBare
      ? this.#routed(request, route => this.#typed(route, request, signal))
      : key === undefined
        ? this.#sent(request, as(signal)).then(result => result ?? Promise.reject(conflict()))
        : this.#shared.once(key, namesOf(request), signal, signal => this.#keyed(key, request, as(signal)))
    this.#running.add(running)
    try {
      const result = await running
      if (!isBare) bus.tell('sent', result.status)
      return result
    } catch (error) {
      const known = signal.aborted && !(error instanceof SvcError) ? stopped(signal) : error
      bus.tell('sent', isSvcError(known) ? known.code : 'internal')
      throw known
    } finally {
      this.#running.delete(running)
    }
  }

  /**
   * Looks ahead, for whoever asks a person first.
   *
   * @returns `known` when a call with this key was made before, so that `send` sends nothing
   * @throws SvcError what `send` would, as far as that can be told before anything is read, fetched or uploaded
   */
  async foresee(asked: SendRequest, caller: Caller): Promise<'new' | 'known'> {
    const { durable, outbox } = this.#ports.store
    const { idempotency_key: key } = asked
    if (key !== undefined && durable && (await outbox.keyed(key))) return 'known'
    const request = await this.#addressed(asked)
    await this.#routed(request, async route => {
      if (isTypingAlone(request)) return
      const texts = await look(request, this.#ports.media, caller)
      await this.#mayGo(route.name, request, texts.length)
    })
    return 'new'
  }

  /** With the user's id, and the text as UTF-8 can carry it: a lone surrogate is sent as U+FFFD. */
  async #addressed({ text, ...request }: SendRequest): Promise<SendRequest> {
    const { to, session } = request
    return {
      ...request,
      to: isUserId(to) ? to : await this.#ports.meant(to, session),
      ...(text !== undefined && { text: text.toWellFormed() }),
    }
  }

  /** @throws SvcError when it may neither go now nor wait */
  async #mayGo(session: string, { to, media, when_closed }: SendRequest, texts: number): Promise<void> {
    const { rules, store, upstream } = this.#ports
    if (when_closed === 'queue') return
    const count = texts + media.length
    const verdict = await store.outbox.verdict(session, to, count, rules)
    if (verdict.go === 'no') throw closedError(verdict, { count, texts }, upstream.sandboxed)
  }

  /** Waits for what is being handed over, at most `graceMs`; then ends it, and its fate is recorded as unknown. */
  async close(graceMs: number): Promise<void> {
    for (const waitMs of [graceMs, 500]) {
      await this.idle(waitMs)
      this.#ports.worker.attempts.cut(stopped(this.#runtime.closing))
    }
  }

  /** Waits for what runs, at most that long. @returns whether all of it has ended */
  async idle(graceMs: number): Promise<boolean> {
    const { worker } = this.#ports
    const over = new AbortController()
    const running = Promise.allSettled([...this.#running, ...worker.flushing.values()])
    const all = running.then(() => worker.attempts.noted).then(() => true)
    const late = this.#runtime.clock.sleep(graceMs, over.signal).then(() => false)
    const isIdle = await Promise.race([all, late])
    over.abort()
    return isIdle
  }

  /** The result of the first call with this key, which is this one when no other has it. */
  async #keyed(key: string, request: SendRequest, caller: Caller): Promise<SendResult> {
    const { clock } = this.#runtime
    const { media, store } = this.#ports
    const deadline = clock.monotonic() + patienceMs
    for (let compared = -1; ; ) {
      const entry = await store.outbox.keyed(key)
      if (!entry) {
        const result = await this.#sent(request, caller)
        if (result) return result
        continue
      }
      if (entry.id !== compared && !(await isSame(entry.content, request, media, caller))) throw conflict()
      compared = entry.id
      if (entry.ended || entry.mode === 'queue') return { ...(await this.#result(entry)), repeated: true }
      if (clock.monotonic() >= deadline)
        throw new SvcError(
          'rate_limited',
          'the first call with this idempotency key still runs in another process',
          {
            retryAfter: retryAfterS,
            hint: 'Call again with the same key: it answers with the result of the first call and sends nothing.',
          },
        )
      await clock.sleep(lookEveryMs, caller.signal)
      if (caller.signal.aborted) throw stopped(caller.signal)
    }
  }

  /** Undefined when another call took the key meanwhile. */
  async #sent(request: SendRequest, caller: Caller): Promise<SendResult | undefined> {
    if (request.when_closed === 'queue' && !this.#ports.store.durable)
      throw badArgument('when_closed', 'queue needs the message store, which is off')
    return this.#routed(request, route => this.#sentBy(route, request, caller))
  }

  /** Does `work` by the session that sends. */
  async #routed<T>(
    { to, session, when_closed }: SendRequest,
    work: (route: Route) => Promise<T>,
  ): Promise<T> {
    const route = await this.#ports.route(to, session)
    const { before } = route
    // Kept for a session that this user does not know, it would wait for a message that never comes.
    if (when_closed === 'queue' && before?.isLoggedIn === false)
      throw wroteElsewhere(route.name, before.session)
    return work(route).catch(error => {
      if (!before || !isSvcError(error, 'window_closed')) throw error
      throw before.isLoggedIn
        ? wroteBefore(error, before.session)
        : wroteElsewhere(route.name, before.session, error)
    })
  }

  async #sentBy(route: Route, request: SendRequest, caller: Caller): Promise<SendResult | undefined> {
    const { media } = this.#ports
    const { name: session, bot } = route
    const { approval } = request
    // What can never be sent is told before a wait: whoever heard of the wait alone would come back with it in vain.
    const texts = await look(request, media, caller)
    // Before anything is read, fetched or uploaded: a shut window should cost nothing.
    if (approval || request.media.length > 0) await this.#mayGo(session, request, texts.length)
    const files = await stage(request, media, caller)
    try {
      if (caller.signal.aborted) throw stopped(caller.signal)
      const pieces: Piece[] = [
        ...texts.map(text => ({ kind: 'text' as const, text })),
        ...files.map(file => ({ kind: file.kind, file })),
      ]
      const draft = { by: caller.by, request, session, bot, pieces, files }
      const isPatient = request.when_closed === 'queue' || approval !== undefined
      const entry = await (isPatient ? this.#queue(draft, caller) : this.#send(draft, caller))
      return entry && withNames(await this.#result(entry), files)
    } finally {
      await release(files)
    }
  }

  /** Mode `fail`: this process sends it now, or nobody does. @returns it as it ended; undefined when its key was taken */
  async #send(draft: Draft, caller: Caller): Promise<Entry | undefined> {
    const { clock } = this.#runtime
    const { rules, store, upstream, worker } = this.#ports
    const { request, session, bot, pieces } = draft
    const { to } = request
    using line = worker.lines.line(session, to)
    const texts = pieces.flatMap(piece => (piece.kind === 'text' ? piece.text : []))
    // A plain text is on its way with the commit that notes it.
    const isPlain = line.isFirst && pieces.length === texts.length
    const row = isPlain ? rowOf(to, textItem(texts[0]!), clock.now()) : undefined
    const parts = pieces.map(({ kind }) => ({ kind }))
    const enqueued = await store.outbox.enqueue(newEntry(draft, parts), rules, row)
    if (enqueued.state === 'known') return undefined
    if (enqueued.state === 'closed') throw closedError(enqueued.verdict, countsOf(pieces), upstream.sandboxed)
    const { begun, entry } = enqueued
    using _shown = this.#meanwhile(draft, entry)
    const started = begun && row && { begun, row }
    // The place in the line, and the typing, last until it has ended.
    return await worker.sendNow({ entry, bot, pieces, line, started }, caller)
  }

  /**
   * Mode `queue`: it waits in the outbox as long as it may not go, or as a person has to say yes first.
   *
   * @returns it as it stands; undefined when its key was taken
   */
  async #queue(draft: Draft, caller: Caller): Promise<Entry | undefined> {
    const { closing, log } = this.#runtime
    const { store, worker } = this.#ports
    const enqueued = await this.#enqueued(draft, caller)
    if (enqueued.state !== 'new') return undefined
    const { entry, lane, verdict } = enqueued
    const isNext = verdict !== 'behind' && verdict.go !== 'no' && !worker.isCrowded(entry.session)
    if (!entry.asked && isNext) {
      using _shown = this.#meanwhile(draft, entry)
      const gone = untilAborted(caller.signal).then(() => 'left' as const)
      const ended = await Promise.race([worker.watch(entry, lane, caller.progress), gone])
      if (ended === 'left' && !closing.aborted) return this.#cancelled(entry, caller.signal)
    }
    const now = (await store.outbox.entry(entry.id)) ?? entry
    if (!now.ended)
      log.info('send queued', { session: entry.session, outbox: entry.id, messages: entry.parts.length })
    return now
  }

  /** Files are kept for as long as the entry needs them. */
  async #enqueued(draft: Draft, { signal }: Caller): Promise<Enqueued> {
    const { media, rules, store } = this.#ports
    const kept: KeptFile[] = []
    let isNew = false
    try {
      const parts = await waitingParts(draft, { media, clock: this.#runtime.clock, kept, signal })
      const enqueued = await store.outbox.enqueue(newEntry(draft, parts), rules)
      isNew = enqueued.state === 'new'
      return enqueued
    } finally {
      if (!isNew) await media.kept.discard(kept)
    }
  }

  /** Who leaves before the answer cannot know of what would wait. */
  async #cancelled(entry: Entry, signal: AbortSignal): Promise<Entry> {
    const { media, store } = this.#ports
    const ended = await store.outbox.end(entry.id, endReasonOf(stopped(signal)))
    await media.kept.discard(ended?.files ?? [])
    return ended?.entry ?? entry
  }

  /** While a call takes long the bot is typing, and the entry says that it still runs; until it is disposed of. */
  #meanwhile({ session, bot, request }: Draft, entry: Entry): Disposable {
    const ended = new AbortController()
    const over = ended.signal
    const { check, upstream } = this.#ports
    const { account, api } = upstream
    const doubt = () => check.doubt(session, bot)
    const token = () => this.#token(session, request.to)
    const shown = async () => {
      // Most calls are over by then.
      if (!request.typing) await this.#runtime.clock.sleep(quietMs, over)
      if (over.aborted) return
      void this.#renewed(entry, over)
      if (request.typing !== false)
        await showTyping({ api, ...this.#runtime }, account(bot), request.to, token, doubt, over)
    }
    const showing: Promise<void> = shown().finally(() => this.#running.delete(showing))
    this.#running.add(showing)
    // Without a reason each abort makes an exception, with a stack.
    return { [Symbol.dispose]: () => ended.abort('over') }
  }

  async #token(session: string, user: string): Promise<string | undefined> {
    return (await this.#ports.state.contexts.find(session, user))?.token
  }

  /** What is left of the right to answer a user. */
  async #right(session: string, user: string): Promise<ReturnType<typeof rightToAnswer>> {
    const counters = await this.#ports.store.outbox.counters(session, user)
    return rightToAnswer(counters.get(user) ?? { used: 0 }, this.#runtime.clock.now())
  }

  /** That the bot is typing, or is not any more, and no message. */
  async #typed(
    { name: session, bot }: Route,
    { to, typing = true }: SendRequest,
    signal: AbortSignal,
  ): Promise<SendResult> {
    const { check, upstream } = this.#ports
    const contextToken = await this.#token(session, to)
    if (contextToken === undefined) throw neverWrote()
    const at = { user: to, contextToken, typing }
    await check.settled(session, bot, () => typeOnce(upstream.api, upstream.account(bot), at, signal))
    const right = await this.#right(session, to)
    return { success: true, status: 'accepted', session, parts: [], ...right }
  }

  /** Says now and then that the call still runs: an upload may take long. */
  async #renewed(entry: Entry, over: AbortSignal): Promise<void> {
    const { clock, log } = this.#runtime
    const { store } = this.#ports
    for (;;) {
      await clock.sleep(renewEveryMs, over)
      if (over.aborted) return
      await store.outbox.renew(entry.id).catch(error => log.warn('call not renewed', { error }))
    }
  }

  async #result(entry: Entry): Promise<SendResult> {
    const { counter, session, user } = entry
    // As it was: a call that is repeated has the answer of the first.
    if (counter) return resultOf(entry, rightToAnswer(counter, 0))
    const [waiting] = await explainWaits(this.#ports, [entry], this.#runtime.clock.now())
    return resultOf(entry, await this.#right(session, user), waiting)
  }
}
