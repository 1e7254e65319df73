/** Tests that each need one thing of their own. */
import { test } from 'bun:test'

/**
 * A `test` whose tests each get what `open` makes, which is disposed of afterwards. Files call it `it`: `const it = given(withGateway)`,
 * `it('receives', async t => …)`.
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
