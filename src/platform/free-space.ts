/** Keeps part of the disk free of files, so that messages can still be stored. */
import { stat, statfs } from 'node:fs/promises'
import { SvcError } from '../model/error.ts'

/** The default of the space left free. */
export const defaultKeepFreeBytes = 256 * 1024 * 1024
/** The disk is checked again after this many bytes of a file. */
const stepBytes = 4 * 1024 * 1024
const checkEveryMs = 5000

/**
 * Call it with the bytes of a file written so far.
 *
 * @throws SvcError `store_unavailable` when space runs out
 */
export type SpaceCheck = (bytes: number) => Promise<void>

export class FreeSpace {
  readonly #dir: string
  readonly #keepBytes: number
  #lastCheck: { at: number; low: Promise<boolean> } | undefined

  /** @param dir the folder where messages are stored; `keepBytes` of its disk are left free */
  constructor(dir: string, keepBytes: number) {
    this.#dir = dir
    this.#keepBytes = keepBytes
  }

  /**
   * Checks that a file in `folder` fits, and returns a check to repeat as the file grows. The folder must
   * exist. When several files are written at the same time, each may exceed the limit by one step.
   *
   * @param size in bytes, where it is known
   * @throws SvcError `store_unavailable` when less space would be left than must stay free
   */
  async startCheck(folder: string, size = 0): Promise<SpaceCheck> {
    const [folderStat, dirStat] = await Promise.all([stat(folder), stat(this.#dir)])
    if (folderStat.dev !== dirStat.dev) return async () => {}
    const check = async (bytes: number) => {
      if ((await freeBytes(this.#dir)) - bytes < this.#keepBytes) throw diskFullError()
    }
    await check(size)
    let checkedBytes = 0
    return async bytes => {
      if (bytes - checkedBytes < stepBytes) return
      checkedBytes = bytes
      await check(0)
    }
  }

  /** Returns whether less space is free than must stay free. Checks the disk every 5 s at most. */
  isLow(): Promise<boolean> {
    const now = performance.now()
    if (!this.#lastCheck || now - this.#lastCheck.at > checkEveryMs)
      this.#lastCheck = { at: now, low: freeBytes(this.#dir).then(free => free < this.#keepBytes) }
    return this.#lastCheck.low
  }
}

/** Returns the free bytes; Infinity where the system does not report them. */
export async function freeBytes(dir: string): Promise<number> {
  const disk = await statfs(dir).catch(() => undefined)
  return disk && disk.blocks > 0 ? disk.bavail * disk.bsize : Number.POSITIVE_INFINITY
}

const diskFullError = () =>
  new SvcError('store_unavailable', 'the disk is nearly full; the rest is kept free for messages', {
    hint: 'Free some space on the disk of the data directory, then call again. --keep-free sets how much is kept free.',
  })
