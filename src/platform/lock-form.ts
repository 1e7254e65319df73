/** The format of a lock file, and the interface of a lock engine. */
import { Buffer } from 'node:buffer'
import { closeSync, fsyncSync, ftruncateSync, openSync, readSync, writeSync } from 'node:fs'
import { basename } from 'node:path'
import { SvcError } from '../model/error.ts'

export type LockKind = 'flock' | 'lockfile'

export const isLockKind = (text: string): text is LockKind => text === 'flock' || text === 'lockfile'

/**
 * Ends the first line of a lock file while the secrets of its directory are encrypted. Versions of svc that
 * cannot read them do not know such a kind, and leave the directory alone.
 */
const sealedMark = '+secrets'

/** Returns the kind that the first line of a lock file records, without the mark for encrypted secrets. */
export const kindOf = (line: string): string =>
  line.endsWith(sealedMark) ? line.slice(0, -sealedMark.length) : line

/** One open lock file. The file exists already, with its kind in the first line. */
export interface LockEngine {
  /**
   * Takes the lock if it is free. `note` is written into the file, for the error messages of other processes; without
   * one, that of an earlier holder stays.
   */
  take(note: string | undefined): Promise<boolean>
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
  void writeSync(fd, noteText(readLine(fd) || kind, note), 0)

const noteText = (line: string, note: string): string => `${line}\n${note.padEnd(62)}\n`

/** Returns the first line as it is now: the mark may have changed since the file was opened. */
function readLine(fd: number): string {
  const bytes = Buffer.alloc(32)
  const length = readSync(fd, bytes, 0, bytes.length, 0)
  return /^([^\n]*)\n/.exec(bytes.toString('utf8', 0, length))?.[1] ?? ''
}

/**
 * Records durably whether the secrets of the directory are encrypted. The file is written in place, so a lock
 * that is held stays held.
 *
 * @throws the system's error, also for an absent file
 */
export function markLockFile(path: string, sealed: boolean): void {
  const fd = openSync(path, 'r+')
  try {
    const line = readLine(fd)
    const marked = kindOf(line) + (sealed ? sealedMark : '')
    if (marked === line) return
    ftruncateSync(fd, writeSync(fd, noteText(marked, ''), 0))
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

/** Returns the error for a lock file that cannot be used as it is. */
export const lockFileError = (path: string, why: string, cause?: unknown): SvcError =>
  new SvcError('store_unavailable', `the lock file ${basename(path)} ${why}`, {
    hint: 'Use one kind of machine for one data directory; if no other process uses it, stop svc, remove the lock files and start again.',
    cause,
  })
