/**
 * Ends entries of the outbox without sending them: their process died, they waited too long, or they are no
 * longer needed.
 */
import type { ClockTrust } from '../clock-trust.ts'
import {
  type EndedEntry,
  type EndReason,
  type EntryPart,
  type SendMode,
  type StoredEntry,
  stoppedBeforeSend,
  stoppedDuringSend,
} from '../outbox.ts'
import { callLifeMs, filesOf, keyLifeMs, queueLifeMs } from '../outbox-rules.ts'
import { EnginePart, type SqliteContext } from './engine-part.ts'
import { partColumnsAndTable, partOf, type SqliteOutboxEntries, type StoredPartRow } from './entries.ts'

/** The process that began a part, and when. */
interface Begun {
  owner?: string
  began_at?: number
}

interface CallRow {
  id: number
  mode: SendMode
  /** Process in which the caller waits; only in mode `fail`. */
  owner?: string
  created_at: number
  expires_at: number
  ended_at?: number
}

export class SqliteOutboxEnds extends EnginePart {
  readonly #entries: SqliteOutboxEntries
  readonly #clockTrust: ClockTrust

  constructor(ground: SqliteContext, entries: SqliteOutboxEntries, calendar: ClockTrust) {
    super(ground)
    this.#entries = entries
    this.#clockTrust = calendar
  }

  /**
   * Ends the waiting parts of an entry; parts that are being sent continue.
   *
   * @param options same as in `OutboxCalls.end`
   * @returns the entry's current state, the number of ended messages and their files; undefined if there is
   *   no such entry
   */
  end(
    id: number,
    reason: EndReason,
    { only, by }: { only?: SendMode; by?: string } = {},
  ): EndedEntry | undefined {
    const found = this.#entries.getEntry(id)
    if (!found || (only !== undefined && (found.mode !== only || found.ended))) return undefined
    const ended = this.#entries.endWaiting(id, reason)
    if (by !== undefined && ended.length > 0) this.db.run`UPDATE outbox SET ended_by = ${by} WHERE id = ${id}`
    return { entry: this.#entries.close(id)!, ended: ended.length, files: filesOf(ended) }
  }

  /** Ends what has waited too long: for its user, or for an approval. */
  expire(reason: EndReason, unasked: EndReason): EndedEntry[] {
    const late = this.db.all<{ id: number; asked?: SendMode }>`SELECT id, asked FROM outbox
      WHERE expires_at <= ${this.clock.now()} AND mode = 'queue' AND ended_at IS NULL ORDER BY id`
    return late
      .flatMap(({ id, asked }) => this.end(id, asked === undefined ? reason : unasked) ?? [])
      .filter(({ ended }) => ended > 0)
  }

  /** Records that the call still makes progress. */
  renew(id: number): void {
    this.db.run`UPDATE outbox SET expires_at = ${this.clock.now() + callLifeMs} WHERE id = ${id}
      AND mode = 'fail'`
  }

  hasKey(key: string): boolean {
    return this.db.get`SELECT 1 AS found FROM outbox WHERE key = ${key}` !== undefined
  }

  /**
   * Finds the entry that answers for a key. A call that died is ended first; a key older than a day is free.
   */
  findByKey(key: string): StoredEntry | undefined {
    const { clock, owner } = this
    const find = () => this.db.get<CallRow>`SELECT * FROM outbox WHERE key = ${key}`
    let row = find()
    if (!row) return undefined
    // A clock that was set ahead must not make a repeated call send twice.
    const now = this.#clockTrust.isTrusted ? clock.now() : Number.NEGATIVE_INFINITY
    if (row.mode === 'fail' && row.ended_at === undefined) {
      const over = row.expires_at <= now || owner.isDead(row.owner!)
      if (over) this.#endOrphan(row.id)
      row = over ? find() : row
    }
    if (!row) return undefined
    const { id } = row
    const called = row.mode === 'fail' ? row.ended_at : row.created_at
    if (called === undefined || now - called < keyLifeMs) return this.#entries.getEntry(id)
    if (row.mode === 'queue') this.db.run`UPDATE outbox SET key = NULL WHERE id = ${id}`
    else this.#entries.remove(id)
    return undefined
  }

  /** Removes entries that answer for nothing any more. */
  prune(): void {
    const now = this.clock.now()
    const before = now - keyLifeMs
    this.db.run`UPDATE outbox SET key = NULL WHERE mode = 'queue' AND created_at <= ${before}`
    const over = this.db.all<{ id: number }>`SELECT id FROM outbox WHERE ended_at IS NOT NULL
      AND CASE mode WHEN 'queue' THEN created_at <= ${now - queueLifeMs} ELSE key IS NULL OR ended_at <= ${before} END`
    for (const { id } of over) this.#entries.remove(id)
  }

  /**
   * Returns messages in flight that began before `before` (Unix ms) or whose process died, and calls that
   * are over for these reasons.
   */
  #findOrphans(before: number): { parts: EntryPart[]; calls: number[] } {
    const { owner } = this
    const isDead = (row: Pick<Begun, 'owner'>) => owner.isDead(row.owner ?? '')
    return {
      parts: this.db
        .all<StoredPartRow & Begun>(
          `SELECT p.owner, p.began_at, ${partColumnsAndTable} WHERE p.status = 'sending'`,
        )
        .filter(row => (row.began_at ?? 0) < before || isDead(row))
        .map(partOf),
      // A call that is not over has a part in flight, or a part that waits and has no message yet.
      calls: this.db
        .all<CallRow>`SELECT id, owner, expires_at FROM outbox WHERE mode = 'fail' AND ended_at IS NULL
        AND id IN (SELECT entry FROM outbox_part WHERE status = 'sending'
          UNION SELECT entry FROM outbox_part WHERE status = 'queued' AND message IS NULL)`
        // A call whose process hangs would block its user's answers: past its deadline it is over, if the
        // clock is trusted.
        .filter(row => isDead(row) || (before > 0 && row.expires_at <= this.clock.now()))
        .map(({ id }) => id),
    }
  }

  /**
   * Ends what `#findOrphans` finds: parts in flight become unknown, waiting parts are refused. @returns how
   * many messages became unknown
   */
  reap(before: number): number {
    const { parts, calls } = this.#findOrphans(before)
    for (const part of parts) this.#markUnknown(part)
    for (const id of new Set(parts.map(({ entry }) => entry))) this.#entries.close(id)
    for (const id of calls) this.#endOrphan(id)
    return parts.length
  }

  #markUnknown(part: EntryPart): void {
    this.messages.settleSent(part.message!, { status: 'unknown', error: stoppedDuringSend })
    this.#entries.endPart(part.id, 'unknown', stoppedDuringSend)
  }

  /**
   * Ends a call of mode `fail` whose process is gone: the part in flight becomes unknown, the rest is never
   * sent.
   */
  #endOrphan(id: number): void {
    for (const part of this.#entries.getEntry(id)?.parts ?? [])
      if (part.status === 'sending') this.#markUnknown(part)
    this.#entries.endWaiting(id, stoppedBeforeSend)
    this.#entries.close(id)
  }
}
