/**
 * Sends events to one endpoint: waits until a delivery may start, creates the body, posts it, and sends the
 * reply that the answer may contain.
 */
import { Buffer } from 'node:buffer'
import { isSvcError } from '../model/error.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import { placeOf } from '../storage/events.ts'
import type { Webhook, WebhookTry } from '../storage/webhooks.ts'
import { deliver, posterTo, replyOf, type Tried } from './attempt.ts'
import { bodyOf, type Links } from './body.ts'
import type { LaneEvent } from './lanes.ts'
import type { Turns } from './pacer.ts'

export interface CourierPorts {
  /**
   * Returns the link maker for deliveries to an endpoint; undefined if svc does not know its public
   * address.
   */
  links(webhook: Webhook): Links | undefined
  /** Sends an endpoint's reply to the user who wrote the message. @throws SvcError like a send */
  reply(webhook: Webhook, event: LaneEvent, text: string): Promise<void>
}

export interface CourierRuntime {
  clock: Clock
  log: Log
  turns: Turns
}

/** Result of a delivery. */
export interface Outcome extends Pick<Tried, 'status' | 'retryAfterMs'> {
  /** True if it was answered with 2xx. */
  done: boolean
  /** The entry for the delivery log. `detail` is why it failed, or why no reply was sent. */
  record: Omit<WebhookTry, 'outcome'>
  /** Why the delivery failed. */
  failure: Tried['code'] | undefined
  /** Start time, in ms of the monotonic clock. */
  beganAt: number
}

/** Maximum size of a reply's text, in bytes. */
const replyBytes = 16 * 1024

export class Courier {
  readonly #ports: CourierPorts
  readonly #clock: Clock
  readonly #log: Log
  readonly #turns: Turns
  readonly #poster: ReturnType<typeof posterTo>

  constructor(webhook: Webhook, ports: CourierPorts, { clock, log, turns }: CourierRuntime) {
    this.#ports = ports
    this.#clock = clock
    this.#log = log
    this.#turns = turns
    this.#poster = posterTo(webhook)
  }

  /** Closes the connections. */
  close(): void {
    this.#poster.close()
  }

  /**
   * Delivers an event as soon as a delivery may start.
   *
   * @throws the error of reading the event; the signal's reason
   */
  async deliver(webhook: Webhook, event: LaneEvent, signal: AbortSignal): Promise<Outcome> {
    const { id, type, at } = event
    const beganAt = this.#clock.monotonic()
    const started = this.#clock.now()
    await this.#turns.next()
    const body = bodyOf({ id, type, at, data: await event.data() }, this.#ports.links(webhook))
    const tried = await deliver(this.#poster, webhook, { id, body }, signal)
    const { status, retryAfterMs, detail: problem, code: failure, text } = tried
    const took_ms = Math.round(this.#clock.monotonic() - beganAt)
    const done = problem === undefined
    const detail = done ? await this.#reply(webhook, event, text) : problem
    const code = done && detail !== undefined ? ('reply_not_sent' as const) : failure
    const record = { at: started, event: id, type, took_ms, status, detail, code }
    return { done, record, failure, beganAt, status, retryAfterMs }
  }

  /** Sends the reply in an answer, if there is one. @returns why it was not sent; undefined otherwise */
  async #reply(webhook: Webhook, event: LaneEvent, answer = ''): Promise<string | undefined> {
    const { replayed } = webhook
    const isReplay = replayed !== undefined && placeOf(event.id) <= placeOf(replayed)
    const text = isReplay || event.type !== 'message.received' ? undefined : replyOf(answer)
    if (text === undefined) return undefined
    if (Buffer.byteLength(text) > replyBytes) return 'the reply was not sent: its text is longer than 16 KiB'
    return this.#ports.reply(webhook, event, text).then(
      () => undefined,
      error => {
        if (!isSvcError(error)) this.#log.error('webhook reply failed', { error })
        return `the reply was not sent: ${isSvcError(error) ? error.message : 'internal error'}`
      },
    )
  }
}
