/**
 * Whether this process polls: one that has a lease does. Any other follows the store, and takes over when a lease comes
 * free. Readers are the same in both: they read the log.
 */
import { SvcError } from '../model/error.ts'
import type { Runtime } from '../platform/runtime.ts'
import type { Lease, Leases } from '../storage/leases.ts'
import type { Poller } from './poller.ts'

/** A watcher asks for a lease this often. */
const tryEveryMs = 1000

export interface PollingRolePorts {
  leases: Leases
  poller: Poller
  /** What another process polls can be read here, so there is something to follow. */
  shared: boolean
}

export class PollingRole {
  readonly #ports: PollingRolePorts
  readonly #runtime: Runtime
  readonly #stop = new AbortController()
  #pollsSince: number | undefined
  #stalled = false
  #lease: Lease | undefined
  #running: Promise<void> | undefined

  constructor(ports: PollingRolePorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
  }

  get role(): 'poller' | 'watcher' {
    return this.#pollsSince === undefined ? 'watcher' : 'poller'
  }

  /** Unix ms: since when it is the poller. */
  get pollsSince(): number | undefined {
    return this.#pollsSince
  }

  /** Whether this process surely polls now: one that stood still may have lost its lease without knowing so far. */
  get polls(): boolean {
    return this.#pollsSince !== undefined && this.#lease?.mayPoll() === true
  }

  /** Whether another process keeps the right to poll and shows no life: stopped, hung, or on a disk that is. */
  get stalled(): boolean {
    return this.#stalled
  }

  /**
   * Resolves when the role is known; polling or watching goes on until `stop`.
   *
   * @throws SvcError `poll_lock_held` when another process polls and there is no store to follow it through
   */
  async start(): Promise<void> {
    const lease = await this.#ports.leases.join()
    if (lease) this.#become('poller')
    else if (!this.#ports.shared) {
      throw new SvcError('poll_lock_held', 'another process polls for this data directory')
    } else this.#runtime.log.info('another process polls; following the store')
    this.#running = this.#run(lease)
  }

  /** Ends polling; batches in hand are committed first. */
  async stop(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  #become(role: 'poller' | 'watcher'): void {
    this.#pollsSince = role === 'poller' ? this.#runtime.clock.now() : undefined
    this.#runtime.bus.tell('roleChanged', role)
  }

  async #watch(): Promise<void> {
    const stalled = await this.#ports.leases.stalled()
    if (stalled === this.#stalled) return
    this.#stalled = stalled
    if (!stalled) this.#runtime.log.info('the polling process works again')
    else
      this.#runtime.log.warn(
        'the polling process is stalled: it keeps the lock and shows no life; wake it or end it',
      )
  }

  async #run(first: Lease | undefined): Promise<void> {
    const { signal } = this.#stop
    /** Why no lease can be had, as it was logged. */
    let told: string | undefined
    for (let lease = first; !signal.aborted; ) {
      if (lease) {
        this.#lease = lease
        this.#stalled = false
        this.#become('poller')
        await this.#ports.poller.run(lease, signal)
        await lease.release()
        this.#become('watcher')
        if (!signal.aborted) this.#runtime.log.warn('poll lock lost; following the store')
      }
      await this.#runtime.clock.sleep(tryEveryMs, signal)
      if (signal.aborted) return
      try {
        lease = await this.#ports.leases.join()
        if (told !== undefined) this.#runtime.log.info('poll lock can be tried again')
        told = undefined
        if (lease) this.#runtime.log.info('the poller is gone; polling from here')
        else await this.#watch()
      } catch (error) {
        lease = undefined
        if (told === String(error)) continue
        told = String(error)
        this.#runtime.log.error('poll lock cannot be tried', { error })
      }
    }
  }
}
