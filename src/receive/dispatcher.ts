/**
 * Who polls: the one process of a data directory that holds the poll lock. Any other follows the store, and takes
 * over when the lock frees. Readers are the same in both: they read the log.
 */
import { SvcError } from '../model/error.ts'
import type { FileLock } from '../platform/lock.ts'
import type { Runtime } from '../platform/runtime.ts'
import { linked } from '../platform/signals.ts'
import type { Heartbeat } from './heartbeat.ts'
import type { Poller } from './poller.ts'

/** A watcher tries the lock this often. */
const tryEveryMs = 1000

export interface DispatcherPorts {
  lock: FileLock
  poller: Poller
  heartbeat: Heartbeat
  /** What another process polls can be read here, so there is something to follow. */
  shared: boolean
}

export class Dispatcher {
  readonly #ports: DispatcherPorts
  readonly #runtime: Runtime
  readonly #stop = new AbortController()
  #role: 'poller' | 'watcher' = 'watcher'
  #stalled = false
  #running: Promise<void> | undefined

  constructor(ports: DispatcherPorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
  }

  get role(): 'poller' | 'watcher' {
    return this.#role
  }

  /** Whether another process holds the poll lock and shows no life: stopped, hung, or on a disk that is. */
  get stalled(): boolean {
    return this.#stalled
  }

  /**
   * Resolves when the role is known; polling or watching goes on until `stop`.
   *
   * @throws SvcError `poll_lock_held` when another process polls and there is no store to follow it through
   */
  async start(): Promise<void> {
    const polling = await this.#ports.lock.tryLock()
    if (polling) this.#become('poller')
    else if (!this.#ports.shared) {
      throw new SvcError('poll_lock_held', 'another process polls for this data directory')
    } else this.#runtime.log.info('another process polls; following the store')
    this.#running = this.#run(polling)
  }

  /** Ends polling; batches in hand are committed first. */
  async stop(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  #become(role: 'poller' | 'watcher'): void {
    this.#role = role
    this.#runtime.bus.tell('roleChanged', role)
  }

  /** Polls until stopped, or until the lock is lost. */
  async #poll(signal: AbortSignal): Promise<void> {
    using ended = linked(signal, this.#ports.lock.lost)
    this.#stalled = false
    const beating = this.#ports.heartbeat.beat(ended.signal)
    await this.#ports.poller.run(ended.signal, { mayPoll: () => this.#ports.lock.sure })
    await beating
    await this.#ports.lock
      .unlock()
      .catch(error => this.#runtime.log.error('poll lock cannot be given back', { error }))
  }

  async #watch(): Promise<void> {
    const stalled = await this.#ports.heartbeat.stalled()
    if (stalled === this.#stalled) return
    this.#stalled = stalled
    if (!stalled) this.#runtime.log.info('the polling process works again')
    else
      this.#runtime.log.warn(
        'the polling process is stalled: it keeps the lock and shows no life; wake it or end it',
      )
  }

  async #run(polling: boolean): Promise<void> {
    const { signal } = this.#stop
    /** Why the lock cannot be tried, as it was logged. */
    let told: string | undefined
    for (let locked = polling; !signal.aborted; ) {
      if (locked) {
        this.#become('poller')
        await this.#poll(signal)
        this.#become('watcher')
        if (!signal.aborted) this.#runtime.log.warn('poll lock lost; following the store')
      }
      await this.#runtime.clock.sleep(tryEveryMs, signal)
      if (signal.aborted) return
      try {
        locked = await this.#ports.lock.tryLock()
        if (told !== undefined) this.#runtime.log.info('poll lock can be tried again')
        told = undefined
        if (locked) this.#runtime.log.info('the poller is gone; polling from here')
        else await this.#watch()
      } catch (error) {
        locked = false
        if (told === String(error)) continue
        told = String(error)
        this.#runtime.log.error('poll lock cannot be tried', { error })
      }
    }
  }
}
