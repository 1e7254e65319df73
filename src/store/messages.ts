/** Rows of the message log: inserted once, settled, read forward. */

import type { Direction, MessageKind, SentStatus } from '../model/message.ts'
import { sessionKey } from '../model/session.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Database, Row } from '../platform/sqlite.ts'
import { gramsOf, searchable } from './grams.ts'
import { type Arrived, batchOf } from './repeats.ts'

/** Rows read at a time where all that fit are wanted. */
const pageRows = 1000

/** A message as the poller hands it over. */
export interface ReceivedMessage {
  /** Upstream's; undefined when it sent none, then `derived_id` stands in. */
  message_id?: string
  /** Deterministic: the same for the same message delivered again. */
  derived_id: string
  from_user: string
  msg_type: MessageKind
  text: string
  /** Unix ms. */
  timestamp: number
  /** Whether upstream stated the time: only then may it serve to recognise a repeat. */
  timed: boolean
  contentHash: string
  /** The whole message as JSON text. */
  raw: string
}

export interface SentMessage {
  client_id: string
  to_user: string
  msg_type: MessageKind
  text: string
  timestamp: number
  raw: string
}

export interface StoredMessage {
  id: number
  message_id: string
  session: string
  bot_id: string
  direction: Direction
  status?: SentStatus
  from_user: string
  msg_type: MessageKind
  text: string
  timestamp: number
  raw: string
}

const columns = `m.id, m.message_id, (SELECT name FROM session WHERE key = m.session) AS session,
  m.bot_id, m.sent, m.status, m.peer, m.msg_type, m.text, m.timestamp, m.raw`

export class Messages {
  readonly #db: Database
  readonly #clock: Clock
  readonly #log: Log

  constructor(db: Database, clock: Clock, log: Log) {
    this.#db = db
    this.#clock = clock
    this.#log = log
  }

  insertReceived(
    session: string,
    botId: string,
    batch: readonly ReceivedMessage[],
  ): (number | 'duplicate')[] {
    if (batch.length === 0) return []
    return this.#db.transaction(() => {
      const now = this.#clock.now()
      const key = this.#sessionKey(session)
      const arrived = batchOf(this.#db, botId, batch, now)
      return arrived.map(one => this.#insertArrived(one, session, key, botId, now))
    })
  }

  #insertArrived(
    { message, verdict, id, hash }: Arrived,
    session: string,
    key: number,
    botId: string,
    now: number,
  ): number | 'duplicate' {
    if (verdict === 'repeat') {
      this.#log.info('message delivered again under a new id', { session, message_id: id })
      return 'duplicate'
    }
    if (verdict === 'known') return 'duplicate'
    if (verdict === 'renamed') {
      this.#log.warn('two different messages came under one id; both are kept', { session, message_id: id })
    }
    const text = searchable(message.text)
    const { lastInsertRowid } = this.#db
      .prepare(
        `INSERT INTO message (message_id, session, sent, bot_id, peer, msg_type, timestamp, stored_at, content_hash, text, raw)
         VALUES (?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?)`,
      )
      .run(
        id,
        key,
        botId,
        message.from_user,
        message.msg_type,
        message.timestamp,
        now,
        hash,
        text,
        message.raw,
      )
    this.#index(lastInsertRowid, text)
    return lastInsertRowid
  }

  insertSent(session: string, botId: string, message: SentMessage): number {
    return this.#db.transaction(() => {
      const text = searchable(message.text)
      const { lastInsertRowid } = this.#db
        .prepare(
          `INSERT INTO message (message_id, session, sent, status, bot_id, peer, msg_type, timestamp, stored_at, text, raw)
           VALUES (?, ?, 1, 'sending', ?, ?, ?, ?, ?, ?, ?)`,
        )
        .run(
          `local:${message.client_id}`,
          this.#sessionKey(session),
          botId,
          message.to_user,
          message.msg_type,
          message.timestamp,
          this.#clock.now(),
          text,
          message.raw,
        )
      this.#index(lastInsertRowid, text)
      return lastInsertRowid
    })
  }

  settleSent(id: number, status: string, messageId?: string): void {
    this.#db.transaction(() => {
      this.#db.prepare('UPDATE message SET status = ? WHERE id = ?').run(status, id)
      // An id that a received row has already is not ours to take; the local one stays.
      if (messageId !== undefined)
        this.#db.prepare('UPDATE OR IGNORE message SET message_id = ? WHERE id = ?').run(messageId, id)
    })
  }

  settleAbandoned(before: number): void {
    this.#db
      .prepare(`UPDATE message SET status = 'unknown' WHERE status = 'sending' AND stored_at < ?`)
      .run(before)
  }

  after(id: number, options: { limit: number; direction?: Direction; session?: string }): StoredMessage[] {
    const { direction, limit, session } = options
    const narrowed = direction === undefined ? '' : ` AND m.sent = ${direction === 'sent' ? 1 : 0}`
    if (session === undefined) {
      return this.#db
        .prepare(`SELECT ${columns} FROM message m WHERE m.id > ?${narrowed} ORDER BY m.id LIMIT ?`)
        .all(id, limit)
        .map(stored)
    }
    return this.idsAfter(this.sessionKeys(session), () => id, limit, narrowed).flatMap(
      found => this.byId(found.id) ?? [],
    )
  }

  recent(
    since: number,
    options: { limit: number; direction?: Direction; session?: string },
  ): StoredMessage[] {
    // Row ids grow with the time of storing, so one walk from the end finds where it begins.
    const before = this.#db
      .prepare('SELECT id FROM message WHERE stored_at < ? ORDER BY id DESC LIMIT 1')
      .get(since)
    let rows: StoredMessage[] = []
    for (let from = Number(before?.id ?? 0); ; ) {
      const page = this.after(from, { ...options, limit: pageRows })
      rows = [...rows, ...page].slice(-options.limit)
      if (page.length < pageRows) return rows
      from = page.at(-1)!.id
    }
  }

  /** Ids after a position in each of some sessions, oldest first: one walk of an index per session, then merged. */
  idsAfter(
    keys: readonly number[],
    positionOf: (key: number) => number,
    limit: number,
    narrowed = ' AND m.sent = 0',
  ): { id: number; key: number }[] {
    return keys
      .flatMap(key =>
        this.#db
          .prepare(
            `SELECT m.id FROM message m INDEXED BY message_session
             WHERE m.session = ? AND m.id > ?${narrowed} ORDER BY m.id LIMIT ?`,
          )
          .all(key, positionOf(key), limit)
          .map(row => ({ id: Number(row.id), key })),
      )
      .sort((a, b) => a.id - b.id)
      .slice(0, limit)
  }

  byMessageId(messageId: string): StoredMessage | undefined {
    const row = this.#db.prepare(`SELECT ${columns} FROM message m WHERE m.message_id = ?`).get(messageId)
    return row && stored(row)
  }

  byId(id: number): StoredMessage | undefined {
    const row = this.#db.prepare(`SELECT ${columns} FROM message m WHERE m.id = ?`).get(id)
    return row && stored(row)
  }

  lastId(): number {
    return Number(this.#db.prepare('SELECT max(id) AS last FROM message').get()?.last ?? 0)
  }

  renameSession(oldName: string, newName: string): void {
    this.#db.prepare('UPDATE session SET name = ? WHERE name = ?').run(newName, oldName)
  }

  /** Keys of the sessions that have, or had, that name; names are compared as everywhere, without case. */
  sessionKeys(name: string): number[] {
    const wanted = sessionKey(name)
    return this.#db
      .prepare('SELECT key, name FROM session')
      .all()
      .filter(row => sessionKey(String(row.name)) === wanted)
      .map(row => Number(row.key))
  }

  #sessionKey(name: string): number {
    const known = this.#db.prepare('SELECT max(key) AS key FROM session WHERE name = ?').get(name)?.key
    if (known !== null && known !== undefined) return Number(known)
    return this.#db.prepare('INSERT INTO session (name) VALUES (?)').run(name).lastInsertRowid
  }

  #index(id: number, text: string): void {
    const body = gramsOf(text)
    if (body !== '') this.#db.prepare('INSERT INTO gram (rowid, body) VALUES (?, ?)').run(id, body)
  }
}

function stored(row: Row): StoredMessage {
  const sent = row.sent === 1
  return {
    id: Number(row.id),
    message_id: String(row.message_id),
    session: String(row.session),
    bot_id: String(row.bot_id),
    direction: sent ? 'sent' : 'received',
    ...(row.status !== null && { status: row.status as SentStatus }),
    from_user: String(sent ? row.bot_id : row.peer),
    msg_type: row.msg_type as MessageKind,
    text: String(row.text),
    timestamp: Number(row.timestamp),
    raw: String(row.raw),
  }
}
