/**
 * Maintenance: removes old messages, lines of the audit log and turns of agents, keys and invitations that ended long ago,
 * sends that waited too long, old uploads, and half-written files.
 */
import type { Media } from '../media/media.ts'
import type { StoreChange } from '../model/audit.ts'
import { formatPrincipal, owner } from '../model/principal.ts'
import { type SetAside, settingAside } from '../platform/apart.ts'
import { findSystemUser } from '../platform/process.ts'
import { RunningPart } from '../platform/runtime.ts'
import type { Outbox } from '../send/outbox.ts'
import type { SessionStore } from '../storage/state.ts'
import type { OldKind, StoreMaintenance } from '../storage/store.ts'
import type { Backups } from './backups.ts'

export interface HousekeepingPorts {
  sessions: Pick<SessionStore, 'list' | 'sweep'>
  upkeep: Pick<
    StoreMaintenance,
    'prune' | 'removeOld' | 'shrink' | 'isClockTrusted' | 'noteClock' | 'noteRetention'
  >
  media: Pick<Media, 'uploads' | 'downloads' | 'kept'>
  outbox: Pick<Outbox, 'endStale'>
  backups: Pick<Backups, 'forgetGone'>
  /** How long lines of the audit log are kept. */
  auditMs: number
  /** How long the answers of webhooks are kept. */
  answersMs: number
  /** What is kept, for the audit log. */
  retention: string
}

const everyMs = 10 * 60_000
/** A process may run for minutes only, and its time counts. */
const clockMs = 60_000
/** Wait before the first run, so that the first calls go first. */
const firstMs = 500
/** Between two steps of a long removal. */
const pauseMs = 5
/** How long turns of agents are kept after their end. */
const turnsMs = 30 * 24 * 60 * 60_000
/** Ended keys and invitations are kept as long as lines of the audit log, and at least for this long. */
const endedMs = 30 * 24 * 60 * 60_000
/** A half-written file that did not change for this long is abandoned. */
const leftoverMs = 60 * 60_000

/** One kind of maintenance. None waits for another. */
interface Chore {
  readonly name: string
  /** What the log says when it fails. */
  readonly failure: string
  readonly everyMs?: number
  /** It removes by age: it does nothing while the clock may be wrong. */
  readonly needsClock?: true
  work(setAside: SetAside): Promise<unknown>
}

export class Housekeeping extends RunningPart<HousekeepingPorts> {
  readonly #chores = [...this.#listRemovals(), ...this.#listSweeps()].map(one => this.#guard(one))
  /** What only a process does that does not send repeatedly. */
  readonly #sends: Chore = {
    name: 'send_ends',
    failure: 'sends that are over were not ended',
    work: setAside => this.ports.outbox.endStale(setAside),
  }
  #doneAt = this.runtime.clock.monotonic()
  #work: Promise<unknown> | undefined

  /** What leaves the store. */
  #listRemovals(): Chore[] {
    const { backups, retention, upkeep } = this.ports
    const { bus, clock, closing } = this.runtime
    let isNoted = false
    const toLine = (subject: string) => ({
      at: clock.now(),
      principal: formatPrincipal(owner),
      operation: 'set_retention' satisfies StoreChange,
      subject,
      outcome: 'done',
      address: `service:${findSystemUser()}`,
    })
    return [
      {
        name: 'clock',
        failure: 'what is known of the clock is not stored',
        everyMs: clockMs,
        work: () => upkeep.noteClock(),
      },
      {
        name: 'retention_note',
        failure: 'a change of what is kept is not in the audit log',
        // Once: processes may differ in what they keep.
        async work() {
          if (!isNoted) await upkeep.noteRetention(toLine(retention))
          isNoted = true
        },
      },
      {
        name: 'message_retention',
        failure: 'messages not pruned',
        async work(setAside) {
          const unread = await settingAside(setAside, upkeep.prune(closing))
          if (unread > 0) bus.notify('unreadRemoved', unread)
        },
      },
      ...this.#listOld(),
      {
        name: 'gone_backups',
        failure: 'backups whose files are gone were not forgotten',
        needsClock: true,
        work: () => backups.forgetGone(clock.now() - endedMs),
      },
      {
        name: 'store_file',
        failure: 'the file of the store cannot be made smaller',
        work: () => upkeep.shrink(closing),
      },
    ]
  }

  /** What leaves the store for its age: the log says what, how long it is kept after its end, and of which kinds it is. */
  #listOld(): Chore[] {
    const { answersMs, auditMs } = this.ports
    const ended = Math.max(auditMs, endedMs)
    const all: readonly (readonly [name: string, what: string, keptMs: number, ...OldKind[]])[] = [
      ['send_retention', 'old sends', 0, 'key of send', 'send'],
      ['audit_retention', 'audit log', auditMs, 'line'],
      ['turn_retention', 'turns of agents', turnsMs, 'turn', 'question'],
      ['answer_retention', 'answers of webhooks', answersMs, 'answer'],
      ['key_retention', 'ended keys', ended, 'key'],
      ['invitation_retention', 'ended invitations', ended, 'invitation'],
      ['session_retention', 'names of sessions that are gone', ended, 'session'],
    ]
    return all.map(([name, what, keptMs, ...kinds]) => ({
      name,
      failure: `${what} not pruned`,
      needsClock: true,
      work: setAside => this.#removeOld(keptMs, kinds, setAside),
    }))
  }

  /** What leaves the folders. */
  #listSweeps(): Chore[] {
    const { media } = this.ports
    const failure = 'leftover files not removed'
    return [
      { name: 'uploads', failure, needsClock: true, work: () => media.uploads.sweep() },
      { name: 'downloads', failure, needsClock: true, work: () => media.downloads.sweep() },
      { name: 'queued_files', failure, needsClock: true, work: () => media.kept.sweep() },
      { name: 'half_written_files', failure, work: () => this.#sweepFolders() },
    ]
  }

  #guard(chore: Chore): Chore {
    if (!chore.needsClock) return chore
    const work: Chore['work'] = async setAside =>
      (await this.ports.upkeep.isClockTrusted()) ? await chore.work(setAside) : undefined
    return { ...chore, work }
  }

  /** Runs maintenance at intervals until the service stops. */
  start(): void {
    const { closing: signal, log, tasks } = this.runtime
    const options = { everyMs, firstMs, log, signal }
    this.#work = Promise.all(
      this.#chores.map(({ work, ...named }) => tasks.repeat({ ...options, ...named }, work).done),
    )
  }

  /** Runs maintenance once if it is due. For programs that a timer would keep alive without other work. */
  runIfDue(): void {
    const { clock, closing, log, tasks } = this.runtime
    if (clock.monotonic() - this.#doneAt <= everyMs) return
    this.#doneAt = clock.monotonic()
    const runOnce = async ({ work, ...named }: Chore) => {
      using task = tasks.register({ everyMs, ...named, log })
      await task.run(work, closing)
    }
    this.#work = Promise.all([this.#sends, ...this.#chores].map(runOnce))
  }

  /** Resolves when no maintenance is running. Abort `closing` first. */
  async waitUntilClosed(): Promise<void> {
    await this.#work
  }

  /**
   * Removes what is over, step by step. An invitation stays while somebody who joined by it has an account, and so does the
   * name of a session.
   */
  async #removeOld(keptMs: number, kinds: readonly OldKind[], setAside: SetAside): Promise<void> {
    const { sessions, upkeep } = this.ports
    const { clock, closing } = this.runtime
    const isOfAccounts = kinds.includes('invitation') || kinds.includes('session')
    const records = isOfAccounts ? await sessions.list() : []
    const keptFor = (kind: OldKind) =>
      records.flatMap(({ bot, name }) => (kind === 'session' ? name : (bot?.invitation ?? [])))
    const remove = (kind: OldKind) =>
      settingAside(setAside, upkeep.removeOld(kind, clock.now() - keptMs, keptFor(kind)))
    for (const kind of kinds)
      while (!closing.aborted && (await remove(kind))) await clock.sleep(pauseMs, closing)
  }

  async #sweepFolders(): Promise<void> {
    const { clock, log } = this.runtime
    const removed = await this.ports.sessions.sweep(clock.now() - leftoverMs)
    if (removed > 0) log.info('files that were left half written removed', { files: removed })
  }
}
