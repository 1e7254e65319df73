/**
 * Reads small files and folders that other processes may change at any time, and reads them again only after
 * a change. Files are replaced by rename, never written in place, so inode, size and time identify the
 * content. A file written just now is the exception: a freed inode is reused, and file systems count time in
 * milliseconds. The inode's change time (ctime) counts too: it shows a new owner or mode, after which the
 * file may be unreadable.
 */
import { readdirSync, statSync } from 'node:fs'
import { basename } from 'node:path'
import { SvcError } from '../model/error.ts'
import { errorCodeOf, readBytes } from './files.ts'
import { storeErrorOf } from './system-error.ts'

export type JsonObject = Record<string, unknown>

/**
 * Age from which a file counts as stable, in ms: many clock ticks of a file system that reuses an inode at
 * once.
 */
export const stableAfterMs = 50
/**
 * The coarsest clock of a file system (FAT): two changes of a folder within this time may have the same
 * timestamp.
 */
const coarseMs = 3000

/** The loaded content per path, kept until the file or folder changes. */
class FileCache<T> {
  readonly #load: (path: string) => T
  readonly #stableAfterMs: number
  /** Only content that was old enough when it was read: any later change is visible in its stamp. */
  readonly #entries = new Map<string, { stamp: Stamp; value: T }>()

  constructor(load: (path: string) => T, afterMs = stableAfterMs) {
    this.#load = load
    this.#stableAfterMs = afterMs
  }

  /** Returns the same value as before while nothing changed; undefined when the path is absent. */
  read(path: string): T | undefined {
    const stamp = stampOf(path)
    const kept = this.#entries.get(path)
    if (kept && stamp && isSame(kept.stamp, stamp)) return kept.value
    this.#entries.delete(path)
    if (!stamp) return undefined
    const settled = Date.now() - lastChangeOf(stamp) > this.#stableAfterMs
    try {
      const value = this.#load(path)
      if (settled) this.#entries.set(path, { stamp, value })
      return value
    } catch (error) {
      if (errorCodeOf(error) === 'ENOENT') return undefined
      throw error
    }
  }
}

/**
 * @param isWanted selects the folders by their names
 * @returns a function that returns the current names of the folders in `dir`. It throws SvcError
 *   `store_unavailable` when `dir` is gone or unreadable
 */
export function createFolderReader(
  dir: string,
  isWanted: (name: string) => boolean,
): () => readonly string[] {
  const load = () =>
    readdirSync(dir, { withFileTypes: true }).flatMap(entry =>
      entry.isDirectory() && isWanted(entry.name) ? [entry.name] : [],
    )
  const looked = new FileCache(load, coarseMs)
  return () => {
    try {
      // An absent folder is read once more, to get the system's error.
      return looked.read(dir) ?? load()
    } catch (error) {
      throw storeErrorOf(error, 'the data directory cannot be read')
    }
  }
}

/**
 * @returns a function that returns the current text of a file; undefined while it is absent. It throws
 *   SvcError `store_unavailable` when the file cannot be read
 */
export function createTextReader(path: string): () => string | undefined {
  const looked = new FileCache(() => readBytes(path).toString())
  return () => {
    try {
      return looked.read(path)
    } catch (error) {
      throw storeErrorOf(error, `${basename(path)} cannot be read`)
    }
  }
}

/**
 * The current content of a JSON file. `damaged`: it is not valid JSON, not an object, or not what `parse`
 * expects.
 */
export type JsonContent<T> = { kind: 'absent' } | { kind: 'damaged' } | { kind: 'read'; value: T }

/** JSON files of one kind. */
export class JsonFiles<T> {
  readonly #cache: FileCache<JsonContent<T>>

  /**
   * @param parse returns undefined for an object that does not have the expected fields. It throws SvcError for
   *   a file that is not damaged, but cannot be used
   */
  constructor(parse: (fields: JsonObject) => T | undefined) {
    this.#cache = new FileCache(path => parseObject(readBytes(path).toString(), parse))
  }

  /**
   * Returns the current content of the file, and the same value as before while the file is unchanged.
   *
   * @throws SvcError `store_unavailable` when the file exists but cannot be read, and what `parse` throws
   */
  read(path: string): JsonContent<T> {
    try {
      return this.#cache.read(path) ?? { kind: 'absent' }
    } catch (error) {
      throw storeErrorOf(error, `${basename(path)} cannot be read`)
    }
  }
}

function parseObject<T>(text: string, parse: (fields: JsonObject) => T | undefined): JsonContent<T> {
  try {
    const fields: unknown = JSON.parse(text)
    if (typeof fields !== 'object' || fields === null || Array.isArray(fields)) return { kind: 'damaged' }
    const value = parse(fields as JsonObject)
    return value === undefined ? { kind: 'damaged' } : { kind: 'read', value }
  } catch (error) {
    if (error instanceof SvcError) throw error
    return { kind: 'damaged' }
  }
}

/** What identifies one state of a file or folder. */
interface Stamp {
  readonly ino: number
  readonly size: number
  /** Unix ms, with fractions where the file system has them. */
  readonly mtimeMs: number
  readonly ctimeMs: number
}

/**
 * Returns the current stamp; undefined if nothing is at `path`. It has only the compared fields, to save
 * memory: a stamp is kept for each file.
 */
function stampOf(path: string): Stamp | undefined {
  const stats = statSync(path, { throwIfNoEntry: false })
  if (!stats) return undefined
  const { ino, size, mtimeMs, ctimeMs } = stats
  return { ino, size, mtimeMs, ctimeMs }
}

/** Compares the fields one by one: building a text of all four costs as much as the `stat` call. */
const isSame = (first: Stamp, second: Stamp): boolean =>
  first.mtimeMs === second.mtimeMs &&
  first.ctimeMs === second.ctimeMs &&
  first.ino === second.ino &&
  first.size === second.size

/** Returns the latest time (Unix ms) at which the file may have changed. */
export function lastChangeOf({ mtimeMs, ctimeMs }: Pick<Stamp, 'mtimeMs' | 'ctimeMs'>): number {
  // Deno gives ctime in whole seconds: another change may follow within the same second.
  const tickMs = ctimeMs % 1000 === 0 ? 1000 : 0
  return Math.max(mtimeMs, ctimeMs) + tickMs
}
