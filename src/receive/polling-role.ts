/**
 * Decides whether this process polls. A process with a lease polls. Any other follows the store, and takes
 * over when a lease becomes free. Readers work the same in both roles: they read the log.
 */
import { SvcError } from '../model/error.ts'
import { RunningPart } from '../platform/runtime.ts'
import { linkSignals } from '../platform/signals.ts'
import type { Lease, Leases } from '../storage/leases.ts'
import type { Poller } from './poller.ts'

/** How often a watcher asks for a lease. */
const tryEveryMs = 1000

export interface PollingRolePorts {
  leases: Leases
  poller: Poller
  /**
   * Whether the messages that another process polls can be read here, so that there is something to follow.
   */
  shared: boolean
}

export class PollingRole extends RunningPart<PollingRolePorts> {
  readonly #stop = new AbortController()
  #pollsSince: number | undefined
  #isStalled = false
  #lease: Lease | undefined
  #running: Promise<void> | undefined

  get role(): 'poller' | 'watcher' {
    return this.#pollsSince === undefined ? 'watcher' : 'poller'
  }

  /** Unix ms since when this process is the poller. */
  get pollsSince(): number | undefined {
    return this.#pollsSince
  }

  /** Whether this process certainly polls now. A process that stood still may have lost its lease. */
  get isPolling(): boolean {
    return this.#pollsSince !== undefined && this.#lease?.mayPoll() === true
  }

  /**
   * Whether another process keeps the right to poll but does not respond: stopped, hung, or its disk hangs.
   */
  get isPollerStalled(): boolean {
    return this.#isStalled
  }

  /**
   * Resolves when the role is known. Polling or watching then continues until `stop`.
   *
   * @throws SvcError `poll_lock_held` if another process polls and there is no store to follow it through
   */
  async start(): Promise<void> {
    const lease = await this.ports.leases.join()
    if (lease) this.#become('poller')
    else if (!this.ports.shared) {
      throw new SvcError('poll_lock_held', 'another process polls for this data directory')
    } else this.runtime.log.info('another process polls; following the store')
    this.#running = this.#run(lease)
  }

  /** Whether this process polls no more: it was asked to stop. */
  get isEnding(): boolean {
    return this.#stop.signal.aborted
  }

  /** Ends polling, after the batches in memory are committed. */
  async stop(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  #become(role: 'poller' | 'watcher'): void {
    this.#pollsSince = role === 'poller' ? this.runtime.clock.now() : undefined
    this.runtime.bus.notify('roleChanged', role)
  }

  async #watch(): Promise<void> {
    const stalled = await this.ports.leases.isStalled()
    if (stalled === this.#isStalled) return
    this.#isStalled = stalled
    if (!stalled) this.runtime.log.info('the polling process works again')
    else
      this.runtime.log.warn(
        'the polling process is stalled: it keeps the lock and shows no life; wake it or end it',
      )
  }

  async #run(first: Lease | undefined): Promise<void> {
    const { signal } = this.#stop
    for (let lease = first; !signal.aborted; ) {
      if (lease) {
        this.#lease = lease
        this.#isStalled = false
        this.#become('poller')
        await this.ports.poller.run(lease, signal)
        await lease.release()
        this.#become('watcher')
        if (!signal.aborted) this.runtime.log.warn('poll lock lost; following the store')
      }
      lease = await this.#waitForLease()
    }
  }

  /** @returns undefined if this process is asked to stop */
  async #waitForLease(): Promise<Lease | undefined> {
    const { log, tasks } = this.runtime
    const found = new AbortController()
    using ended = linkSignals(this.#stop.signal, found.signal)
    const often = { everyMs: tryEveryMs, firstMs: tryEveryMs, log, signal: ended.signal }
    let lease: Lease | undefined
    const trying = tasks.repeat(
      { ...often, name: 'poll_lock', failure: 'poll lock cannot be tried' },
      async () => {
        lease = await this.ports.leases.join()
        if (!lease) return await this.#watch()
        log.info('the poller is gone; polling from here')
        found.abort()
      },
    )
    await trying.done
    return lease
  }
}
