/** The sessions as one look found them, so that the next one costs what has changed. */
import type { SessionRecord } from './state.ts'

/** Of a session: as the last look found it, and as this one does. Absent where there was none, or is none any more. */
export interface ChangedSession {
  before?: SessionRecord | undefined
  now?: SessionRecord | undefined
}

export class KnownSessions {
  #records: readonly SessionRecord[] = []
  readonly #byName = new Map<string, SessionRecord>()

  get(name: string): SessionRecord | undefined {
    return this.#byName.get(name)
  }

  /** Takes in what `SessionSight.list` gives now. @returns those that are new, gone, or have another `bot` than before */
  changes(records: readonly SessionRecord[]): ChangedSession[] {
    // Records of thousands stay the same objects, most often in the same order: only what lies between the unchanged start and end is compared.
    const seen = this.#records
    if (records === seen) return []
    let [first, end, seenEnd] = [0, records.length, seen.length]
    while (first < end && first < seenEnd && records[first] === seen[first]) first++
    for (; end > first && seenEnd > first && records[end - 1] === seen[seenEnd - 1]; end--) seenEnd--
    const gone = new Set(seen.slice(first, seenEnd).map(({ name }) => name))
    const changes: ChangedSession[] = []
    for (const now of records.slice(first, end)) {
      const before = this.#byName.get(now.name)
      gone.delete(now.name)
      this.#byName.set(now.name, now)
      if (!before || before.bot !== now.bot) changes.push({ before, now })
    }
    for (const name of gone) {
      changes.push({ before: this.#byName.get(name) })
      this.#byName.delete(name)
    }
    this.#records = records
    return changes
  }
}
