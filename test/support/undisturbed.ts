/** For what only looks, and tells how long something took or when it gave up. */

import { stopwatch } from './stopwatch.ts'

/** Longer than what a process does in one go, and shorter than all that a look waits for. */
const standstillMs = 300

/** Looks again when the machine stood still meanwhile: then it tells of the machine, and not of what it looked at. */
export async function undisturbed<T>(look: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    using watch = stopwatch()
    const began = performance.now()
    const seen = await look()
    if (performance.now() - began - watch.ms < standstillMs || tries === 10) return seen
  }
}
