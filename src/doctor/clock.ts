/** The clock: steps since the last write, and the difference to upstream's. */
import { join } from 'node:path'
import process from 'node:process'
import { statOf } from '../platform/files.ts'
import type { StoreSight } from '../store/look.ts'
import { bad, type Found, ok, warning } from './finding.ts'
import type { Patient } from './patient.ts'
import type { Reached } from './reach.ts'
import { moment, span } from './words.ts'

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
  store: StoreSight | undefined,
  upstream: Reached | undefined,
): Promise<Found[]> {
  const found = [...(await futureOf(patient, store)), ...skewOf(patient, upstream)]
  return found
}

async function futureOf(
  { place, sessions, clock }: Patient,
  store: StoreSight | undefined,
): Promise<Found[]> {
  if (place.state !== 'ours') return []
  const names = ['messages.db', 'messages.db-wal', '.poll.lock', '.data.lock', '.default_session']
  const files = [
    ...names.map(name => join(place.dir, name)),
    ...sessions.sessions.flatMap(({ name }) => [
      join(place.dir, name, 'token.json'),
      join(place.dir, name, 'contexts.json'),
    ]),
  ]
  const times = await Promise.all(files.map(path => statOf(path).catch(() => undefined)))
  const now = clock.now()
  const newest = Math.max(
    ...times.map(info => info?.mtimeMs ?? 0),
    ...sessions.sessions.flatMap(({ bot, users }) => [
      bot?.created_at ?? 0,
      ...[...users.values()].map(({ received_at }) => received_at ?? 0),
    ]),
    store?.newestAt ?? 0,
  )
  if (newest - now > futureMs) {
    return [
      warning(
        'step',
        `something here was written ${span(newest - now)} in the future (${moment(newest)}): the clock was set back, or is wrong; windows and retention are reckoned by it`,
        fix,
      ),
    ]
  }
  return [ok('step', `nothing here is newer than now, ${moment(now)}`)]
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
