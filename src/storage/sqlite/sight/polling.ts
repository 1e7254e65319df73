/** Which process polls for a data directory, and whether it is alive. */
import { join } from 'node:path'
import { dataFiles } from '../../../model/data-files.ts'
import { AwakeTime, type Clock } from '../../../platform/clock.ts'
import { statOf } from '../../../platform/files.ts'
import { lookAtLock } from '../../../platform/lock-look.ts'
import { processState } from '../../../platform/other-process.ts'
import type { Polling } from '../../sight.ts'
import { beatEveryMs, stalledMs } from '../heartbeat.ts'

/** A beat of a living poller comes within this. */
const beatWithinMs = beatEveryMs + 1500
const lookEveryMs = 100
/** What one look adds to the watch at most: the machine may have stood still, and the holder with us. */
const longestLookMs = 500

/** As of `Sight.polling`. */
export async function lookAtPolling(dir: string, clock: Clock): Promise<Polling> {
  const path = join(dir, dataFiles.pollLock)
  const lock = await lookAtLock(path)
  if (!lock) return { held: false, stalled: false }
  const { held, pid, takenAt, touchedAt } = lock
  const taken = { pid, since: takenAt }
  if (!held || pid === undefined) return { held, ...taken, stalled: false }
  const process = await processState(pid)
  const ageMs = clock.now() - touchedAt
  const fresh = ageMs <= stalledMs && ageMs >= -1000
  const stalled = process === 'stopped' || (!fresh && !(await beats(path, touchedAt, clock)))
  return { held, ...taken, process, stalled, seenAt: touchedAt }
}

async function beats(path: string, before: number, clock: Clock): Promise<boolean> {
  const awake = new AwakeTime(clock, longestLookMs)
  for (let leftMs = beatWithinMs; leftMs > 0; leftMs -= awake.look()) {
    await clock.sleep(lookEveryMs)
    if ((await statOf(path))?.mtimeMs !== before) return true
  }
  return false
}
