/** Waiting for what a test cannot be told of. */

import { stopwatch } from './stopwatch.ts'

/**
 * Waits until `look` gives something, and not nothing, no or 0.
 *
 * @param withinMs of this process's time: a machine that stands still meanwhile is waited for
 * @param told what else to say when it does not
 * @throws after `withinMs`, naming `what`
 */
export async function until<T>(
  what: string,
  withinMs: number,
  look: () => T | undefined | false | Promise<T | undefined | false>,
  told: () => string = () => '',
): Promise<T> {
  using watch = stopwatch()
  for (;;) {
    const found = await look()
    if (found) return found
    if (watch.ms > withinMs) throw new Error(`not within ${withinMs} ms: ${what}\n${told()}`)
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}
