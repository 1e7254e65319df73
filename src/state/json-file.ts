/**
 * A small JSON file that others may replace at any time: read again only when it is another one than last time.
 * Files are replaced by rename, never written in place, so inode, size and time tell; except of a file written just
 * now, since a freed inode is given out again and clocks of file systems tick in milliseconds. The time of the inode
 * tells too: by it a file is looked at anew whose owner or mode changed, since it may not be read any more.
 */
import { readFileSync, statSync } from 'node:fs'
import { basename } from 'node:path'
import { errorCodeOf } from '../platform/files.ts'
import { unavailable } from '../platform/system-error.ts'

export type JsonObject = Record<string, unknown>

/** What stands on disk now. `damaged`: it does not parse, or is no JSON object. */
export type Found<T> = { kind: 'absent' } | { kind: 'damaged' } | { kind: 'read'; value: T }

interface Kept<T> {
  stamp: Stamp
  found: Found<T>
  /** It was old enough when it was read: another one since then would show. */
  settled: boolean
}

/** Many ticks of the file systems that give inodes out again at once. */
export const settledAfterMs = 50

export class JsonFiles<T> {
  readonly #parse: (fields: JsonObject) => T | undefined
  readonly #kept = new Map<string, Kept<T>>()

  /** @param parse undefined for a JSON object that is not what it should be */
  constructor(parse: (fields: JsonObject) => T | undefined) {
    this.#parse = parse
  }

  /**
   * The file's content as it is on disk now; the same value as before while the file is the same.
   *
   * @throws SvcError `store_unavailable` when it is there and cannot be read
   */
  read(path: string): Found<T> {
    try {
      return this.#read(path)
    } catch (error) {
      throw unavailable(error, `${basename(path)} cannot be read`)
    }
  }

  #read(path: string): Found<T> {
    const stamp = stampOf(path)
    if (stamp === undefined) {
      this.#kept.delete(path)
      return { kind: 'absent' }
    }
    const kept = this.#kept.get(path)
    if (kept?.settled && isSame(kept.stamp, stamp)) return kept.found
    const settled = Date.now() - changedAt(stamp) > settledAfterMs
    const found = this.#load(path)
    if (found.kind === 'absent') this.#kept.delete(path)
    else this.#kept.set(path, { stamp, found, settled })
    return found
  }

  #load(path: string): Found<T> {
    let text: string
    try {
      text = readFileSync(path, 'utf8')
    } catch (error) {
      if (errorCodeOf(error) === 'ENOENT') return { kind: 'absent' }
      throw error
    }
    try {
      const fields: unknown = JSON.parse(text)
      if (typeof fields !== 'object' || fields === null || Array.isArray(fields)) return { kind: 'damaged' }
      const value = this.#parse(fields as JsonObject)
      return value === undefined ? { kind: 'damaged' } : { kind: 'read', value }
    } catch {
      return { kind: 'damaged' }
    }
  }
}

/** What tells one state of a file or folder from another. */
export interface Stamp {
  readonly ino: bigint
  readonly size: bigint
  readonly mtimeNs: bigint
  readonly ctimeNs: bigint
}

/** That of a file or folder now; undefined when absent. */
export const stampOf = (path: string): Stamp | undefined =>
  statSync(path, { bigint: true, throwIfNoEntry: false })

/** Compared one by one: a text of all four costs as much as the look. */
export const isSame = (one: Stamp, other: Stamp): boolean =>
  one.mtimeNs === other.mtimeNs &&
  one.ctimeNs === other.ctimeNs &&
  one.ino === other.ino &&
  one.size === other.size

/** When (Unix ms) the file last changed, at the latest. */
export function changedAt({ mtimeNs, ctimeNs }: Pick<Stamp, 'mtimeNs' | 'ctimeNs'>): number {
  // Deno tells the inode's time in whole seconds: another change may follow in the same one.
  const tickMs = ctimeNs % 1_000_000_000n === 0n ? 1000 : 0
  return Math.max(Number(mtimeNs), Number(ctimeNs)) / 1e6 + tickMs
}

/**
 * Does `work`, which writes session files, and translates the machine's errors.
 *
 * @throws SvcError `store_unavailable` for those; anything else as it is
 */
export async function told<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw unavailable(error, "the session's files cannot be written")
  }
}
