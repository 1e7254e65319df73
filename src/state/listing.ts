/** What lies in the data directory itself, read again only when it changed: looking costs a third of reading. */
import { readdirSync, readFileSync } from 'node:fs'
import { errorCodeOf } from '../platform/files.ts'
import { unavailable } from '../platform/system-error.ts'
import { changedAt, isSame, type Stamp, settledAfterMs, stampOf } from './json-file.ts'

/** The coarsest clock of a file system (FAT): two changes closer together than this may leave the same time. */
const coarseMs = 3000

/** The names of the folders in a folder. An entry that is added, removed or renamed changes the folder's own time. */
export class FolderNames {
  readonly #dir: string
  #kept: { stamp: Stamp; names: readonly string[] } | undefined

  constructor(dir: string) {
    this.#dir = dir
  }

  /** As they are on disk now. @throws SvcError `store_unavailable` when the folder is gone or cannot be read */
  read(): readonly string[] {
    try {
      return this.#read()
    } catch (error) {
      throw unavailable(error, 'the data directory cannot be read')
    }
  }

  #read(): readonly string[] {
    const found = stampOf(this.#dir)
    if (found && this.#kept && isSame(this.#kept.stamp, found)) return this.#kept.names
    const names = readdirSync(this.#dir, { withFileTypes: true }).flatMap(entry =>
      entry.isDirectory() ? [entry.name] : [],
    )
    // A folder that changed just now may change again without showing it.
    const settled = found && Date.now() - changedAt(found) > coarseMs
    this.#kept = settled ? { stamp: found, names } : undefined
    return names
  }
}

/** A file of a few bytes that is replaced by rename; undefined while there is none. Known by heart as `JsonFiles` are. */
export class SmallFile {
  readonly #path: string
  #kept: { stamp: Stamp; text: string } | undefined

  constructor(path: string) {
    this.#path = path
  }

  read(): string | undefined {
    const found = stampOf(this.#path)
    if (!found) return undefined
    if (this.#kept && isSame(this.#kept.stamp, found)) return this.#kept.text
    try {
      const settled = Date.now() - changedAt(found) > settledAfterMs
      // Not through the thread pool, whose way costs ten times the reading.
      const text = readFileSync(this.#path, 'utf8')
      this.#kept = settled ? { stamp: found, text } : undefined
      return text
    } catch (error) {
      if (errorCodeOf(error) === 'ENOENT') return undefined
      throw error
    }
  }
}
