/**
 * The outbox: sends that wait until their user writes, and then go out in order, within quota and pace.
 *
 * Whoever polls sends what waits, as soon as a batch is committed; a lane (one user of one session) is worked on by one
 * process at a time. Texts that follow each other in a lane go out as one message, joined by a blank line, up to what a
 * text may have: each message costs one of about ten answers. What certainly did not go out keeps its place; what got
 * no clear answer ends as unknown.
 */
import { Buffer } from 'node:buffer'
import type { Account } from '../ilink/api.ts'
import { mediaItem, outgoingMessage, sentAs, textItem, waitingItem } from '../ilink/encode.ts'
import { isILinkError } from '../ilink/http.ts'
import { isSvcError, SvcError } from '../model/error.ts'
import type { MediaKind, OutboxEntry, OutboxPart } from '../model/message.ts'
import { type BotInfo, quotaPerInbound, sessionName, type UserContext, windowMs } from '../model/session.ts'
import { backoffMs, type Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Contexts } from '../state/contexts.ts'
import type { Sessions } from '../state/sessions.ts'
import type { KeptFile, Lane, NewPart, Store, OutboxPart as Waiting } from '../store/store.ts'
import type { Cancelled } from './face.ts'
import { described, type HandOver, type Outcome } from './hand-over.ts'
import type { HomeFile } from './home-file.ts'
import type { Media } from './media.ts'
import type { Turnstile } from './pace.ts'
import { textLimitBytes } from './split.ts'

export interface OutboxPorts {
  sessions: Sessions
  contexts: Contexts
  store: Store
  media: Media
  pace: Turnstile
  handOver: HandOver
  account(bot: BotInfo): Account
  /** Whether this process polls: then it is the one that sends what waits. */
  polls(): boolean
  clock: Clock
  log: Log
  /** Aborts when the service stops. */
  closing: AbortSignal
}

/** One message of a send that is to wait. `row`: of one that upstream refused. */
export type Piece = ({ kind: 'text'; text: string } | { kind: MediaKind; file: HomeFile }) & { row?: number }

/** What has waited this long is given up. */
export const queueLifeMs = 7 * 24 * 60 * 60_000
/** The lanes are looked at this often, besides whenever a user has written. */
const lookEveryMs = 1000
/** Leases are renewed this often, however long an upload takes. */
const renewEveryMs = 20_000
/** After a send without a clear answer, the ones behind it wait this long: upstream may be in trouble. */
const calmMs = 5 * 60_000
/** A message that upstream has refused in so many windows is given up, so that the ones behind it get their turn. */
const mostTries = 3
/** Sends of one lane in one go; the next look goes on. */
const mostInOneGo = 50
/** A hold longer than this was set by a clock that has been set back since. */
const longestHoldMs = 10 * 60_000
/** A send that is on its way for so long belongs to a process that died, where that cannot be asked. */
const abandonedAfterMs = 10 * 60_000

export class Outbox {
  readonly #ports: OutboxPorts
  /** Lanes that this process works on. */
  readonly #working = new Map<number, Promise<void>>()
  #nudge = new AbortController()
  #running: Promise<void> | undefined
  #renewedAt = 0
  /** Calls of `wake` so far. */
  #wakes = 0
  #troubled = false

  constructor(ports: OutboxPorts) {
    this.#ports = ports
  }

  /** What waits until its user writes, oldest first. @throws SvcError `invalid_arguments` for a bad session name */
  async list(filter: { user_id?: string; session?: string } = {}): Promise<OutboxEntry[]> {
    const { user_id, session } = filter
    return this.#ports.store
      .outbox(outbox =>
        outbox.list({
          ...(user_id !== undefined && { user_id }),
          ...(session !== undefined && { session: sessionName(session) }),
        }),
      )
      .map(({ id, parts, ...entry }) => ({ outbox_id: String(id), ...entry, parts: parts.map(shown) }))
  }

  /**
   * Ends what waits of a queued send.
   *
   * @throws SvcError `not_found` when nothing of that id waits, since it was sent, cancelled, or has expired
   */
  async cancel(outboxId: string): Promise<Cancelled> {
    const { log, media, store } = this.#ports
    const ended = /^\d{1,15}$/.test(outboxId)
      ? store.outbox(outbox => outbox.cancel(Number(outboxId), 'cancelled'))
      : undefined
    if (!ended) {
      throw new SvcError('not_found', 'nothing of this id waits in the outbox', {
        hint: 'GET /outbox shows what waits; history tells what became of the rest.',
      })
    }
    await media.discard(ended.files)
    log.info('queued send cancelled', { outbox: outboxId, messages: ended.cancelled })
    return { success: ended.cancelled > 0, outbox_id: outboxId, cancelled: ended.cancelled }
  }

  /** Whether anything waits for that user: then what is to be queued must not overtake it. */
  waits(session: string, user: string): boolean {
    return this.#ports.store.outbox(outbox => outbox.waits(session, user))
  }

  /**
   * Keeps messages until their user writes; media are copied to a place that outlives this process.
   *
   * @returns the outbox id
   * @throws SvcError `store_unavailable`, `quota_exhausted` when too much waits for that user; nothing is kept then
   */
  async add(
    send: { session: string; bot_id: string; to: string; pieces: readonly Piece[]; key?: string },
    signal: AbortSignal,
  ): Promise<string> {
    const { clock, log, media, store } = this.#ports
    const { session, bot_id, to } = send
    const files: KeptFile[] = []
    const parts: NewPart[] = []
    try {
      for (const [nth, piece] of send.pieces.entries()) {
        const file = 'file' in piece ? await media.keep(piece.file, signal) : undefined
        if (file) files.push(file)
        const item = 'file' in piece ? waitingItem(piece.file) : textItem(piece.text)
        const clientId = `queued-${clock.now()}-${crypto.randomUUID().slice(0, 8)}-${nth}`
        parts.push({
          kind: piece.kind,
          ...(file && { file }),
          ...(piece.row !== undefined && { row: piece.row }),
          message: {
            client_id: clientId,
            to_user: to,
            timestamp: clock.now(),
            raw: JSON.stringify(outgoingMessage({ to, item, clientId })),
            ...described(item),
          },
        })
      }
      const entry = { session, bot_id, user: to, lifeMs: queueLifeMs, parts }
      const { id } = store.enqueue(entry, send.key)
      log.info('send queued until the user writes', { session, outbox: id, messages: parts.length })
      // The user may have written while the media came home.
      this.#nudge.abort()
      return String(id)
    } catch (error) {
      await media.discard(files)
      throw error
    }
  }

  /** Ends what has waited too long, and what a process that died was sending. */
  async tidy(): Promise<void> {
    const { clock, log, media, store } = this.#ports
    const lost = store.settleAbandoned(clock.now() - abandonedAfterMs)
    if (lost > 0) log.warn('sends of a process that died are unknown', { messages: lost })
    const over = store.outbox(outbox => outbox.expire('not sent within 7 days: the user did not write'))
    for (const { entry, files, messages } of over) {
      log.warn('queued send given up: the user did not write in time', { outbox: entry, messages })
      await media.discard(files)
    }
  }

  /** Looks after the lanes until the service stops. */
  start(): void {
    this.#running ??= this.#run()
  }

  /** A batch was committed here: whoever wrote may be waited for. */
  wake(): void {
    this.#wakes += 1
    if (!this.#ports.closing.aborted) void this.#guarded(() => this.#look())
  }

  /** Resolves when nothing is being sent out of here any more; `closing` has to be aborted. */
  async closed(): Promise<void> {
    this.#nudge.abort()
    await this.#running
    await Promise.all(this.#working.values())
  }

  async #run(): Promise<void> {
    const { clock, closing, polls } = this.#ports
    const stop = () => this.#nudge.abort()
    closing.addEventListener('abort', stop, { once: true })
    while (!closing.aborted) {
      this.#nudge = new AbortController()
      await this.#guarded(async () => {
        await this.tidy()
        if (polls()) this.#look()
      })
      if (!closing.aborted) await clock.sleep(lookEveryMs, this.#nudge.signal)
    }
    closing.removeEventListener('abort', stop)
  }

  /** Begins to work on every lane whose user may be written to. */
  #look(): void {
    const { clock, store } = this.#ports
    const lanes = store.outbox(outbox => outbox.lanes())
    if (clock.monotonic() - this.#renewedAt > renewEveryMs) {
      this.#renewedAt = clock.monotonic()
      for (const lane of this.#working.keys()) store.outbox(outbox => outbox.claim(lane))
    }
    for (const lane of lanes) {
      if (this.#working.has(lane.id) || !this.#open(lane)) continue
      const wakes = this.#wakes
      const work = this.#guarded(() => this.#flush(lane)).finally(() => {
        this.#working.delete(lane.id)
        // The user may have written while the lane was about to be left.
        if (wakes !== this.#wakes && !this.#ports.closing.aborted) void this.#guarded(() => this.#look())
      })
      this.#working.set(lane.id, work)
    }
  }

  /** The user's context when they may be written to now, by our own counters. */
  #open(lane: Lane): UserContext | undefined {
    const { clock, contexts } = this.#ports
    const now = clock.now()
    const context = contexts.known(lane.session).get(lane.user)
    const at = context?.received_at
    if (context === undefined || at === undefined || now - at >= windowMs) return undefined
    if (context.used >= quotaPerInbound) return undefined
    if (lane.held_at !== undefined && at <= lane.held_at) return undefined
    const leftMs = lane.not_before - now
    return leftMs > 0 && leftMs <= longestHoldMs ? undefined : context
  }

  async #flush(lane: Lane): Promise<void> {
    const { closing, store } = this.#ports
    if (!store.outbox(outbox => outbox.claim(lane.id))) return
    try {
      for (let sent = 0; sent < mostInOneGo && !closing.aborted; sent++) {
        if (!this.#open(lane) || !(await this.#sendNext(lane))) return
      }
    } finally {
      store.outbox(outbox => outbox.release(lane.id))
    }
  }

  /** Sends the first message of a lane. @returns whether the next one may follow at once */
  async #sendNext(lane: Lane): Promise<boolean> {
    const { account, clock, closing, contexts, handOver, log, media, pace, sessions, store } = this.#ports
    const { session, user } = lane
    const parts = joinable(store.outbox(outbox => outbox.next(lane.id)))
    const [first] = parts
    const bot = (await sessions.get(session))?.bot
    if (!first || !bot || bot.expired_at !== undefined) return false
    const now = clock.now()
    const reserved = await contexts.reserve(session, user, 1, { limit: quotaPerInbound, windowMs, now })
    if (!reserved.ok) return false
    let outcome: Outcome | undefined
    let place: Awaited<ReturnType<Turnstile['line']>> | undefined
    let goesOn = false
    try {
      // Looked at first: an upload that may not be sent for minutes is wasted.
      pace.look(session, user, 1)
      const text = parts.map(part => part.text).join('\n\n')
      const item =
        first.kind === 'text' ? textItem(text) : mediaItem(await this.#upload(first, account(bot), user))
      place = await pace.line(session, user, 1, closing)
      outcome = await handOver.send({
        ...{ session, bot, to: user, item, context: reserved.context, place, signal: closing },
        begin: message =>
          store.outbox(outbox => outbox.begin(lane.id, parts, bot.bot_id, message))
            ? first.message
            : undefined,
        end: ended => {
          goesOn = this.#ended(lane, parts, bot, reserved.context, ended)
        },
      })
      if (outcome.row === undefined) goesOn = this.#notSent(lane, outcome.error)
      else if (goesOn) await contexts.markSent(session, user, clock.now())
    } catch (error) {
      goesOn = await this.#notUploaded(lane, first, bot, error, reserved.context)
    } finally {
      place?.leave()
      if (!outcome?.spent) {
        await contexts
          .giveBack(session, user, 1, reserved.context.received_at)
          .catch(error => log.error('quota not given back', { session, error }))
      }
    }
    if (parts.every(part => part.done)) await media.discard(parts.flatMap(part => part.file ?? []))
    return goesOn
  }

  async #upload(part: Waiting, account: Account, user: string) {
    const { closing, media } = this.#ports
    const file = await media.kept(part.file!, part.kind as MediaKind)
    try {
      return await media.upload(account, user, file, closing)
    } finally {
      await file.release()
    }
  }

  /** Notes what became of a message that was on its way. @returns whether the next one may follow */
  #ended(lane: Lane, parts: Group, bot: BotInfo, context: UserContext, outcome: Outcome): boolean {
    const { clock, log, store } = this.#ports
    const { error, message_id: messageId, status } = outcome
    const settle = () => {
      for (const part of parts) part.done = true
      const reason = error?.message
      store.outbox(outbox =>
        outbox.settle(parts, {
          status,
          ...(messageId !== undefined && { messageId }),
          ...(reason !== undefined && { reason }),
        }),
      )
    }
    const hold = (until: { heldAt?: number; notBefore?: number; failures?: number }) =>
      store.outbox(outbox => outbox.hold(lane.id, until))
    if (status === 'accepted' || status === 'suspect') {
      settle()
      if (lane.failures > 0 || lane.not_before > 0 || lane.held_at !== undefined) hold({})
      log.info('queued messages sent', { session: lane.session, messages: parts.length })
      return true
    }
    if (status === 'unknown') {
      settle()
      hold({ notBefore: clock.now() + calmMs })
      return false
    }
    const code = error?.code
    const refused = outcome.spent
    if (code === 'invalid_arguments' || (refused && (parts[0]?.tries ?? 0) + 1 >= mostTries)) {
      settle()
      log.warn('queued message refused for good', { session: lane.session, code })
      // Refused like the others before: what comes behind waits for the user all the same.
      if (refused) hold({ heldAt: context.received_at ?? clock.now() })
      return !refused
    }
    store.outbox(outbox => outbox.requeue(parts, bot.bot_id, lane.user, refused))
    // A refusal is not repeated before the user writes (protocol notes 5.2).
    if (refused) hold({ heldAt: context.received_at ?? clock.now() })
    else this.#later(lane)
    return false
  }

  /** It never was on its way: not its turn yet, cancelled, taken over, or the service stops. */
  #notSent(lane: Lane, error: SvcError | undefined): boolean {
    // Cancelled: the next one may go, unless the lane is no longer ours.
    if (isSvcError(error, 'not_found')) return this.#ports.store.outbox(outbox => outbox.claim(lane.id))
    if (isSvcError(error, 'rate_limited')) this.#wait(lane, error)
    else if (!isSvcError(error, 'shutting_down')) this.#later(lane)
    return false
  }

  async #notUploaded(
    lane: Lane,
    part: Group[number],
    bot: BotInfo,
    error: unknown,
    context: UserContext,
  ): Promise<boolean> {
    const { clock, closing, log, sessions, store } = this.#ports
    if (closing.aborted) return false
    if (isSvcError(error, 'rate_limited')) {
      this.#wait(lane, error)
      return false
    }
    log.warn('queued message not sent', { session: lane.session, error })
    if (isILinkError(error, 'expired')) {
      await sessions.markExpired(lane.session, bot.token, clock.now()).catch(() => {})
      return false
    }
    const refused = isILinkError(error, 'refused')
    if (isSvcError(error, 'invalid_arguments') || (refused && part.tries + 1 >= mostTries)) {
      // Its file is gone, or upstream will not have it: nothing is gained by waiting.
      part.done = true
      const reason = refused ? 'WeChat refused the upload' : error instanceof Error ? error.message : ''
      store.outbox(outbox => outbox.settle([part], { status: 'refused', reason }))
      return true
    }
    if (refused) {
      store.outbox(outbox => outbox.requeue([part], bot.bot_id, lane.user, true))
      store.outbox(outbox => outbox.hold(lane.id, { heldAt: context.received_at ?? clock.now() }))
    } else this.#later(lane)
    return false
  }

  /** Our own pace says when. */
  #wait(lane: Lane, error: SvcError): void {
    const { clock, store } = this.#ports
    const notBefore = clock.now() + Math.min(error.retryAfter ?? 1, 300) * 1000
    store.outbox(outbox => outbox.hold(lane.id, { notBefore, failures: lane.failures }))
  }

  /** Trouble on the way that says nothing about the message. */
  #later(lane: Lane): void {
    const { clock, store } = this.#ports
    const notBefore = clock.now() + backoffMs(lane.failures, 2000, 60_000)
    store.outbox(outbox => outbox.hold(lane.id, { notBefore, failures: lane.failures + 1 }))
  }

  /** The store's troubles pass; they are told once and tried again at the next look. */
  async #guarded(work: () => Promise<void> | void): Promise<void> {
    try {
      await work()
      this.#troubled = false
    } catch (error) {
      if (this.#ports.closing.aborted) return
      if (!this.#troubled) this.#ports.log.error('outbox not looked after', { error })
      this.#troubled = true
    }
  }
}

/** Parts that go out as one message. `done`: nobody needs its file any more. */
type Group = (Waiting & { done?: true })[]

/** The first of these, and if it is a text the ones behind it that fit into the same message. */
function joinable(waiting: readonly Waiting[]): Group {
  const [first, ...others] = waiting
  if (!first) return []
  const group: Group = [first]
  if (first.kind !== 'text') return group
  let bytes = Buffer.byteLength(first.text)
  for (const part of others) {
    bytes += 2 + Buffer.byteLength(part.text)
    if (part.kind !== 'text' || bytes > textLimitBytes) break
    group.push(part)
  }
  return group
}

const shown = (part: Waiting): OutboxPart => ({
  id: part.message,
  kind: part.kind,
  sent_as: part.kind === 'text' ? 'text' : sentAs(part.kind),
  status: part.status,
  ...(part.kind === 'text' && { text: part.text }),
  ...(part.file && { file_name: part.file.file_name, size: part.file.size }),
})
