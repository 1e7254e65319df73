/**
 * Checks that the opened file is still the file at its path. A file that was deleted or moved can still be
 * read and written, and what was written is lost when it is closed.
 */
import { statSync } from 'node:fs'
import { SvcError } from '../../model/error.ts'
import type { Clock } from '../../platform/clock.ts'
import { RoomPart } from '../../platform/runtime.ts'

/** Reads check at most this often. */
const checkEveryMs = 1000

export class OpenedStoreFile extends RoomPart<{ path: string; clock: Clock }> {
  /** Identity of the opened file; undefined for a store in memory. */
  readonly #file = findFileId(this.ports.path)
  #isLost = false
  /** Monotonic. */
  #checkedAt = this.ports.clock.monotonic()

  /** Whether the file is gone or was replaced, as of at most a second ago. */
  get isLost(): boolean {
    if (this.ports.clock.monotonic() - this.#checkedAt < checkEveryMs) return this.#isLost
    try {
      return this.#check()
    } catch {
      // The folder is no longer accessible, or the disk hangs: keep using the open file while it can be read.
      return this.#isLost
    }
  }

  /**
   * Check for reads. It may be up to a second old.
   *
   * @throws SvcError `store_unavailable` if the file was lost
   */
  rejectLost(): void {
    if (this.isLost) throw lostError()
  }

  /**
   * Check for writes: checks now.
   *
   * @throws SvcError `store_unavailable` if the file is lost; the system's error
   */
  rejectLostNow(): void {
    if (this.#check()) throw lostError()
  }

  #check(): boolean {
    this.#checkedAt = this.ports.clock.monotonic()
    this.#isLost = findFileId(this.ports.path) !== this.#file
    return this.#isLost
  }
}

const lostError = () =>
  new SvcError('store_unavailable', 'messages.db was removed or replaced while svc runs', {
    hint: 'Restart svc: it goes on with the file that lies there then, or with a new one.',
  })

/** Returns the identity of the file at that path; undefined if there is none. */
function findFileId(path: string): string | undefined {
  const info = statSync(path, { bigint: true, throwIfNoEntry: false })
  return info && `${info.dev}:${info.ino}`
}
