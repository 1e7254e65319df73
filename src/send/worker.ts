/**
 * Sends entries of the outbox, message by message. An entry of mode `fail` is sent to its end by the
 * process that its caller waits in. An entry of mode `queue` is sent by the process that holds its lane.
 * Only one message at a time goes to one user.
 */
import { Buffer } from 'node:buffer'
import { createTextItem } from '../ilink/encode.ts'
import { isRefusal } from '../ilink/http.ts'
import type { WireItem } from '../ilink/wire.ts'
import { holdAfterRefusal, holdUntilWritten, type Verdict } from '../model/admission.ts'
import { isSvcError, SvcError } from '../model/error.ts'
import type { MediaKind } from '../model/message.ts'
import { formatPrincipal, type Principal } from '../model/principal.ts'
import { type BotInfo, notConnectedError } from '../model/session.ts'
import { backoffMs } from '../platform/clock.ts'
import { RunningPart, type Runtime } from '../platform/runtime.ts'
import type { ClaimedLane, EditedText, EntryPart, OutboxLane, StoredEntry } from '../storage/outbox.ts'
import { type DeliveryResult, isRefusedAlone } from './delivery.ts'
import { botOf, DeliveryAttempts, type SendPorts, type StartedMessage } from './delivery-attempt.ts'
import { isPaused } from './foresight.ts'
import { type QueuedSend, SendLines } from './lines.ts'
import type { SendCaller } from './media-files.ts'
import type { SendPiece } from './plan.ts'
import {
  countsOf,
  endReasonOf,
  notAdmittedError,
  notTriedError,
  stoppedError,
  takenOverError,
  uploadError,
} from './problems.ts'
import { textLimitBytes } from './split.ts'

/** An entry of mode `fail`, with its content. */
interface ImmediateEntry {
  entry: StoredEntry
  bot: BotInfo
  /** Read together with `bot`. */
  token: string | undefined
  pieces: readonly SendPiece[]
  line: QueuedSend
  /** Its first message, if the commit that enqueued it also began it. */
  started: StartedMessage | undefined
}

/** Pause of a lane after a send without a clear answer, because WeChat may have problems. */
const unclearPauseMs = 5 * 60_000
/** Maximum sends of one lane per run; the next check continues. */
const maxPerFlush = 50

export class Worker extends RunningPart<SendPorts> {
  readonly lines: SendLines
  readonly attempts: DeliveryAttempts
  /**
   * Sessions without a near slot, and until when (`monotonic`). Only the outbox checks give their slots
   * out.
   */
  readonly crowdedUntil = new Map<string, number>()
  readonly #flushes = new Map<number, Promise<void>>()
  /** The callback for the progress of the uploads of a queued entry, by entry. */
  readonly #progress = new Map<number, SendCaller['progress']>()

  constructor(ports: SendPorts, runtime: Runtime) {
    super(ports, runtime)

    this.lines = new SendLines(runtime.clock)
    this.attempts = new DeliveryAttempts(ports, runtime)
  }

  isCrowded(session: string): boolean {
    return (this.crowdedUntil.get(session) ?? 0) > this.runtime.clock.monotonic()
  }

  /**
   * Sends what may go now in a lane. Resolves when the rest must wait, or another process holds the lane.
   */
  flush({ id, session }: Pick<OutboxLane, 'id' | 'session'>): Promise<void> {
    const running = this.#flushes.get(id)
    if (running) return running
    const flush = this.#flush(id, session).finally(() => this.#flushes.delete(id))
    this.#flushes.set(id, flush)
    return flush
  }

  get runningFlushes(): ReadonlyMap<number, Promise<void>> {
    return this.#flushes
  }

  /** Sends what may go now in a lane, and reports the upload progress of one of its entries. */
  async flushWithProgress(
    { id, session }: StoredEntry,
    lane: number,
    progress: SendCaller['progress'],
  ): Promise<void> {
    this.#progress.set(id, progress)
    try {
      // A running flush may already have read the lane for the last time.
      await this.#flushes.get(lane)
      await this.flush({ id: lane, session })
    } finally {
      this.#progress.delete(id)
    }
  }

  /**
   * Sends an entry of mode `fail` to its end. Uploads all its files first, so that a failed upload costs
   * no answer.
   *
   * @returns the ended entry
   * @throws SvcError the reason if nothing of it was sent
   */
  async sendNow(
    { entry, bot, token, pieces, line, started }: ImmediateEntry,
    caller: Pick<SendCaller, 'signal' | 'progress'>,
  ): Promise<StoredEntry> {
    const { attempts } = this
    const { rules, upstream } = this.ports
    const { signal } = caller
    let last = entry
    try {
      if (!line.isFirst) await this.lines.waitInLine(line.ahead, rules.patienceMs, signal)
      const items: WireItem[] = []
      for (const piece of pieces)
        items.push(
          piece.kind === 'text'
            ? createTextItem(piece.text)
            : await attempts.upload(entry, bot, piece.file, caller),
        )
      for (const [nth, { id }] of entry.parts.entries()) {
        const message = { to: entry, bot, parts: [id], item: items[nth]!, mode: entry.mode, signal }
        const sent = await attempts.send({ ...message, token, started: nth === 0 ? started : undefined })
        if (sent.go === 'stopped') throw stoppedError(signal)
        if (sent.go === 'gone') throw takenOverError()
        if (sent.go === 'no') throw notAdmittedError(sent, countsOf(pieces), upstream.sandboxed)
        last = sent.entries?.find(one => one.id === entry.id) ?? withResult(last, nth, sent.result)
        if (sent.result.error) break
      }
      return last
    } catch (error) {
      return this.#endUnsent(entry, signal.aborted ? stoppedError(signal) : uploadError(error, entry.user))
    }
  }

  /**
   * Ends the unsent parts of an entry.
   *
   * @returns the entry
   * @throws `error` if no part was sent, or if it is not an SvcError
   */
  async #endUnsent(entry: StoredEntry, error: unknown): Promise<StoredEntry> {
    const svcError = error instanceof SvcError ? error : new SvcError('internal', 'an unexpected error')
    const ended = await this.ports.store.outbox.end(entry.id, endReasonOf(svcError))
    const isAll = ended?.entry.parts.every(({ status }) => status === 'refused') ?? true
    if (isAll || !(error instanceof SvcError)) throw error
    return ended!.entry
  }

  /**
   * Approves a send that waits for a person's yes. If its `when_closed` is `fail` and it may not go now, it
   * keeps waiting for approval.
   *
   * @returns the lane that sends it; undefined if it no longer waits for approval
   * @throws SvcError `not_connected`, `window_closed`, `quota_exhausted`, `text_too_long`, `rate_limited`
   */
  async approve(
    { asked, id, parts, session }: StoredEntry,
    by: Principal,
    edited?: EditedText,
  ): Promise<number | undefined> {
    const { rules, state, store, upstream } = this.ports
    if (asked === 'fail' && !(await botOf(state, session))) throw notConnectedError(session)
    const approval = await store.outbox.approve(id, rules, formatPrincipal(by), edited)
    if (approval?.state === 'closed')
      throw notAdmittedError(approval.verdict, countsOf(parts), upstream.sandboxed)
    return approval?.lane
  }

  async #flush(id: number, session: string): Promise<void> {
    const { closing, clock } = this.runtime
    const { outbox } = this.ports.store
    let isOurs = false
    try {
      for (let sent = 0; sent < maxPerFlush && !closing.aborted; sent++) {
        if (sent > 0 && this.isCrowded(session)) break
        const bot = await botOf(this.ports.state, session)
        const lane = bot && (await outbox.claim(id))
        if (!lane) break
        isOurs = true
        const parts = joinedPartsOf(lane)
        if (!parts || isPaused(lane, clock.now())) break
        using line = this.lines.join(lane.session, lane.user)
        await line.ahead
        if (!(await this.#sendNext(lane, parts, bot))) break
      }
    } finally {
      // Also after an error: what waits would wait for the end of the lease.
      if (isOurs) await outbox.release(id)
    }
  }

  /** Sends the next message of a lane. @returns whether the one after it may follow immediately */
  async #sendNext(lane: OutboxLane, parts: PartGroup, bot: BotInfo): Promise<boolean> {
    const { closing, log } = this.runtime
    const { rules, store } = this.ports
    const { session, user } = lane
    const [first] = parts
    let item: WireItem
    if (first.kind === 'text') item = createTextItem(parts.map(part => part.text).join('\n\n'))
    else {
      // Do not upload a file whose message cannot be sent for minutes.
      if (isKeptBack(await store.outbox.checkAdmission(session, user, 1, rules), first)) return false
      try {
        item = await this.#uploadPart(lane, bot, first)
      } catch (error) {
        return this.#handleUploadError(lane, first, error)
      }
    }
    const ids = parts.map(({ id }) => id)
    const message = { to: lane, bot, parts: ids, item, mode: 'queue', signal: closing } as const
    const sent = await this.attempts.send(message)
    if (sent.go === 'gone') return (await store.outbox.claim(lane.id)) !== undefined
    if (sent.go !== 'sent') return false
    const { status, error, giveUp, spent, pause } = sent.result
    if (status === 'accepted') log.info('sent from the outbox', { session, messages: parts.length })
    if (giveUp) log.warn('queued message refused for good', { session, code: error?.code })
    if (status === 'unknown') await this.#pause(lane, unclearPauseMs, 0)
    else if (status === 'refused' && !giveUp && !spent && !pause && !closing.aborted) await this.#pause(lane)
    else if (lane.failures > 0) await this.#pause(lane, 0, 0)
    return status === 'accepted' || status === 'suspect' || giveUp === true
  }

  async #uploadPart(lane: OutboxLane, bot: BotInfo, part: EntryPart): Promise<WireItem> {
    const { closing: signal } = this.runtime
    const file = await this.ports.media.kept.open(part.file!, part.kind as MediaKind)
    const progress = this.#progress.get(part.entry)
    try {
      return await this.attempts.upload(lane, bot, file, { signal, progress })
    } finally {
      await file.release()
    }
  }

  async #handleUploadError(lane: OutboxLane, part: EntryPart, error: unknown): Promise<boolean> {
    const { clock, closing, log } = this.runtime
    const { media, store } = this.ports
    if (closing.aborted) return false
    log.warn('queued message not sent', { session: lane.session, error })
    if (isSvcError(error, 'session_expired')) return false
    const facts = { now: clock.now(), receivedAt: lane.counter.received_at, hold: lane.hold }
    if (isRefusedAlone(error)) {
      await store.outbox.holdBack(lane.id, { hold: holdUntilWritten(facts) })
      return false
    }
    const refusal = isRefusal(error) ? holdAfterRefusal(facts, part.tries) : undefined
    if (isSvcError(error) && (error.code === 'invalid_arguments' || refusal?.giveUp)) {
      // The file is gone, or WeChat does not take it. Waiting does not help.
      const ended = await store.outbox.end(part.entry, endReasonOf(uploadError(error, lane.user)))
      await media.kept.discard(ended?.files ?? [])
      return true
    }
    if (refusal) await store.outbox.holdBack(lane.id, { refused: [part.id], hold: refusal.hold })
    else await this.#pause(lane)
    return false
  }

  /**
   * Pauses a lane after an error that is not about the message. The pause grows with each error in a row.
   */
  #pause(
    { id, failures: before }: OutboxLane,
    ms = backoffMs(before, 2000, 60_000),
    failures = before + 1,
  ): Promise<void> {
    const not_before = ms === 0 ? 0 : this.runtime.clock.now() + ms
    return this.ports.store.outbox.holdBack(id, { pause: { not_before, failures } })
  }
}

/** Returns the entry with the result of its `nth` part, for when the store could not record it. */
function withResult(
  entry: StoredEntry,
  nth: number,
  { status, message_id, error }: DeliveryResult,
): StoredEntry {
  const parts = entry.parts.map((part, at): EntryPart => {
    if (at === nth) return { ...part, status, message_id, error: error && endReasonOf(error) }
    return at > nth && error ? { ...part, status: 'refused', error: endReasonOf(notTriedError(error)) } : part
  })
  return { ...entry, parts }
}

/** Parts that go together as one message. */
type PartGroup = [EntryPart, ...EntryPart[]]

/**
 * Returns whether the verdict keeps back the first message. A message that already has its slot is allowed
 * by the pace: the verdict then is about the message after it.
 */
const isKeptBack = (verdict: Verdict, { slot }: EntryPart): boolean =>
  verdict.go === 'no' && (verdict.why !== 'pace' || slot === undefined)

/** A longer text is a message of its own: what was cut for its readers stays cut, and is counted as it was cut. */
const longestJoined = 2000
const isJoinable = ({ kind, text }: EntryPart) => kind === 'text' && text.length <= longestJoined

/** Returns the first part. If it is a short text, also returns the next ones that fit into the same message. */
function joinedPartsOf({ parts: [first, ...others], hold }: ClaimedLane): PartGroup | undefined {
  if (!first) return undefined
  const group: PartGroup = [first]
  if (!isJoinable(first) || hold) return group
  let bytes = Buffer.byteLength(first.text)
  for (const part of others) {
    bytes += 2 + Buffer.byteLength(part.text)
    if (!isJoinable(part) || bytes > textLimitBytes) break
    group.push(part)
  }
  return group
}
