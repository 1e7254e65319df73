/**
 * Webhook delivery in one process: one run for each endpoint that is on and that the store gives to this process.
 * Only processes that poll WeChat deliver, and one for each endpoint. So no event is delivered by two processes at
 * the same time, and conversations keep their order.
 */
import { changeApart, type SetAside } from '../platform/apart.ts'
import { backoffMs } from '../platform/clock.ts'
import { RunningPart, type Runtime } from '../platform/runtime.ts'
import { linkSignals } from '../platform/signals.ts'
import type { Repetition, Task } from '../platform/tasks.ts'
import type { EventLog } from '../storage/events.ts'
import { isSubscribed, type Webhook, type WebhookStore } from '../storage/webhooks.ts'
import type { EndpointPorts, EndpointRun } from './endpoint.ts'
import { DeliveryPacer } from './pacer.ts'

export interface DispatcherPorts extends Omit<EndpointPorts, 'progress' | 'disable'> {
  webhooks: WebhookStore
  events: Pick<EventLog, 'append' | 'getHead' | 'wait'>
}

/** Interval between reads of the endpoint list. A change of an endpoint takes effect within this time. */
const pollIntervalMs = 500
/** Longest wait for a commit. */
const longestWaitMs = 30_000
/** A batch with this many messages counts as a backlog. */
const backlogSize = 50
/** Minimum time between two reads of the endpoint list. */
const minPollGapMs = 20

export class WebhookDispatcher extends RunningPart<DispatcherPorts> {
  readonly #runs = new Map<string, EndpointRun>()
  /** Shared by all endpoints. */
  readonly #pacer: DeliveryPacer
  #running: { stop: AbortController; done: Promise<void> } | undefined
  #isPolling = () => false
  /** Runs that are stopping, by endpoint id. Each promise resolves when the run has ended. */
  readonly #stopping = new Map<string, Promise<void>>()
  /** Reads the endpoint list. */
  #listing: Repetition | undefined

  constructor(ports: DispatcherPorts, runtime: Runtime) {
    super(ports, runtime)

    this.#pacer = new DeliveryPacer(runtime.clock)
    runtime.bus.on('committed', ({ messages }) => messages.length >= backlogSize && this.#pacer.pause())
  }

  /**
   * Starts delivery. It delivers only while `polls` returns true: this process then certainly polls WeChat.
   */
  start(polls: () => boolean): void {
    this.#isPolling = polls
    this.runtime.bus.on(
      'roleChanged',
      role => void (role === 'poller' ? this.#startDelivery() : this.#endDelivery()),
    )
    this.#startDelivery()
  }

  /** Ends running deliveries and stores the position of each endpoint. You may call it twice. */
  async stop(): Promise<void> {
    this.#isPolling = () => false
    await this.#endDelivery()
  }

  #startDelivery(): void {
    if (this.#running || !this.#isPolling()) return
    const stop = new AbortController()
    this.#running = { stop, done: this.#runDelivery(stop.signal) }
  }

  async #endDelivery(): Promise<void> {
    const working = this.#running
    working?.stop.abort()
    await working?.done
    if (this.#running !== working) return
    this.#running = undefined
    // This process may have become the poller again during the await.
    this.#startDelivery()
  }

  async #runDelivery(stop: AbortSignal): Promise<void> {
    const { closing, log, tasks } = this.runtime
    using stopOrClose = linkSignals(stop, closing)
    const { signal } = stopOrClose
    using deliveries = tasks.register({
      name: 'webhook_deliveries',
      everyMs: pollIntervalMs,
      failure: 'webhook delivery stopped for now',
      log,
    })
    this.#listing = this.#pollEndpoints(signal, deliveries)
    const failure = 'events cannot be read'
    const name = 'webhook_events'
    const following = tasks.repeat(
      { name, everyMs: longestWaitMs, retryMs: () => 5000, failure, log, signal },
      // Without an endpoint, do not wait for commits: that would slow down each send.
      () => (this.#runs.size === 0 ? pollIntervalMs : this.#waitForCommit(signal)),
    )
    await Promise.all([this.#listing.done, following.done])
    for (const id of this.#runs.keys()) this.#stopRun(id)
    await Promise.all(this.#stopping.values())
  }

  /** Tells all runs to read the log, then waits for the next commit. @returns 0: do so again at once */
  async #waitForCommit(signal: AbortSignal): Promise<number> {
    const { events } = this.ports
    await this.#pacer.waitForPauseEnd(signal)
    const head = await events.getHead()
    for (const run of this.#runs.values()) run.onNewEvents()
    await events.wait(head, longestWaitMs, signal)
    // There is no new event: perhaps an endpoint was changed. Read the endpoint list now.
    if ((await events.getHead()) === head) this.#listing?.nudge()
    return 0
  }

  /** Reads the endpoint list again and again, and starts, updates and stops runs. */
  #pollEndpoints(signal: AbortSignal, deliveries: Task): Repetition {
    const { clock, log, tasks } = this.runtime
    const { webhooks } = this.ports
    let hasTakenOver = false
    return tasks.repeat(
      {
        name: 'webhooks',
        everyMs: pollIntervalMs,
        retryMs: failures => backoffMs(failures, pollIntervalMs),
        failure: 'webhooks cannot be read',
        log,
        signal,
        async wait(ms, either) {
          await clock.sleep(ms, either)
          await clock.sleep(minPollGapMs, signal)
        },
      },
      async setAside => {
        const all = await webhooks.list()
        // Without endpoints, nothing is written.
        const own = all.length > 0 ? await this.#takeOver(hasTakenOver) : new Set<string>()
        // An endpoint that another process delivers for now is treated like a paused one: running deliveries finish.
        const isOwn = ({ id }: Webhook) => own.has(id)
        await this.#updateRuns(all.map(webhook => (isOwn(webhook) ? webhook : { ...webhook, paused: true })))
        for (const webhook of all.filter(isOwn))
          setAside(
            ...(await changeApart(
              [webhook],
              ({ id }) => `webhook ${id}`,
              () => this.#endSubscription(webhook),
            )),
          )
        hasTakenOver = true
        await deliveries.run(setAside => this.#listTroubles(setAside))
      },
    )
  }

  /** Names the endpoints whose events cannot be read. */
  #listTroubles(setAside: SetAside): void {
    for (const [id, { trouble }] of this.#runs)
      if (trouble) setAside({ row: `webhook ${id}`, error: trouble.error })
  }

  #takeOver(isAgain: boolean): Promise<ReadonlySet<string>> {
    const held = new Set([...this.#runs.keys(), ...this.#stopping.keys()])
    return this.ports.webhooks.progress.takeOver(isAgain ? held : undefined)
  }

  async #updateRuns(webhooks: readonly Webhook[]): Promise<void> {
    const all = new Map(webhooks.map(webhook => [webhook.id, webhook]))
    for (const [id, run] of this.#runs) {
      const now = all.get(id)
      // Like a pause: running deliveries finish. After a stop they would be repeated.
      const isLive = now && isSubscribed(now, this.runtime.clock.now())
      const mayRun = isLive && (isOn(now) || (!now.disabled && run.isBusy))
      if (mayRun && !run.hasEnded && now.epoch === run.epoch) run.update(now)
      else this.#stopRun(id)
    }
    // A process that hung may not know yet that another one polls now.
    if (!this.#isPolling()) return
    const time = this.runtime.clock.now()
    const on = webhooks.filter(one => isOn(one) && isSubscribed(one, time)).map(({ id }) => id)
    const fresh = new Set(on.filter(id => !this.#runs.has(id) && !this.#stopping.has(id)))
    if (fresh.size === 0) return
    // Loaded for the first endpoint: the HTTP client costs 5 ms and 4 MB at start.
    const { EndpointRun } = await import('./endpoint.ts')
    // Read the list again: it may lack what a run stored at its end.
    for (const webhook of (await this.ports.webhooks.list()).filter(isOn))
      if (fresh.has(webhook.id)) this.#runs.set(webhook.id, this.#startRun(webhook, EndpointRun))
  }

  /** Removes a subscription that is over. If the key ended, the receiver gets one last message. */
  async #endSubscription(webhook: Webhook): Promise<void> {
    const now = this.runtime.clock.now()
    const { disabled, expires_at = 0, id, subscription } = webhook
    const isRevoked = disabled?.code === 'key_revoked'
    const isOver = subscription !== undefined && (isRevoked || expires_at <= now)
    // A delivery that still runs is aborted first.
    if (!isOver || this.#runs.has(id) || this.#stopping.has(id)) return
    const isRemoved = await this.ports.webhooks.remove(id)
    if (!isRemoved || !isSubscribed(webhook, now)) return
    const { sendTerminated } = await import('./envelopes.ts')
    void sendTerminated(webhook, this.runtime)
  }

  /**
   * Stops an endpoint's run. This may take a while, and other endpoints continue. A new run of the endpoint
   * starts only after it.
   */
  #stopRun(id: string): void {
    const run = this.#runs.get(id)
    if (!run) return
    this.#runs.delete(id)
    const ended = run.stop().finally(() => {
      this.#stopping.delete(id)
      this.#listing?.nudge()
    })
    this.#stopping.set(id, ended)
  }

  #startRun(webhook: Webhook, Run: typeof EndpointRun): EndpointRun {
    const { webhooks, events, ...rest } = this.ports
    const { clock, log } = this.runtime
    const disable: EndpointPorts['disable'] = async ({ id, url }, why) => {
      const { reason, code: reason_code } = why
      await webhooks.change(id, { disabled: { ...why, at: clock.now() } })
      const data = { id, url, reason, reason_code }
      await events.append([{ type: 'endpoint.disabled', data }])
    }
    const { progress } = webhooks
    return new Run({ ...rest, clock, disable, log, pacer: this.#pacer, progress, webhook })
  }
}

const isOn = ({ disabled, paused }: Webhook) => !disabled && !paused
