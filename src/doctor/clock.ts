/** The clock: its difference to upstream's. */
import process from 'node:process'
import { span } from '../platform/format.ts'
import type { DoctorContext } from './context.ts'
import { bad, type Found, ok, warning } from './finding.ts'
import type { Reached } from './probe.ts'

/** Upstream's clock is told in seconds; answers take time. */
const skew = { warnMs: 60_000, badMs: 60 * 60_000 }

const setClock: Readonly<Partial<Record<NodeJS.Platform, string>>> = {
  linux: 'sudo timedatectl set-ntp true',
  darwin: 'sudo sntp -sS time.apple.com',
  win32: 'w32tm /resync',
}
const fix = setClock[process.platform] ?? 'Set the clock of this machine.'

/** Judges this machine's clock by what upstream says. */
export function examineClock({ directory }: DoctorContext, upstream: Reached | undefined): Found[] {
  // The sandbox has a clock of its own, which its phone can set.
  if (directory.isSandbox || upstream?.date === undefined) return []
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
