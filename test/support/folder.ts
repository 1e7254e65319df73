/** What is there for as long as a test or a file of tests runs, and gone afterwards without a word from it. */
import { afterAll, onTestFinished } from 'bun:test'
import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

let held: AsyncDisposableStack | undefined

/** Disposes of `thing` after the last test of the file, the last one first. At the top of a file, not in a `describe`. */
export function forFile<T extends AsyncDisposable | Disposable>(thing: T): T {
  if (!held) {
    const stack = new AsyncDisposableStack()
    held = stack
    afterAll(() => {
      held = undefined
      return stack.disposeAsync()
    })
  }
  return held.use(thing)
}

function newFolder(within = tmpdir()) {
  const path = realpathSync(mkdtempSync(join(within, 'svc-test-')))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

/** An empty folder for all tests of a file; at its top, as `forFile`. */
export const folderOfFile = (within?: string): string => forFile(newFolder(within)).path

/** An empty folder for the test that runs, or is about to. It goes after whatever the test holds with `await using`. */
export function folderOfTest(): string {
  const folder = newFolder()
  onTestFinished(folder[Symbol.dispose])
  return folder.path
}
