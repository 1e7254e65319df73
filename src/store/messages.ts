/** Rows of the message log: inserted once, read forward, searched backward. */

import { SvcError } from '../model/error.ts'
import type { Direction, MessageKind, SentStatus } from '../model/message.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Database, Row, SqlValue } from '../platform/sqlite.ts'
import { gramQuery, gramsOf, likePattern, searchable } from './grams.ts'
import { RecentMessages } from './recent.ts'

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

export interface HistoryFilter {
  user_id?: string
  bot_id?: string
  session?: string
  msg_type?: MessageKind
  direction?: Direction
  /** Unix ms, inclusive. */
  since?: number
  /** Unix ms, exclusive. */
  until?: number
  text_contains?: string
  limit: number
  offset: number
  /** Row id. */
  before?: number
}

export interface HistoryRows {
  rows: StoredMessage[]
  /** Exact up to `exactTotal`, then that. */
  total: number
  total_is_lower_bound: boolean
  next_before?: number
}

/** Totals are counted up to here. */
const exactTotal = 10_000
/** SQLite refuses longer patterns. */
const needleLimit = 10_000

const columns =
  'm.id, m.message_id, s.name AS session, m.bot_id, m.sent, m.status, m.peer, m.msg_type, m.text, m.timestamp, m.raw'
const from = 'FROM message m JOIN session s ON s.key = m.session'

export class Messages {
  readonly #db: Database
  readonly #clock: Clock
  readonly #log: Log
  readonly #recent: RecentMessages

  constructor(db: Database, clock: Clock, log: Log) {
    this.#db = db
    this.#clock = clock
    this.#log = log
    this.#recent = new RecentMessages(db)
  }

  insertReceived(
    session: string,
    botId: string,
    batch: readonly ReceivedMessage[],
  ): (number | 'duplicate')[] {
    const now = this.#clock.now()
    const insert = this.#db.prepare(
      `INSERT INTO message (message_id, session, sent, bot_id, peer, msg_type, timestamp, stored_at, content_hash, text, raw)
       VALUES (?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (message_id) DO NOTHING`,
    )
    const index = this.#db.prepare('INSERT INTO gram (rowid, body) VALUES (?, ?)')
    const seen = this.#recent.begin(now)
    const results = this.#db.transaction(() => {
      const key = this.#sessionKey(session)
      const ordinals = new Map<string, number>()
      return batch.map((message): number | 'duplicate' => {
        const { contentHash, raw } = message
        if (message.message_id !== undefined && message.timed && seen.repeats(message)) {
          // The same id again is told by the unique key; a new id for an old message only by this.
          if (!this.#exists(message.message_id)) {
            this.#log.info('message delivered again under a new id', {
              session,
              message_id: message.message_id,
            })
          }
          return 'duplicate'
        }
        let id = message.message_id
        if (id === undefined) {
          const ordinal = (ordinals.get(message.derived_id) ?? 0) + 1
          ordinals.set(message.derived_id, ordinal)
          id = ordinal === 1 ? message.derived_id : `${message.derived_id}-${ordinal}`
        }
        const text = searchable(message.text)
        const rest: SqlValue[] = [
          key,
          botId,
          message.from_user,
          message.msg_type,
          message.timestamp,
          now,
          contentHash,
          text,
          raw,
        ]
        let inserted = insert.run(id, ...rest)
        if (inserted.changes === 0) {
          const other = this.#otherBots(id, botId, contentHash)
          if (!other) return 'duplicate'
          this.#log.warn('two bots sent different messages under one id; both are kept', {
            session,
            message_id: id,
          })
          inserted = insert.run(`${botId}:${id}`, ...rest)
          if (inserted.changes === 0) return 'duplicate'
        }
        const body = gramsOf(text)
        if (body !== '') index.run(inserted.lastInsertRowid, body)
        if (message.timed) seen.note(message)
        return inserted.lastInsertRowid
      })
    })
    seen.done()
    return results
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
      const body = gramsOf(text)
      if (body !== '')
        this.#db.prepare('INSERT INTO gram (rowid, body) VALUES (?, ?)').run(lastInsertRowid, body)
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
    const where = ['m.id > ?']
    const params: SqlValue[] = [id]
    if (options.direction) where.push(`m.sent = ${options.direction === 'sent' ? 1 : 0}`)
    if (options.session !== undefined) where.push(this.#inSession(options.session))
    return this.#db
      .prepare(`SELECT ${columns} ${from} WHERE ${where.join(' AND ')} ORDER BY m.id LIMIT ?`)
      .all(...params, options.limit)
      .map(stored)
  }

  byMessageId(messageId: string): StoredMessage | undefined {
    const row = this.#db.prepare(`SELECT ${columns} ${from} WHERE m.message_id = ?`).get(messageId)
    return row && stored(row)
  }

  byId(id: number): StoredMessage | undefined {
    const row = this.#db.prepare(`SELECT ${columns} ${from} WHERE m.id = ?`).get(id)
    return row && stored(row)
  }

  lastId(): number {
    return Number(this.#db.prepare('SELECT max(id) AS last FROM message').get()?.last ?? 0)
  }

  renameSession(oldName: string, newName: string): void {
    this.#db.prepare('UPDATE session SET name = ? WHERE name = ?').run(newName, oldName)
  }

  /** Keys of a name, as a list for `IN`; they are our own integers. */
  sessionKeys(name: string): number[] {
    return this.#db
      .prepare('SELECT key FROM session WHERE name = ?')
      .all(name)
      .map(row => Number(row.key))
  }

  history(filter: HistoryFilter): HistoryRows {
    const { clauses, params } = this.#clauses(filter)
    const needle = filter.text_contains === undefined ? '' : searchable(filter.text_contains)
    if (needle.length > needleLimit) {
      throw new SvcError('invalid_arguments', `text_contains: expected at most ${needleLimit} characters`)
    }
    let source = 'message m'
    if (needle !== '') {
      source = 'gram JOIN message m ON m.id = gram.rowid'
      clauses.unshift('gram MATCH ?', `m.text LIKE ? ESCAPE '\\'`)
      params.unshift(gramQuery(needle), likePattern(needle))
    }
    const order = needle === '' ? 'm.id' : 'gram.rowid'
    const paged = filter.before === undefined ? clauses : [...clauses, `${order} < ?`]
    const pagedParams = filter.before === undefined ? params : [...params, filter.before]
    const where = (list: string[]) => (list.length > 0 ? `WHERE ${list.join(' AND ')}` : '')
    // Ids first: the joins and the long rows are touched for the page alone.
    const ids = this.#db
      .prepare(`SELECT m.id FROM ${source} ${where(paged)} ORDER BY ${order} DESC LIMIT ? OFFSET ?`)
      .all(...pagedParams, filter.limit + 1, filter.offset)
      .map(row => Number(row.id))
    const rows = ids.slice(0, filter.limit).flatMap(id => this.byId(id) ?? [])
    // Every row of one narrow index is counted as well as by any other way, and with the fewest pages.
    const counted = clauses.length === 0 ? 'message m INDEXED BY message_session' : source
    const total = Number(
      this.#db
        .prepare(`SELECT count(*) AS total FROM (SELECT 1 FROM ${counted} ${where(clauses)} LIMIT ?)`)
        .get(...params, exactTotal + 1)?.total,
    )
    return {
      rows,
      total: Math.min(total, exactTotal),
      total_is_lower_bound: total > exactTotal,
      ...(ids.length > filter.limit && rows.length > 0 && { next_before: rows.at(-1)!.id }),
    }
  }

  #clauses(filter: HistoryFilter): { clauses: string[]; params: SqlValue[] } {
    const clauses: string[] = []
    const params: SqlValue[] = []
    const add = (clause: string, ...values: SqlValue[]) => {
      clauses.push(clause)
      params.push(...values)
    }
    if (filter.user_id !== undefined) add('m.peer = ?', filter.user_id)
    if (filter.bot_id !== undefined) add('m.bot_id = ?', filter.bot_id)
    if (filter.session !== undefined) add(this.#inSession(filter.session))
    if (filter.msg_type !== undefined) add('m.msg_type = ?', filter.msg_type)
    if (filter.direction !== undefined) add('m.sent = ?', filter.direction === 'sent' ? 1 : 0)
    if (filter.since !== undefined) add('m.timestamp >= ?', filter.since)
    if (filter.until !== undefined) add('m.timestamp < ?', filter.until)
    return { clauses, params }
  }

  #inSession(name: string): string {
    return `m.session IN (${this.sessionKeys(name).join(', ')})`
  }

  #sessionKey(name: string): number {
    const known = this.#db.prepare('SELECT max(key) AS key FROM session WHERE name = ?').get(name)?.key
    if (known !== null && known !== undefined) return Number(known)
    return this.#db.prepare('INSERT INTO session (name) VALUES (?)').run(name).lastInsertRowid
  }

  #exists(messageId: string): boolean {
    return (
      this.#db.prepare('SELECT 1 AS found FROM message WHERE message_id = ?').get(messageId) !== undefined
    )
  }

  /** Whether the row under this id is another bot's, and says something else. */
  #otherBots(id: string, botId: string, contentHash: string): boolean {
    const row = this.#db.prepare('SELECT bot_id, content_hash FROM message WHERE message_id = ?').get(id)
    return row !== undefined && row.bot_id !== botId && row.content_hash !== contentHash
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
