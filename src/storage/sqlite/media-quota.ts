/** How many uploads may wait, and how large they may be together; those of other processes on the same folder count too. */
import { lstat, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { SvcError } from '../../model/error.ts'
import type { Clock } from '../../platform/clock.ts'
import type { MediaRules } from '../media-place.ts'

/** What the quota is made of. */
export interface QuotaPorts {
  clock: Clock
  /** Where uploads lie, each under its id. */
  folder: string
  room: NonNullable<MediaRules['room']>
  /** How long an upload waits. */
  lifeMs: number
}

interface Kept {
  /** Bytes. */
  size: number
  /** Unix ms since when it is there. */
  at: number
}

/** What other processes keep here is looked at this often at most. */
const lookEveryMs = 1000
/** An upload that does not say how large it will be counts as this much, or what there is of it if that is more. */
const unknownBytes = 64 * 1024 * 1024

export class UploadQuota {
  readonly #ports: QuotaPorts
  #kept = new Map<string, Kept>()
  /** By id: bytes set apart for those that are under way here. */
  readonly #underWay = new Map<string, number>()
  /** Ids of those that a send took, the first one first: they make room for others. */
  readonly #sent = new Set<string>()
  #look: { at: number; done: Promise<void> } | undefined

  constructor(ports: QuotaPorts) {
    this.#ports = ports
  }

  /**
   * Sets room apart for an upload, before anything of it is read. Where there is none, uploads that were sent go.
   *
   * @param announced bytes, where they are known
   * @returns gives it back; to be told the size of what was kept, if it was
   * @throws SvcError `rate_limited`
   */
  async reserve(id: string, announced = unknownBytes): Promise<(kept?: number) => void> {
    const size = Math.min(announced, this.#ports.room.largest)
    await this.#looked()
    for (const sent of this.#sent) {
      if (this.#fits(size)) break
      await this.#drop(sent)
    }
    if (!this.#fits(size)) throw this.#full(size)
    this.#underWay.set(id, size)
    return kept => {
      this.#underWay.delete(id)
      if (kept === undefined) this.#kept.delete(id)
      else this.#kept.set(id, { size: kept, at: this.#ports.clock.now() })
    }
  }

  /** An upload was taken by a send: it stays for others until its room is needed. */
  sent(id: string): void {
    this.#sent.add(id)
  }

  #fits(size: number, { others = true } = {}): boolean {
    let [count, bytes] = [1, size]
    for (const [id, kept] of this.#kept) {
      if (this.#underWay.has(id)) continue
      count += 1
      bytes += kept.size
    }
    for (const [id, claimed] of others ? this.#underWay : []) {
      count += 1
      bytes += Math.max(claimed, this.#kept.get(id)?.size ?? 0)
    }
    const { room } = this.#ports
    return count <= room.files && bytes <= room.bytes
  }

  #full(size: number): SvcError {
    const { clock, lifeMs } = this.#ports
    const oldest = [...this.#kept.values()].reduce((least, { at }) => Math.min(least, at), clock.now())
    // What is only under way is soon over.
    const waitMs = this.#fits(size, { others: false }) ? 10_000 : oldest + lifeMs - clock.now()
    return new SvcError('rate_limited', 'no room for another upload: too many or too large ones wait', {
      hint: 'Send the uploads that wait: that makes room. Or call again after retry_after seconds.',
      retryAfter: Math.max(10, Math.ceil(waitMs / 1000)),
    })
  }

  async #drop(id: string): Promise<void> {
    this.#sent.delete(id)
    const path = join(this.#ports.folder, id)
    for (const one of [`${path}.json`, path]) await rm(one, { force: true })
    this.#kept.delete(id)
  }

  /** Resolves when what lies in the folder is known, as of a moment ago. */
  #looked(): Promise<void> {
    const now = this.#ports.clock.monotonic()
    if (!this.#look || now - this.#look.at > lookEveryMs) this.#look = { at: now, done: this.#readFolder() }
    return this.#look.done
  }

  async #readFolder(): Promise<void> {
    const { folder } = this.#ports
    const kept = new Map<string, Kept>()
    for (const name of await readdir(folder).catch(() => [])) {
      if (name.endsWith('.json')) continue
      const found = await lstat(join(folder, name)).catch(() => undefined)
      if (found) kept.set(name, { size: found.size, at: found.mtimeMs })
    }
    this.#kept = kept
    for (const id of this.#sent) if (!kept.has(id)) this.#sent.delete(id)
  }
}
