/**
 * Checks that the opened file is still the file at its path. A file that was deleted or moved can still be
 * read and written, and what was written is lost when it is closed.
 */
import { statSync } from 'node:fs'
import { SvcError } from '../../model/error.ts'
import type { Clock } from '../../platform/clock.ts'

/** Reads check at most this often. */
const lookEveryMs = 1000

export class OpenedFile {
  readonly #path: string
  readonly #clock: Clock
  /** Identity of the opened file; undefined for a store in memory. */
  readonly #file: string | undefined
  #lost = false
  /** Monotonic. */
  #lookedAt: number

  constructor(path: string, clock: Clock) {
    this.#path = path
    this.#clock = clock
    this.#file = fileAt(path)
    this.#lookedAt = clock.monotonic()
  }

  /** Whether the file is gone or was replaced, as of at most a second ago. */
  get lost(): boolean {
    if (this.#clock.monotonic() - this.#lookedAt < lookEveryMs) return this.#lost
    try {
      return this.#look()
    } catch {
      // The folder is no longer accessible, or the disk hangs: keep using the open file while it can be read.
      return this.#lost
    }
  }

  /** For reads. @throws SvcError `store_unavailable` if the file was lost, as of at most a second ago */
  refuseLost(): void {
    if (this.lost) throw lostError()
  }

  /** For writes: checks now. @throws SvcError `store_unavailable` if the file is lost; the system's error */
  refuseLostNow(): void {
    if (this.#look()) throw lostError()
  }

  #look(): boolean {
    this.#lookedAt = this.#clock.monotonic()
    this.#lost = fileAt(this.#path) !== this.#file
    return this.#lost
  }
}

const lostError = () =>
  new SvcError('store_unavailable', 'messages.db was removed or replaced while svc runs', {
    hint: 'Restart svc: it goes on with the file that lies there then, or with a new one.',
  })

/** Identity of the file at that path; undefined if there is none. */
function fileAt(path: string): string | undefined {
  const info = statSync(path, { bigint: true, throwIfNoEntry: false })
  return info && `${info.dev}:${info.ino}`
}
