/** Backups by schedule: when the next one is due, and which ones stay in the folder. */
import { realpath, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Backup, BackupStatus } from '../model/backup.ts'
import { SvcError } from '../model/error.ts'
import { withoutUndefined } from '../platform/fields.ts'
import { fileExists, sweep } from '../platform/files.ts'
import { RunningPart, type Runtime } from '../platform/runtime.ts'
import { reasonOf } from '../platform/system-error.ts'
import type { Repetition } from '../platform/tasks.ts'
import type { BackupStore } from '../storage/backups.ts'
import type { EventLog } from '../storage/events.ts'
import type { MakeBackup } from './backup-process.ts'

export interface BackupSchedule {
  /** Absolute. */
  readonly folder: string
  readonly everyMs: number
  /** Number of backups that stay. */
  readonly keep: number
  readonly isEncrypted: boolean
}

export interface BackupPorts {
  backups: BackupStore
  events: Pick<EventLog, 'append'>
  /** Undefined: this process has no schedule. */
  schedule: BackupSchedule | undefined
  /** Undefined: this process cannot make backups. */
  make: MakeBackup | undefined
  /** Whether this process polls: only one of several makes backups by schedule. */
  isPolling(): boolean
}

/** The clock may be set, so the wait for the next backup is checked this often. */
const checkEveryMs = 60_000
const longestRetryMs = 60 * 60_000

const ownName = /^svc-\d{8}T\d{6}Z\.tar(\.age)?$/
/**
 * Unfinished files of a process that was killed. Another store may use the folder, so only an old file is removed.
 */
const unfinishedName = /^svc-\d{8}T\d{6}Z\.tar(\.age)?\.[0-9a-f]{12}\.tmp$/
const leftoverMs = 60 * 60_000

export class Backups extends RunningPart<BackupPorts> {
  #making: Promise<Backup> | undefined
  #work: Repetition | undefined

  /** @param runtime with the clock of the system: a sandbox's clock is not the time of a backup */
  constructor(ports: BackupPorts, runtime: Runtime) {
    super(ports, runtime)
    runtime.bus.on('roleChanged', () => this.#work?.nudge())
  }

  /** Returns the schedule, the newest backup and the last failure. */
  async status(): Promise<BackupStatus> {
    const { backups, schedule } = this.ports
    const [[newest], failure] = await Promise.all([backups.list(), backups.getFailure()])
    return withoutUndefined({
      folder: schedule?.folder,
      every_ms: schedule?.everyMs,
      keep: schedule?.keep,
      newest,
      failure,
    })
  }

  /**
   * Makes a backup in the folder of the schedule, and removes those that are too many. A call while one is
   * being made returns that one.
   *
   * @throws SvcError `invalid_arguments` without a schedule, `store_unavailable` if it fails
   */
  make(): Promise<Backup> {
    this.#making ??= this.#makeOne().finally(() => {
      this.#making = undefined
    })
    return this.#making
  }

  /** Forgets the backups from before a time (Unix ms) whose files are gone, but not the newest, nor one whose folder is away. */
  async forgetGone(before: number): Promise<void> {
    const { backups } = this.ports
    const [, ...older] = await backups.list()
    const gone: string[] = []
    for (const { path, created_at } of older) {
      if (created_at >= before || (await mayExist(path))) continue
      if (await fileExists(dirname(path)).catch(() => false)) gone.push(path)
    }
    if (gone.length > 0) await backups.remove(gone)
  }

  /** Makes backups while this process polls, until the service stops. */
  start(): void {
    const { make, schedule } = this.ports
    if (make && schedule) this.#work = this.#follow(schedule)
  }

  /** Resolves when no backup is being made. Abort `closing` first. */
  async waitUntilClosed(): Promise<void> {
    await Promise.allSettled([this.#work?.done, this.#making])
  }

  #follow(schedule: BackupSchedule): Repetition {
    const { clock, closing: signal, log, tasks } = this.runtime
    const retryMs = () => Math.min(schedule.everyMs, longestRetryMs)
    let retryAt = Number.NEGATIVE_INFINITY
    const name = 'backups'
    const failure = 'no backup was made'
    return tasks.repeat({ name, everyMs: checkEveryMs, failure, log, signal, retryMs }, async () => {
      const leftMs = this.ports.isPolling() ? await this.#untilDue(schedule) : checkEveryMs
      const waitMs = Math.min(checkEveryMs, Math.max(leftMs, retryAt - clock.monotonic()))
      if (waitMs > 0) return waitMs
      retryAt = clock.monotonic() + retryMs()
      await this.make()
      retryAt = Number.NEGATIVE_INFINITY
      return 0
    })
  }

  /** Returns the ms until a backup is due. A time in the future comes from a clock that was wrong. */
  async #untilDue({ folder, everyMs }: BackupSchedule): Promise<number> {
    const now = this.runtime.clock.now()
    const newest = (await this.#listOwn(folder)).find(({ created_at }) => created_at <= now)
    return newest === undefined ? 0 : newest.created_at + everyMs - now
  }

  /** Lists the backups of this store that a schedule made in the folder, the newest first. */
  async #listOwn(folder: string): Promise<Backup[]> {
    const real = await realpath(folder).catch(() => folder)
    const known = await this.ports.backups.list()
    return known.filter(({ path }) => dirname(path) === real && ownName.test(basename(path)))
  }

  async #makeOne(): Promise<Backup> {
    const { backups, events, make, schedule } = this.ports
    const { clock, closing, log } = this.runtime
    if (!make || !schedule) throw noScheduleError()
    try {
      // The folder is not created: where its disk is not mounted, another disk would fill up.
      const folder = await realpath(schedule.folder).catch(error => {
        throw folderError(schedule.folder, error)
      })
      await sweep(folder, unfinishedName, clock.now() - leftoverMs).catch(error =>
        log.warn('unfinished backups not removed', { error }),
      )
      const made = await make(await this.#newPath(folder, schedule.isEncrypted), closing)
      log.info('backup made', made)
      await this.#prune(schedule).catch(error => log.warn('old backups not removed', { error }))
      return made
    } catch (error) {
      closing.throwIfAborted()
      const failure = { at: clock.now(), error: reasonOf(error) }
      const data = { folder: schedule.folder, ...failure }
      await Promise.all([backups.fail(failure), events.append([{ type: 'backup.failed', data }])]).catch(
        error => log.warn('failure not recorded', { error }),
      )
      throw error
    }
  }

  /** Returns a free path with the time in its name, or a second later if that is taken. */
  async #newPath(folder: string, isEncrypted: boolean): Promise<string> {
    for (let at = this.runtime.clock.now(); ; at += 1000) {
      const stamp = new Date(at).toISOString().replace(/[-:]|\.\d+/g, '')
      const path = join(folder, `svc-${stamp}.tar${isEncrypted ? '.age' : ''}`)
      if (!(await fileExists(path))) return path
    }
  }

  /** Removes the backups that are too many. A file that somebody moved away counts too. */
  async #prune({ folder, keep }: BackupSchedule): Promise<void> {
    const now = this.runtime.clock.now()
    const own = await this.#listOwn(folder)
    // Backups with a time in the future, from a wrong clock, go first.
    own.sort((a, b) => Number(a.created_at > now) - Number(b.created_at > now))
    const removed = own.slice(keep).map(({ path }) => path)
    for (const path of removed) await rm(path, { force: true })
    await this.ports.backups.remove(removed)
  }
}

/** Whether a file is there, or cannot be looked at. */
const mayExist = (path: string): Promise<boolean> => fileExists(path).catch(() => true)

const noScheduleError = (): SvcError =>
  new SvcError('invalid_arguments', 'this service has no folder for backups', {
    hint: 'Start it with --backup-to FOLDER, or use svc backup FILE on its machine.',
  })

const folderError = (folder: string, error: unknown): SvcError =>
  new SvcError('store_unavailable', `the folder of backups ${folder} cannot be used: ${reasonOf(error)}`, {
    hint: 'Make the folder, or mount its disk. The user of svc has to write to it.',
    cause: error,
  })
