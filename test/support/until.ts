/** Waiting for what a test cannot be told of. */

/**
 * Waits until `look` gives something, and not nothing, no or 0.
 *
 * @param told what else to say when it does not
 * @throws after `withinMs`, naming `what`
 */
export async function until<T>(
  what: string,
  withinMs: number,
  look: () => T | undefined | false | Promise<T | undefined | false>,
  told: () => string = () => '',
): Promise<T> {
  for (const deadline = performance.now() + withinMs; ; ) {
    const found = await look()
    if (found) return found
    if (performance.now() > deadline) throw new Error(`not within ${withinMs} ms: ${what}\n${told()}`)
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}
