/**
 * Sends entries of the outbox, message by message. An entry of mode `fail` is sent by the process that its caller waits in,
 * at once and to its end. What waits in a lane is sent by the process that holds the lane. One message at a time goes to one
 * user.
 */
import { Buffer } from 'node:buffer'
import { textItem } from '../ilink/encode.ts'
import { isILinkError } from '../ilink/http.ts'
import type { WireItem } from '../ilink/wire.ts'
import { afterRefusal, untilWritten, type Verdict } from '../model/admission.ts'
import { isSvcError, SvcError } from '../model/error.ts'
import type { MediaKind } from '../model/message.ts'
import { type Principal, principalText } from '../model/principal.ts'
import { type BotInfo, notConnected } from '../model/session.ts'
import { backoffMs } from '../platform/clock.ts'
import type { Runtime } from '../platform/runtime.ts'
import type { Entry, EntryPart, Lane } from '../storage/outbox.ts'
import { type DeliveryResult, isRefusedAlone } from './delivery.ts'
import { botOf, DeliveryAttempts, type SendPorts, type Started, termsOf } from './delivery-attempt.ts'
import { Foresight, isPaused } from './foresight.ts'
import { type Line, Lines } from './lines.ts'
import type { Caller } from './media-files.ts'
import type { Piece } from './plan.ts'
import { closedError, countsOf, endReasonOf, notTried, stopped, takenOver, uploadError } from './problems.ts'
import { textLimitBytes } from './split.ts'

/** An entry of mode `fail`, with what it is sent from. */
interface OwnEntry {
  entry: Entry
  bot: BotInfo
  pieces: readonly Piece[]
  line: Line
  /** Its first message, where the commit that enqueued it began it. */
  started: Started | undefined
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

export class Worker {
  readonly lines: Lines
  readonly attempts: DeliveryAttempts
  readonly foresight: Foresight
  readonly #ports: SendPorts
  readonly #runtime: Runtime
  readonly #flushes = new Map<number, Promise<void>>()
  readonly #watchers = new Map<number, Watcher>()

  constructor(ports: SendPorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
    this.lines = new Lines(runtime.clock)
    this.attempts = new DeliveryAttempts(ports, runtime)
    this.foresight = new Foresight(ports, runtime)
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
    const watcher: Watcher = { progress }
    this.#watchers.set(entry, watcher)
    try {
      // One that is running may have looked for the last time.
      for (let tries = 0; tries < 2 && !watcher.last; tries++) await this.flush(lane)
      return watcher.last
    } finally {
      this.#watchers.delete(entry)
    }
  }

  /**
   * Sends an entry of mode `fail` to its end. All its files go up first: one that cannot go up spends no answer.
   *
   * @returns it as it ended
   * @throws SvcError why nothing of it went out
   */
  async sendNow(
    { entry, bot, pieces, line, started }: OwnEntry,
    caller: Pick<Caller, 'signal' | 'progress'>,
  ): Promise<Entry> {
    const { attempts } = this
    const { rules, upstream } = this.#ports
    const { signal } = caller
    let last = entry
    try {
      if (!line.isFirst) await this.lines.turn(line.ahead, rules.patienceMs, signal)
      const items: WireItem[] = []
      for (const piece of pieces)
        items.push(
          piece.kind === 'text'
            ? textItem(piece.text)
            : await attempts.upload(entry, bot, piece.file, caller),
        )
      for (const [nth, { id }] of entry.parts.entries()) {
        const message = { to: entry, bot, parts: [id], item: items[nth]!, mode: entry.mode, signal }
        const sent = await attempts.send({ ...message, started: nth === 0 ? started : undefined })
        if (sent.go === 'stopped') throw stopped(signal)
        if (sent.go === 'gone') throw takenOver()
        if (sent.go === 'no') throw closedError(sent, countsOf(pieces), upstream.sandboxed)
        last = sent.entries?.find(one => one.id === entry.id) ?? settledHere(last, nth, sent.result)
        if (sent.result.error) break
      }
      return last
    } catch (error) {
      return this.#refused(entry, signal.aborted ? stopped(signal) : uploadError(error, entry.user))
    }
  }

  /** What has not been sent of an entry never will be. @returns it; @throws `error` when that is all of it, or no SvcError */
  async #refused(entry: Entry, error: unknown): Promise<Entry> {
    const known = error instanceof SvcError ? error : new SvcError('internal', 'an unexpected error')
    const ended = await this.#ports.store.outbox.end(entry.id, endReasonOf(known))
    const isAll = ended?.entry.parts.every(({ status }) => status === 'refused') ?? true
    if (isAll || !(error instanceof SvcError)) throw error
    return ended!.entry
  }

  /**
   * A person says yes to a send that waits for that. Where it was to fail and may not go now, it goes on waiting for a yes.
   *
   * @returns the lane that it goes out from; undefined when it waits for no yes any more
   * @throws SvcError `not_connected`, `window_closed`, `quota_exhausted`, `text_too_long`, `rate_limited`
   */
  async approve({ asked, id, parts, session, user }: Entry, by: Principal): Promise<number | undefined> {
    const { state, store, upstream } = this.#ports
    if (asked === 'fail' && !(await botOf(state, session))) throw notConnected(session)
    const terms = await termsOf(this.#ports, session, user)
    const said = await store.outbox.approve(id, terms, principalText(by))
    if (said?.state === 'closed') throw closedError(said.verdict, countsOf(parts), upstream.sandboxed)
    return said?.lane
  }

  async #flush(id: number): Promise<void> {
    const { closing, clock } = this.#runtime
    const { outbox } = this.#ports.store
    let isOurs = false
    for (let sent = 0; sent < mostInOneGo && !closing.aborted; sent++) {
      const lane = await outbox.lane(id)
      if (!lane || isPaused(lane, clock.now())) break
      if (sent > 0 && this.foresight.crowded.has(lane.session)) break
      const bot = await botOf(this.#ports.state, lane.session)
      const parts = bot && joinable(await outbox.next(id), lane.hold !== undefined)
      if (!parts || !(await outbox.claim(id))) break
      isOurs = true
      using line = this.lines.line(lane.session, lane.user)
      await line.ahead
      if (!(await this.#next(lane, parts, bot))) break
    }
    if (isOurs) await outbox.release(id)
  }

  /** Sends the first message of what waits. @returns whether the next one may follow at once */
  async #next(lane: Lane, parts: Group, bot: BotInfo): Promise<boolean> {
    const { clock, closing, log } = this.#runtime
    const { store } = this.#ports
    const { session, user } = lane
    const [first] = parts
    let item: WireItem
    if (first.kind === 'text') item = textItem(parts.map(part => part.text).join('\n\n'))
    else {
      // An upload that may not be sent for minutes is wasted.
      const terms = await termsOf(this.#ports, session, user)
      if (isShut(await store.outbox.verdict(session, user, 1, terms), first)) return false
      try {
        item = await this.#uploaded(lane, bot, first)
      } catch (error) {
        return this.#notUploaded(lane, first, terms.context.received_at, error)
      }
    }
    const ids = parts.map(({ id }) => id)
    const message = { to: lane, bot, parts: ids, item, mode: 'queue', signal: closing } as const
    const sent = await this.attempts.send(message)
    if (sent.go === 'gone') return store.outbox.claim(lane.id)
    if (sent.go !== 'sent') return false
    for (const entry of sent.entries ?? []) {
      const watcher = this.#watchers.get(entry.id)
      if (watcher) watcher.last = entry
    }
    const { status, error, giveUp, spent, pause } = sent.result
    if (status === 'accepted') log.info('sent from the outbox', { session, messages: parts.length })
    if (giveUp) log.warn('queued message refused for good', { session, code: error?.code })
    if (status === 'unknown') await store.outbox.later(lane.id, clock.now() + calmMs, 0)
    else if (status === 'refused' && !giveUp && !spent && !pause && !closing.aborted) await this.#later(lane)
    else if (lane.failures > 0) await store.outbox.later(lane.id, 0, 0)
    return status === 'accepted' || status === 'suspect' || giveUp === true
  }

  async #uploaded(lane: Lane, bot: BotInfo, part: EntryPart): Promise<WireItem> {
    const { closing: signal } = this.#runtime
    const file = await this.#ports.media.kept.open(part.file!, part.kind as MediaKind)
    const progress = this.#watchers.get(part.entry)?.progress
    try {
      return await this.attempts.upload(lane, bot, file, { signal, progress })
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
    if (isSvcError(error) && (error.code === 'invalid_arguments' || refusal?.giveUp)) {
      // Its file is gone, or upstream will not have it: nothing is gained by waiting.
      const ended = await store.outbox.end(part.entry, endReasonOf(uploadError(error, lane.user)))
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
}

/** The entry where the disk did not take what became of its `nth` part. */
function settledHere(entry: Entry, nth: number, { status, message_id, error }: DeliveryResult): Entry {
  const parts = entry.parts.map((part, at): EntryPart => {
    if (at === nth) return { ...part, status, message_id, error: error && endReasonOf(error) }
    return at > nth && error ? { ...part, status: 'refused', error: endReasonOf(notTried(error)) } : part
  })
  return { ...entry, parts }
}

/** Parts that go as one message. */
type Group = [EntryPart, ...EntryPart[]]

/** The pace lets go what has its slot already: the verdict is of a message behind it. */
const isShut = (verdict: Verdict, { slot }: EntryPart): boolean =>
  verdict.go === 'no' && (verdict.why !== 'pace' || slot === undefined)

/** The first of these, and if it is a text the ones behind it that fit into the same message. */
function joinable([first, ...others]: EntryPart[], alone: boolean): Group | undefined {
  if (!first) return undefined
  const group: Group = [first]
  if (first.kind !== 'text' || alone) return group
  let bytes = Buffer.byteLength(first.text)
  for (const part of others) {
    bytes += 2 + Buffer.byteLength(part.text)
    if (part.kind !== 'text' || bytes > textLimitBytes) break
    group.push(part)
  }
  return group
}
