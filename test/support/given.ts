/** Tests that each get their own fixture. */
import { test } from 'bun:test'

/**
 * Creates a `test` function whose tests each get what `open` returns; it is disposed of after the test.
 * Files call it `it`: `const it = given(withGateway)`, `it('receives', async t => …)`.
 */
export const given =
  <T extends AsyncDisposable>(open: () => Promise<T>) =>
  (title: string, body: (own: T) => unknown, timeoutMs?: number): void => {
    const run = async () => {
      await using own = await open()
      await body(own)
    }
    if (timeoutMs === undefined) test(title, run)
    else test(title, run, timeoutMs)
  }
