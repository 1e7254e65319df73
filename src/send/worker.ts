/**
 * Sends what is in the outbox: a call's own entry, or what waits for a user. One message at a time goes to one user, and
 * each goes the same way: begin (admission, intent on disk) → POST → settle.
 */
import { Buffer } from 'node:buffer'
import type { Upstream } from '../ilink/api.ts'
import { mediaItem, textItem } from '../ilink/encode.ts'
import { isILinkError } from '../ilink/http.ts'
import type { WireItem } from '../ilink/wire.ts'
import { afterRefusal, type SendRules, untilWritten } from '../model/admission.ts'
import { isSvcError, SvcError } from '../model/error.ts'
import type { MediaKind } from '../model/message.ts'
import type { BotInfo } from '../model/session.ts'
import { backoffMs } from '../platform/clock.ts'
import type { Runtime } from '../platform/runtime.ts'
import type { State } from '../state/state.ts'
import type { Begun, Entry, EntryPart, Lane, Settlement, Store, Terms } from '../store/store.ts'
import { type DeliveryResult, deliver, isRefusedAlone, type Letter, letter } from './delivery.ts'
import type { Caller, MediaFiles } from './media-files.ts'
import type { Piece } from './plan.ts'
import { closedError, notTried, reasonOf, stopped, takenOver, tooSoon, uploadError } from './problems.ts'
import { textLimitBytes } from './split.ts'

/** Says what getupdates says, when another endpoint has refused a session with -14. */
export interface Judge {
  /**
   * Does `work`; when that is refused with -14 and getupdates says that the token works, once more.
   *
   * @throws SvcError `session_expired`; `upstream_error` with the refusal as its cause; what `work` throws besides
   */
  settled<T>(session: string, bot: BotInfo, work: () => Promise<T>): Promise<T>
  doubt(session: string, bot: BotInfo): Promise<unknown>
}

export interface WorkerPorts {
  upstream: Pick<Upstream, 'api' | 'account' | 'sandboxed'>
  state: Pick<State, 'sessions' | 'contexts'>
  judge: Judge
  store: Store
  media: MediaFiles
  rules: SendRules
}

/** A call of mode `fail`, written down. */
export interface OwnEntry {
  entry: Entry
  bot: BotInfo
  pieces: readonly Piece[]
  /** Its first message, if that was begun already. */
  first?: { begun: Begun; letter: Letter }
  caller: Pick<Caller, 'signal' | 'progress'>
}

/** A caller who waits for a queued entry: told how far uploads are, and given the entry as it stood last. */
interface Watcher {
  progress?: Caller['progress']
  last?: Entry
}

/** After a send without a clear answer, the ones behind it wait this long: upstream may be in trouble. */
const calmMs = 5 * 60_000
/** Sends of one lane in one go; the next look goes on. */
const mostInOneGo = 50
/** A pause longer than this was set by a clock that has been set back since. */
const longestPauseMs = 10 * 60_000
/** Those ahead may hang beyond what the pace foresees; one request that gets no answer takes 15 s. */
const hangMs = 15_000

export class Worker {
  readonly #ports: WorkerPorts
  readonly #runtime: Runtime
  /** By session and user: when whoever sends there now is done. */
  readonly #lines = new Map<string, Promise<void>>()
  readonly #flushes = new Map<number, Promise<void>>()
  readonly #watchers = new Map<number, Watcher>()
  /** Ends even the requests that are under way. */
  readonly #cut = new AbortController()

  constructor(ports: WorkerPorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
  }

  /** Ends requests under way, at once and for good: their messages are unknown. */
  cut(reason: SvcError): void {
    this.#cut.abort(reason)
  }

  /** Whether somebody here sends to that user, or is about to. */
  isBusy(session: string, user: string): boolean {
    return this.#lines.has(keyOf(session, user))
  }

  /**
   * A place in the line of those who send to a user.
   *
   * @returns `ahead` resolves when everybody before is done; `leave` lets the next one go
   */
  line(session: string, user: string): { ahead: Promise<void>; leave(): void } {
    const key = keyOf(session, user)
    const ahead = this.#lines.get(key) ?? Promise.resolve()
    const { promise, resolve } = Promise.withResolvers<void>()
    const end = ahead.then(() => promise)
    this.#lines.set(key, end)
    const leave = () => {
      resolve()
      if (this.#lines.get(key) === end) this.#lines.delete(key)
    }
    return { ahead, leave }
  }

  /** What a user may be answered by, as far as this process knows. */
  terms(session: string, user: string): Terms & { token: string | undefined } {
    const { contexts } = this.#ports.state
    const { rules } = this.#ports
    const context = contexts.find(session, user)
    return { context: context ?? { used: 0 }, rules, token: context?.token }
  }

  /** Waits for those ahead in a line. @throws SvcError `rate_limited` when they take too long; the signal's reason */
  async turn(ahead: Promise<void>, signal: AbortSignal): Promise<void> {
    const { clock } = this.#runtime
    const { sandboxed } = this.#ports.upstream
    const { rules } = this.#ports
    const over = new AbortController()
    const abort = () => over.abort()
    signal.addEventListener('abort', abort, { once: true })
    const sleeping = clock.sleep(rules.patienceMs + hangMs, over.signal)
    const first = await Promise.race([ahead.then(() => true), sleeping.then(() => false)])
    over.abort()
    signal.removeEventListener('abort', abort)
    if (signal.aborted) throw stopped(signal)
    if (!first) throw tooSoon(rules.patienceMs, sandboxed)
  }

  /** Sends an entry of mode `fail`, to its end. @returns it as it ended */
  async send(own: OwnEntry): Promise<Entry> {
    const { entry, bot, pieces, caller } = own
    const { session, user: to } = entry
    const { clock } = this.#runtime
    const { account } = this.#ports.upstream
    const { media, judge } = this.#ports
    const { signal, progress } = caller
    const items: WireItem[] = []
    try {
      for (const piece of pieces) {
        if ('text' in piece) items.push(textItem(piece.text))
        else {
          const { file } = piece
          const upload = () => media.upload(account(bot), to, file, signal, progress)
          items.push(mediaItem(await judge.settled(session, bot, upload)))
        }
      }
    } catch (error) {
      return this.#refused(entry, signal.aborted ? stopped(signal) : uploadError(error, to))
    }
    let last = entry
    for (const [nth, part] of entry.parts.entries()) {
      let first = nth === 0 ? own.first : undefined
      while (!first) {
        if (signal.aborted) return this.#refused(entry, stopped(signal))
        const { token, ...terms } = this.terms(session, to)
        const next = letter(to, items[nth]!, token, clock.now())
        const began = await this.#ports.store.outbox.begin([part.id], bot.bot_id, terms, next.row)
        if (began.go === 'begun') first = { begun: began.begun, letter: next }
        else if (began.go === 'later') await clock.sleep(began.slot - clock.now(), signal)
        else if (began.go === 'gone') return this.#refused(entry, takenOver())
        else {
          const texts = pieces.filter(({ kind }) => kind === 'text').length
          return this.#refused(
            entry,
            closedError(began, { count: pieces.length, texts }, this.#ports.upstream.sandboxed),
          )
        }
      }
      const result: DeliveryResult = signal.aborted
        ? { status: 'refused', spent: false, unseen: true, error: stopped(signal) }
        : await this.#deliver(session, bot, first.letter, first.begun)
      const { status, error } = result
      const failed = status === 'refused' || status === 'unknown' ? error : undefined
      // What follows a failed part would arrive out of its order, and a refusal must not be hammered.
      const settled = await this.#settle(first.begun, {
        ...settlementOf(result),
        ...(failed && { rest: reasonOf(notTried(failed)) }),
      })
      last = settled?.find(({ id }) => id === entry.id) ?? settledHere(last, nth, result)
      if (failed) return last
    }
    return last
  }

  /** What has not been sent of an entry never will be. @returns it; @throws `error` when that is all of it, or no SvcError */
  async #refused(entry: Entry, error: unknown): Promise<Entry> {
    const known = error instanceof SvcError ? error : new SvcError('internal', 'an unexpected error')
    const ended = await this.#ports.store.outbox.end(entry.id, reasonOf(known))
    if (
      !(error instanceof SvcError) ||
      !ended ||
      ended.entry.parts.every(({ status }) => status === 'refused')
    )
      throw error
    return ended.entry
  }

  /** Sends what may go now of a lane; resolves when the rest must wait, or the lane is another process's. */
  flush(lane: number): Promise<void> {
    const running = this.#flushes.get(lane)
    if (running) return running
    const flush = this.#flush(lane).finally(() => this.#flushes.delete(lane))
    this.#flushes.set(lane, flush)
    return flush
  }

  get flushing(): ReadonlyMap<number, Promise<void>> {
    return this.#flushes
  }

  /** Waits for an entry of mode `queue` while its lane is flushed. @returns the entry as it stood last, if it was touched */
  async watch(entry: number, lane: number, progress: Caller['progress']): Promise<Entry | undefined> {
    const watcher: Watcher = { ...(progress && { progress }) }
    this.#watchers.set(entry, watcher)
    try {
      // One that is running may have looked for the last time.
      for (let tries = 0; tries < 2 && !watcher.last; tries++) await this.flush(lane)
      return watcher.last
    } finally {
      this.#watchers.delete(entry)
    }
  }

  async #flush(id: number): Promise<void> {
    const { closing, clock } = this.#runtime
    const { sessions } = this.#ports.state
    const { store } = this.#ports
    const { outbox } = store
    for (let sent = 0; sent < mostInOneGo && !closing.aborted; sent++) {
      const lane = await outbox.lane(id)
      const pauseMs = (lane?.not_before ?? 0) - clock.now()
      if (!lane || (pauseMs > 0 && pauseMs <= longestPauseMs)) break
      // Looked at first: a session that is logged out or expired, and a lane that is shut, cost no write at every look.
      const bot = (await sessions.get(lane.session))?.bot
      if (!bot || bot.expired_at !== undefined) break
      const { context, rules } = this.terms(lane.session, lane.user)
      const verdict = await outbox.verdict(lane.session, lane.user, 1, { context, rules })
      if (verdict.go === 'no' && verdict.why !== 'pace') break
      const parts = joinable(await outbox.next(id), lane.hold !== undefined)
      if (parts.length === 0 || !(await outbox.claim(id))) break
      const line = this.line(lane.session, lane.user)
      try {
        await line.ahead
        if (!(await this.#next(lane, parts, bot))) break
      } finally {
        line.leave()
      }
    }
    await outbox.release(id)
  }

  /** Sends the first message of what waits. @returns whether the next one may follow at once */
  async #next(lane: Lane, parts: EntryPart[], bot: BotInfo): Promise<boolean> {
    const { clock, closing, log } = this.#runtime
    const { judge, store } = this.#ports
    const { session, user } = lane
    const first = parts[0]!
    let item: WireItem
    if (first.kind === 'text') item = textItem(parts.map(part => part.text).join('\n\n'))
    else {
      // Looked at first: an upload that may not be sent for minutes is wasted.
      const { context, rules } = this.terms(session, user)
      const verdict = await store.outbox.verdict(session, user, 1, { context, rules })
      if (verdict.go === 'no') return this.#shut(lane, verdict)
      try {
        item = await judge.settled(session, bot, () => this.#uploaded(first, bot, user))
      } catch (error) {
        return this.#notUploaded(lane, first, context.received_at, error)
      }
    }
    for (;;) {
      const { token, ...terms } = this.terms(session, user)
      const next = letter(user, item, token, clock.now())
      const ids = parts.map(({ id }) => id)
      const began = await store.outbox.begin(ids, bot.bot_id, terms, next.row)
      if (began.go === 'later') {
        await clock.sleep(began.slot - clock.now(), closing)
        if (closing.aborted) return false
      } else if (began.go === 'gone') return store.outbox.claim(lane.id)
      else if (began.go === 'no') return this.#shut(lane, began)
      else {
        const result = await this.#deliver(session, bot, next, began.begun)
        if (result.status === 'accepted')
          log.info('queued messages sent', { session, messages: parts.length })
        return this.#ended(lane, began.begun, result)
      }
    }
  }

  /** Not now: only of the pace it is known when. */
  async #shut(lane: Lane, closed: { why: string; waitMs?: number }): Promise<false> {
    const { clock } = this.#runtime
    const { store } = this.#ports
    if (closed.why === 'pace')
      await store.outbox.later(lane.id, clock.now() + (closed.waitMs ?? 1000), lane.failures)
    return false
  }

  /** Notes what became of a message that waited. @returns whether the next one may follow */
  async #ended(lane: Lane, begun: Begun, result: DeliveryResult): Promise<boolean> {
    const { clock, log } = this.#runtime
    const { store } = this.#ports
    const { status, error, giveUp } = result
    const waits = status === 'refused' && !giveUp
    if (giveUp) log.warn('queued message refused for good', { session: lane.session, code: error?.code })
    await this.#settle(begun, {
      ...settlementOf(result),
      ...(waits && { status: 'queued' }),
      ...(giveUp && error && { rest: reasonOf(notTried(error)) }),
      ...(result.pause && { hold: result.pause }),
    })
    if (status === 'unknown') await store.outbox.later(lane.id, clock.now() + calmMs, 0)
    else if (waits && !result.spent && !result.pause) await this.#later(lane)
    else if (lane.failures > 0) await store.outbox.later(lane.id, 0, 0)
    return status === 'accepted' || status === 'suspect' || giveUp === true
  }

  async #uploaded(part: EntryPart, bot: BotInfo, user: string): Promise<WireItem> {
    const { closing } = this.#runtime
    const { account } = this.#ports.upstream
    const { media } = this.#ports
    const file = await media.kept.open(part.file!, part.kind as MediaKind)
    const progress = this.#watchers.get(part.entry)?.progress
    try {
      return mediaItem(await media.upload(account(bot), user, file, closing, progress))
    } finally {
      await file.release()
    }
  }

  /** @param receivedAt when the user had last written as the upload began */
  async #notUploaded(
    lane: Lane,
    part: EntryPart,
    receivedAt: number | undefined,
    error: unknown,
  ): Promise<boolean> {
    const { clock, closing, log } = this.#runtime
    const { media, store } = this.#ports
    if (closing.aborted) return false
    log.warn('queued message not sent', { session: lane.session, error })
    if (isSvcError(error, 'session_expired')) return false
    const facts = { now: clock.now(), receivedAt, hold: lane.hold }
    if (isRefusedAlone(error)) {
      await store.outbox.refuse([], lane.id, untilWritten(facts))
      return false
    }
    const refusal = isILinkError(error, 'refused') ? afterRefusal(facts, part.tries) : undefined
    if (isSvcError(error, 'invalid_arguments') || refusal?.giveUp) {
      // Its file is gone, or upstream will not have it: nothing is gained by waiting.
      const why = uploadError(error, lane.user) as SvcError
      const ended = await store.outbox.end(part.entry, reasonOf(why))
      await media.kept.discard(ended?.files ?? [])
      return true
    }
    if (refusal) await store.outbox.refuse([part.id], lane.id, refusal.hold)
    else await this.#later(lane)
    return false
  }

  /** Trouble on the way that says nothing about the message. */
  async #later(lane: Lane): Promise<void> {
    const { clock } = this.#runtime
    const { store } = this.#ports
    const pauseMs = backoffMs(lane.failures, 2000, 60_000)
    await store.outbox.later(lane.id, clock.now() + pauseMs, lane.failures + 1)
  }

  async #deliver(
    session: string,
    bot: BotInfo,
    { wire, row }: Letter,
    begun: Begun,
  ): Promise<DeliveryResult> {
    const { clock, log } = this.#runtime
    const { account, api } = this.#ports.upstream
    const { judge, rules } = this.#ports
    // Not cancelled when the caller leaves: half a request is the one thing that cannot be told apart later.
    const post = () =>
      judge.settled(session, bot, () => api.sendMessage(account(bot), wire, this.#cut.signal))
    const result = await deliver(post, row.to_user, begun, { rules, now: () => clock.now() })
    const { error, status } = result
    // Whoever sends is told; here it is for whoever looks back.
    if (error) log.info('send failed', { session, error, as: status, code: error.code })
    return result
  }

  async #settle(begun: Begun, settlement: Settlement): Promise<Entry[] | undefined> {
    const { log } = this.#runtime
    const { media, store } = this.#ports
    const taken = settlement.status === 'accepted' || settlement.status === 'suspect'
    try {
      const { entries, files } = await store.outbox.settle(begun, {
        ...settlement,
        ...(taken && begun.hold && { hold: null }),
      })
      for (const entry of entries) {
        const watcher = this.#watchers.get(entry.id)
        if (watcher) watcher.last = entry
      }
      await media.kept.discard(files)
      return entries
    } catch (error) {
      // The send happened whatever the disk says: the caller must hear of it.
      log.error('status of a sent message not stored', { row: begun.row, error })
      return undefined
    }
  }
}

const keyOf = (session: string, user: string) => `${session}\n${user}`

const settlementOf = ({ status, message_id, error, spent, unseen, hold }: DeliveryResult): Settlement => ({
  ...{ status, spent },
  ...(message_id !== undefined && { message_id }),
  ...(error && { error: reasonOf(error) }),
  ...(unseen && { unseen }),
  ...(hold && { hold }),
})

/** The entry where the disk did not take what became of its `nth` part. */
function settledHere(entry: Entry, nth: number, { status, message_id, error }: DeliveryResult): Entry {
  const parts = entry.parts.map((part, at): EntryPart => {
    if (at === nth)
      return {
        ...{ ...part, status },
        ...(message_id !== undefined && { message_id }),
        ...(error && { error: reasonOf(error) }),
      }
    return at > nth && error ? { ...part, status: 'refused', error: reasonOf(notTried(error)) } : part
  })
  return { ...entry, parts }
}

/** The first of these, and if it is a text the ones behind it that fit into the same message. */
function joinable(waiting: EntryPart[], alone: boolean): EntryPart[] {
  const [first, ...others] = waiting
  if (first?.kind !== 'text' || alone) return waiting.slice(0, 1)
  const group = [first]
  let bytes = Buffer.byteLength(first.text)
  for (const part of others) {
    bytes += 2 + Buffer.byteLength(part.text)
    if (part.kind !== 'text' || bytes > textLimitBytes) break
    group.push(part)
  }
  return group
}
