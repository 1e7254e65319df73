/**
 * The records of sessions, kept between looks, and which of them changed since. A look at the files of 5,000 takes 35 ms
 * and more, so of many sessions only what this process wrote shows at once. Folders that another process made or removed
 * show within a second, and what it wrote into a file within two; of more than a thousand sessions within 2 ms for each.
 * `Sessions.get` reads its file at once.
 */
import { sessionKey } from '../../../model/session.ts'

/** The folder is listed again after this, and a look at all files begins; it is waited for when the last one is older. */
const [freshMs, staleMs] = [800, 1500]
/** Of more than so many, the files are looked at less often. */
const quickly = 1000
/** Files looked at in a row; then others have their turn. */
const stride = 65

/** How a folder has been since that revision; without a record there is no session. */
interface Seen<Known> {
  readonly folder: string
  readonly record: Known | undefined
  readonly revision: number
}

export class Roll<Known> {
  readonly #folders: () => readonly string[]
  readonly #read: (folder: string) => Promise<Known | undefined>
  readonly #onChange: (record: Known) => void
  readonly #isSame: (one: Known | undefined, other: Known | undefined) => boolean
  readonly #few: number
  /** Folders, those that are no sessions too, by the key of their names. */
  #alike = new Map<string, string[]>()
  #listing: readonly string[] | undefined
  #listedAt = Number.NEGATIVE_INFINITY
  /** By folder. */
  readonly #known = new Map<string, Seen<Known>>()
  /** In the order of their revisions, with old ones that are not in `#known` any more. */
  #ordered: Seen<Known>[] = []
  /** Folders to be read before the next answer. */
  readonly #changed = new Set<string>()
  #lookedAt = Number.NEGATIVE_INFINITY
  #looking: Promise<void> | undefined
  /** Changes are read one after the other. */
  #before: Promise<unknown> = Promise.resolve()

  /**
   * @param onChange is told of each record that is new or another one
   * @param isSame whether one record says the same as the one before
   * @param few of so many folders the files are looked at with every look
   */
  constructor(
    folders: () => readonly string[],
    read: (folder: string) => Promise<Known | undefined>,
    onChange: (record: Known) => void,
    isSame: (one: Known | undefined, other: Known | undefined) => boolean,
    few: number,
  ) {
    this.#folders = folders
    this.#read = read
    this.#onChange = onChange
    this.#isSame = isSame
    this.#few = few
  }

  /** How many folders are known of, as far as a case-insensitive file system tells them apart. */
  get size(): number {
    return this.#alike.size
  }

  /** This process wrote into that folder. */
  changed(folder: string): void {
    this.#changed.add(folder)
    const key = sessionKey(folder)
    const alike = this.#alike.get(key)
    if (!alike) this.#alike.set(key, [folder])
    else if (!alike.includes(folder)) alike.push(folder)
  }

  /** Something that belongs to a session changed elsewhere. */
  touch(folder: string): void {
    const record = this.#known.get(folder)?.record
    if (record) this.#note(folder, record)
  }

  /** Its session is gone from there: it may have another name by now. @returns false of one that was not listed */
  gone(folder: string): boolean {
    if (!this.#known.get(folder)?.record) return false
    this.#changed.add(folder)
    this.#listedAt = Number.NEGATIVE_INFINITY
    return true
  }

  /** Folders whose names have that key. */
  alike(key: string): readonly string[] {
    this.#relistWhenDue()
    return this.#alike.get(key) ?? []
  }

  #relistWhenDue(): void {
    const now = performance.now()
    if (this.size > this.#few && now - this.#listedAt <= freshMs) return
    const listing = this.#folders()
    this.#listedAt = now
    if (listing === this.#listing) return
    this.#listing = listing
    this.#alike = Map.groupBy(listing, sessionKey)
    const there = new Set(listing)
    for (const folder of there) if (!this.#known.get(folder)?.record) this.#changed.add(folder)
    for (const { folder, record } of this.#known.values())
      if (record && !there.has(folder)) this.#changed.add(folder)
  }

  /** Finds out what is there now, as far as the last look is too old. To be called before the two below. */
  async look(): Promise<void> {
    this.#relistWhenDue()
    const isFew = this.size <= this.#few
    const ageMs = isFew ? Number.POSITIVE_INFINITY : performance.now() - this.#lookedAt
    const slower = Math.max(1, this.size / quickly)
    if (ageMs > freshMs * slower) {
      this.#looking ??= this.#lookAtAll().finally(() => {
        this.#looking = undefined
      })
      // Whoever waits for it is told of a failure; the next look tries again.
      if (ageMs > staleMs * slower) await this.#looking
      else this.#looking.catch(() => {})
    }
    const renewed = this.#before.then(() => this.#renewChanged())
    this.#before = renewed.catch(() => {})
    await renewed
  }

  /** The sessions as of the last look. */
  list(): Known[] {
    return [...this.#known.values()].flatMap(({ record }) => record ?? [])
  }

  /** What is another one than at that revision, by folder. */
  changedSince(revision = 0): { revision: number; changed: Map<string, Known | undefined> } {
    const changed = new Map<string, Known | undefined>()
    const ordered = this.#ordered
    for (let nth = ordered.length; nth > 0; nth--) {
      const seen = ordered[nth - 1]!
      if (seen.revision <= revision) break
      if (this.#known.get(seen.folder) === seen) changed.set(seen.folder, seen.record)
    }
    return { revision: ordered.at(-1)?.revision ?? 0, changed }
  }

  async #renewChanged(): Promise<void> {
    for (const folder of [...this.#changed]) {
      this.#changed.delete(folder)
      await this.#renew(folder)
    }
  }

  async #lookAtAll(): Promise<void> {
    const began = performance.now()
    let looks = 0
    for (const folder of [...this.#alike.values()].flat()) {
      if (++looks % stride === 0) await new Promise(resolve => setImmediate(resolve))
      await this.#renew(folder)
    }
    this.#lookedAt = began
  }

  async #renew(folder: string): Promise<void> {
    try {
      const record = await this.#read(folder)
      if (this.#isSame(record, this.#known.get(folder)?.record)) return
      this.#note(folder, record)
      if (record) this.#onChange(record)
    } catch (error) {
      this.#changed.add(folder)
      throw error
    }
  }
  #note(folder: string, record: Known | undefined): void {
    const seen = { folder, record, revision: (this.#ordered.at(-1)?.revision ?? 0) + 1 }
    this.#known.set(folder, seen)
    this.#ordered.push(seen)
    if (this.#ordered.length > 2 * this.#known.size + stride)
      this.#ordered = this.#ordered.filter(one => this.#known.get(one.folder) === one)
  }
}
