/**
 * Sends that wait until their user writes: whole, in order, one lane per user of a session.
 *
 * A part is in the log from the start, as `queued`, and what becomes of it is told there. One process at a time works on
 * a lane (`lanes.ts`). What it has begun to hand over is in flight
 * like any other send: when it dies then, that part is unknown and is never begun again.
 */
import { SvcError } from '../model/error.ts'
import type { MediaKind, MessageKind, SentStatus } from '../model/message.ts'
import type { Clock } from '../platform/clock.ts'
import type { Database, Row } from '../platform/sqlite.ts'
import { Lanes } from './lanes.ts'
import type { Messages, SentMessage, Settled } from './messages.ts'
import type { Owner } from './owner.ts'

/** A file of ours that a part is sent from. */
export interface KeptFile {
  /** Its name in the folder of kept files. */
  name: string
  file_name: string
  size: number
  /** Lower-case hex. */
  md5: string
}

/** One message to queue. */
export interface NewPart {
  kind: 'text' | MediaKind
  file?: KeptFile
  /** As the log shows it while it waits. */
  message: SentMessage
  /** Its row, when it is in the log already: one that upstream refused. */
  row?: number
}

export interface OutboxPart {
  id: number
  entry: number
  kind: 'text' | MediaKind
  msg_type: MessageKind
  status: SentStatus
  /** How often upstream has refused it. */
  tries: number
  /** Row id in the log. */
  message: number
  text: string
  file?: KeptFile
  raw: string
}

/** One queued call of send. */
export interface OutboxEntry {
  id: number
  session: string
  to_user: string
  /** Unix ms. */
  created_at: number
  expires_at: number
  parts: OutboxPart[]
}

/** Messages that may wait for one user. */
const laneLimit = 1000
/** Parts looked at for one message to send. */
const lookahead = 100

export class Outbox {
  readonly #db: Database
  readonly #messages: Messages
  readonly #clock: Clock
  /** Who of all processes works for which user. */
  readonly lanes: Lanes

  constructor(db: Database, messages: Messages, clock: Clock, owner: Owner) {
    this.#db = db
    this.#messages = messages
    this.#clock = clock
    this.lanes = new Lanes(db, messages, clock, owner)
  }

  /**
   * Puts a send at the end of its user's lane.
   *
   * @throws SvcError `quota_exhausted` when too much waits there already
   */
  add(entry: { session: string; bot_id: string; user: string; lifeMs: number; parts: readonly NewPart[] }): {
    id: number
    messages: number[]
  } {
    return this.#db.transaction(() => {
      const session = this.#messages.keyOf(entry.session)
      const lane = this.lanes.of(session, entry.user)
      const waiting = this.#count(
        "SELECT count(*) AS n FROM outbox_part WHERE lane = ? AND status = 'queued'",
        lane,
      )
      if (waiting + entry.parts.length > laneLimit) {
        throw new SvcError('quota_exhausted', `${waiting} messages wait for this user already`, {
          hint: 'Stop sending; wait until the user writes, or cancel some: GET /outbox shows them.',
        })
      }
      const now = this.#clock.now()
      const { lastInsertRowid: id } = this.#db
        .prepare('INSERT INTO outbox (lane, created_at, expires_at) VALUES (?, ?, ?)')
        .run(lane, now, now + entry.lifeMs)
      const messages = entry.parts.map(({ kind, file, message, row }) => {
        const known = row !== undefined && this.#messages.rewrite(row, entry.bot_id, message, 'queued')
        const at = known ? row : this.#messages.insertOut(session, entry.bot_id, message, 'queued')
        this.#db
          .prepare(
            `INSERT INTO outbox_part (entry, lane, kind, msg_type, status, message, file, text, raw)
             VALUES (?, ?, ?, ?, 'queued', ?, ?, ?, ?)`,
          )
          .run(
            ...[id, lane, kind, message.msg_type, at, file ? JSON.stringify(file) : null],
            // As JSON: SQLite keeps neither NUL nor lone surrogates.
            ...[JSON.stringify(message.text), message.raw],
          )
        return at
      })
      return { id, messages }
    })
  }

  /** What waits in a lane, in its order, as far as one message may need to look. */
  next(lane: number): OutboxPart[] {
    return this.#db
      .prepare(`SELECT * FROM outbox_part WHERE lane = ? AND status = 'queued' ORDER BY id LIMIT ?`)
      .all(lane, lookahead)
      .map(partOf)
  }

  /**
   * From here on these parts may have gone out, as one message.
   *
   * @returns false when that is not ours to do any more: the lane was taken over, or a part was cancelled
   */
  begin(lane: number, parts: readonly OutboxPart[], botId: string, message: SentMessage): boolean {
    return this.#db.transaction(() => {
      const session = this.lanes.sessionOfOwn(lane)
      if (session === undefined || !this.lanes.claim(lane)) return false
      const queued = this.#db.prepare(`SELECT 1 AS found FROM outbox_part WHERE id = ? AND status = 'queued'`)
      if (!parts.every(part => queued.get(part.id))) return false
      for (const [nth, part] of parts.entries()) {
        // The first one's row becomes the message as it goes out; the others say which one that is.
        const own: SentMessage =
          nth === 0
            ? message
            : { ...message, client_id: `${message.client_id}+${nth}`, text: part.text, raw: part.raw }
        if (!this.#messages.rewrite(part.message, botId, own, 'sending')) {
          // Retention took the row.
          part.message = this.#messages.insertOut(session, botId, own, 'sending')
        }
        if (nth > 0) this.#messages.noteCarrier(part.message, `local:${message.client_id}`)
        this.#messages.takeOff(part.message)
        this.#db
          .prepare(`UPDATE outbox_part SET status = 'sending', message = ? WHERE id = ?`)
          .run(part.message, part.id)
      }
      return true
    })
  }

  /** What became of parts that went out, or of such as never will. @returns their files, which nobody needs any more */
  settle(parts: readonly OutboxPart[], settled: Settled): KeptFile[] {
    return this.#db.transaction(() => {
      const { messageId, ...rest } = settled
      for (const [nth, part] of parts.entries()) {
        this.#messages.settleSent(part.message, nth === 0 ? settled : rest)
        if (nth > 0 && messageId !== undefined) this.#messages.noteCarrier(part.message, messageId)
        this.#db.prepare('UPDATE outbox_part SET status = ? WHERE id = ?').run(settled.status, part.id)
      }
      this.#tidy(parts)
      return filesOf(parts)
    })
  }

  /** Parts that certainly did not go out wait again, at their place. */
  requeue(parts: readonly OutboxPart[], botId: string, to: string, refused: boolean): void {
    this.#db.transaction(() => {
      for (const part of parts) {
        const known = this.#db.prepare('SELECT status FROM outbox_part WHERE id = ?').get(part.id)
        // Taken for abandoned meanwhile: it stays unknown.
        if (known?.status !== 'sending' && known?.status !== 'queued') continue
        const message = {
          client_id: `queued-${part.id}`,
          to_user: to,
          msg_type: part.msg_type,
          text: part.text,
          timestamp: this.#clock.now(),
          raw: part.raw,
        }
        this.#messages.rewrite(part.message, botId, message, 'queued')
        this.#messages.landed(part.message)
        this.#db
          .prepare(`UPDATE outbox_part SET status = 'queued', tries = tries + ? WHERE id = ?`)
          .run(refused ? 1 : 0, part.id)
      }
    })
  }

  /** What waits, oldest first. */
  list(filter: { user_id?: string; session?: string } = {}): OutboxEntry[] {
    const keys = filter.session === undefined ? undefined : this.#messages.sessionKeys(filter.session)
    return this.#db
      .prepare(
        `SELECT o.id, o.created_at, o.expires_at, l.session, l.peer, s.name FROM outbox o
         JOIN outbox_lane l ON l.id = o.lane JOIN session s ON s.key = l.session ORDER BY o.id`,
      )
      .all()
      .filter(row => filter.user_id === undefined || row.peer === filter.user_id)
      .filter(row => keys === undefined || keys.includes(Number(row.session)))
      .map(row => ({
        id: Number(row.id),
        session: String(row.name),
        to_user: String(row.peer),
        created_at: Number(row.created_at),
        expires_at: Number(row.expires_at),
        parts: this.#parts(Number(row.id)),
      }))
  }

  /**
   * Ends what waits of an entry; what is being handed over right now goes its way.
   *
   * @returns how many messages that were and their files; undefined when there is no such entry
   */
  cancel(id: number, reason: string): { cancelled: number; files: KeptFile[] } | undefined {
    return this.#db.transaction(() => {
      const parts = this.#parts(id)
      if (parts.length === 0) return undefined
      const waiting = parts.filter(part => part.status === 'queued')
      return { cancelled: waiting.length, files: this.settle(waiting, { status: 'refused', reason }) }
    })
  }

  /** Ends what has waited too long. */
  expire(reason: string): { entry: number; user: string; messages: number; files: KeptFile[] }[] {
    const now = this.#clock.now()
    const over = this.#db
      .prepare(
        'SELECT o.id, l.peer FROM outbox o JOIN outbox_lane l ON l.id = o.lane WHERE o.expires_at <= ? ORDER BY o.id',
      )
      .all(now)
    return over.flatMap(({ id, peer }) => {
      const ended = this.cancel(Number(id), reason)
      if (!ended || ended.cancelled === 0) return []
      return { entry: Number(id), user: String(peer), messages: ended.cancelled, files: ended.files }
    })
  }

  /** Parts in flight whose sender died are unknown, as their rows in the log are. Inside a transaction. */
  abandoned(messages: readonly number[]): void {
    for (const message of messages) {
      const parts = this.#db
        .prepare(`SELECT * FROM outbox_part WHERE message = ? AND status = 'sending'`)
        .all(message)
        .map(partOf)
      for (const part of parts) {
        this.#db.prepare(`UPDATE outbox_part SET status = 'unknown' WHERE id = ?`).run(part.id)
      }
      this.#tidy(parts)
    }
  }

  /** Names of the kept files that are still needed. */
  files(): ReadonlySet<string> {
    return new Set(
      this.#db
        .prepare(`SELECT file FROM outbox_part WHERE file IS NOT NULL AND status IN ('queued', 'sending')`)
        .all()
        .map(row => (JSON.parse(String(row.file)) as KeptFile).name),
    )
  }

  #parts(entry: number): OutboxPart[] {
    return this.#db.prepare('SELECT * FROM outbox_part WHERE entry = ? ORDER BY id').all(entry).map(partOf)
  }

  /** Entries of which nothing waits go, and so do empty lanes. */
  #tidy(parts: readonly OutboxPart[]): void {
    for (const entry of new Set(parts.map(part => part.entry))) {
      const open = this.#count(
        `SELECT count(*) AS n FROM outbox_part WHERE entry = ? AND status IN ('queued', 'sending')`,
        entry,
      )
      if (open > 0) continue
      const lane = Number(this.#db.prepare('SELECT lane FROM outbox WHERE id = ?').get(entry)?.lane ?? 0)
      this.#db.prepare('DELETE FROM outbox_part WHERE entry = ?').run(entry)
      this.#db.prepare('DELETE FROM outbox WHERE id = ?').run(entry)
      this.lanes.closeIfEmpty(lane)
    }
  }

  #count(sql: string, param: number): number {
    return Number(this.#db.prepare(sql).get(param)?.n)
  }
}

const filesOf = (parts: readonly OutboxPart[]): KeptFile[] => parts.flatMap(part => part.file ?? [])

function partOf(row: Row): OutboxPart {
  return {
    id: Number(row.id),
    entry: Number(row.entry),
    kind: row.kind as OutboxPart['kind'],
    msg_type: row.msg_type as MessageKind,
    status: row.status as SentStatus,
    tries: Number(row.tries),
    message: Number(row.message),
    text: JSON.parse(String(row.text)) as string,
    ...(row.file !== null && { file: JSON.parse(String(row.file)) as KeptFile }),
    raw: String(row.raw),
  }
}
