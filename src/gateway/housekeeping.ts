/**
 * Maintenance: removes old messages, lines of the audit log and turns of agents, sends that waited too long, old uploads,
 * and half-written files.
 */
import type { Media } from '../media/media.ts'
import type { Runtime } from '../platform/runtime.ts'
import type { Outbox } from '../send/outbox.ts'
import type { AgentStore } from '../storage/agents.ts'
import type { AuditStore } from '../storage/audit.ts'
import type { SessionStore } from '../storage/state.ts'
import type { StoreMaintenance } from '../storage/store.ts'

export interface HousekeepingPorts {
  sessions: Pick<SessionStore, 'sweep'>
  upkeep: Pick<StoreMaintenance, 'prune' | 'isClockTrusted'>
  media: Pick<Media, 'sweep'>
  outbox: Pick<Outbox, 'endStale'>
  audit: Pick<AuditStore, 'prune'>
  agents: Pick<AgentStore, 'prune'>
  /** How long lines of the audit log are kept. */
  auditMs: number
}

const everyMs = 10 * 60_000
/** Wait before the first run, so that the first calls go first. */
const firstMs = 500
/** Between two steps of a long removal. */
const pauseMs = 5
/** How long turns of agents are kept after their end. */
const turnsMs = 30 * 24 * 60 * 60_000
/** A half-written file that did not change for this long is abandoned. */
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

  /** Runs maintenance at intervals until the service stops. */
  start(): void {
    this.#work = this.#runRepeatedly()
  }

  /** Runs maintenance once if it is due. For programs that a timer would keep alive without other work. */
  runIfDue(): void {
    if (this.#runtime.clock.monotonic() - this.#doneAt > everyMs) this.#work = this.#runOnce()
  }

  /** Resolves when no maintenance is running. Abort `closing` first. */
  async waitUntilClosed(): Promise<void> {
    await this.#work
  }

  async #runRepeatedly(): Promise<void> {
    const { clock, closing, log } = this.#runtime
    await clock.sleep(firstMs, closing)
    await this.#sweepFolders().catch(error => log.warn('half-written files not removed', { error }))
    while (!closing.aborted) {
      await this.#runOnce()
      await clock.sleep(everyMs, closing)
    }
  }

  async #runOnce(): Promise<void> {
    const { bus, clock, closing, log } = this.#runtime
    const { media, outbox, upkeep } = this.#ports
    this.#doneAt = clock.monotonic()
    try {
      await outbox.endStale()
      const unread = await upkeep.prune(closing)
      if (unread > 0) bus.notify('unreadRemoved', unread)
    } catch (error) {
      if (!closing.aborted) log.error('store not pruned', { error })
    }
    if (!(await upkeep.isClockTrusted())) return
    await media.sweep().catch(error => log.warn('leftover files not removed', { error }))
    const { agents, audit, auditMs } = this.#ports
    await this.#pruneAll(audit, auditMs).catch(error => log.warn('audit log not pruned', { error }))
    await this.#pruneAll(agents, turnsMs).catch(error => log.warn('turns of agents not pruned', { error }))
  }

  /** Removes what is older, step by step. */
  async #pruneAll(part: { prune(before: number): Promise<boolean> }, keptMs: number): Promise<void> {
    const { clock, closing } = this.#runtime
    while (!closing.aborted && (await part.prune(clock.now() - keptMs))) await clock.sleep(pauseMs, closing)
  }

  async #sweepFolders(): Promise<void> {
    const { clock, log } = this.#runtime
    const { sessions } = this.#ports
    const removed = await sessions.sweep(clock.now() - leftoverMs)
    if (removed > 0) log.info('files that were left half written removed', { files: removed })
  }
}
