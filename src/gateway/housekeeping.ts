/** What goes with time: old messages, sends that waited too long, uploads of yesterday, files left half written. */
import type { Media } from '../media/media.ts'
import type { Runtime } from '../platform/runtime.ts'
import type { Outbox } from '../send/outbox.ts'
import type { Sessions } from '../storage/state.ts'
import type { Upkeep } from '../storage/store.ts'

export interface HousekeepingPorts {
  sessions: Pick<Sessions, 'sweep'>
  upkeep: Pick<Upkeep, 'prune' | 'trustsClock'>
  media: Pick<Media, 'sweep'>
  outbox: Pick<Outbox, 'tidy'>
}

const everyMs = 10 * 60_000
/** The first calls go before it. */
const firstMs = 500
/** A file that nobody has written to for so long is not being written any more. */
const leftoverMs = 60 * 60_000

export class Housekeeping {
  readonly #ports: HousekeepingPorts
  readonly #runtime: Runtime
  #doneAt: number
  #work: Promise<void> | undefined

  constructor(ports: HousekeepingPorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
    this.#doneAt = runtime.clock.monotonic()
  }

  /** Keeps house until the service stops. */
  start(): void {
    this.#work = this.#always()
  }

  /** Keeps house once, when it is time: for programs that a timer would keep alive though they have nothing else to do. */
  whenDue(): void {
    if (this.#runtime.clock.monotonic() - this.#doneAt > everyMs) this.#work = this.#once()
  }

  /** Resolves when nothing of it is under way; `closing` has to be aborted. */
  async closed(): Promise<void> {
    await this.#work
  }

  async #always(): Promise<void> {
    const { clock, closing, log } = this.#runtime
    await clock.sleep(firstMs, closing)
    await this.#tidyFolders().catch(error => log.warn('half-written files not removed', { error }))
    while (!closing.aborted) {
      await this.#once()
      await clock.sleep(everyMs, closing)
    }
  }

  async #once(): Promise<void> {
    const { clock, closing, log } = this.#runtime
    const { media, outbox, upkeep } = this.#ports
    this.#doneAt = clock.monotonic()
    try {
      await outbox.tidy()
      await upkeep.prune(closing)
    } catch (error) {
      if (!closing.aborted) log.error('store not pruned', { error })
    }
    if (await upkeep.trustsClock())
      await media.sweep().catch(error => log.warn('leftover files not removed', { error }))
  }

  async #tidyFolders(): Promise<void> {
    const { clock, log } = this.#runtime
    const { sessions } = this.#ports
    const removed = await sessions.sweep(clock.now() - leftoverMs)
    if (removed > 0) log.info('files that were left half written removed', { files: removed })
  }
}
