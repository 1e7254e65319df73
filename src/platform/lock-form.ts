/** The format of a lock file, and the interface of a lock engine. */
import { writeSync } from 'node:fs'
import { basename } from 'node:path'
import { SvcError } from '../model/error.ts'

export type LockKind = 'flock' | 'lockfile'

export const isLockKind = (text: string): text is LockKind => text === 'flock' || text === 'lockfile'

/** One open lock file. The file exists already, with its kind in the first line. */
export interface LockEngine {
  /**
   * Takes the lock if it is free. `note` is written into the file, for the error messages of other processes.
   */
  take(note: string): Promise<boolean>
  release(): Promise<void>
  /** Returns whether the lock that was taken still excludes others. */
  isIntact(): boolean
  /**
   * Returns whether no other process can have taken the lock, as far as can be known at once. Call it on an
   * intact lock.
   */
  isSurelyHeld(): boolean
  /** Calls `listener` when the lock is lost, if the engine notices it without a check. */
  onLost(listener: () => void): void
  close(): Promise<void>
}

/**
 * Writes who took the lock behind the first line. The width is fixed, so no rest of an older note remains.
 */
export const writeNote = (fd: number, kind: LockKind, note: string): void =>
  void writeSync(fd, `${kind}\n${note.padEnd(62)}\n`, 0)

/** Returns the error for a lock file that cannot be used as it is. */
export const lockFileError = (path: string, why: string, cause?: unknown): SvcError =>
  new SvcError('store_unavailable', `the lock file ${basename(path)} ${why}`, {
    hint: 'Use one kind of machine for one data directory; if no other process uses it, stop svc, remove the lock files and start again.',
    cause,
  })
