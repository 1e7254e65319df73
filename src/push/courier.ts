/**
 * Sends events to one endpoint: waits until a delivery may start, creates the body, posts it, and sends the
 * reply that the answer may contain.
 */
import { Buffer } from 'node:buffer'
import { isSvcError } from '../model/error.ts'
import { matchesArguments, toOccurrence } from '../model/occurrence.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import { RoomPart } from '../platform/runtime.ts'
import { cursorNumberOf } from '../storage/events.ts'
import type { Webhook, WebhookTry } from '../storage/webhooks.ts'
import { createPoster, postEvent, replyOf, type WebhookAttemptResult } from './attempt.ts'
import { bodyOf, type DeliveryLinks, type WrittenEvent } from './body.ts'
import { envelopeIdOf } from './callbacks.ts'
import type { LaneEvent } from './lanes.ts'
import type { DeliveryPacer } from './pacer.ts'

export interface WebhookSenderPorts {
  /**
   * Returns the link maker for deliveries to an endpoint; undefined if svc does not know its public
   * address.
   */
  createLinks(webhook: Webhook): DeliveryLinks | undefined
  /** Sends an endpoint's reply to the user who wrote the message. @throws SvcError like a send */
  sendReply(webhook: Webhook, event: LaneEvent, text: string): Promise<void>
}

export interface SenderRuntime {
  clock: Clock
  log: Log
  pacer: DeliveryPacer
}

/** Result of a delivery. */
export interface DeliveryOutcome extends Pick<WebhookAttemptResult, 'status' | 'retryAfterMs' | 'notSent'> {
  /** True if it was answered with 2xx. */
  done: boolean
  /** The entry for the delivery log. `detail` is why it failed, or why no reply was sent. */
  record: Omit<WebhookTry, 'outcome'>
  /** Why the delivery failed. */
  failure: WebhookAttemptResult['code'] | undefined
  /** Start time, in ms of the monotonic clock. */
  beganAt: number
}

/** Maximum size of a reply's text, in bytes. */
const maxReplyBytes = 16 * 1024

export class WebhookSender extends RoomPart<WebhookSenderPorts & SenderRuntime & { webhook: Webhook }> {
  readonly #poster = createPoster(this.ports.webhook)

  /** Closes the connections. */
  close(): void {
    this.#poster.close()
  }

  /**
   * Delivers an event as soon as a delivery may start.
   *
   * @param safeCursor same as `WebhookLanes.getSafeCursor`
   * @returns undefined if the event is no longer in the log
   * @throws the error of reading the event; the signal's reason
   */
  async deliver(
    webhook: Webhook,
    event: LaneEvent,
    safeCursor: () => string,
    signal: AbortSignal,
  ): Promise<DeliveryOutcome | undefined> {
    const { id, type, at } = event
    const beganAt = this.ports.clock.monotonic()
    const started = this.ports.clock.now()
    await this.ports.pacer.waitForStart()
    const data = await event.data()
    const { subscription } = webhook
    const isGap = type === 'gap'
    if (!data || (subscription && !isGap && !matchesArguments(subscription, data))) return undefined
    const form = subscription && ((written: WrittenEvent) => toOccurrence(written, safeCursor()))
    const sent = isGap
      ? { id: envelopeIdOf(type), body: JSON.stringify({ type, cursor: id }) }
      : { id, body: bodyOf({ id, type, at, data }, this.ports.createLinks(webhook), form) }
    const tried = await postEvent(this.#poster, webhook, sent, signal)
    const { status, retryAfterMs, notSent, detail: problem, code: failure, text, answer } = tried
    const took_ms = Math.round(this.ports.clock.monotonic() - beganAt)
    const done = problem === undefined
    const detail = done ? await this.#trySendReply(webhook, event, text) : problem
    const code = done && detail !== undefined ? ('reply_not_sent' as const) : failure
    const record = { at: started, event: id, type, took_ms, status, detail, code, answer }
    return { done, record, failure, beganAt, status, retryAfterMs, notSent }
  }

  /** Sends the reply in an answer, if there is one. @returns why it was not sent; undefined otherwise */
  async #trySendReply(webhook: Webhook, event: LaneEvent, answer = ''): Promise<string | undefined> {
    const { replayed } = webhook
    const isReplay = replayed !== undefined && cursorNumberOf(event.id) <= cursorNumberOf(replayed)
    if (isReplay || event.type !== 'message.received') return undefined
    const { problem, text } = replyOf(answer)
    if (problem !== undefined) return `the reply was not sent: ${problem}`
    if (text === undefined) return undefined
    if (Buffer.byteLength(text) > maxReplyBytes)
      return 'the reply was not sent: its text is longer than 16 KiB'
    return this.ports.sendReply(webhook, event, text).then(
      () => undefined,
      error => {
        if (!isSvcError(error)) this.ports.log.error('webhook reply failed', { error })
        return `the reply was not sent: ${isSvcError(error) ? error.message : 'internal error'}`
      },
    )
  }
}
