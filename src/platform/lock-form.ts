/** What a lock file looks like, and what a way to lock it offers. */
import { writeSync } from 'node:fs'
import { basename } from 'node:path'
import { SvcError } from '../model/error.ts'

export type LockKind = 'flock' | 'lockfile'

export const isLockKind = (text: string): text is LockKind => text === 'flock' || text === 'lockfile'

/** One lock file, opened. The file exists already, with its kind in the first line. */
export interface LockEngine {
  /** Takes the lock if it is free; `note` is left in the file for the messages of other processes. */
  take(note: string): Promise<boolean>
  release(): Promise<void>
  /** Whether the lock that was taken still excludes others. */
  intact(): boolean
  /** Whether nobody else can have taken it meanwhile, as far as can be told at once; asked of an intact lock. */
  sure(): boolean
  /** `told` is called when the lock is lost, where that is known without asking `intact`. */
  whenLost(told: () => void): void
  close(): Promise<void>
}

/** Puts who took the lock behind the first line; fixed width, so that no older text shows behind it. */
export const leaveNote = (fd: number, kind: LockKind, note: string): void =>
  void writeSync(fd, `${kind}\n${note.padEnd(62)}\n`, 0)

/** A lock file that is not to be used as it is. */
export const refused = (path: string, why: string, cause?: unknown): SvcError =>
  new SvcError('store_unavailable', `the lock file ${basename(path)} ${why}`, {
    hint: 'Use one kind of machine for one data directory; if no other process uses it, stop svc, remove the lock files and start again.',
    cause,
  })
