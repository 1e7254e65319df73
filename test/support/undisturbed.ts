/** Repeats a measurement if the machine was suspended during it. */

import { stopwatch } from './stopwatch.ts'

/** Longer than any synchronous work of a process, and shorter than any wait that is measured. */
const standstillMs = 300

/**
 * Repeats `look` if this process did not run for a while: the result would say nothing about the tested
 * program.
 */
export async function undisturbed<T>(look: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    using watch = stopwatch()
    const began = performance.now()
    const seen = await look()
    if (performance.now() - began - watch.ms < standstillMs || tries === 10) return seen
  }
}
