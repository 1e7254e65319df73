/** Inspects a lock file from outside: it holds no lock and writes nothing. */
import { readText, returnIfAbsent, statOf } from './files.ts'
import { isTaken } from './lock-engine.ts'
import { isLockKind, kindOf } from './lock-form.ts'

/** What can be seen of a lock file. */
export interface LockInspection {
  /** The kind recorded in the file; '' when none is yet. */
  kind: string
  /** Whether a process holds it; undefined when this cannot be known here. */
  held?: boolean
  /** Process id of the last holder. */
  pid?: number
  /** When the last holder took it, Unix ms. */
  takenAt?: number
  /** When the file was last touched, Unix ms: by the poller's heartbeat, or by the process that took it. */
  touchedAt: number
}

/**
 * Inspects a lock file. To see whether it is held, it holds a shared lock for microseconds.
 *
 * @returns undefined when the file is absent
 * @throws the system's error when it cannot be read
 */
export async function inspectLock(path: string): Promise<LockInspection | undefined> {
  const [text, found] = await Promise.all([readText(path), statOf(path)])
  if (text === undefined || !found) return undefined
  const [line = '', note = ''] = text.split('\n')
  const kind = kindOf(line)
  const [, pid, at] = /^taken by process (\d+) at (\S+)/.exec(note) ?? []
  const takenAt = at === undefined ? Number.NaN : Date.parse(at)
  // A file that was removed since it was read is held by no process.
  const held = isLockKind(kind) ? await isTaken(kind, path).catch(returnIfAbsent(false)) : undefined
  return {
    kind,
    held,
    ...(pid !== undefined && { pid: Number(pid) }),
    ...(Number.isFinite(takenAt) && { takenAt }),
    touchedAt: found.mtimeMs,
  }
}
