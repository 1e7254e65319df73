/**
 * The records of many sessions, kept between looks: a look at the files of 5,000 takes 35 ms and more. What this process
 * wrote shows at once. Folders that another process made or removed show within a second, and what it wrote into a file
 * within two; of more than a thousand sessions within 2 ms for each. `Sessions.get` reads its file at once.
 */
import { sessionKey } from '../../../model/session.ts'

/** The folder is listed again after this, and a look at all files begins; it is waited for when the last one is older. */
const [freshMs, staleMs] = [800, 1500]
/** Of more than so many, the files are looked at less often. */
const quickly = 1000
/** Files looked at in a row; then others have their turn. */
const stride = 50

export class Roll<Known extends { bot?: unknown; damaged?: true; unreadable?: unknown }> {
  readonly #folders: () => readonly string[]
  readonly #read: (folder: string) => Promise<Known | undefined>
  readonly #onChange: (record: Known) => void
  /** Folders, those that are no sessions too, by the key of their names. */
  #alike = new Map<string, string[]>()
  #listing: readonly string[] | undefined
  #listedAt = Number.NEGATIVE_INFINITY
  /** By folder. */
  readonly #known = new Map<string, Known>()
  readonly #all: Known[] = []
  /** The same as it was last given out; undefined once it is another one. */
  #records: readonly Known[] | undefined
  /** Folders to be read before the next answer. */
  readonly #changed = new Set<string>()
  #lookedAt = Number.NEGATIVE_INFINITY
  #looking: Promise<void> | undefined
  /** Changes are read one after the other. */
  #before: Promise<unknown> = Promise.resolve()

  /** `onChange` is told of each record that is new or another one. */
  constructor(
    folders: () => readonly string[],
    read: (folder: string) => Promise<Known | undefined>,
    onChange: (record: Known) => void,
  ) {
    this.#folders = folders
    this.#read = read
    this.#onChange = onChange
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

  /** Its session is gone from there: it may have another name by now. @returns false of one that was not listed */
  gone(folder: string): boolean {
    if (!this.#known.has(folder)) return false
    this.#changed.add(folder)
    this.#listedAt = Number.NEGATIVE_INFINITY
    return true
  }

  /** Folders whose names have that key. */
  alike(key: string): readonly string[] {
    this.#relist()
    return this.#alike.get(key) ?? []
  }

  #relist(): void {
    const now = performance.now()
    if (now - this.#listedAt <= freshMs) return
    const listing = this.#folders()
    this.#listedAt = now
    if (listing === this.#listing) return
    this.#listing = listing
    this.#alike = Map.groupBy(listing, sessionKey)
    const there = new Set(listing)
    for (const folder of there) if (!this.#known.has(folder)) this.#changed.add(folder)
    for (const folder of this.#known.keys()) if (!there.has(folder)) this.#changed.add(folder)
  }

  /** The sessions; the same array as before while nothing changed. */
  async list(): Promise<readonly Known[]> {
    this.#relist()
    const ageMs = performance.now() - this.#lookedAt
    const slower = Math.max(1, this.#known.size / quickly)
    if (ageMs > freshMs * slower) {
      this.#looking ??= this.#look().finally(() => {
        this.#looking = undefined
      })
      // Whoever waits for it is told of a failure; the next look tries again.
      if (ageMs > staleMs * slower) await this.#looking
      else this.#looking.catch(() => {})
    }
    const list = this.#before.then(() => this.#renewed())
    this.#before = list.catch(() => {})
    return list
  }

  async #renewed(): Promise<readonly Known[]> {
    for (const folder of [...this.#changed]) {
      this.#changed.delete(folder)
      await this.#renew(folder)
    }
    this.#records ??= [...this.#all]
    return this.#records
  }

  async #look(): Promise<void> {
    const began = performance.now()
    let looks = 0
    this.#relist()
    for (const folder of [...this.#alike.values()].flat()) {
      if (++looks % stride === 0) await new Promise(resolve => setImmediate(resolve))
      await this.#renew(folder)
    }
    this.#lookedAt = began
  }

  async #renew(folder: string): Promise<void> {
    try {
      const record = await this.#read(folder)
      const before = this.#known.get(folder)
      const isSame = (['bot', 'damaged'] as const).every(key => record?.[key] === before?.[key])
      if (isSame && Boolean(record?.unreadable) === Boolean(before?.unreadable)) return
      this.#records = undefined
      const at = before ? this.#all.indexOf(before) : this.#all.length
      if (record) {
        this.#all[at] = record
        this.#known.set(folder, record)
        this.#onChange(record)
      } else {
        this.#all.splice(at, 1)
        this.#known.delete(folder)
      }
    } catch (error) {
      this.#changed.add(folder)
      throw error
    }
  }
}
