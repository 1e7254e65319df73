/** The log seen by users: who wrote, the newest message of each, and what nobody has looked at yet. */

import type { Database } from '../../platform/sqlite.ts'
import type { Messages, StoredMessage } from './messages.ts'

/** Unread messages are counted up to here. */
const countedUnread = 100

export interface Thread {
  last: StoredMessage
  /** Received since the last answer, and not marked as read. */
  unread: number
  /** The user wrote nothing that is kept, and nothing went out or waits: every send was refused. */
  refused: boolean
}

/** How far back suspect messages are counted. */
export const suspectSpanMs = 24 * 60 * 60_000

/** By session, how many messages since then (Unix ms) WeChat took without giving them an id, where there are any. */
export function suspectsOf(db: Database, since: number): Map<string, number> {
  const rows = db.all`SELECT s.name, count(*) AS messages
    FROM message m INDEXED BY message_suspect CROSS JOIN session s ON s.key = m.session
    WHERE m.status = 'suspect' AND m.timestamp >= ${since} GROUP BY s.name`
  return new Map(rows.map(row => [String(row.name), Number(row.messages)]))
}

export class Conversations {
  readonly #db: Database
  readonly #messages: Messages

  constructor(db: Database, messages: Messages) {
    this.#db = db
    this.#messages = messages
  }

  /**
   * Everybody there are messages from or to, each with the row id of the newest of them, in the order of their ids: the
   * first `limit` after `after`. Two steps of the index each, however many messages.
   */
  peers(after: string | undefined, limit: number): { peer: string; newest: number }[] {
    return this.#db
      .all(
        `WITH RECURSIVE peers (peer) AS (
           SELECT min(peer) FROM message${after === undefined ? '' : ' WHERE peer > ?'}
           UNION ALL
           SELECT (SELECT min(m.peer) FROM message m WHERE m.peer > peers.peer) FROM peers WHERE peers.peer IS NOT NULL
         ) SELECT peer, (SELECT max(id) FROM message m WHERE m.peer = peers.peer) AS newest
           FROM peers WHERE peer IS NOT NULL LIMIT ?`,
        ...(after === undefined ? [] : [after]),
        limit,
      )
      .map(row => ({ peer: String(row.peer), newest: Number(row.newest) }))
  }

  /** The newest of the messages with that user, of one session or of whichever it is. */
  thread(peer: string, session?: string): Thread | undefined {
    const keys = session === undefined ? undefined : this.#messages.sessionKeys(session)
    const named = keys ? [JSON.stringify(keys)] : []
    const within = keys ? ' AND m.session IN (SELECT value FROM json_each(?))' : ''
    const newest = this.#db.all(
      `SELECT m.id, m.sent, m.session, m.status FROM message m INDEXED BY message_peer
         WHERE m.peer = ?${within} ORDER BY m.id DESC LIMIT ${countedUnread}`,
      ...[peer, ...named],
    )
    const first = newest[0]
    const last = first && this.#messages.byId(Number(first.id))
    if (!last) return undefined
    const own = newest.filter(row => row.session === first.session)
    const read = this.#position(Number(first.session), peer)
    const seen = own.findIndex(row => row.sent !== 0 || Number(row.id) <= read)
    const refused =
      newest.every(row => row.status === 'refused') &&
      !this.#db.get(
        `SELECT 1 FROM message m INDEXED BY message_peer WHERE m.peer = ?${within} AND m.status IS NOT 'refused'`,
        ...[peer, ...named],
      )
    return { last, unread: seen === -1 ? own.length : seen, refused }
  }

  suspects(since: number): Map<string, number> {
    return suspectsOf(this.#db, since)
  }

  /** Everything up to that row has been looked at. */
  markRead(session: string, peer: string, upTo: number): void {
    const position = Math.min(upTo, this.#messages.lastId())
    for (const key of this.#messages.sessionKeys(session)) {
      this.#db.run`INSERT INTO read_mark (session, peer, position) VALUES (${key}, ${peer}, ${position})
        ON CONFLICT DO UPDATE SET position = excluded.position WHERE excluded.position > position`
    }
  }

  /** Rows of sent messages whose fate is open, waiting or being handed over; of many the newest. */
  open(): { id: number; status: string; reason_code: string | null }[] {
    return this.#db.all`SELECT m.id, m.status, m.reason_code FROM (
      SELECT message FROM outbox_part WHERE status = 'asked' UNION
      SELECT message FROM outbox_part WHERE status = 'sending'
      UNION SELECT message FROM outbox_part WHERE status = 'queued' AND message IS NOT NULL
      ORDER BY message DESC LIMIT 1000
      ) AS waiting CROSS JOIN message m ON m.id = waiting.message`.map(row => ({
      id: Number(row.id),
      status: String(row.status),
      reason_code: row.reason_code === null ? null : String(row.reason_code),
    }))
  }

  /**
   * Messages by the time they bear, in spans of equal length from `since` (Unix ms) on. Sent is what went out, as far as
   * is known: not what was refused, waits, or is being handed over.
   */
  counts(since: number, spanMs: number): { span: number; received: number; sent: number }[] {
    const count = (messages: string, from: string) =>
      this.#db.all(
        `SELECT (timestamp - ?) / ? AS span, ${messages} FROM ${from} AND timestamp >= ? GROUP BY span`,
        since,
        spanMs,
        since,
      )
    const kept = new Map(
      count(
        `count(*) AS every, sum(status IS NULL OR status NOT IN ('refused', 'queued', 'sending')) AS out`,
        'message INDEXED BY message_sent WHERE sent = 1',
      ).map(row => [row.span, { every: Number(row.every), out: Number(row.out) }]),
    )
    // By an index that holds all it needs, and less the ones above: a day of a busy gateway is many rows.
    return count('count(*) AS every', 'message INDEXED BY message_time WHERE 1').map(row => {
      const { every, out } = kept.get(row.span) ?? { every: 0, out: 0 }
      return { span: Number(row.span), received: Number(row.every) - every, sent: out }
    })
  }

  #position(session: number, peer: string): number {
    const mark = this.#db.get`SELECT position FROM read_mark WHERE session = ${session} AND peer = ${peer}`
    return Number(mark?.position ?? 0)
  }
}
