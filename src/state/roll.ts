/**
 * The records of many sessions, kept between looks: a look at the stamps of 5,000 files takes 35 ms, in which nobody
 * else is served. Folders that come and go show at once, and so does what this process wrote; what another process
 * wrote into a session's file shows within a second, and at once to `Sessions.get`, which reads that file.
 */

/** A look at all files older than this is renewed in the background, and waited for when it is older than the second. */
const [freshMs, staleMs] = [800, 1000]
/** Files looked at in a row; then others have their turn. */
const stride = 200

interface Put<Known> {
  records: readonly Known[]
  /** Where in `records` a folder's stands. */
  places: ReadonlyMap<string, number>
}

interface Listed<Known> extends Put<Known> {
  folders: readonly string[]
  version: number
}

export class Roll<Known extends { bot?: unknown; damaged?: true }> {
  readonly #read: (folder: string) => Promise<Known | undefined>
  /** By folder; undefined for one that is no session. */
  readonly #known = new Map<string, Known | undefined>()
  /** Folders to be read again. */
  readonly #changed = new Set<string>()
  #listed: Listed<Known> | undefined
  /** Another one after each change: a list that was put together meanwhile is not kept. */
  #version = 0
  #lookedAt = Number.NEGATIVE_INFINITY
  #looking: Promise<void> | undefined
  /** Lists are put together one after the other. */
  #before: Promise<unknown> = Promise.resolve()

  constructor(read: (folder: string) => Promise<Known | undefined>) {
    this.#read = read
  }

  /** This process wrote into that folder. */
  changed(folder: string): void {
    this.#changed.add(folder)
    this.#version++
  }

  /** The sessions among these folders; the same array as before while nothing changed. */
  list(folders: readonly string[]): Promise<readonly Known[]> {
    const list = this.#before.then(() => this.#list(folders))
    this.#before = list.catch(() => {})
    return list
  }

  async #list(folders: readonly string[]): Promise<readonly Known[]> {
    const ageMs = performance.now() - this.#lookedAt
    if (ageMs > freshMs) {
      this.#looking ??= this.#look(folders).finally(() => {
        this.#looking = undefined
      })
      // Whoever waits for it is told of a failure; the next look tries again.
      if (ageMs > staleMs) await this.#looking
      else this.#looking.catch(() => {})
    }
    const version = this.#version
    const before = this.#listed?.folders === folders ? this.#listed : undefined
    if (before?.version === version) return before.records
    const now = (before && (await this.#renewedIn(before))) ?? (await this.#all(folders))
    this.#listed = { folders, version, ...now }
    return now.records
  }

  /** The list with what changed in its folders; undefined where a session came or went. */
  async #renewedIn({ records: before, places }: Listed<Known>): Promise<Put<Known> | undefined> {
    const records = [...before]
    for (const folder of [...this.#changed]) {
      this.#changed.delete(folder)
      const record = await this.#renewed(folder)
      const place = places.get(folder)
      if ((record === undefined) !== (place === undefined)) return undefined
      if (record && place !== undefined) records[place] = record
    }
    return { records, places }
  }

  async #all(folders: readonly string[]): Promise<Put<Known>> {
    const records: Known[] = []
    const places = new Map<string, number>()
    for (const folder of folders) {
      const isKnown = this.#known.has(folder) && !this.#changed.delete(folder)
      const record = isKnown ? this.#known.get(folder) : await this.#renewed(folder)
      if (record) places.set(folder, records.push(record) - 1)
    }
    if (this.#changed.size > 0) this.#forget(folders)
    return { records, places }
  }

  async #look(folders: readonly string[]): Promise<void> {
    const began = performance.now()
    for (const [at, folder] of folders.entries()) {
      if (at % stride === stride - 1) await new Promise(resolve => setImmediate(resolve))
      const before = this.#known.get(folder)
      const record = await this.#renewed(folder)
      // Before the first list there is nothing to renew in one.
      if (this.#listed && (record?.bot !== before?.bot || record?.damaged !== before?.damaged))
        this.changed(folder)
    }
    this.#forget(folders)
    this.#lookedAt = began
  }

  async #renewed(folder: string): Promise<Known | undefined> {
    try {
      const record = await this.#read(folder)
      this.#known.set(folder, record)
      return record
    } catch (error) {
      this.#changed.add(folder)
      throw error
    }
  }

  /** What is no folder any more. */
  #forget(folders: readonly string[]): void {
    const present = new Set(folders)
    for (const folder of this.#known.keys()) if (!present.has(folder)) this.#known.delete(folder)
    for (const folder of this.#changed) if (!present.has(folder)) this.#changed.delete(folder)
  }
}
