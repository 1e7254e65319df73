/** Resources that live as long as a test or a test file. */
import { afterAll, onTestFinished } from 'bun:test'
import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

let held: AsyncDisposableStack | undefined

/**
 * Disposes of `thing` after the last test of the file, in reverse order. Call it at the top of a file, not
 * in a `describe`.
 */
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

/** Creates an empty folder, which is removed when it is disposed of. */
export function newFolder(within = tmpdir()) {
  const path = realpathSync(mkdtempSync(join(within, 'svc-test-')))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

/** Creates an empty folder for all tests of a file; call it where `forFile` may be called. */
export const folderOfFile = (within?: string): string => forFile(newFolder(within)).path

/**
 * Creates an empty folder for the current or next test. It is removed after everything that the test holds
 * with `await using`.
 */
export function folderOfTest(): string {
  const folder = newFolder()
  onTestFinished(folder[Symbol.dispose])
  return folder.path
}

/** Reads all files of a folder, by path. A file that is being written may have another name by now, and is left out. */
export function readFolder(dir: string): Map<string, Buffer> {
  const entries = readdirSync(dir, { recursive: true, withFileTypes: true })
  const paths = entries.filter(entry => entry.isFile()).map(entry => join(entry.parentPath, entry.name))
  const found = new Map<string, Buffer>()
  for (const path of paths.sort())
    try {
      found.set(path, readFileSync(path))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
  return found
}
