/**
 * Whether the file that was opened is still the one that lies at its path. A file that was deleted or moved away is read
 * and takes rows as before, and what it took is lost when it is closed.
 */
import { statSync } from 'node:fs'
import { SvcError } from '../../model/error.ts'
import type { Clock } from '../../platform/clock.ts'

/** Whoever only reads looks no more often than this. */
const lookEveryMs = 1000

export class OpenedFile {
  readonly #path: string
  readonly #clock: Clock
  /** Which file it is, whatever lies at the path later; undefined for one in memory. */
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

  /** Whether it is gone or another one is in its place, as it was a second ago at most. */
  get lost(): boolean {
    if (this.#clock.monotonic() - this.#lookedAt < lookEveryMs) return this.#lost
    try {
      return this.#look()
    } catch {
      // A folder that may not be entered any more, a disk that hangs: what is open can be read until it cannot.
      return this.#lost
    }
  }

  /** For those who read. @throws SvcError `store_unavailable` when it was lost a second ago */
  refuseLost(): void {
    if (this.lost) throw lostError()
  }

  /** For those who write: looks now. @throws SvcError `store_unavailable` when it is lost; the system's error */
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

/** What tells one file from another, with what stands at that path now; undefined for nothing. */
function fileAt(path: string): string | undefined {
  const info = statSync(path, { bigint: true, throwIfNoEntry: false })
  return info && `${info.dev}:${info.ino}`
}
