/**
 * Small files and folders that others may change at any time: read again only when they are others than last time.
 * Files are replaced by rename, never written in place, so inode, size and time tell; except of a file written just
 * now, since a freed inode is given out again and clocks of file systems tick in milliseconds. The time of the inode
 * tells too: by it a file is looked at anew whose owner or mode changed, since it may not be read any more.
 */
import { readdirSync, statSync } from 'node:fs'
import { basename } from 'node:path'
import { bytesOf, errorCodeOf } from './files.ts'
import { unavailable } from './system-error.ts'

export type JsonObject = Record<string, unknown>

/** Many ticks of the file systems that give inodes out again at once. */
export const settledAfterMs = 50
/** The coarsest clock of a file system (FAT): two changes of a folder closer together than this may leave the same time. */
const coarseMs = 3000

/** What is read of a path, kept for as long as the same file or folder lies there. */
class Looked<T> {
  readonly #load: (path: string) => T
  readonly #settledAfterMs: number
  /** Those that were old enough when they were read: another one since then would show. */
  readonly #kept = new Map<string, { stamp: Stamp; value: T }>()

  constructor(load: (path: string) => T, afterMs = settledAfterMs) {
    this.#load = load
    this.#settledAfterMs = afterMs
  }

  /** The same value as before while nothing changed; undefined when there is nothing. */
  read(path: string): T | undefined {
    const stamp = stampOf(path)
    const kept = this.#kept.get(path)
    if (kept && stamp && isSame(kept.stamp, stamp)) return kept.value
    this.#kept.delete(path)
    if (!stamp) return undefined
    const settled = Date.now() - changedAt(stamp) > this.#settledAfterMs
    try {
      const value = this.#load(path)
      if (settled) this.#kept.set(path, { stamp, value })
      return value
    } catch (error) {
      if (errorCodeOf(error) === 'ENOENT') return undefined
      throw error
    }
  }
}

/** @returns the names of the folders in a folder now. It throws SvcError `store_unavailable` when that is gone or unreadable */
export function folderNames(dir: string): () => readonly string[] {
  const load = () => readdirSync(dir, { withFileTypes: true }).filter(entry => entry.isDirectory())
  const looked = new Looked(() => load().map(({ name }) => name), coarseMs)
  return () => {
    try {
      // What is gone is looked for once more, for the system's error.
      return looked.read(dir) ?? load().map(({ name }) => name)
    } catch (error) {
      throw unavailable(error, 'the data directory cannot be read')
    }
  }
}

/** @returns the text of a file now; undefined while there is none. It throws SvcError `store_unavailable` for one that cannot be read */
export function smallFile(path: string): () => string | undefined {
  const looked = new Looked(() => bytesOf(path).toString())
  return () => {
    try {
      return looked.read(path)
    } catch (error) {
      throw unavailable(error, `${basename(path)} cannot be read`)
    }
  }
}

/** What stands on disk now. `damaged`: it does not parse, or is no JSON object. */
export type Found<T> = { kind: 'absent' } | { kind: 'damaged' } | { kind: 'read'; value: T }

/** JSON files of one kind. */
export class JsonFiles<T> {
  readonly #looked: Looked<Found<T>>

  /** @param parse undefined for a JSON object that is not what it should be */
  constructor(parse: (fields: JsonObject) => T | undefined) {
    this.#looked = new Looked(path => parsed(bytesOf(path).toString(), parse))
  }

  /**
   * The file's content as it is on disk now; the same value as before while the file is the same.
   *
   * @throws SvcError `store_unavailable` when it is there and cannot be read
   */
  read(path: string): Found<T> {
    try {
      return this.#looked.read(path) ?? { kind: 'absent' }
    } catch (error) {
      throw unavailable(error, `${basename(path)} cannot be read`)
    }
  }
}

function parsed<T>(text: string, parse: (fields: JsonObject) => T | undefined): Found<T> {
  try {
    const fields: unknown = JSON.parse(text)
    if (typeof fields !== 'object' || fields === null || Array.isArray(fields)) return { kind: 'damaged' }
    const value = parse(fields as JsonObject)
    return value === undefined ? { kind: 'damaged' } : { kind: 'read', value }
  } catch {
    return { kind: 'damaged' }
  }
}

/** What tells one state of a file or folder from another. */
interface Stamp {
  readonly ino: number
  readonly size: number
  /** Unix ms, with the parts of them that the file system tells. */
  readonly mtimeMs: number
  readonly ctimeMs: number
}

/** That of a file or folder now; undefined when absent. Of many files it is kept: no more than what is compared. */
function stampOf(path: string): Stamp | undefined {
  const found = statSync(path, { throwIfNoEntry: false })
  if (!found) return undefined
  const { ino, size, mtimeMs, ctimeMs } = found
  return { ino, size, mtimeMs, ctimeMs }
}

/** Compared one by one: a text of all four costs as much as the look. */
const isSame = (one: Stamp, other: Stamp): boolean =>
  one.mtimeMs === other.mtimeMs &&
  one.ctimeMs === other.ctimeMs &&
  one.ino === other.ino &&
  one.size === other.size

/** When (Unix ms) the file last changed, at the latest. */
export function changedAt({ mtimeMs, ctimeMs }: Pick<Stamp, 'mtimeMs' | 'ctimeMs'>): number {
  // Deno tells the inode's time in whole seconds: another change may follow in the same one.
  const tickMs = ctimeMs % 1000 === 0 ? 1000 : 0
  return Math.max(mtimeMs, ctimeMs) + tickMs
}
