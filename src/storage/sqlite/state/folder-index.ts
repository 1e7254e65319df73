/**
 * Cached records of sessions, with a revision for each change. Reading the files of 5,000 sessions takes 35
 * ms and more. So if there are many sessions, only changes by this process are visible immediately. Folders
 * that another process created or removed are visible within a second, and its changes to a file within two.
 * With more than a thousand sessions, the two seconds grow to 2 ms for each session. `SessionStore.get` reads
 * its file immediately.
 */
import { sessionKeyOf } from '../../../model/session.ts'
import { RoomPart } from '../../../platform/runtime.ts'

/**
 * After `freshMs` the folder is listed again and all files start to be read. A caller waits for that if the
 * last read is older than `staleMs`.
 */
const [freshMs, staleMs] = [800, 1500]
/** With more folders than this, files are read less often. */
const fullSpeedFolders = 1000
/** Number of files read before other work runs. */
const stride = 65

/** State of a folder since a revision; without a record it has no session. */
interface FolderState<Known> {
  readonly folder: string
  readonly record: Known | undefined
  readonly revision: number
}

interface FolderPorts<Known> {
  folders(): readonly string[]
  read(folder: string): Promise<Known | undefined>
  /** Called with each new or changed record. */
  onChange(record: Known): void
  /** Whether a record equals the one before. */
  isSame(a: Known | undefined, b: Known | undefined): boolean
  /** Up to this many folders, all files are read each time. */
  few: number
}

export class FolderIndex<Known> extends RoomPart<FolderPorts<Known>> {
  /** Folder names by their session key, including folders that have no session. */
  #alike = new Map<string, string[]>()
  #listing: readonly string[] | undefined
  #listedAt = Number.NEGATIVE_INFINITY
  /** Latest state of each folder. */
  readonly #known = new Map<string, FolderState<Known>>()
  /**
   * States of the folders in the order of their revisions, including old states that are no longer in
   * `#known`.
   */
  #ordered: FolderState<Known>[] = []
  /** Folders to be read before the next result. */
  readonly #changed = new Set<string>()
  #readAt = Number.NEGATIVE_INFINITY
  #reading: Promise<void> | undefined
  /** Changes are read one after another. */
  #before = Promise.resolve()

  /** Number of known folders; names that differ in case only count once. */
  get size(): number {
    return this.#alike.size
  }

  /** Returns the record of that folder as of the last read. */
  find(folder: string): Known | undefined {
    return this.#known.get(folder)?.record
  }

  /** Call it after this process wrote into that folder. */
  markChanged(folder: string): void {
    this.#changed.add(folder)
    const key = sessionKeyOf(folder)
    const alike = this.#alike.get(key)
    if (!alike) this.#alike.set(key, [folder])
    else if (!alike.includes(folder)) alike.push(folder)
  }

  /** Call it when something that belongs to a session changed elsewhere. */
  markTouched(folder: string): void {
    const record = this.#known.get(folder)?.record
    if (record) this.#note(folder, record)
  }

  /**
   * Call it when a folder no longer has its session, which may have been renamed. @returns false if the
   * session was not listed
   */
  markGone(folder: string): boolean {
    if (!this.#known.get(folder)?.record) return false
    this.#changed.add(folder)
    this.#listedAt = Number.NEGATIVE_INFINITY
    return true
  }

  /** Folders whose names have that session key. */
  alike(key: string): readonly string[] {
    this.#relistWhenDue()
    return this.#alike.get(key) ?? []
  }

  #relistWhenDue(): void {
    const now = performance.now()
    if (this.size > this.ports.few && now - this.#listedAt <= freshMs) return
    const listing = this.ports.folders()
    this.#listedAt = now
    if (listing === this.#listing) return
    this.#listing = listing
    this.#alike = Map.groupBy(listing, sessionKeyOf)
    const there = new Set(listing)
    for (const folder of there) if (!this.#known.get(folder)?.record) this.#changed.add(folder)
    for (const { folder, record } of this.#known.values())
      if (record && !there.has(folder)) this.#changed.add(folder)
  }

  /** Updates the records, if the last read is too old. Call it before `list` and `listChangedSince`. */
  async refresh(): Promise<void> {
    this.#relistWhenDue()
    const isFew = this.size <= this.ports.few
    const ageMs = isFew ? Number.POSITIVE_INFINITY : performance.now() - this.#readAt
    const slower = Math.max(1, this.size / fullSpeedFolders)
    if (ageMs > freshMs * slower) {
      this.#reading ??= this.#readAll().finally(() => {
        this.#reading = undefined
      })
      // A caller that waits gets the error; the next call tries again.
      if (ageMs > staleMs * slower) await this.#reading
      else this.#reading.catch(() => {})
    }
    if (this.#changed.size === 0) return this.#before
    const renewed = this.#before.then(() => this.#renewChanged())
    this.#before = renewed.catch(() => {})
    await renewed
  }

  /** Returns the sessions as of the last read. */
  list(): Known[] {
    return [...this.#known.values()].flatMap(({ record }) => record ?? [])
  }

  /** Returns the records that changed since that revision, by folder. */
  listChangedSince(revision = 0): { revision: number; changed: Map<string, Known | undefined> } {
    const changed = new Map<string, Known | undefined>()
    const ordered = this.#ordered
    for (let nth = ordered.length; nth > 0; nth--) {
      const state = ordered[nth - 1]!
      if (state.revision <= revision) break
      if (this.#known.get(state.folder) === state) changed.set(state.folder, state.record)
    }
    return { revision: ordered.at(-1)?.revision ?? 0, changed }
  }

  async #renewChanged(): Promise<void> {
    for (const folder of [...this.#changed]) {
      this.#changed.delete(folder)
      await this.#renew(folder)
    }
  }

  async #readAll(): Promise<void> {
    const began = performance.now()
    let looks = 0
    for (const folder of [...this.#alike.values()].flat()) {
      if (++looks % stride === 0) await new Promise(resolve => setImmediate(resolve))
      await this.#renew(folder)
    }
    this.#readAt = began
  }

  async #renew(folder: string): Promise<void> {
    try {
      const record = await this.ports.read(folder)
      if (this.ports.isSame(record, this.#known.get(folder)?.record)) return
      this.#note(folder, record)
      if (record) this.ports.onChange(record)
    } catch (error) {
      this.#changed.add(folder)
      throw error
    }
  }
  #note(folder: string, record: Known | undefined): void {
    const state = { folder, record, revision: (this.#ordered.at(-1)?.revision ?? 0) + 1 }
    this.#known.set(folder, state)
    this.#ordered.push(state)
    if (this.#ordered.length > 2 * this.#known.size + stride)
      this.#ordered = this.#ordered.filter(state => this.#known.get(state.folder) === state)
  }
}
