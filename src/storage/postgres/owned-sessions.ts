/** The sessions that this process polls, as they are listed: each change has a revision. */
import type { SessionChanges, SessionRecord } from '../state.ts'

export class OwnedSessions {
  /** Records of all sessions, by name. */
  readonly #records = new Map<string, SessionRecord>()
  /** What this process polls, and what it polled before (without a record). */
  readonly #owned = new Map<string, { since: number; record: SessionRecord | undefined }>()
  #revision = 0
  /** Up to which all sessions were read. */
  readUpTo: number | undefined

  follow({ changed, revision }: SessionChanges, isOwn: (name: string) => boolean): void {
    this.readUpTo = revision
    for (const [name, record] of changed) {
      if (record) this.#records.set(name, record)
      else this.#records.delete(name)
      this.#note(name, isOwn(name) ? record : undefined)
    }
    for (const [name, record] of this.#records)
      if (isOwn(name) !== this.has(name)) this.#note(name, isOwn(name) ? record : undefined)
  }

  #note(name: string, record: SessionRecord | undefined): void {
    if (record || this.has(name)) this.#owned.set(name, { since: ++this.#revision, record })
  }

  has(name: string): boolean {
    return this.#owned.get(name)?.record !== undefined
  }

  /** Returns all, or those that changed since a revision. */
  list(revision: number | undefined): SessionChanges {
    const changed = new Map<string, SessionRecord | undefined>()
    for (const [name, { since, record }] of this.#owned)
      if (revision === undefined ? record : since > revision) changed.set(name, record)
    return { revision: this.#revision, changed }
  }

  names(): string[] {
    return [...this.#owned.keys()].filter(name => this.has(name))
  }
}
