/** The clock: steps since the last write, and the difference to upstream's. */
import { join } from 'node:path'
import process from 'node:process'
import type { StoreStats } from '../inspect/store-stats.ts'
import { dataFiles } from '../model/data-files.ts'
import { statOf } from '../platform/files.ts'
import { isoTime, span } from '../platform/format.ts'
import type { Patient } from './context.ts'
import { bad, type Found, ok, warning } from './finding.ts'
import type { Reached } from './probe.ts'

/** Writes may be this much ahead of a clock that is being steered. */
const futureMs = 60_000
/** Upstream's clock is told in seconds; answers take time. */
const skew = { warnMs: 60_000, badMs: 60 * 60_000 }

const setClock: Readonly<Partial<Record<NodeJS.Platform, string>>> = {
  linux: 'sudo timedatectl set-ntp true',
  darwin: 'sudo sntp -sS time.apple.com',
  win32: 'w32tm /resync',
}
const fix = setClock[process.platform] ?? 'Set the clock of this machine.'

/** Judges this machine's clock by what was written, and by what upstream says. */
export async function examineClock(
  patient: Patient,
  store: StoreStats | undefined,
  upstream: Reached | undefined,
): Promise<Found[]> {
  const step = patient.place.state === 'ours' ? [await stepOf(patient, store)] : []
  return [...step, ...skewOf(patient, upstream)]
}

async function stepOf({ place, sessions, clock }: Patient, store: StoreStats | undefined): Promise<Found> {
  const files = [dataFiles.store, 'messages.db-wal', dataFiles.pollLock].map(name => join(place.dir, name))
  const times = await Promise.all(files.map(path => statOf(path).catch(() => undefined)))
  const now = clock.now()
  const newest = Math.max(
    store?.newestAt ?? 0,
    ...times.map(info => info?.mtimeMs ?? 0),
    ...sessions.sessions.map(({ bot }) => bot?.created_at ?? 0),
  )
  if (newest - now <= futureMs) return ok('step', `nothing here is newer than now, ${isoTime(now)}`)
  return warning(
    'step',
    `something here was written ${span(newest - now)} in the future (${isoTime(newest)}): the clock was set back, or is wrong; windows and retention are reckoned by it`,
    fix,
  )
}

function skewOf({ place }: Patient, upstream: Reached | undefined): Found[] {
  // The sandbox has a clock of its own, which its phone can set.
  if (place.isSandbox || !upstream?.ok || upstream.date === undefined) return []
  const off = upstream.localAt - upstream.date
  const size = Math.abs(off) - upstream.tookMs / 2
  if (size < skew.warnMs) return [ok('upstream', 'this clock and upstream’s agree')]
  const what = `this clock is ${span(off)} ${off > 0 ? 'ahead of' : 'behind'} upstream’s`
  return [
    size < skew.badMs
      ? warning('upstream', what, fix)
      : bad('upstream', `${what}: windows are judged wrongly`, fix),
  ]
}
