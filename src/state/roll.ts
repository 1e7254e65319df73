/**
 * The records of many sessions, kept between looks: a look at the stamps of 5,000 files takes 35 ms, in which nobody
 * else is served. Folders that come and go show at once, and so does what this process wrote; what another process
 * wrote into a session's file shows within a second, and at once to `Sessions.get`, which reads that file.
 */

/** A look at all files older than this is renewed in the background, and waited for when it is older than the second. */
const [freshMs, staleMs] = [800, 1000]
/** Files looked at in a row; then others have their turn. */
const stride = 200

export class Roll<Known extends { bot?: unknown; damaged?: true }> {
  readonly #read: (folder: string) => Promise<Known | undefined>
  /** By folder; undefined for one that is no session. */
  readonly #known = new Map<string, Known | undefined>()
  /** Folders to be read again. */
  readonly #changed = new Set<string>()
  #listed: { folders: readonly string[]; records: readonly Known[]; version: number } | undefined
  /** Another one after each change: a list that was put together meanwhile is not kept. */
  #version = 0
  #lookedAt = Number.NEGATIVE_INFINITY
  #looking: Promise<void> | undefined

  constructor(read: (folder: string) => Promise<Known | undefined>) {
    this.#read = read
  }

  /** This process wrote into that folder. */
  changed(folder: string): void {
    this.#changed.add(folder)
    this.#version++
  }

  /** The sessions among these folders; the same array as before while nothing changed. */
  async list(folders: readonly string[]): Promise<readonly Known[]> {
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
    if (this.#listed?.folders === folders && this.#listed.version === version) return this.#listed.records
    const records: Known[] = []
    for (const folder of folders) {
      const isKnown = this.#known.has(folder) && !this.#changed.delete(folder)
      const record = isKnown ? this.#known.get(folder) : await this.#renewed(folder)
      if (record) records.push(record)
    }
    if (this.#changed.size > 0) this.#forget(folders)
    this.#listed = { folders, records, version }
    return records
  }

  async #look(folders: readonly string[]): Promise<void> {
    const began = performance.now()
    for (const [at, folder] of folders.entries()) {
      if (at % stride === stride - 1) await new Promise(resolve => setImmediate(resolve))
      const before = this.#known.get(folder)
      const record = await this.#renewed(folder)
      if (record?.bot !== before?.bot || record?.damaged !== before?.damaged) this.#version++
    }
    this.#forget(folders)
    this.#lookedAt = began
  }

  async #renewed(folder: string): Promise<Known | undefined> {
    const record = await this.#read(folder)
    this.#known.set(folder, record)
    return record
  }

  /** What is no folder any more. */
  #forget(folders: readonly string[]): void {
    const present = new Set(folders)
    for (const folder of this.#known.keys()) if (!present.has(folder)) this.#known.delete(folder)
    for (const folder of this.#changed) if (!present.has(folder)) this.#changed.delete(folder)
  }
}
