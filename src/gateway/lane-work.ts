/**
 * Work on one lane of the outbox: its messages go out in order, within quota and pace, while its user may be written to.
 *
 * Texts that follow each other go out as one message, joined by a blank line, up to what a text may have: each message
 * costs one of about ten answers. What certainly did not go out keeps its place; what got no clear answer ends as
 * unknown. A refusal is not repeated before the user writes again (protocol notes 5.2).
 */
import { Buffer } from 'node:buffer'
import type { Account } from '../ilink/api.ts'
import { mediaItem, textItem } from '../ilink/encode.ts'
import { isILinkError } from '../ilink/http.ts'
import { isSvcError, type SvcError } from '../model/error.ts'
import type { MediaKind } from '../model/message.ts'
import { type BotInfo, quotaPerInbound, type UserContext, windowMs } from '../model/session.ts'
import { backoffMs, type Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Contexts } from '../state/contexts.ts'
import type { Sessions } from '../state/sessions.ts'
import type { Lane, OutboxPart, Store } from '../store/store.ts'
import type { HandOver, Outcome } from './hand-over.ts'
import { isRefusedAlone, type Judge } from './judge.ts'
import type { Media } from './media.ts'
import type { Place, Turnstile } from './pace.ts'
import { textLimitBytes } from './split.ts'

export interface LaneWorkPorts {
  sessions: Sessions
  contexts: Contexts
  store: Store
  media: Media
  pace: Turnstile
  handOver: HandOver
  judge: Judge
  account(bot: BotInfo): Account
  clock: Clock
  log: Log
  /** Aborts when the service stops. */
  closing: AbortSignal
}

/** After a send without a clear answer, the ones behind it wait this long: upstream may be in trouble. */
const calmMs = 5 * 60_000
/** A message that upstream has refused in so many windows is given up, so that the ones behind it get their turn. */
const mostTries = 3
/** Sends of one lane in one go; the next look goes on. */
const mostInOneGo = 50
/** A hold longer than this was set by a clock that has been set back since. */
const longestHoldMs = 10 * 60_000

export class LaneWork {
  readonly #ports: LaneWorkPorts

  constructor(ports: LaneWorkPorts) {
    this.#ports = ports
  }

  /** The user's context when they may be written to now, by our own counters. */
  open(lane: Lane): UserContext | undefined {
    const { clock, contexts } = this.#ports
    const now = clock.now()
    const context = contexts.known(lane.session).get(lane.user)
    const at = context?.received_at
    if (context === undefined || at === undefined || now - at >= windowMs) return undefined
    if (context.used >= quotaPerInbound) return undefined
    // A hold of the future was set by a clock that has been set back since.
    const held = lane.held_at !== undefined && lane.held_at <= now + longestHoldMs
    if (held && at <= lane.held_at!) return undefined
    const leftMs = lane.not_before - now
    return leftMs > 0 && leftMs <= longestHoldMs ? undefined : context
  }

  /** Sends what may go now; returns when the rest must wait, or the lane is another process's. */
  async flush(lane: Lane): Promise<void> {
    const { closing, sessions, store } = this.#ports
    const bot = (await sessions.get(lane.session))?.bot
    // Looked at first: a session that is logged out or expired costs no write at every look.
    if (!bot || bot.expired_at !== undefined) return
    if (!store.outbox(outbox => outbox.lanes.claim(lane.id))) return
    try {
      for (let sent = 0; sent < mostInOneGo && !closing.aborted; sent++) {
        if (!this.open(lane) || !(await this.#sendNext(lane))) return
      }
    } finally {
      store.outbox(outbox => outbox.lanes.release(lane.id))
    }
  }

  /** Sends the first message of a lane. @returns whether the next one may follow at once */
  async #sendNext(lane: Lane): Promise<boolean> {
    const { account, clock, closing, contexts, handOver, judge, log, media, pace, sessions, store } =
      this.#ports
    const { session, user } = lane
    const parts = joinable(store.outbox(outbox => outbox.next(lane.id)))
    const [first] = parts
    const bot = (await sessions.get(session))?.bot
    if (!first || !bot || bot.expired_at !== undefined) return false
    const now = clock.now()
    const reserved = await contexts.reserve(session, user, 1, { limit: quotaPerInbound, windowMs, now })
    if (!reserved.ok) return false
    let outcome: Outcome | undefined
    let place: Place | undefined
    let goesOn = false
    try {
      // Looked at first: an upload that may not be sent for minutes is wasted.
      pace.look(session, user, 1)
      const text = parts.map(part => part.text).join('\n\n')
      const item =
        first.kind === 'text'
          ? textItem(text)
          : mediaItem(await judge.settled(session, bot, () => this.#upload(first, account(bot), user)))
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
    if (parts.every(part => part.done)) await media.kept.discard(parts.flatMap(part => part.file ?? []))
    return goesOn
  }

  async #upload(part: OutboxPart, account: Account, user: string) {
    const { closing, media } = this.#ports
    const file = await media.kept.open(part.file!, part.kind as MediaKind)
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
      store.outbox(outbox => outbox.lanes.hold(lane.id, until))
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
    // A refusal is not repeated before the user writes (protocol notes 5.2); one that getupdates does not share often
    // heals then (5.4).
    if (refused || isRefusedAlone(error)) hold({ heldAt: context.received_at ?? clock.now() })
    else this.#later(lane)
    return false
  }

  /** It never was on its way: not its turn yet, cancelled, taken over, or the service stops. */
  #notSent(lane: Lane, error: SvcError | undefined): boolean {
    // Cancelled: the next one may go, unless the lane is no longer ours.
    if (isSvcError(error, 'not_found')) return this.#ports.store.outbox(outbox => outbox.lanes.claim(lane.id))
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
    const { clock, closing, log, store } = this.#ports
    if (closing.aborted) return false
    if (isSvcError(error, 'rate_limited')) {
      this.#wait(lane, error)
      return false
    }
    log.warn('queued message not sent', { session: lane.session, error })
    if (isSvcError(error, 'session_expired')) return false
    if (isSvcError(error) && isRefusedAlone(error)) {
      store.outbox(outbox => outbox.lanes.hold(lane.id, { heldAt: context.received_at ?? clock.now() }))
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
      store.outbox(outbox => outbox.lanes.hold(lane.id, { heldAt: context.received_at ?? clock.now() }))
    } else this.#later(lane)
    return false
  }

  /** Our own pace says when. */
  #wait(lane: Lane, error: SvcError): void {
    const { clock, store } = this.#ports
    const notBefore = clock.now() + Math.min(error.retryAfter ?? 1, 300) * 1000
    store.outbox(outbox => outbox.lanes.hold(lane.id, { notBefore, failures: lane.failures }))
  }

  /** Trouble on the way that says nothing about the message. */
  #later(lane: Lane): void {
    const { clock, store } = this.#ports
    const notBefore = clock.now() + backoffMs(lane.failures, 2000, 60_000)
    store.outbox(outbox => outbox.lanes.hold(lane.id, { notBefore, failures: lane.failures + 1 }))
  }
}

/** Parts that go out as one message. `done`: nobody needs its file any more. */
type Group = (OutboxPart & { done?: true })[]

/** The first of these, and if it is a text the ones behind it that fit into the same message. */
function joinable(waiting: readonly OutboxPart[]): Group {
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
