/**
 * Delivery to one endpoint: takes the next events of its lanes, delivers as many at a time as its state
 * allows, and stores the results.
 */
import type { WebhookEnding } from '../model/event.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Webhook, WebhookHealth, WebhookProgresses, WebhookTry } from '../storage/webhooks.ts'
import { Courier, type CourierPorts, type CourierRuntime, type Outcome } from './courier.ts'
import type { Feed } from './feed.ts'
import { type Lane, type LaneEvent, Lanes } from './lanes.ts'
import {
  afterSuccess,
  afterTrouble,
  eventTrouble,
  type Failure,
  freshPulse,
  isGivenUp,
  type Pulse,
  roomOf,
  slotsOf,
  verdictOf,
} from './schedule.ts'

/** Why an endpoint is switched off: a text for people, and a code for programs. */
interface Ending {
  reason: string
  code: WebhookEnding
}

export interface EndpointPorts extends CourierPorts {
  feed: Feed
  progress: WebhookProgresses
  /** Switches an endpoint off and adds the event `endpoint.disabled`. */
  disable(webhook: Webhook, why: Ending): Promise<void>
  /** Whether the system clock is reliable enough to decide that something took too long. */
  trustsClock(): Promise<boolean>
}

/** Maximum queued events in memory; the second number holds while the endpoint fails. */
const inHand = 256
const inHandFailing = 8
/** Interval at which results are stored. */
const keepEveryMs = 250
/** Longest wait for something to do. */
const longestWaitMs = 60_000

/** Delivery to one endpoint, from its start to its stop. */
export class EndpointRun {
  #webhook: Webhook
  readonly #ports: EndpointPorts
  readonly #clock: Clock
  readonly #log: Log
  readonly #stop = new AbortController()
  readonly #courier: Courier
  readonly #running: Promise<void>
  #lanes: Lanes
  #pulse: Pulse = freshPulse
  /** Unix ms of the last success of this run. */
  #succeededAt = 0
  /** Lanes with a running delivery or read, and when it started (monotonic ms). */
  readonly #underWay = new Map<Lane, number>()
  /** The error of an event that could not be read. */
  #fault: { error: unknown } | undefined
  /** True if the log was read to its end. */
  #atEnd = false
  #tries: WebhookTry[] = []
  #health: WebhookHealth
  #keepAt = 0
  #wake = Promise.withResolvers<void>()
  #over = false

  constructor(webhook: Webhook, ports: EndpointPorts, runtime: CourierRuntime) {
    this.#webhook = webhook
    this.#ports = ports
    this.#clock = runtime.clock
    this.#log = runtime.log
    this.#health = webhook
    this.#lanes = new Lanes(webhook.position, [])
    this.#courier = new Courier(webhook, ports, runtime)
    this.#running = this.#run()
  }

  get epoch(): number {
    return this.#webhook.epoch
  }

  /** Whether the run ended by itself: a new epoch began, or the endpoint was removed or switched off. */
  get over(): boolean {
    return this.#over
  }

  /** Whether deliveries are running. */
  get busy(): boolean {
    return this.#underWay.size > 0
  }

  /**
   * Takes over changes of the endpoint within the same epoch. A paused endpoint starts no more deliveries.
   */
  update(webhook: Webhook): void {
    const isResumed = this.#webhook.paused && !webhook.paused
    this.#webhook = webhook
    if (isResumed) this.#wake.resolve()
  }

  /** Call it when the log may have new events. */
  news(): void {
    this.#atEnd = false
    this.#wake.resolve()
  }

  /** Ends running deliveries and stores the other results. */
  async stop(): Promise<void> {
    this.#stop.abort(new Error('stopped'))
    this.#wake.resolve()
    await this.#running
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop
    const idle = async () => {
      while (this.#underWay.size > 0) await this.#woken(longestWaitMs)
    }
    while (!signal.aborted && !this.#over) {
      try {
        this.#lanes = new Lanes(this.#webhook.position, await this.#kept())
        this.#atEnd = false
        await this.#go(signal)
      } catch (error) {
        if (!signal.aborted)
          this.#log.warn('webhook delivery stopped for now', { webhook: this.#webhook.id, error })
        await this.#clock.sleep(5000, signal)
        await idle()
        // Results may be lost. Continue from the stored position: an event may repeat, but none is skipped.
        this.#lanes = new Lanes(this.#webhook.position, [])
        this.#tries = []
        this.#fault = undefined
      }
    }
    await idle()
    if (!this.#over) await this.#keep().catch(error => this.#log.warn('webhook progress not kept', { error }))
    this.#courier.close()
  }

  #kept() {
    return this.#ports.progress.lanes(this.#webhook.id)
  }

  /** Delivers until the run is stopped. @throws errors of the store */
  async #go(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && !this.#over) {
      if (this.#fault) throw this.#fault.error
      this.#start()
      if (this.#lanes.changed || this.#tries.length > 0) await this.#keepWhenDue()
      if (await this.#fill()) continue
      await this.#woken(this.#idleMs())
    }
  }

  /** Resolves when something happened, at the latest after `ms`. */
  async #woken(ms: number): Promise<void> {
    const timer = new AbortController()
    await Promise.race([this.#wake.promise, this.#clock.sleep(ms, timer.signal)])
    timer.abort()
    this.#wake = Promise.withResolvers()
  }

  /** Milliseconds until there is something to do, unless something happens earlier. */
  #idleMs(): number {
    const now = this.#clock.monotonic()
    const waits = [longestWaitMs]
    if (this.#lanes.changed || this.#tries.length > 0) waits.push(this.#keepAt - now)
    if (this.#pulse.failing) waits.push(this.#pulse.until - now)
    else waits.push(this.#lanes.dueInMs(this.#clock.now()))
    if (this.#lanes.waiting > 0) waits.push(this.#room().moreInMs)
    return Math.max(1, Math.min(...waits.filter(ms => ms > 0)))
  }

  /** Starts all deliveries that may start now. */
  #start(): void {
    if (this.#webhook.paused) return
    const { failing } = this.#pulse
    for (let { room } = this.#room(); room > 0; room--) {
      const lane = this.#lanes.next(this.#clock.now(), failing)
      if (!lane) return
      const event = this.#lanes.begin(lane)
      this.#underWay.set(lane, this.#clock.monotonic())
      const work = event ? this.#try(lane, event) : this.#read(lane)
      void work
        .catch(error => {
          this.#lanes.back(lane, event)
          this.#fault ??= { error }
        })
        .finally(() => {
          this.#underWay.delete(lane)
          this.#wake.resolve()
        })
    }
  }

  #room() {
    return roomOf(this.#pulse, [...this.#underWay.values()], this.#clock.monotonic())
  }

  /** Reads the next page of the log, if the queue has space. @returns whether there was something to read */
  async #fill(): Promise<boolean> {
    const { failing } = this.#pulse
    const limit = failing ? inHandFailing : inHand
    const mayGo = slotsOf(this.#pulse, this.#clock.monotonic()) > 0
    if (this.#webhook.paused || this.#atEnd || !mayGo || this.#lanes.waiting >= limit / 2) return false
    this.#atEnd = true
    const from = this.#lanes.readFrom
    const page = await this.#ports.feed.after(from, this.#webhook, limit / 2)
    if (page.gone)
      this.#log.warn('events were removed before a webhook received them', { webhook: this.#webhook.id })
    this.#lanes.take(page)
    if (page.cursor === from) return false
    this.#atEnd = false
    return true
  }

  async #read(lane: Lane): Promise<void> {
    this.#lanes.feed(lane, await this.#ports.feed.ofConversation(lane.position, this.#webhook, lane))
  }

  async #try(lane: Lane, event: LaneEvent): Promise<void> {
    const outcome = await this.#courier.deliver(this.#webhook, event, this.#stop.signal)
    if (outcome.done) this.#succeeded(lane, event, outcome)
    else await this.#failed(lane, event, outcome)
  }

  #succeeded(lane: Lane, event: LaneEvent, { record }: Outcome): void {
    if (this.#pulse.failing) this.#log.info('webhook works again', { webhook: this.#webhook.id })
    this.#pulse = afterSuccess(this.#pulse)
    this.#succeededAt = this.#clock.now()
    this.#health = { last_success_at: this.#succeededAt }
    this.#tries.push({ ...record, outcome: 'done' })
    this.#lanes.done(lane, event)
  }

  async #failed(lane: Lane, event: LaneEvent, outcome: Outcome): Promise<void> {
    const { beganAt, failure: failedBy, record, retryAfterMs, status = 0 } = outcome
    const now = this.#clock.now()
    const { slow, gone } = verdictOf(status)
    const before = this.#pulse
    const failure: Failure = {
      again: lane.trouble?.event === event.id,
      beganAt,
      now: this.#clock.monotonic(),
      slow,
      retryAfterMs,
    }
    this.#pulse = afterTrouble(before, failure, Math.random())
    const othersSucceeded = lane.trouble !== undefined && this.#succeededAt > lane.trouble.failed_at
    const trouble = eventTrouble(lane.trouble, { event: event.id, now, othersSucceeded }, Math.random())
    this.#tries.push({ ...record, outcome: trouble ? 'failed' : 'gave_up' })
    const { last_success_at, failing_since = now } = this.#health
    const retryInMs = this.#pulse.failing
      ? Math.max(0, this.#pulse.until - this.#clock.monotonic())
      : undefined
    this.#health = {
      last_success_at,
      failing_since,
      last_error: record.detail,
      last_error_code: failedBy,
      next_try_at: retryInMs === undefined ? trouble?.retry_at : now + retryInMs,
    }
    if (trouble) this.#lanes.failed(lane, trouble)
    else this.#lanes.done(lane, event)
    if (this.#pulse.failing && !before.failing) {
      this.#log.warn('webhook fails', { webhook: this.#webhook.id, detail: record.detail })
      this.#lanes.letGo()
      this.#atEnd = false
    }
    const trusted = await this.#ports.trustsClock()
    if (gone) await this.#disable({ code: 'gone', reason: 'it answered with 410' })
    else if (isGivenUp(this.#pulse, this.#health, now, trusted))
      await this.#disable({ code: 'given_up', reason: 'nothing succeeded for 5 days' })
  }

  async #disable(why: Ending): Promise<void> {
    if (this.#over) return
    await this.#keep()
    this.#over = true
    await this.#ports.disable(this.#webhook, why)
    this.#log.warn('webhook switched off', { webhook: this.#webhook.id, reason: why.reason })
  }

  async #keepWhenDue(): Promise<void> {
    if (this.#clock.monotonic() < this.#keepAt) return
    await this.#keep()
    this.#keepAt = this.#clock.monotonic() + keepEveryMs
  }

  /** Stores the progress. If a new epoch made it invalid, nothing is stored and this run ends. */
  async #keep(): Promise<void> {
    if (!this.#lanes.changed && this.#tries.length === 0) return
    const { epoch, id } = this.#webhook
    const tries = this.#tries.splice(0)
    const kept = await this.#ports.progress.keep(id, {
      epoch,
      tries,
      health: this.#health,
      ...this.#lanes.progress(),
    })
    if (!kept) this.#over = true
  }
}
