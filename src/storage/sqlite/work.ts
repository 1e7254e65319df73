/** Opens messages.db, and runs the work of the store's methods on it: in their write modes, with their errors. */
import { chmodSync } from 'node:fs'
import { SvcError } from '../../model/error.ts'
import type { Clock } from '../../platform/clock.ts'
import { errorCodeOf, makePrivate } from '../../platform/files.ts'
import type { Log } from '../../platform/log.ts'
import { RoomPart } from '../../platform/runtime.ts'
import { type Database, findDatabaseError, openDatabase, switchToWal } from '../../platform/sqlite.ts'
import { storeErrorOf } from '../../platform/system-error.ts'
import { Tasks } from '../../platform/tasks.ts'
import { logEndErrorOf } from '../log-rows.ts'
import { ChangeNotifier, CommitQueue } from './commits.ts'
import { migrate, rejectOtherForm } from './migrations.ts'
import { OpenedStoreFile } from './opened-file.ts'
import type { WriteModes } from './write-modes.ts'

/** Path of a log that only this process has and that ends with it. */
export const inMemory = ':memory:'

/** How long a writer waits for another process by default; it blocks this process meanwhile. */
const defaultBusyMs = 2000

/**
 * Opens the file, and creates it if needed.
 *
 * @param use if it throws, the file is closed
 * @throws SvcError `store_unavailable`: not a database, damaged, of a newer version, not writable
 */
export async function openStoreFile<T>(
  path: string,
  busyMs = defaultBusyMs,
  use: (db: Database) => T,
): Promise<T> {
  const openMs = busyMs * 5
  let db: Database | undefined
  try {
    if (path !== inMemory) await rejectOtherForm(path)
    db = await openDatabase(path)
    if (path !== inMemory) chmodSync(path, 0o600)
    db.exec(`PRAGMA busy_timeout = ${openMs}`)
    // Only for a new file: for an existing one this pragma would write.
    if (db.get`PRAGMA page_count`?.page_count === 0) db.exec('PRAGMA auto_vacuum = INCREMENTAL')
    await switchToWal(db, openMs)
    db.exec('PRAGMA synchronous = FULL')
    db.exec('PRAGMA temp_store = MEMORY')
    db.exec('PRAGMA cache_size = -16000')
    db.exec('PRAGMA wal_autocheckpoint = 2000')
    db.exec('PRAGMA journal_size_limit = 67108864')
    migrate(db)
    db.exec(`PRAGMA busy_timeout = ${busyMs}`)
    for (const suffix of path === inMemory ? [] : ['-wal', '-shm']) await makePrivate(`${path}${suffix}`)
    return use(db)
  } catch (error) {
    db?.close()
    if (error instanceof SvcError) throw error
    throw storeErrorOf(await findDatabaseError(path, error), 'messages.db cannot be opened')
  }
}

interface WorkPorts {
  db: Database
  path: string
  clock: Clock
  log: Log
  busyMs?: number | undefined
  tasks?: Tasks | undefined
  /** Number of changes of this process to sent messages. They are events, though not for consumers. */
  readonly messages: { readonly sentChanges: number }
}

export class SqliteWork extends RoomPart<WorkPorts> {
  readonly #writes = new CommitQueue({
    db: this.ports.db,
    check: () => this.guard(() => this.#file.rejectLostNow()),
  })
  readonly #file = new OpenedStoreFile(this.ports)
  readonly #changes = new ChangeNotifier({
    ...this.ports,
    tasks: this.ports.tasks ?? new Tasks(this.ports.clock),
    isLost: () => this.#file.isLost,
  })
  /** The last operation failed, and no batch was stored since. */
  #isFailing = false
  /** The error from a damaged page: no later success clears it. */
  #damage: SvcError | undefined
  #isClosed = false
  readonly modes: WriteModes = {
    plain: work => this.guard(work),
    relaxed: work => this.guard(() => this.#relax(work)),
    redelivery: work => {
      const result = this.guard(() => this.#relax(work))
      this.#changes.notify()
      return result
    },
    light: work => {
      const before = this.ports.messages.sentChanges
      const result = this.guard(() => this.#relax(() => this.ports.db.transaction(work)))
      if (this.ports.messages.sentChanges !== before) this.#changes.notify()
      return result
    },
    write: work => this.#write(work),
    intake: work => this.takeIn(work),
  }

  /** Waits for a change. */
  wait(signal: AbortSignal, ms: number): Promise<void> {
    return this.#changes.wait(signal, ms)
  }

  guard<T>(work: () => T): T {
    if (this.#isClosed) throw new SvcError('shutting_down', 'the message store is closed')
    try {
      this.#file.rejectLost()
      return work()
    } catch (error) {
      throw this.#errorOf(error)
    }
  }

  /** Same as `intake`, within the call. */
  takeIn<T>(work: () => T): T {
    const result = this.guard(() => {
      this.#file.rejectLostNow()
      return work()
    })
    this.#isFailing = false
    this.#changes.notify()
    return result
  }

  /** Runs work that yields to the event loop. */
  async guardLong<T>(work: () => Promise<T>): Promise<T> {
    try {
      this.#file.rejectLost()
      return await work()
    } catch (error) {
      throw this.#errorOf(error)
    }
  }

  /** Runs `work` without waiting for the disk. Data that a power cut loses is only read again. */
  #relax<T>(work: () => T): T {
    const { db } = this.ports
    db.exec('PRAGMA synchronous = NORMAL')
    try {
      return work()
    } finally {
      db.exec('PRAGMA synchronous = FULL')
    }
  }

  /** Runs `work` in the next transaction, which is on the disk when this resolves. */
  async #write<T>(work: () => T): Promise<T> {
    const before = this.ports.messages.sentChanges
    try {
      return await this.#writes.write(work)
    } catch (error) {
      throw this.#errorOf(error)
    } finally {
      if (this.ports.messages.sentChanges !== before) this.#changes.notify()
    }
  }

  /** Returns why nothing can be written. */
  checkWritable(): SvcError | undefined {
    if (this.#damage) return this.#damage
    const { busyMs = defaultBusyMs, db } = this.ports
    try {
      this.#file.rejectLostNow()
      db.exec('PRAGMA busy_timeout = 0')
      try {
        db.transaction(() => {
          // After a failure an empty transaction proves nothing: a full disk fails only when a page is
          // written.
          const version = db.get`PRAGMA user_version`?.user_version
          if (this.#isFailing) db.exec(`PRAGMA user_version = ${Number(version)}`)
        })
      } finally {
        db.exec(`PRAGMA busy_timeout = ${busyMs}`)
      }
      return undefined
    } catch (error) {
      // Another process writes at this moment: the store works.
      if (errorCodeOf(error)?.startsWith('SQLITE_BUSY')) return undefined
      const svcError = this.#errorOf(error)
      return svcError instanceof SvcError
        ? svcError
        : new SvcError('store_unavailable', 'the message store does not work', { cause: error })
    }
  }

  close(): void {
    if (this.#isClosed) return
    this.#writes.flush()
    this.#isClosed = true
    this.#changes.notify()
    this.ports.db.close()
  }

  /** Converts an error for callers. */
  #errorOf(error: unknown): unknown {
    const known = error instanceof SvcError ? error : logEndErrorOf(error)
    if (known) return known
    if (this.#isClosed) return new SvcError('shutting_down', 'the message store is closed', { cause: error })
    const svcError = storeErrorOf(error, 'the message store does not work at the moment')
    if (svcError instanceof SvcError) this.#isFailing = true
    if (svcError instanceof SvcError && /^SQLITE_(CORRUPT|NOTADB)/.test(errorCodeOf(error) ?? ''))
      this.#damage = svcError
    return svcError
  }
}
