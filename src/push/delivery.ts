/**
 * Webhook delivery of one process: a run for each endpoint that is on. Of the processes that share a data directory only
 * the one that polls delivers, so that no event is under way twice and conversations keep their order.
 */
import { backoffMs } from '../platform/clock.ts'
import type { Runtime } from '../platform/runtime.ts'
import { linked } from '../platform/signals.ts'
import type { Events } from '../storage/events.ts'
import type { Webhook, Webhooks } from '../storage/webhooks.ts'
import type { EndpointPorts, EndpointRun } from './endpoint.ts'
import { Turns } from './turns.ts'

export interface DeliveryPorts extends Omit<EndpointPorts, 'progress' | 'disable'> {
  webhooks: Webhooks
  events: Pick<Events, 'append' | 'head' | 'wait'>
}

/** What somebody changed of an endpoint holds after this. */
const lookEveryMs = 500
/** So many messages in one batch are a backlog. */
const backlogSize = 50
/** At least so long between two looks. */
const restMs = 20

export class Delivery {
  readonly #ports: DeliveryPorts
  readonly #runtime: Runtime
  readonly #runs = new Map<string, EndpointRun>()
  /** Of all endpoints. */
  readonly #turns: Turns
  #working: { stop: AbortController; done: Promise<void> } | undefined
  #polls = () => false
  /** What was changed or switched off, by id: its end. */
  readonly #ending = new Map<string, Promise<void>>()
  /** Aborts when the endpoints are to be looked at before their time. */
  #nudge = new AbortController()

  constructor(ports: DeliveryPorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
    this.#turns = new Turns(runtime.clock)
    runtime.bus.on('committed', ({ messages }) => messages.length >= backlogSize && this.#turns.hold())
  }

  /** Delivers while this process polls, and only where it is sure of that. */
  start(polls: () => boolean): void {
    this.#polls = polls
    this.#runtime.bus.on('roleChanged', role => void (role === 'poller' ? this.#begin() : this.#end()))
    this.#begin()
  }

  /** Ends what is under way, and keeps how far each endpoint is. Safe to call twice. */
  async stop(): Promise<void> {
    this.#polls = () => false
    await this.#end()
  }

  #begin(): void {
    if (this.#working || !this.#polls()) return
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
        // Without an endpoint nobody wants to hear of commits, and each send would wait for who looks at them.
        if (this.#runs.size === 0) await clock.sleep(lookEveryMs, signal)
        else await this.#follow(signal)
      } catch (error) {
        if (signal.aborted) break
        log.warn('events cannot be read', { error })
        await clock.sleep(5000, signal)
      }
    }
    await looking
    for (const id of this.#runs.keys()) this.#stop(id)
    await Promise.all(this.#ending.values())
  }

  /** Until the next commit. */
  async #follow(signal: AbortSignal): Promise<void> {
    const { events } = this.#ports
    await this.#turns.calm(signal)
    const seen = await events.head()
    for (const run of this.#runs.values()) run.news()
    await events.wait(seen, 30_000, signal)
    // Something else was committed: perhaps an endpoint.
    if ((await events.head()) === seen) this.#nudge.abort()
  }

  /** Runs what is on, as it is now. */
  async #look(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#runtime
    const { webhooks } = this.#ports
    for (let isOurs = false, failures = 0; !signal.aborted; ) {
      this.#nudge = new AbortController()
      let waitMs = lookEveryMs
      try {
        const all = await webhooks.list()
        // Where there are none, nothing is written.
        if (!isOurs && all.length > 0) await webhooks.progress.takeOver()
        await this.#adjust(isOurs || all.length === 0 ? all : await webhooks.list())
        isOurs = true
        failures = 0
      } catch (error) {
        waitMs = backoffMs(failures++, lookEveryMs)
        if (!signal.aborted)
          log.warn('webhooks cannot be looked after', { error, retryInMs: Math.round(waitMs) })
      }
      using either = linked(signal, this.#nudge.signal)
      await clock.sleep(waitMs, either.signal)
      await clock.sleep(restMs, signal)
    }
  }

  async #adjust(webhooks: readonly Webhook[]): Promise<void> {
    const all = new Map(webhooks.map(webhook => [webhook.id, webhook]))
    for (const [id, run] of this.#runs) {
      const now = all.get(id)
      // A pause lets finish what is under way: stopped, it would be delivered again.
      const mayRun = now && (isOn(now) || (!now.disabled && run.busy))
      if (mayRun && !run.over && now.epoch === run.epoch) run.update(now)
      else this.#stop(id)
    }
    // One that stood still and was taken over from does not know yet.
    if (!this.#polls()) return
    const on = webhooks.filter(isOn).map(({ id }) => id)
    const fresh = new Set(on.filter(id => !this.#runs.has(id) && !this.#ending.has(id)))
    if (fresh.size === 0) return
    // Loaded with the first endpoint: what speaks HTTP to receivers is 5 ms and 4 MB of a start.
    const { EndpointRun } = await import('./endpoint.ts')
    // Read once more: what a run kept at its end may not be in this list.
    for (const webhook of (await this.#ports.webhooks.list()).filter(isOn))
      if (fresh.has(webhook.id)) this.#runs.set(webhook.id, this.#open(webhook, EndpointRun))
  }

  /** A new run of it has to wait for the end of this one, which may take a while; the others go on meanwhile. */
  #stop(id: string): void {
    const run = this.#runs.get(id)
    if (!run) return
    this.#runs.delete(id)
    const ended = run.stop().finally(() => {
      this.#ending.delete(id)
      this.#nudge.abort()
    })
    this.#ending.set(id, ended)
  }

  #open(webhook: Webhook, Run: typeof EndpointRun): EndpointRun {
    const { webhooks, events, ...rest } = this.#ports
    const { clock, log } = this.#runtime
    const disable: EndpointPorts['disable'] = async (one, why) => {
      const { reason, code: reason_code } = why
      await webhooks.change(one.id, { disabled: { ...why, at: clock.now() } })
      const data = { id: one.id, url: one.url, reason, reason_code }
      await events.append([{ type: 'endpoint.disabled', data }])
    }
    const ports = { ...rest, progress: webhooks.progress, disable }
    return new Run(webhook, ports, { clock, log, turns: this.#turns })
  }
}

const isOn = ({ disabled, paused }: Webhook) => !disabled && !paused
