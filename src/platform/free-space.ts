/** Free space of the disk that messages are stored on: files leave a part of it, so that messages can still be stored. */
import { stat, statfs } from 'node:fs/promises'
import { SvcError } from '../model/error.ts'

/** What is left free where nobody said otherwise. */
export const usualKeepFreeBytes = 256 * 1024 * 1024
/** A file of unknown size gets its room in steps of this many bytes. */
const stepBytes = 4 * 1024 * 1024
const lookEveryMs = 5000

/** Room set apart for one file that is being written. */
export interface Room {
  /** Tells how much of the file there is; resolves once there is room for that. @throws SvcError `store_unavailable` */
  cover(bytes: number): Promise<void>
  [Symbol.dispose](): void
}

export class FreeSpace {
  readonly #dir: string
  readonly #keepBytes: number
  /** Set apart and not written yet, for all files. */
  #promised = 0
  #look: { at: number; low: Promise<boolean> } | undefined

  /** @param dir where messages are stored, of which disk `keepBytes` are left free */
  constructor(dir: string, keepBytes: number) {
    this.#dir = dir
    this.#keepBytes = keepBytes
  }

  /**
   * Sets room apart for a file in `folder`, which is there.
   *
   * @param size in bytes, where it is known
   * @throws SvcError `store_unavailable` when less than what is to be left free would be left
   */
  async room(folder: string, size = 0): Promise<Room> {
    const guarded = await this.#isSameDisk(folder)
    let [claimed, covered] = [0, 0]
    const claim = async (bytes: number) => {
      if (!guarded) return
      const free = await freeBytes(this.#dir)
      if (free - this.#promised - bytes < this.#keepBytes) throw full()
      this.#promised += bytes
      claimed += bytes
    }
    await claim(size)
    return {
      cover: async bytes => {
        if (bytes > claimed) await claim(Math.max(stepBytes, bytes - claimed))
        this.#promised -= Math.min(bytes, claimed) - covered
        covered = Math.min(bytes, claimed)
      },
      [Symbol.dispose]: () => {
        this.#promised -= claimed - covered
        covered = claimed
      },
    }
  }

  /** Whether less is free than is to be left; looked at every few seconds at most. */
  isLow(): Promise<boolean> {
    const now = performance.now()
    if (!this.#look || now - this.#look.at > lookEveryMs)
      this.#look = { at: now, low: freeBytes(this.#dir).then(free => free < this.#keepBytes) }
    return this.#look.low
  }

  async #isSameDisk(folder: string): Promise<boolean> {
    const [one, other] = await Promise.all([stat(folder), stat(this.#dir)])
    return one.dev === other.dev
  }
}

/** Infinity where the system does not say. */
async function freeBytes(dir: string): Promise<number> {
  const disk = await statfs(dir).catch(() => undefined)
  return disk && disk.blocks > 0 ? disk.bavail * disk.bsize : Number.POSITIVE_INFINITY
}

const full = () =>
  new SvcError('store_unavailable', 'the disk is nearly full: what is left is kept for messages', {
    hint: 'Free some space on the disk of the data directory, then call again; --keep-free says how much is left free.',
  })
