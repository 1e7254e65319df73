/**
 * Sends what waits in the outbox for a user, whichever process took it in. One message at a time goes to one user, and
 * each goes the same way: begin (admission, intent on disk) → POST → settle.
 */
import { Buffer } from 'node:buffer'
import { textItem, type UploadedMedia } from '../ilink/encode.ts'
import { isILinkError } from '../ilink/http.ts'
import type { WireItem } from '../ilink/wire.ts'
import {
  admit,
  afterRefusal,
  nobody,
  type SendRules,
  untilWritten,
  type Verdict,
} from '../model/admission.ts'
import { isSvcError } from '../model/error.ts'
import type { MediaKind, Waiting } from '../model/message.ts'
import { type Principal, principalText } from '../model/principal.ts'
import { type BotInfo, countNow, notConnected } from '../model/session.ts'
import { backoffMs, turns } from '../platform/clock.ts'
import type { Runtime } from '../platform/runtime.ts'
import type { Begun, Entry, EntryPart, Lane, WaitingLane } from '../storage/outbox.ts'
import { type DeliveryResult, isRefusedAlone } from './delivery.ts'
import { DeliveryAttempts, type SendPorts, settlementOf } from './delivery-attempt.ts'
import { Lines } from './lines.ts'
import type { Caller } from './media-files.ts'
import type { Handed } from './muting.ts'
import { closedError, endReasonOf, notTried, uploadError } from './problems.ts'
import { textLimitBytes } from './split.ts'

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

export class Worker {
  readonly lines: Lines
  readonly attempts: DeliveryAttempts
  /** Sessions in which some found no slot at the last look: those that come free are given out by looks alone. */
  readonly crowded = new Set<string>()
  readonly #ports: SendPorts
  readonly #runtime: Runtime
  readonly #flushes = new Map<number, Promise<void>>()
  readonly #watchers = new Map<number, Watcher>()

  constructor(ports: SendPorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
    this.lines = new Lines(runtime.clock)
    this.attempts = new DeliveryAttempts(ports, runtime)
  }

  /** Sends what may go now of a lane; resolves when the rest must wait, or the lane is another process's. */
  flush(lane: number): Promise<void> {
    const running = this.#flushes.get(lane)
    if (running) return running
    const flush = this.#flush(lane).finally(() => this.#flushes.delete(lane))
    this.#flushes.set(lane, flush)
    return flush
  }

  /**
   * Tells whether what waits in a lane may go now, as of the facts that came with it. Asked of one after the other, in their
   * order: of a session no more may go than there are slots for.
   */
  judge(): (lane: WaitingLane) => Promise<boolean> {
    const { clock } = this.#runtime
    const { rules } = this.#ports
    const bots = new Map<string, BotInfo | undefined>()
    const taken = new Map<string, number>()
    const turn = turns(clock)
    return async lane => {
      const { counter, hold, id, session, slot, user } = lane
      await turn()
      const now = clock.now()
      if (this.#flushes.has(id) || isPaused(lane, now)) return false
      if (!bots.has(session)) bots.set(session, await this.#bot(session))
      if (!bots.get(session)) return false
      const { context } = await this.attempts.terms(session, user)
      const { received_at: receivedAt, used } = countNow(context, counter, now)
      const slots = { ...lane.slots, last: taken.get(session) ?? lane.slots.last }
      const verdict = admit({ now, receivedAt, used, ahead: nobody, hold, slots, slot }, 1, rules)
      if (verdict.go === 'no') {
        if (verdict.why === 'pace' && isFull(slots.last, now, rules)) this.crowded.add(session)
        return false
      }
      if (slot === undefined && verdict.slot !== undefined) taken.set(session, verdict.slot)
      return true
    }
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
   * A person says yes to a send that waits for that. What was to fail where it may not go goes on waiting for a yes then.
   *
   * @returns the lane that it goes out from; undefined when it waits for no yes any more
   * @throws SvcError `not_connected`, `window_closed`, `quota_exhausted`, `text_too_long`, `rate_limited`
   */
  async approve(
    { asked, id, parts, session, user }: Entry,
    by: Principal,
  ): Promise<{ lane: number } | undefined> {
    const { store, upstream } = this.#ports
    if (asked === 'fail' && !(await this.#bot(session))) throw notConnected(session)
    const terms = await this.attempts.terms(session, user)
    const said = await store.outbox.approve(id, terms, principalText(by))
    if (said?.state !== 'closed') return said
    const texts = parts.filter(({ kind }) => kind === 'text').length
    throw closedError(said.verdict, { count: parts.length, texts }, upstream.sandboxed)
  }

  /** What holds an entry of mode `queue` back. */
  async waiting({ asked, session, user, parts }: Entry): Promise<Waiting> {
    const { store } = this.#ports
    if (asked) return { waits_for: 'approval' }
    const next = parts.find(({ status }) => status === 'queued')
    if (!next) return {}
    if (!(await this.#bot(session))) return { waits_for: 'login' }
    const verdict = await this.attempts.verdict(session, user, 1)
    const lane = await store.outbox.lane(next.lane)
    const now = this.#runtime.clock.now()
    if (verdict.go === 'no') {
      if (verdict.why === 'window' || verdict.why === 'quota') return { waits_for: 'user' }
      const waits_for = verdict.why === 'pace' ? 'pace' : verdict.why === 'held' ? 'refusal' : 'user'
      return { waits_for, not_before: Math.ceil(now + verdict.waitMs) }
    }
    // The slot that it has, as long as there is a pace; the verdict is of a message behind it.
    const slot = verdict.slot && (next.slot ?? verdict.slot)
    if (slot !== undefined && slot > now) return { waits_for: 'pace', not_before: Math.ceil(slot) }
    if (lane && isPaused(lane, now)) return { waits_for: 'retry', not_before: lane.not_before }
    return lane?.busy ? { waits_for: 'busy' } : {}
  }

  async #flush(id: number): Promise<void> {
    const { closing, clock } = this.#runtime
    const { outbox } = this.#ports.store
    let isOurs = false
    for (let sent = 0; sent < mostInOneGo && !closing.aborted; sent++) {
      const lane = await outbox.lane(id)
      if (!lane || isPaused(lane, clock.now())) break
      if (sent > 0 && this.crowded.has(lane.session)) break
      const bot = await this.#bot(lane.session)
      const parts = bot && joinable(await outbox.next(id), lane.hold !== undefined)
      if (!parts || !(await outbox.claim(id))) break
      isOurs = true
      const line = this.lines.line(lane.session, lane.user)
      try {
        await line.ahead
        if (!(await this.#next(lane, parts, bot))) break
      } finally {
        line.leave()
      }
    }
    if (isOurs) await outbox.release(id)
  }

  /** Who sends for a session; nobody while it is logged out. */
  async #bot(session: string): Promise<BotInfo | undefined> {
    const bot = (await this.#ports.state.sessions.get(session))?.bot
    return bot?.expired_at === undefined ? bot : undefined
  }

  /** Sends the first message of what waits. @returns whether the next one may follow at once */
  async #next(lane: Lane, parts: Group, bot: BotInfo): Promise<boolean> {
    const { closing, log } = this.#runtime
    const { store } = this.#ports
    const { session, user } = lane
    const [first] = parts
    let item: WireItem
    if (first.kind === 'text') item = textItem(parts.map(part => part.text).join('\n\n'))
    else {
      // Looked at first: an upload that may not be sent for minutes is wasted.
      const { context, rules } = await this.attempts.terms(session, user)
      const verdict = await store.outbox.verdict(session, user, 1, { context, rules })
      if (isShut(verdict, first)) return false
      try {
        item = await this.attempts.upload(lane, bot, () => this.#uploaded(first, bot, user))
      } catch (error) {
        return this.#notUploaded(lane, first, context.received_at, error)
      }
    }
    const message = { parts: parts.map(({ id }) => id), item }
    const started = await this.attempts.begin(lane, bot, message, closing)
    if (started.go === 'stopped' || started.go === 'no') return false
    if (started.go === 'gone') return store.outbox.claim(lane.id)
    const result = await this.attempts.deliver(session, bot, started.letter, started.begun)
    if (result.status === 'accepted') log.info('sent from the outbox', { session, messages: parts.length })
    const handed = { session, bot, at: started.letter.row.timestamp }
    return this.#ended(lane, started.begun, result, handed)
  }

  /** Notes what became of a message that waited. @returns whether the next one may follow */
  async #ended(lane: Lane, begun: Begun, result: DeliveryResult, handed: Handed): Promise<boolean> {
    const { clock, log } = this.#runtime
    const { store } = this.#ports
    const { status, error, giveUp } = result
    const waits = status === 'refused' && !giveUp
    if (giveUp) log.warn('queued message refused for good', { session: lane.session, code: error?.code })
    const settled = await this.attempts.settle(
      begun,
      {
        ...settlementOf(result),
        ...(waits && { status: 'queued' }),
        ...(giveUp && error && { rest: endReasonOf(notTried(error)) }),
        ...(result.pause && { hold: result.pause }),
      },
      handed,
    )
    for (const entry of settled ?? []) {
      const watcher = this.#watchers.get(entry.id)
      if (watcher) watcher.last = entry
    }
    if (status === 'unknown') await store.outbox.later(lane.id, clock.now() + calmMs, 0)
    else if (waits && !result.spent && !result.pause) await this.#later(lane)
    else if (lane.failures > 0) await store.outbox.later(lane.id, 0, 0)
    return status === 'accepted' || status === 'suspect' || giveUp === true
  }

  async #uploaded(part: EntryPart, bot: BotInfo, user: string): Promise<UploadedMedia> {
    const { closing } = this.#runtime
    const { account } = this.#ports.upstream
    const { media } = this.#ports
    const file = await media.kept.open(part.file!, part.kind as MediaKind)
    const progress = this.#watchers.get(part.entry)?.progress
    try {
      return await media.upload(account(bot), user, file, closing, progress)
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

/** Parts that go as one message. */
type Group = [EntryPart, ...EntryPart[]]

const isPaused = ({ not_before }: Lane, now: number) => not_before > now && not_before - now <= longestPauseMs

/** Whether a session has no slot to give that is near enough. */
const isFull = (last = 0, now: number, { pace, patienceMs }: SendRules): boolean =>
  pace !== 'off' && last + 1000 / pace.perSecond - now > patienceMs

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
