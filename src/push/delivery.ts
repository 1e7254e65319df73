/**
 * Webhook delivery of one process: a run for each endpoint that is on. Of the processes that share a data directory only
 * the one that polls delivers, so that no event is under way twice and conversations keep their order.
 */
import type { Runtime } from '../platform/runtime.ts'
import { linked } from '../platform/signals.ts'
import type { Events } from '../storage/events.ts'
import type { Webhook, Webhooks } from '../storage/webhooks.ts'
import { type EndpointPorts, EndpointRun } from './endpoint.ts'

export interface DeliveryPorts extends Omit<EndpointPorts, 'progress' | 'disable'> {
  webhooks: Webhooks
  events: Pick<Events, 'append' | 'head' | 'wait'>
}

/** What somebody changed of an endpoint holds after this. */
const lookEveryMs = 500
/** At least so long between two looks. */
const restMs = 20

export class Delivery {
  readonly #ports: DeliveryPorts
  readonly #runtime: Runtime
  readonly #runs = new Map<string, EndpointRun>()
  #working: { stop: AbortController; done: Promise<void> } | undefined
  #polls = false
  /** Aborts when the endpoints are to be looked at before their time. */
  #nudge = new AbortController()

  constructor(ports: DeliveryPorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
  }

  /** Delivers while this process polls. */
  start(role: 'poller' | 'watcher'): void {
    const become = (now: typeof role) => {
      this.#polls = now === 'poller'
      void (this.#polls ? this.#begin() : this.#end())
    }
    this.#runtime.bus.on('roleChanged', become)
    become(role)
  }

  /** Ends what is under way, and keeps how far each endpoint is. Safe to call twice. */
  async stop(): Promise<void> {
    this.#polls = false
    await this.#end()
  }

  #begin(): void {
    if (this.#working || !this.#polls) return
    const stop = new AbortController()
    this.#working = { stop, done: this.#deliver(stop.signal) }
  }

  async #end(): Promise<void> {
    const working = this.#working
    working?.stop.abort()
    await working?.done
    if (this.#working !== working) return
    this.#working = undefined
    // The right to poll came back meanwhile.
    this.#begin()
  }

  async #deliver(stop: AbortSignal): Promise<void> {
    const { clock, closing, log } = this.#runtime
    using ended = linked(stop, closing)
    const { signal } = ended
    const looking = this.#look(signal)
    while (!signal.aborted) {
      try {
        const seen = await this.#ports.events.head()
        for (const run of this.#runs.values()) run.news()
        await this.#ports.events.wait(seen, 30_000, signal)
        // Something else was committed: perhaps an endpoint.
        if ((await this.#ports.events.head()) === seen) this.#nudge.abort()
      } catch (error) {
        if (signal.aborted) break
        log.warn('events cannot be read', { error })
        await clock.sleep(5000, signal)
      }
    }
    await looking
    await Promise.all([...this.#runs.values()].map(run => run.stop()))
    this.#runs.clear()
  }

  /** Runs what is on, as it is now. */
  async #look(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#runtime
    while (!signal.aborted) {
      this.#nudge = new AbortController()
      try {
        await this.#adjust(await this.#ports.webhooks.list())
      } catch (error) {
        if (!signal.aborted) log.warn('webhooks cannot be read', { error })
      }
      using either = linked(signal, this.#nudge.signal)
      await clock.sleep(lookEveryMs, either.signal)
      await clock.sleep(restMs, signal)
    }
  }

  async #adjust(webhooks: readonly Webhook[]): Promise<void> {
    const on = new Map(webhooks.filter(isOn).map(webhook => [webhook.id, webhook]))
    for (const [id, run] of this.#runs) {
      const now = on.get(id)
      if (now && !run.over && now.epoch === run.epoch) run.update(now)
      else {
        this.#runs.delete(id)
        // Its answers may take a while, and the others go on meanwhile; a new run of it has to wait for this one.
        await run.stop()
      }
    }
    // Those that were stopped are read once more: what they kept at their end is not in this list.
    const fresh = [...on.keys()].some(id => !this.#runs.has(id))
    if (!fresh) return
    for (const webhook of (await this.#ports.webhooks.list()).filter(isOn))
      if (!this.#runs.has(webhook.id)) this.#runs.set(webhook.id, this.#open(webhook))
  }

  #open(webhook: Webhook): EndpointRun {
    const { webhooks, events, ...rest } = this.#ports
    const { clock, log } = this.#runtime
    const disable: EndpointPorts['disable'] = async (one, reason) => {
      await webhooks.change(one.id, { disabled: { reason, at: clock.now() } })
      await events.append([{ type: 'endpoint.disabled', data: { id: one.id, url: one.url, reason } }])
    }
    return new EndpointRun(webhook, { ...rest, progress: webhooks.progress, disable }, { clock, log })
  }
}

const isOn = ({ disabled, paused }: Webhook) => !disabled && !paused
