/** Polls for conditions that a test gets no event for. */

import { stopwatch } from './stopwatch.ts'

/**
 * Waits until `look` returns a truthy value.
 *
 * @param withinMs limit in this process's time; time while the machine is suspended does not count
 * @param told returns text to add to the error
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
