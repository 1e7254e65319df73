/** Free space of the disk that messages are stored on: files leave a part of it, so that messages can still be stored. */
import { stat, statfs } from 'node:fs/promises'
import { SvcError } from '../model/error.ts'

/** What is left free where nobody said otherwise. */
export const usualKeepFreeBytes = 256 * 1024 * 1024
/** The disk is looked at again after so many bytes of a file. */
const stepBytes = 4 * 1024 * 1024
const lookEveryMs = 5000

/** Tells how much of a file there is; resolves where there is room for more. @throws SvcError `store_unavailable` */
export type Room = (bytes: number) => Promise<void>

export class FreeSpace {
  readonly #dir: string
  readonly #keepBytes: number
  #look: { at: number; low: Promise<boolean> } | undefined

  /** @param dir where messages are stored, of which disk `keepBytes` are left free */
  constructor(dir: string, keepBytes: number) {
    this.#dir = dir
    this.#keepBytes = keepBytes
  }

  /**
   * Asks for room for a file in `folder`, which is there, and again as it grows: of several at a time each may take one
   * step more than there is.
   *
   * @param size in bytes, where it is known
   * @throws SvcError `store_unavailable` when less than what is to be left free would be left
   */
  async room(folder: string, size = 0): Promise<Room> {
    const [one, other] = await Promise.all([stat(folder), stat(this.#dir)])
    if (one.dev !== other.dev) return async () => {}
    const ask = async (bytes: number) => {
      if ((await freeBytes(this.#dir)) - bytes < this.#keepBytes) throw full()
    }
    await ask(size)
    let asked = 0
    return async bytes => {
      if (bytes - asked < stepBytes) return
      asked = bytes
      await ask(0)
    }
  }

  /** Whether less is free than is to be left; looked at every few seconds at most. */
  isLow(): Promise<boolean> {
    const now = performance.now()
    if (!this.#look || now - this.#look.at > lookEveryMs)
      this.#look = { at: now, low: freeBytes(this.#dir).then(free => free < this.#keepBytes) }
    return this.#look.low
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
