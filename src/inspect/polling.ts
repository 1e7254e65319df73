/** Which process polls for a data directory, and whether it is alive. */
import { join } from 'node:path'
import { dataFiles } from '../model/data-files.ts'
import { AwakeTime, type Clock } from '../platform/clock.ts'
import { statOf } from '../platform/files.ts'
import { type LockSight, lookAtLock } from '../platform/lock-look.ts'
import { type ProcessState, processState } from '../platform/other-process.ts'
import { beatEveryMs, stalledMs } from '../storage/sqlite/heartbeat.ts'

export interface Polling {
  /** Whether somebody holds the poll lock; undefined when that cannot be told. */
  held: boolean | undefined
  /** Who took it last, as recorded; of a held one that is its holder. */
  pid?: number
  /** Unix ms when it took the lock. */
  since?: number
  /** Of a holder: how its process is. `gone` with a held lock: it runs in another container, or on another machine. */
  process?: ProcessState
  /** Of a holder: it shows no life. */
  stalled: boolean
  /** Unix ms of the last sign of life. */
  seenAt?: number
  lock?: LockSight
}

/** A beat of a living poller comes within this. */
const beatWithinMs = beatEveryMs + 1500
const lookEveryMs = 100
/** What one look adds to the watch at most: the machine may have stood still, and the holder with us. */
const longestLookMs = 500

/**
 * Looks at the poll lock. A holder whose last sign of life is old, or in the future after the clock was set, is watched
 * for one more beat, some 5 s, before it counts as stalled.
 *
 * @throws the system's error when the lock file cannot be read
 */
export async function lookAtPolling(dir: string, clock: Clock): Promise<Polling> {
  const path = join(dir, dataFiles.pollLock)
  const lock = await lookAtLock(path)
  if (!lock) return { held: false, stalled: false }
  const { held, pid, takenAt, touchedAt } = lock
  const taken = { pid, since: takenAt }
  if (!held || pid === undefined) return { held, ...taken, stalled: false, lock }
  const process = await processState(pid)
  const ageMs = clock.now() - touchedAt
  const fresh = ageMs <= stalledMs && ageMs >= -1000
  const stalled = process === 'stopped' || (!fresh && !(await beats(path, touchedAt, clock)))
  return { held, ...taken, process, stalled, seenAt: touchedAt, lock }
}

async function beats(path: string, before: number, clock: Clock): Promise<boolean> {
  const awake = new AwakeTime(clock, longestLookMs)
  for (let leftMs = beatWithinMs; leftMs > 0; leftMs -= awake.look()) {
    await clock.sleep(lookEveryMs)
    if ((await statOf(path))?.mtimeMs !== before) return true
  }
  return false
}
