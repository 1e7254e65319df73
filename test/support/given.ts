/** Tests that each need one thing of their own. */
import { test } from 'bun:test'

type Body<T> = (thing: T) => unknown

/**
 * Like `test`, for tests that each get what `open` makes: it is disposed of after the test.
 *
 * @param open gets the options that stand between the title and the body
 */
export function given<T extends AsyncDisposable, O>(open: (options?: O) => Promise<T>) {
  function run(title: string, body: Body<T>, timeoutMs?: number): void
  function run(title: string, options: O, body: Body<T>, timeoutMs?: number): void
  function run(title: string, ...given: unknown[]): void {
    const options = typeof given[0] === 'function' ? [] : given.splice(0, 1)
    const [body, timeoutMs] = given as [Body<T>, number | undefined]
    const work = async () => {
      await using thing = await open(...(options as [O]))
      await body(thing)
    }
    if (timeoutMs === undefined) test(title, work)
    else test(title, work, timeoutMs)
  }
  return run
}
