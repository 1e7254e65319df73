/** Rows of the outbox: a call of send is an entry with one part for each message. */
import type { SentStatus } from '../../model/message.ts'
import type { Counter } from '../../model/session.ts'
import type {
  EditedText,
  EndReason,
  EntryPart,
  EntrySight,
  KeptFile,
  NewEntry,
  OutboxLane,
  StoredEntry,
} from '../outbox.ts'
import { approvalReasonOf, isInSight } from '../outbox.ts'
import { expiryOf, openStatuses, partId, partsPerEntry, queueLifeMs, sentByOf } from '../outbox-rules.ts'
import { EnginePart, type SqliteContext } from './engine-part.ts'
import type { SqliteOutboxLanes } from './lanes.ts'
import { keyNameOf } from './messages.ts'
import type { SqlitePaceSlots } from './pace-slots.ts'

export class SqliteOutboxEntries extends EnginePart {
  readonly #lanes: SqliteOutboxLanes
  readonly #slots: SqlitePaceSlots

  constructor(ground: SqliteContext, lanes: SqliteOutboxLanes, slots: SqlitePaceSlots) {
    super(ground)
    this.#lanes = lanes
    this.#slots = slots
  }

  getEntry(id: number, sight?: EntrySight): StoredEntry | undefined {
    const row = this.db.get<EntryRow>(
      `SELECT o.*, ${keyNameOf('o.made_by')} AS made_by_name, s.name, l.peer
       FROM outbox o LEFT JOIN outbox_lane l ON l.id = o.lane
       LEFT JOIN session s ON s.key = l.session WHERE o.id = ?`,
      id,
    )
    if (sight && !isInSight(sight, { made_by: row?.made_by, user: row?.peer, bot: this.#botOf(id, sight) }))
      return undefined
    return row && entryOf(row, this.#listParts(id))
  }

  /** Returns who made the call of a part, as `sentByOf` does. */
  getSender({ entry }: EntryPart): string | undefined {
    const made = this.db.get<SenderRow>`SELECT made_by, address FROM outbox WHERE id = ${entry}`
    return made && sentByOf(made)
  }

  /** Returns the account of an entry's messages, if it matters. */
  #botOf(entry: number, { scope }: EntrySight): string | undefined {
    if (scope?.bots === undefined) return undefined
    return this.db.get<{
      bot_id: string
    }>`SELECT m.bot_id FROM outbox_part p JOIN message m ON m.id = p.message
      WHERE p.id >= ${partId(entry, 0)} AND p.id < ${partId(entry + 1, 0)} LIMIT 1`?.bot_id
  }

  getPart(id: number): EntryPart | undefined {
    const row = this.db.get<StoredPartRow>(`SELECT ${partColumnsAndTable} WHERE p.id = ?`, id)
    return row && partOf(row)
  }

  fileOf(message: number, sight: EntrySight = {}): KeptFile | undefined {
    // Uses the indexes of waiting parts, of which there are few.
    const row = this.db.get<{ file?: string; made_by?: string; bot?: string; user?: string }>`
      SELECT file, o.made_by, m.bot_id AS bot, l.peer AS user FROM (
      SELECT entry, message, file FROM outbox_part WHERE status = 'asked' UNION ALL
      SELECT entry, message, file FROM outbox_part WHERE status = 'queued' AND message IS NOT NULL) w
      LEFT JOIN outbox o ON o.id = w.entry LEFT JOIN outbox_lane l ON l.id = o.lane
      LEFT JOIN message m ON m.id = w.message
      WHERE w.message = ${message}`
    return row?.file === undefined || !isInSight(sight, row) ? undefined : JSON.parse(row.file)
  }

  #listParts(entry: number): EntryPart[] {
    const found = `SELECT ${partColumnsAndTable} WHERE p.id >= ? AND p.id < ? ORDER BY p.id`
    return this.db.all<StoredPartRow>(found, partId(entry, 0), partId(entry + 1, 0)).map(partOf)
  }

  /**
   * Stores a call. Call it inside a transaction.
   *
   * @param begun row in the log and slot of its first part, if that begins in the same write
   */
  insert(
    entry: NewEntry,
    session: number,
    lane: OutboxLane,
    begun?: { row: number; slot?: number },
  ): StoredEntry {
    const { asked, bot_id, mode, key, content = '', made_by, address, parts } = entry
    const owner = mode === 'fail' ? this.owner.name : undefined
    const created_at = this.clock.now()
    const expires_at = expiryOf(entry, created_at)
    const { lastInsertRowid: id } = this.db.run`INSERT INTO outbox (lane, mode, owner, key, content,
      created_at, expires_at, asked, made_by, address)
      VALUES (${lane.id}, ${mode}, ${owner}, ${key}, ${content}, ${created_at}, ${expires_at},
      ${asked}, ${made_by}, ${address})`
    const written = parts.map(({ kind, waiting }, nth): EntryPart => {
      const first = nth === 0 ? begun : undefined
      const waits = { status: 'queued', ...(asked && { error: approvalReasonOf(waiting?.file) }) } as const
      const message =
        first?.row ??
        (waiting && this.messages.insertSent(session, bot_id, waiting.message, waits, sentByOf(entry)))
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
    for (const part of parts.filter(({ status }) => status === 'asked')) {
      this.db.run`UPDATE outbox_part SET status = 'queued' WHERE id = ${part.id}`
      if (part.message !== undefined) this.messages.settleSent(part.message, { status: 'queued' })
    }
  }

  /** Replaces the text of a waiting part, and of its row. */
  rewriteText({ id, message }: EntryPart, { text, raw }: EditedText): void {
    this.db.run`UPDATE outbox_part SET text = ${JSON.stringify(text)}, raw = ${raw} WHERE id = ${id}`
    if (message !== undefined) this.messages.rewriteText(message, { text, raw })
  }

  /**
   * Lets an entry that waits for its user wait for a person's approval, until `until` (Unix ms) or its own
   * end. Parts that are being sent continue.
   */
  askAgain(id: number, until: number): void {
    this.db.run`UPDATE outbox SET asked = 'queue', approved_by = NULL, expires_at = min(expires_at, ${until})
      WHERE id = ${id}`
    for (const part of this.#listParts(id)) if (part.status === 'queued') this.#ask(part)
  }

  /** Lets a part that waits for its user wait for a person's approval. */
  #ask(part: EntryPart): void {
    this.#giveBackSlot(part)
    this.db.run`UPDATE outbox_part SET status = 'asked', slot = NULL WHERE id = ${part.id}`
    if (part.message !== undefined)
      this.messages.settleSent(part.message, { status: 'queued', error: approvalReasonOf(part.file) })
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
  list(filter: { user_id?: string; session?: string; sight?: EntrySight } = {}): StoredEntry[] {
    const keys = filter.session === undefined ? undefined : this.messages.listSessionKeys(filter.session)
    const isForAccounts = filter.sight?.scope?.bots !== undefined
    const bot = `(SELECT m.bot_id FROM outbox_part p JOIN message m ON m.id = p.message
      WHERE p.id >= o.id * ${partsPerEntry} AND p.id < (o.id + 1) * ${partsPerEntry} LIMIT 1)`
    const waiting = this.db.all<WaitingRow>(
      `SELECT o.id, l.session, l.peer, o.made_by, ${isForAccounts ? bot : 'NULL'} AS bot
        FROM outbox o JOIN outbox_lane l ON l.id = o.lane
        WHERE o.mode = 'queue' AND o.ended_at IS NULL AND (o.asked IS NULL OR o.expires_at > ?) ORDER BY o.id`,
      this.clock.now(),
    )
    return waiting
      .filter(({ peer }) => filter.user_id === undefined || peer === filter.user_id)
      .filter(({ session }) => keys === undefined || keys.includes(session))
      .filter(row => !filter.sight || isInSight(filter.sight, { ...row, user: row.peer }))
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
    return this.db.all<StoredPartRow>(found, lane, limit).map(partOf)
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
      this.#giveBackSlot(part)
      this.endPart(part.id, 'refused', reason)
    }
    return waiting
  }

  #giveBackSlot({ lane: id, slot }: EntryPart): void {
    const lane = slot === undefined ? undefined : this.#lanes.getStored(id)
    if (lane && slot !== undefined)
      this.#slots.giveBack(this.messages.ensureKey(lane.session), lane.user, slot)
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

type SenderRow = Pick<Partial<NewEntry>, 'made_by' | 'address'>

interface WaitingRow {
  id: number
  session: number
  peer: string
  made_by?: string
  /** The account of its messages. */
  bot?: string
}

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
  const { used, received_at, made_by, made_by_name, approved_by, ended_by } = row
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
    made_by_name,
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

export type StoredPartRow = Omit<EntryPart, 'error' | 'file'> & { error?: string; file?: string }

export const partOf = (row: StoredPartRow): EntryPart => ({
  ...row,
  text: JSON.parse(row.text),
  error: row.error === undefined ? undefined : JSON.parse(row.error),
  file: row.file === undefined ? undefined : JSON.parse(row.file),
})

export const toJson = (value: object | undefined): string | undefined => value && JSON.stringify(value)
