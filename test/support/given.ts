/** Tests that each get their own fixture, and tests of one engine. */
import { test } from 'bun:test'
import { isOnPostgres } from './shared-store.ts'

/**
 * A test of files that only the engine of SQLite has: the data lock, the poll lock and who waits for it, damaged session
 * files. It is left out where the store is on PostgreSQL.
 */
export const testOfFiles = test.skipIf(isOnPostgres)

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
