/** A lock file as it looks from outside, for those who only want to know: nothing is taken and nothing is written. */
import { absentAs, readText, statOf } from './files.ts'
import { isTaken } from './lock-engine.ts'
import { isLockKind } from './lock-form.ts'

/** What a lock file shows. */
export interface LockSight {
  /** As recorded in the file; '' when nothing is yet. */
  kind: string
  /** Whether somebody holds it; undefined when that cannot be told here. */
  held?: boolean
  /** Process number of the last holder. */
  pid?: number
  /** Unix ms when that was. */
  takenAt?: number
  /** Unix ms when the file was last touched: by the poller's heartbeat, or by the process that took it. */
  touchedAt: number
}

/**
 * Looks at a lock file. The share of the lock that is asked for meanwhile is held for microseconds.
 *
 * @returns undefined when there is no such file
 * @throws the system's error when it cannot be read
 */
export async function lookAtLock(path: string): Promise<LockSight | undefined> {
  const [text, found] = await Promise.all([readText(path), statOf(path)])
  if (text === undefined || !found) return undefined
  const [kind = '', note = ''] = text.split('\n')
  const [, pid, at] = /^taken by process (\d+) at (\S+)/.exec(note) ?? []
  const takenAt = at === undefined ? Number.NaN : Date.parse(at)
  // Gone since we read it: then nobody holds it.
  const held = isLockKind(kind) ? await isTaken(kind, path).catch(absentAs(false)) : undefined
  return {
    kind,
    held,
    ...(pid !== undefined && { pid: Number(pid) }),
    ...(Number.isFinite(takenAt) && { takenAt }),
    touchedAt: found.mtimeMs,
  }
}
