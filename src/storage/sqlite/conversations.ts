/** The log seen by users: who wrote, the newest message of each, and what nobody has looked at yet. */

import type { SentStatus } from '../../model/message.ts'
import type { Database } from '../../platform/sqlite.ts'
import type { Thread } from '../store.ts'
import { EnginePart } from './engine-part.ts'
import { receivedElsewhere } from './messages.ts'

/** Unread messages are counted up to here. */
const countedUnread = 100

/** By session, how many messages since then (Unix ms) WeChat took without giving them an id, where there are any. */
export function suspectsOf(db: Database, since: number): Map<string, number> {
  const rows = db.all<{ name: string; messages: number }>`SELECT s.name, count(*) AS messages
    FROM message m INDEXED BY message_suspect CROSS JOIN session s ON s.key = m.session
    WHERE m.status = 'suspect' AND m.timestamp >= ${since} GROUP BY s.name`
  return new Map(rows.map(({ name, messages }) => [name, messages]))
}

/** Only what WeChat took ends unread, or what was answered elsewhere before it was imported. */
const endsUnread = ({ sent, status }: { sent: number; status?: SentStatus }): boolean =>
  sent === receivedElsewhere || status === 'accepted' || status === 'suspect'

/** What another process sent shows after this; a look each cost a small call 4 µs. */
const suspectsKeptMs = 1000

export class Conversations extends EnginePart {
  #suspects: { since: number; changes: number; found: Map<string, number> } | undefined

  /** Two steps of the index each, however many messages. */
  peers(after = '', limit: number): { peer: string; newest: number }[] {
    return this.db.all`WITH RECURSIVE peers (peer) AS (
        SELECT min(peer) FROM message WHERE peer > ${after}
        UNION ALL
        SELECT (SELECT min(m.peer) FROM message m WHERE m.peer > peers.peer) FROM peers WHERE peers.peer IS NOT NULL
      ) SELECT peer, (SELECT max(id) FROM message m WHERE m.peer = peers.peer) AS newest
        FROM peers WHERE peer IS NOT NULL LIMIT ${limit}`
  }

  thread(peer: string, session?: string): Thread | undefined {
    const keys = session === undefined ? undefined : this.messages.sessionKeys(session)
    const named = keys ? [JSON.stringify(keys)] : []
    const within = keys ? ' AND m.session IN (SELECT value FROM json_each(?))' : ''
    const newest = this.db.all<{ id: number; sent: number; session: number; status?: SentStatus }>(
      `SELECT m.id, m.sent, m.session, m.status FROM message m INDEXED BY message_peer
         WHERE m.peer = ?${within} ORDER BY m.id DESC LIMIT ${countedUnread}`,
      ...[peer, ...named],
    )
    const first = newest[0]
    const last = first && this.messages.byId(first.id)
    if (!last) return undefined
    const own = newest.filter(row => row.session === first.session)
    const mark = Number(
      this.db.get`SELECT position FROM read_mark WHERE session = ${first.session} AND peer = ${peer}`
        ?.position ?? 0,
    )
    const seen = own.findIndex(row => row.id <= Math.abs(mark) || endsUnread(row))
    const refused =
      newest.every(row => row.status === 'refused') &&
      !this.db.get(
        `SELECT 1 FROM message m INDEXED BY message_peer WHERE m.peer = ?${within} AND m.status IS NOT 'refused'`,
        ...[peer, ...named],
      )
    const since = seen === -1 ? own : own.slice(0, seen)
    const marked = Number(mark < 0 && seen !== -1 && own[seen]!.id <= -mark)
    return { last, unread: since.filter(row => row.sent === 0).length + marked, refused }
  }

  suspects(since: number): Map<string, number> {
    const kept = this.#suspects
    const changes = this.messages.sentChanges
    const age = kept ? since - kept.since : -1
    if (kept?.changes === changes && age >= 0 && age < suspectsKeptMs) return kept.found
    const found = suspectsOf(this.db, since)
    this.#suspects = { since, changes, found }
    return found
  }

  markRead(session: string, peer: string, upTo?: number): void {
    const head = this.messages.head()
    // Below 0: somebody marked it as unread when that row was the newest.
    const position = upTo === undefined ? -head : Math.min(upTo, head)
    for (const key of this.messages.sessionKeys(session))
      this.db.run`INSERT INTO read_mark (session, peer, position) VALUES (${key}, ${peer}, ${position})
        ON CONFLICT DO UPDATE SET position = CASE WHEN excluded.position < 0 THEN excluded.position
          ELSE max(excluded.position, abs(position)) END`
  }

  open(): { id: number; status: SentStatus; reason_code?: string }[] {
    return this.db.all`SELECT m.id, m.status, m.reason_code FROM (
      SELECT message FROM outbox_part WHERE status = 'asked' UNION
      SELECT message FROM outbox_part WHERE status = 'sending'
      UNION SELECT message FROM outbox_part WHERE status = 'queued' AND message IS NOT NULL
      ORDER BY message DESC LIMIT 1000
      ) AS waiting CROSS JOIN message m ON m.id = waiting.message`
  }

  counts(since: number, spanMs: number): { span: number; received: number; sent: number }[] {
    const count = (messages: string, from: string) =>
      this.db.all<{ span: number; every: number; out: number }>(
        `SELECT (timestamp - ?) / ? AS span, ${messages} FROM ${from} AND timestamp >= ? GROUP BY span`,
        since,
        spanMs,
        since,
      )
    const kept = new Map(
      count(
        `count(*) AS every, sum(status IS NULL OR status NOT IN ('refused', 'queued', 'sending')) AS out`,
        'message INDEXED BY message_sent WHERE sent = 1',
      ).map(row => [row.span, row]),
    )
    // By an index that holds all it needs, and less the ones above: a day of a busy gateway is many rows.
    return count('count(*) AS every', 'message INDEXED BY message_time WHERE 1').map(({ span, every }) => {
      const ours = kept.get(span) ?? { every: 0, out: 0 }
      return { span, received: every - ours.every, sent: ours.out }
    })
  }
}
