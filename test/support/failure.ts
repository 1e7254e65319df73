/** What a promise was rejected with. */

/**
 * Waits as everybody else waits. `expect(promise).rejects` does not: until the promise is over it runs the event loop inside
 * of itself (Bun 1.4.5), and where that happens while a server of the same process is being handed a request, the body of
 * that request is another's when it goes on, and whoever waits for its answer waits in vain meanwhile.
 *
 * @throws when the work succeeds
 */
export async function failure(work: Promise<unknown>): Promise<Error> {
  try {
    await work
  } catch (error) {
    return error as Error
  }
  throw new Error('expected a rejection')
}
