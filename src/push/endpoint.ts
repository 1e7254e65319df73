/**
 * Delivery to one endpoint: takes the next events of its lanes, delivers as many at a time as its state
 * allows, and stores the results.
 */
import type { WebhookEnding } from '../model/event.ts'
import { RoomPart } from '../platform/runtime.ts'
import { cursorBefore } from '../storage/events.ts'
import type { Webhook, WebhookHealth, WebhookProgressStore, WebhookTry } from '../storage/webhooks.ts'
import {
  type DeliveryOutcome,
  type SenderRuntime,
  WebhookSender,
  type WebhookSenderPorts,
} from './courier.ts'
import type { Feed } from './feed.ts'
import { type LaneEvent, type LanePage, type LiveLane, WebhookLanes } from './lanes.ts'
import {
  type AttemptFailure,
  capacityOf,
  concurrencyOf,
  type EndpointState,
  initialState,
  meaningOf,
  mustDisable,
  nextRetryOf,
  withFailure,
  withSuccess,
} from './schedule.ts'

/** Why an endpoint is switched off: a text for people, and a code for programs. */
interface DisableReason {
  reason: string
  code: WebhookEnding
}

export interface EndpointPorts extends WebhookSenderPorts {
  feed: Feed
  progress: WebhookProgressStore
  /** Switches an endpoint off and adds the event `endpoint.disabled`. */
  disable(webhook: Webhook, why: DisableReason): Promise<void>
  /** Whether the system clock is reliable enough to decide that something took too long. */
  isClockReliable(): Promise<boolean>
}

/** Returns what tells a subscriber that events are lost, in place of them. */
const gapBefore = ({ cursor, events: [first] }: LanePage): LaneEvent => ({
  id: first ? cursorBefore(first.id) : cursor,
  type: 'gap',
  at: 0,
  session: '',
  user: '',
  data: async () => ({}),
})

/** Maximum queued events in memory; the second number holds while the endpoint fails. */
const maxQueued = 256
const maxQueuedFailing = 8
/** Interval at which results are stored. */
const saveIntervalMs = 250
/** Longest wait for something to do. */
const maxWaitMs = 60_000

/**
 * Delivery to one endpoint, from its start to its stop. More than ten fields: they are the state of one loop, in which
 * reading, delivering and storing wait for each other.
 */
export class EndpointRun extends RoomPart<EndpointPorts & SenderRuntime & { webhook: Webhook }> {
  #webhook = this.ports.webhook
  readonly #clock = this.ports.clock
  readonly #log = this.ports.log
  readonly #stop = new AbortController()
  readonly #sender = new WebhookSender(this.ports)
  #lanes = new WebhookLanes(this.ports.webhook.position, [])
  #state: EndpointState = initialState
  /** Unix ms of the last success of this run. */
  #succeededAt = 0
  /** Lanes with a running delivery or read, and when it started (monotonic ms). */
  readonly #runningLanes = new Map<LiveLane, number>()
  /** Why events cannot be read or results cannot be stored, until both succeed. `isNew`: the loop has to stop for it. */
  #trouble: { error: unknown; isNew: boolean } | undefined
  /** True if the log was read to its end. */
  #isAtEnd = false
  #tries: WebhookTry[] = []
  #health: WebhookHealth = this.ports.webhook
  #nextSaveAt = 0
  #activity = Promise.withResolvers<void>()
  #hasEnded = false
  /** The last field, since the loop uses all others. */
  readonly #running = this.#run()

  get epoch(): number {
    return this.#webhook.epoch
  }

  /**
   * Whether deliveries ended because the endpoint was removed, switched off, or has a new epoch (see the
   * table `webhook`).
   */
  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** Why events cannot be read or results cannot be stored, at present. */
  get trouble(): { readonly error: unknown } | undefined {
    return this.#trouble
  }

  /** Whether deliveries are running. */
  get isBusy(): boolean {
    return this.#runningLanes.size > 0
  }

  /**
   * Takes over changes of the endpoint within the same epoch. A paused endpoint starts no more deliveries.
   */
  update(webhook: Webhook): void {
    const isResumed = this.#webhook.paused && !webhook.paused
    this.#webhook = webhook
    if (isResumed) this.#activity.resolve()
  }

  /** Call it when the log may have new events. */
  onNewEvents(): void {
    this.#isAtEnd = false
    this.#activity.resolve()
  }

  /** Ends running deliveries and stores the other results. */
  async stop(): Promise<void> {
    this.#stop.abort(new Error('stopped'))
    this.#activity.resolve()
    await this.#running
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop
    const idle = async () => {
      while (this.#runningLanes.size > 0) await this.#waitForActivity(maxWaitMs)
    }
    while (!signal.aborted && !this.#hasEnded) {
      try {
        this.#lanes = new WebhookLanes(this.#webhook.position, await this.#loadLanes())
        this.#isAtEnd = false
        await this.#deliverUntilStop(signal)
      } catch (error) {
        const known = { error, isNew: false }
        this.#trouble = known
        await this.#clock.sleep(5000, signal)
        await idle()
        this.#trouble = known
        // Results may be lost. Continue from the stored position: an event may repeat, but none is skipped.
        this.#lanes = new WebhookLanes(this.#webhook.position, [])
        this.#tries = []
      }
    }
    await idle()
    if (!this.#hasEnded)
      await this.#saveProgress().catch(error => this.#log.warn('webhook progress not kept', { error }))
    this.#sender.close()
  }

  #loadLanes() {
    return this.ports.progress.listLanes(this.#webhook.id)
  }

  /** Delivers until the run is stopped. @throws errors of the store */
  async #deliverUntilStop(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && !this.#hasEnded) {
      if (this.#trouble?.isNew) throw this.#trouble.error
      this.#startDue()
      if (this.#lanes.hasChanges || this.#tries.length > 0) await this.#saveWhenDue()
      if (await this.#readNextPage()) continue
      if (!this.#trouble?.isNew) this.#trouble = undefined
      await this.#waitForActivity(this.#getWaitMs())
    }
  }

  /** Resolves when something happened, at the latest after `ms`. */
  async #waitForActivity(ms: number): Promise<void> {
    const timer = new AbortController()
    await Promise.race([this.#activity.promise, this.#clock.sleep(ms, timer.signal)])
    timer.abort()
    this.#activity = Promise.withResolvers()
  }

  /** Milliseconds until there is something to do, unless something happens earlier. */
  #getWaitMs(): number {
    const now = this.#clock.monotonic()
    const waits = [maxWaitMs]
    if (this.#lanes.hasChanges || this.#tries.length > 0) waits.push(this.#nextSaveAt - now)
    if (this.#state.isFailing) waits.push(this.#state.until - now)
    else waits.push(this.#lanes.getDueInMs(this.#clock.now()))
    if (this.#lanes.waitingCount > 0) waits.push(this.#getCapacity().moreInMs)
    return Math.max(1, Math.min(...waits.filter(ms => ms > 0)))
  }

  /** Starts all deliveries that may start now. */
  #startDue(): void {
    if (this.#webhook.paused) return
    const { isFailing } = this.#state
    for (let { free } = this.#getCapacity(); free > 0; free--) {
      const lane = this.#lanes.pickNext(this.#clock.now(), isFailing)
      if (!lane) return
      const event = this.#lanes.startNext(lane)
      this.#runningLanes.set(lane, this.#clock.monotonic())
      const work = event ? this.#deliverEvent(lane, event) : this.#readLane(lane)
      void work
        .catch(error => {
          this.#lanes.putBack(lane, event)
          if (!this.#trouble?.isNew) this.#trouble = { error, isNew: true }
        })
        .finally(() => {
          this.#runningLanes.delete(lane)
          this.#activity.resolve()
        })
    }
  }

  #getCapacity() {
    return capacityOf(this.#state, [...this.#runningLanes.values()], this.#clock.monotonic())
  }

  /** Reads the next page of the log, if the queue has space. @returns whether there was something to read */
  async #readNextPage(): Promise<boolean> {
    const { isFailing } = this.#state
    const limit = isFailing ? maxQueuedFailing : maxQueued
    const mayGo = concurrencyOf(this.#state, this.#clock.monotonic()) > 0
    if (this.#webhook.paused || this.#isAtEnd || !mayGo || this.#lanes.waitingCount >= limit / 2) return false
    this.#isAtEnd = true
    const from = this.#lanes.readFrom
    const page = await this.ports.feed.readAfter(from, this.#webhook, limit / 2)
    // The endpoint began to fail during the await: what waited was dropped, and is read again from an earlier place.
    if (this.#lanes.readFrom !== from) return true
    if (page.gone)
      this.#log.warn('events were removed before a webhook received them', { webhook: this.#webhook.id })
    const announces = page.gone && this.#webhook.subscription
    this.#lanes.addPage(announces ? { ...page, events: [gapBefore(page), ...page.events] } : page)
    if (page.cursor === from) return false
    this.#isAtEnd = false
    return true
  }

  async #readLane(lane: LiveLane): Promise<void> {
    this.#lanes.addLanePage(lane, await this.ports.feed.readConversation(lane.position, this.#webhook, lane))
  }

  async #deliverEvent(lane: LiveLane, event: LaneEvent): Promise<void> {
    const safeCursor = () => this.#lanes.getSafeCursor(lane, event)
    const outcome = await this.#sender.deliver(this.#webhook, event, safeCursor, this.#stop.signal)
    if (!outcome) this.#lanes.completeEvent(lane, event)
    else if (outcome.done) this.#recordSuccess(lane, event, outcome)
    else if (this.#webhook.subscription && meaningOf(outcome.status ?? 0).refused)
      this.#recordRefusal(lane, event, outcome)
    else await this.#recordFailure(lane, event, outcome)
  }

  #recordSuccess(lane: LiveLane, event: LaneEvent, { record }: DeliveryOutcome): void {
    if (this.#state.isFailing) this.#log.info('webhook works again', { webhook: this.#webhook.id })
    this.#state = withSuccess(this.#state)
    this.#succeededAt = this.#clock.now()
    this.#health = { last_success_at: this.#succeededAt }
    this.#tries.push({ ...record, outcome: 'done' })
    this.#lanes.completeEvent(lane, event)
  }

  /** Records that the receiver does not want an event, and works. */
  #recordRefusal(lane: LiveLane, event: LaneEvent, { record }: DeliveryOutcome): void {
    this.#state = withSuccess(this.#state)
    this.#health = { last_success_at: this.#health.last_success_at }
    this.#tries.push({ ...record, outcome: 'gave_up' })
    this.#lanes.completeEvent(lane, event)
  }

  async #recordFailure(lane: LiveLane, event: LaneEvent, outcome: DeliveryOutcome): Promise<void> {
    const { beganAt, failure: failedBy, notSent, record, retryAfterMs, status = 0 } = outcome
    const now = this.#clock.now()
    const { slow, gone } = meaningOf(status)
    const before = this.#state
    const failure: AttemptFailure = {
      isRepeat: lane.trouble?.event === event.id,
      beganAt,
      now: this.#clock.monotonic(),
      slow,
      retryAfterMs,
    }
    this.#state = withFailure(before, failure, Math.random())
    // A receiver that restarts fails no event: it saw none.
    const isOwn = !notSent && lane.trouble !== undefined && this.#succeededAt > lane.trouble.failed_at
    const trouble = nextRetryOf(lane.trouble, { event: event.id, now, isOwn }, Math.random())
    this.#tries.push({ ...record, outcome: trouble ? 'failed' : 'gave_up' })
    const { last_success_at, failing_since = now } = this.#health
    // Monotonic time has fractions, and a stored time none.
    const retryInMs = this.#state.isFailing
      ? Math.max(0, Math.ceil(this.#state.until - this.#clock.monotonic()))
      : undefined
    this.#health = {
      last_success_at,
      failing_since,
      last_error: record.detail,
      last_error_code: failedBy,
      next_try_at: retryInMs === undefined ? trouble?.retry_at : now + retryInMs,
    }
    if (trouble) this.#lanes.recordFailure(lane, trouble)
    else this.#lanes.completeEvent(lane, event)
    if (this.#state.isFailing && !before.isFailing) {
      this.#log.warn('webhook fails', { webhook: this.#webhook.id, detail: record.detail })
      this.#lanes.clearQueues()
      this.#isAtEnd = false
    }
    const trusted = await this.ports.isClockReliable()
    if (gone) await this.#disable({ code: 'gone', reason: 'it answered with 410' })
    else if (mustDisable(this.#state, this.#health, now, trusted))
      await this.#disable({ code: 'given_up', reason: 'nothing succeeded for 5 days' })
  }

  async #disable(why: DisableReason): Promise<void> {
    if (this.#hasEnded) return
    await this.#saveProgress()
    this.#hasEnded = true
    await this.ports.disable(this.#webhook, why)
    this.#log.warn('webhook switched off', { webhook: this.#webhook.id, reason: why.reason })
  }

  async #saveWhenDue(): Promise<void> {
    if (this.#clock.monotonic() < this.#nextSaveAt) return
    await this.#saveProgress()
    this.#nextSaveAt = this.#clock.monotonic() + saveIntervalMs
  }

  /** Stores the progress. If a new epoch made it invalid, nothing is stored and this run ends. */
  async #saveProgress(): Promise<void> {
    if (!this.#lanes.hasChanges && this.#tries.length === 0) return
    const { epoch, id } = this.#webhook
    const tries = this.#tries.splice(0)
    const kept = await this.ports.progress.save(id, {
      epoch,
      tries,
      health: this.#health,
      ...this.#lanes.takeProgress(),
    })
    if (!kept) this.#hasEnded = true
  }
}
