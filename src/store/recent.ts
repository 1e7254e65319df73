/**
 * Repeats under new ids: upstream is known to deliver a message again within seconds under another id (protocol notes
 * 2.4). Two messages count as one only if sender, create time and content all match and the second came in a later
 * batch within 15 s; two equal ones in one batch are both real.
 */
import type { Database } from '../platform/sqlite.ts'

const repeatMs = 15_000

interface Told {
  from_user: string
  timestamp: number
  contentHash: string
}

const keyOf = (message: Told) => `${message.timestamp} ${message.contentHash} ${message.from_user}`

export interface BatchMemory {
  /** Whether an earlier batch had it. */
  repeats(message: Told): boolean
  note(message: Told): void
  /** The batch is stored: later ones are compared with it. */
  done(): void
}

export class RecentMessages {
  readonly #db: Database
  /** Key → Unix ms when it was stored; oldest first. */
  readonly #stored = new Map<string, number>()
  #version: number | undefined

  constructor(db: Database) {
    this.#db = db
  }

  begin(now: number): BatchMemory {
    this.#refill(now)
    for (const [key, at] of this.#stored) {
      if (at > now - repeatMs) break
      this.#stored.delete(key)
    }
    const fresh: string[] = []
    return {
      repeats: message => (this.#stored.get(keyOf(message)) ?? Number.NEGATIVE_INFINITY) > now - repeatMs,
      note: message => void fresh.push(keyOf(message)),
      done: () => {
        for (const key of fresh) {
          this.#stored.delete(key)
          this.#stored.set(key, now)
        }
      },
    }
  }

  /** After a start, or when another process wrote, the log's tail says what was stored lately. */
  #refill(now: number): void {
    const version = Number(this.#db.prepare('PRAGMA data_version').get()?.data_version)
    if (version === this.#version) return
    this.#version = version
    const rows = this.#db.prepare(
      'SELECT id, sent, stored_at, timestamp, content_hash, peer FROM message WHERE id < ? ORDER BY id DESC LIMIT 500',
    )
    const found: [string, number][] = []
    let before = Number.MAX_SAFE_INTEGER
    for (let pages = 0; pages < 200; pages++) {
      const page = rows.all(before)
      for (const row of page) {
        if (Number(row.stored_at) <= now - repeatMs) {
          this.#take(found)
          return
        }
        before = Number(row.id)
        if (row.sent === 1) continue
        const told = {
          from_user: String(row.peer),
          timestamp: Number(row.timestamp),
          contentHash: String(row.content_hash),
        }
        found.push([keyOf(told), Number(row.stored_at)])
      }
      if (page.length === 0) break
    }
    this.#take(found)
  }

  #take(newestFirst: [string, number][]): void {
    this.#stored.clear()
    for (const [key, at] of newestFirst.reverse()) this.#stored.set(key, at)
  }
}
