/** Rows of the outbox: a call of send is an entry with one part for each message. */
import type { SentStatus } from '../../model/message.ts'
import type { Counter } from '../../model/session.ts'
import type { EndReason, EntryPart, KeptFile, NewEntry, OutboxLane, StoredEntry } from '../outbox.ts'
import { approvalReasonOf } from '../outbox.ts'
import { type EngineContext, EnginePart } from './engine-part.ts'
import type { SqliteOutboxLanes } from './lanes.ts'
import type { SqlitePaceSlots } from './pace-slots.ts'

/** How long a message may wait for its user. */
export const queueLifeMs = 7 * 24 * 60 * 60_000
/** How long a person may take to approve a send. */
const askLifeMs = 24 * 60 * 60_000
/** A call without progress for this long is over, if its process cannot be checked. */
export const callLifeMs = 10 * 60_000

/** More parts than an entry can have. */
const partsPerEntry = 1000
/** The ids of an entry's parts are consecutive, in order, so they are found without an index. */
const partId = (entry: number, nth: number): number => entry * partsPerEntry + nth

/** Returns the files of these parts. */
export const filesOf = (parts: readonly EntryPart[]): KeptFile[] => parts.flatMap(part => part.file ?? [])

export class SqliteOutboxEntries extends EnginePart {
  readonly #lanes: SqliteOutboxLanes
  readonly #slots: SqlitePaceSlots

  constructor(ground: EngineContext, lanes: SqliteOutboxLanes, slots: SqlitePaceSlots) {
    super(ground)
    this.#lanes = lanes
    this.#slots = slots
  }

  getEntry(id: number): StoredEntry | undefined {
    const row = this.db.get<EntryRow>`SELECT o.*, s.name, l.peer
      FROM outbox o LEFT JOIN outbox_lane l ON l.id = o.lane
      LEFT JOIN session s ON s.key = l.session WHERE o.id = ${id}`
    return row && entryOf(row, this.#listParts(id))
  }

  getPart(id: number): EntryPart | undefined {
    const row = this.db.get<PartRow>(`SELECT ${partColumnsAndTable} WHERE p.id = ?`, id)
    return row && partOf(row)
  }

  fileOf(message: number): KeptFile | undefined {
    // Uses the indexes of waiting parts, of which there are few.
    const row = this.db.get<{ file?: string }>`SELECT file FROM (
      SELECT message, file FROM outbox_part WHERE status = 'asked' UNION ALL
      SELECT message, file FROM outbox_part WHERE status = 'queued' AND message IS NOT NULL)
      WHERE message = ${message}`
    return row?.file === undefined ? undefined : JSON.parse(row.file)
  }

  #listParts(entry: number): EntryPart[] {
    const found = `SELECT ${partColumnsAndTable} WHERE p.id >= ? AND p.id < ? ORDER BY p.id`
    return this.db.all<PartRow>(found, partId(entry, 0), partId(entry + 1, 0)).map(partOf)
  }

  /**
   * Stores a call. Call it inside a transaction.
   *
   * @param begun row in the log and slot of its first part, if that begins in the same write
   */
  insert(
    { asked, bot_id, mode, key, content = '', made_by, parts }: NewEntry,
    session: number,
    lane: OutboxLane,
    begun?: { row: number; slot?: number },
  ): StoredEntry {
    const owner = mode === 'fail' ? this.owner.name : undefined
    const created_at = this.clock.now()
    const expires_at = created_at + (asked ? askLifeMs : mode === 'fail' ? callLifeMs : queueLifeMs)
    const { lastInsertRowid: id } = this.db.run`INSERT INTO outbox (lane, mode, owner, key, content,
      created_at, expires_at, asked, made_by)
      VALUES (${lane.id}, ${mode}, ${owner}, ${key}, ${content}, ${created_at}, ${expires_at},
      ${asked}, ${made_by})`
    const written = parts.map(({ kind, waiting }, nth): EntryPart => {
      const first = nth === 0 ? begun : undefined
      const waits = { status: 'queued', ...(asked && { error: approvalReasonOf(waiting?.file) }) } as const
      const message =
        first?.row ?? (waiting && this.messages.insertSent(session, bot_id, waiting.message, waits))
      const { msg_type = 'TEXT', text = '', raw = '' } = waiting?.message ?? {}
      const part: EntryPart = {
        id: partId(id, nth),
        entry: id,
        lane: lane.id,
        kind,
        msg_type,
        tries: 0,
        text,
        raw,
        status: first ? 'sending' : asked ? 'asked' : 'queued',
        message,
        slot: first?.slot,
        file: waiting?.file,
      }
      // Text as JSON: SQLite stores neither NUL nor lone surrogates.
      this.db.run`INSERT INTO outbox_part (id, entry, lane, kind, msg_type, status, message, slot, owner,
        began_at, file, text, raw)
        VALUES (${part.id}, ${id}, ${lane.id}, ${kind}, ${msg_type}, ${part.status}, ${message},
        ${first?.slot}, ${first && owner}, ${first && created_at}, ${toJson(waiting?.file)},
        ${JSON.stringify(text)}, ${raw})`
      return part
    })
    const { session: name, user } = lane
    return {
      id,
      session: name,
      user,
      mode,
      asked,
      content,
      created_at,
      expires_at,
      ended: false,
      made_by,
      parts: written,
    }
  }

  /** Records an approval: from here on the entry waits like any other. */
  approve({ id, asked, created_at, expires_at, parts }: StoredEntry, by: string): void {
    const until = asked === 'queue' ? created_at + queueLifeMs : expires_at
    this.db.run`UPDATE outbox SET asked = NULL, expires_at = ${until}, approved_by = ${by} WHERE id = ${id}`
    for (const part of parts) {
      this.db.run`UPDATE outbox_part SET status = 'queued' WHERE id = ${part.id}`
      if (part.message !== undefined) this.messages.settleSent(part.message, { status: 'queued' })
    }
  }

  /** Returns the number of sends of a session that wait for approval. */
  asked(session: number): number {
    return this.db.one<{
      n: number
    }>`SELECT count(DISTINCT entry) AS n FROM outbox_part WHERE status = 'asked'
      AND lane IN (SELECT id FROM outbox_lane WHERE session = ${session})`.n
  }

  /** Marks a part as being sent, with its row in the log. */
  begin(id: number, { row, slot }: { row: number; slot?: number }): void {
    this.db.run`UPDATE outbox_part SET status = 'sending', message = ${row}, slot = ${slot},
      owner = ${this.owner.name}, began_at = ${this.clock.now()} WHERE id = ${id}`
  }

  /** Returns the entries that wait for users or for an approval, oldest first, until they expire. */
  list(filter: { user_id?: string; session?: string } = {}): StoredEntry[] {
    const keys = filter.session === undefined ? undefined : this.messages.listSessionKeys(filter.session)
    const waiting = this.db.all<{ id: number; session: number; peer: string }>`SELECT o.id, l.session, l.peer
      FROM outbox o JOIN outbox_lane l ON l.id = o.lane
      WHERE o.mode = 'queue' AND o.ended_at IS NULL AND (o.asked IS NULL OR o.expires_at > ${this.clock.now()})
      ORDER BY o.id`
    return waiting
      .filter(({ peer }) => filter.user_id === undefined || peer === filter.user_id)
      .filter(({ session }) => keys === undefined || keys.includes(session))
      .flatMap(({ id }) => this.getEntry(id) ?? [])
  }

  getDepth(): { messages: number; oldest_at?: number } {
    return this.db.one<{ messages: number; oldest_at?: number }>`SELECT
      (SELECT count(*) FROM outbox_part WHERE status = 'queued' AND message IS NOT NULL) AS messages,
      (SELECT min(created_at) FROM outbox WHERE mode = 'queue' AND ended_at IS NULL) AS oldest_at`
  }

  /** Returns the first `limit` parts that wait in a lane, in order. */
  waiting(lane: number, limit: number): EntryPart[] {
    const found = `SELECT ${partColumnsAndTable} WHERE p.lane = ? AND p.status = 'queued' AND p.message IS NOT NULL
      ORDER BY p.id LIMIT ?`
    return this.db.all<PartRow>(found, lane, limit).map(partOf)
  }

  /** Returns the number of messages in a lane that wait or are being sent. */
  countUnsent(lane: number): number {
    return this.db.one<{ n: number }>`SELECT count(*) AS n FROM outbox o
      JOIN outbox_part p ON p.id >= o.id * ${partsPerEntry} AND p.id < (o.id + 1) * ${partsPerEntry}
      WHERE o.lane = ${lane} AND o.mode = 'queue' AND o.ended_at IS NULL
      AND p.status IN ('queued', 'sending')`.n
  }

  endPart(id: number, status: SentStatus, error?: EndReason, messageId?: string): void {
    this.db.run`UPDATE outbox_part SET status = ${status}, error = ${toJson(error)},
      message_id = ${messageId} WHERE id = ${id}`
  }

  /** Ends the waiting parts; parts that are being sent continue. @returns the ended parts */
  endWaiting(entry: number, reason: EndReason): EntryPart[] {
    const waiting = this.#listParts(entry).filter(({ status }) => status === 'queued' || status === 'asked')
    for (const part of waiting) {
      if (part.message !== undefined)
        this.messages.settleSent(part.message, { status: 'refused', error: reason })
      const lane = part.slot === undefined ? undefined : this.#lanes.getStored(part.lane)
      if (lane && part.slot !== undefined)
        this.#slots.giveBack(this.messages.ensureKey(lane.session), lane.user, part.slot)
      this.endPart(part.id, 'refused', reason)
    }
    return waiting
  }

  /**
   * Ends an entry of which nothing waits. Removes it, unless it answers for a key or was queued and may be
   * looked up.
   *
   * @param count counter of the user's answers, if it is known
   * @returns its current state
   */
  close(id: number, count?: Counter): StoredEntry | undefined {
    const entry = this.getEntry(id)
    if (!entry || entry.ended) return entry
    if (entry.parts.some(({ status }) => openStatuses.has(status))) return entry
    const counter = count ?? this.#lanes.getStored(entry.parts[0]?.lane ?? 0)?.counter
    const sentNothing = entry.parts.every(({ status }) => status === 'refused')
    if (entry.mode === 'fail' && (!entry.keyed || sentNothing)) this.remove(id)
    else {
      this.db.run`UPDATE outbox SET ended_at = ${this.clock.now()}, used = ${counter?.used ?? 0},
        received_at = ${counter?.received_at} WHERE id = ${id}`
      this.db.run`UPDATE outbox_part SET file = NULL, text = '""', raw = ''
        WHERE id >= ${partId(id, 0)} AND id < ${partId(id + 1, 0)}`
    }
    return { ...entry, ended: true, counter }
  }

  remove(id: number): void {
    this.db.run`DELETE FROM outbox_part WHERE id >= ${partId(id, 0)} AND id < ${partId(id + 1, 0)}`
    this.db.run`DELETE FROM outbox WHERE id = ${id}`
  }

  /** Returns the names of the stored files that are still needed. */
  listFiles(): string[] {
    const rows = this.db.all<{ name: string }>`SELECT file ->> 'name' AS name FROM outbox_part
      WHERE file IS NOT NULL AND status IN ('asked', 'queued', 'sending')`
    return rows.map(({ name }) => name)
  }
}

/** Statuses of parts without a result yet. */
const openStatuses: ReadonlySet<EntryPart['status']> = new Set(['asked', 'queued', 'sending'])

type EntryRow = Omit<StoredEntry, 'session' | 'user' | 'parts'> & {
  /** Name of the session; absent if the session or the lane does not exist: a call of version 0.1. */
  name?: string
  peer?: string
  key?: string
  ended_at?: number
  used: number
  received_at?: number
}

function entryOf(row: EntryRow, parts: EntryPart[]): StoredEntry {
  const { id, name = '', peer = '', mode, asked, content = '', created_at, expires_at, answer } = row
  const { used, received_at, made_by, approved_by, ended_by } = row
  const ended = row.ended_at !== undefined
  return {
    id,
    session: name,
    user: peer,
    mode,
    content,
    created_at,
    expires_at,
    ended,
    answer,
    parts,
    ...(row.key !== undefined && { keyed: true }),
    made_by,
    approved_by,
    ended_by,
    ...(ended ? { counter: { used, received_at } } : { asked }),
  }
}

/**
 * What follows SELECT for an `EntryPart`: its columns and the table. `text`, `error` and `file` are JSON.
 */
export const partColumnsAndTable = `p.id, p.entry, p.lane, p.kind, p.msg_type, p.status, p.tries, p.message, p.message_id,
  p.error, p.slot, p.file, p.text, p.raw FROM outbox_part p`

export type PartRow = Omit<EntryPart, 'error' | 'file'> & { error?: string; file?: string }

export const partOf = (row: PartRow): EntryPart => ({
  ...row,
  text: JSON.parse(row.text),
  error: row.error === undefined ? undefined : JSON.parse(row.error),
  file: row.file === undefined ? undefined : JSON.parse(row.file),
})

export const toJson = (value: object | undefined): string | undefined => value && JSON.stringify(value)
