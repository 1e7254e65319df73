/** Delivery to one endpoint: what is next in its lanes goes out as its pulse allows, and what became of it is kept. */
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
  freshPulse,
  isGivenUp,
  type Pulse,
  roomOf,
  slotsOf,
  verdictOf,
} from './schedule.ts'

/** Why an endpoint is switched off: for people, and for programs. */
interface Ending {
  reason: string
  code: WebhookEnding
}

export interface EndpointPorts extends CourierPorts {
  feed: Feed
  progress: WebhookProgresses
  /** Switches it off, and tells of it. */
  disable(webhook: Webhook, why: Ending): Promise<void>
  /** Whether the clock may decide that something took too long. */
  trustsClock(): Promise<boolean>
}

/** Events in hand at most, and while the endpoint fails. */
const inHand = 256
const inHandFailing = 8
/** What became of events is kept this often. */
const keepEveryMs = 250
const longestWaitMs = 60_000

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
  /** Conversations that an event is under way of, or that read; when that began. */
  readonly #underWay = new Map<Lane, number>()
  /** Why an event could not be read. */
  #fault: { error: unknown } | undefined
  /** The log was read to its end. */
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

  /** It ended by itself: another epoch began, or the endpoint was removed or switched off. */
  get over(): boolean {
    return this.#over
  }

  /** Events are under way. */
  get busy(): boolean {
    return this.#underWay.size > 0
  }

  /** The endpoint as it is now, of the same epoch. A paused one starts nothing more. */
  update(webhook: Webhook): void {
    const isResumed = this.#webhook.paused && !webhook.paused
    this.#webhook = webhook
    if (isResumed) this.#wake.resolve()
  }

  /** There may be something new in the log. */
  news(): void {
    this.#atEnd = false
    this.#wake.resolve()
  }

  /** Ends what is under way, and keeps what became of the rest. */
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
        if (!signal.aborted) this.#log.warn('webhook stands still', { webhook: this.#webhook.id, error })
        await this.#clock.sleep(5000, signal)
        await idle()
        // It may lack what was to be kept: what is in the store comes again, rather than being passed over.
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

  /** Until it is stopped. @throws what the store throws */
  async #go(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && !this.#over) {
      if (this.#fault) throw this.#fault.error
      this.#start()
      if (this.#lanes.changed || this.#tries.length > 0) await this.#keepWhenDue()
      if (await this.#fill()) continue
      await this.#woken(this.#idleMs())
    }
  }

  /** Resolves when something happened, or after that. */
  async #woken(ms: number): Promise<void> {
    const over = new AbortController()
    await Promise.race([this.#wake.promise, this.#clock.sleep(ms, over.signal)])
    over.abort()
    this.#wake = Promise.withResolvers()
  }

  /** How long there is nothing to do but what wakes it. */
  #idleMs(): number {
    const now = this.#clock.monotonic()
    const waits = [longestWaitMs]
    if (this.#lanes.changed || this.#tries.length > 0) waits.push(this.#keepAt - now)
    if (this.#pulse.failing) waits.push(this.#pulse.until - now)
    else waits.push(this.#lanes.dueInMs(this.#clock.now()))
    if (this.#lanes.waiting > 0) waits.push(this.#room().moreInMs)
    return Math.max(1, Math.min(...waits.filter(ms => ms > 0)))
  }

  /** Starts what may go now. */
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

  /** Reads on in the log, when there is room. @returns whether there was something */
  async #fill(): Promise<boolean> {
    const { failing } = this.#pulse
    const most = failing ? inHandFailing : inHand
    const mayGo = slotsOf(this.#pulse, this.#clock.monotonic()) > 0
    if (this.#webhook.paused || this.#atEnd || !mayGo || this.#lanes.waiting >= most / 2) return false
    this.#atEnd = true
    const from = this.#lanes.readFrom
    const page = await this.#ports.feed.after(from, this.#webhook, most / 2)
    if (page.gone)
      this.#log.warn('events were removed before a webhook had them', { webhook: this.#webhook.id })
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
    const again = lane.trouble?.event === event.id
    const failure = { again, beganAt, now: this.#clock.monotonic(), slow, retryAfterMs }
    this.#pulse = afterTrouble(before, failure, Math.random())
    const othersSucceeded = lane.trouble !== undefined && this.#succeededAt > lane.trouble.failed_at
    const trouble = eventTrouble(lane.trouble, { event: event.id, now, othersSucceeded }, Math.random())
    this.#tries.push({ ...record, outcome: trouble ? 'failed' : 'gave_up' })
    const { last_success_at, failing_since = now } = this.#health
    const retryInMs = this.#pulse.failing
      ? Math.max(0, this.#pulse.until - this.#clock.monotonic())
      : undefined
    this.#health = {
      ...{ last_success_at, failing_since, last_error: record.detail, last_error_code: failedBy },
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

  /** What another epoch made void is not kept, and ends this run. */
  async #keep(): Promise<void> {
    if (!this.#lanes.changed && this.#tries.length === 0) return
    const { epoch, id } = this.#webhook
    const tries = this.#tries.splice(0)
    const kept = await this.#ports.progress.keep(id, {
      ...{ epoch, tries, health: this.#health },
      ...this.#lanes.progress(),
    })
    if (!kept) this.#over = true
  }
}
