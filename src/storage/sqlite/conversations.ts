/** The log grouped by user: newest message and unread count. */

import { isWhole, type Scope } from '../../model/access.ts'
import { readSuspects } from '../nouns/inspection.ts'
import type { Thread, ThreadQuery } from '../store.ts'
import { EnginePart } from './engine-part.ts'
import { findErased } from './erased-users.ts'
import { receivedElsewhere } from './messages.ts'
import { drive, sqliteDialect } from './routines.ts'
import { scopeSqlOf } from './scope.ts'

/** Unread messages are counted up to this number. */
const countedUnread = 100

/**
 * Messages that another process sent count after this time. Without the cache each small call cost 4 µs more.
 */
const suspectsKeptMs = 1000

interface FoundThread extends Pick<Thread, 'unread'> {
  /** Row id of the newest message. */
  id: number
  peer: string
  refused: number
}

export class SqliteConversations extends EnginePart {
  /** Users after the page that was read last. `users`: the only ones that were wanted, as JSON. */
  #rest: { before: number; users: string | undefined; peers: { peer: string; newest: number }[] } | undefined
  #suspects: { since: number; changes: number; found: Map<string, number> } | undefined

  listThreads(page: ThreadQuery): { threads: Thread[]; before?: number | undefined } {
    const { sessions, session, user } = page
    const isVisible = ({ peer }: { peer: string }) => page.scope?.users?.includes(peer) !== false
    const peers = user === undefined ? this.#listPeers(page) : [{ peer: user }].filter(isVisible)
    const queries = peers.flatMap(({ peer }) =>
      (sessions?.get(peer) ?? [session]).map(name => ({
        peer,
        keys: name === undefined ? undefined : `,${this.messages.listSessionKeys(name).join()},`,
      })),
    )
    const threads = this.#findThreads(queries, page).flatMap(({ id, peer, refused, unread }) => {
      const last = this.messages.getById(id)
      return last ? [{ user: peer, last, unread, refused: refused === 1 }] : []
    })
    return { threads, before: user === undefined ? this.#rest?.before : undefined }
  }

  /**
   * Two steps in the index for each user, however many messages there are. Keeps the users after a page for
   * the next page.
   */
  #listPeers({ before, limit, scope }: ThreadQuery): { peer: string; newest: number }[] {
    const users = scope?.users && JSON.stringify(scope.users)
    const isKept = before !== undefined && this.#rest?.before === before && this.#rest.users === users
    const rest = isKept
      ? this.#rest!.peers
      : users === undefined
        ? this.#listAllPeers(before)
        : this.#listPeersAmong(users, before)
    const page = rest.slice(0, limit)
    const next = page.length === limit ? page.at(-1) : undefined
    this.#rest = next && { before: next.newest, users, peers: rest.slice(limit) }
    return page
  }

  /** @param users JSON array */
  #listPeersAmong(users: string, before = Number.MAX_SAFE_INTEGER): { peer: string; newest: number }[] {
    return this.db.all`WITH newest AS MATERIALIZED (
        SELECT peer, (SELECT max(id) FROM message m WHERE m.peer = among.peer) AS newest
        FROM (SELECT DISTINCT value AS peer FROM json_each(${users}) WHERE value > '') among
      ) SELECT * FROM newest WHERE newest < ${before} ORDER BY newest DESC`
  }

  #listAllPeers(before = Number.MAX_SAFE_INTEGER): { peer: string; newest: number }[] {
    return this.db.all`WITH RECURSIVE peers (peer) AS (
        SELECT min(peer) FROM message WHERE peer > ''
        UNION ALL
        SELECT (SELECT min(m.peer) FROM message m WHERE m.peer > peers.peer) FROM peers WHERE peers.peer IS NOT NULL
      ), newest AS MATERIALIZED (SELECT peer, (SELECT max(id) FROM message m WHERE m.peer = peers.peer) AS newest
        FROM peers WHERE peer IS NOT NULL)
      SELECT * FROM newest WHERE newest < ${before} ORDER BY newest DESC`
  }

  /**
   * Threads that have a message. `seen`: the newest row that ends the unread messages, or was marked as read.
   * Only a message that WeChat accepted ends them, or an imported one that was received elsewhere.
   */
  #findThreads(
    queries: readonly { peer: string; keys: string | undefined }[],
    { scope, reader }: Pick<ThreadQuery, 'scope' | 'reader'>,
  ): FoundThread[] {
    const bots = scope?.bots && JSON.stringify(scope.bots)
    const given = bots === undefined ? '' : 'bots AS MATERIALIZED (SELECT value FROM json_each(?)), '
    const inScope = bots === undefined ? '' : ' AND m.bot_id IN bots'
    const marks = reader === undefined ? 'read_mark r ON' : 'person_mark r ON r.reader = ? AND'
    const ofThread = (from: string) => `FROM message m INDEXED BY message_peer WHERE m.peer = ${from}.peer
      AND (${from}.keys IS NULL OR instr(${from}.keys, ',' || m.session || ','))${inScope}`
    return this.db.all(
      `WITH ${given}newest AS MATERIALIZED (
        SELECT key, peer, keys, (SELECT m.id ${ofThread('asked')} ORDER BY m.id DESC LIMIT 1) AS id
        FROM (SELECT key, value ->> 'peer' AS peer, value ->> 'keys' AS keys FROM json_each(?)) asked
      ), marked AS MATERIALIZED (
        SELECT newest.*, l.session, coalesce(r.position, 0) AS mark FROM newest CROSS JOIN message l ON l.id = newest.id
        LEFT JOIN ${marks} r.session = l.session AND r.peer = newest.peer
      ), looked AS MATERIALIZED (
        SELECT marked.*, (SELECT c.id FROM (SELECT m.id, m.session, m.sent, m.status ${ofThread('marked')} ORDER BY m.id DESC LIMIT ${countedUnread}) c
          WHERE c.session = marked.session AND (c.id <= abs(marked.mark) OR c.sent = ${receivedElsewhere}
            OR c.status IN ('accepted', 'suspect')) LIMIT 1) AS seen
        FROM marked
      )
      SELECT id, peer, (seen IS NOT NULL AND seen <= -mark) + (SELECT count(*) FROM (
          SELECT m.* ${ofThread('looked')} AND m.id > coalesce(seen, 0) ORDER BY m.id DESC LIMIT ${countedUnread}) c
          WHERE c.session = looked.session AND c.sent = 0) AS unread,
        NOT EXISTS (SELECT 1 ${ofThread('looked')} AND m.status IS NOT 'refused') AS refused
      FROM looked ORDER BY key`,
      ...[bots ?? [], JSON.stringify(queries), reader ?? []].flat(),
    )
  }

  countSuspects(since: number): Map<string, number> {
    const cached = this.#suspects
    const changes = this.messages.sentChanges
    const age = cached ? since - cached.since : -1
    if (cached?.changes === changes && age >= 0 && age < suspectsKeptMs) return cached.found
    const found = drive(this.db, readSuspects(sqliteDialect, since))
    this.#suspects = { since, changes, found }
    return found
  }

  markRead(session: string, peer: string, upTo?: number, reader?: string): void {
    if (findErased(this.db, peer) !== undefined) return
    const head = this.messages.getHead()
    // Negative: marked as unread when that row was the newest.
    const position = upTo === undefined ? -head : Math.min(upTo, head)
    const into =
      reader === undefined
        ? 'read_mark (session, peer, position) SELECT ?, ?, ?'
        : 'person_mark (reader, session, peer, position) SELECT ?, ?, ?, ?'
    for (const key of this.messages.listSessionKeys(session))
      this.db.run(
        `INSERT INTO ${into} WHERE EXISTS
          (SELECT 1 FROM message m INDEXED BY message_peer WHERE m.peer = ? AND m.session = ?)
        ON CONFLICT DO UPDATE SET position = CASE WHEN excluded.position < 0 THEN excluded.position
          ELSE max(excluded.position, abs(position)) END`,
        ...[reader ?? [], key, peer, position, peer, key].flat(),
      )
  }

  countMessages(
    since: number,
    spanMs: number,
    scope?: Scope,
  ): { span: number; received: number; sent: number }[] {
    if (scope && !isWhole(scope)) return this.#countMessagesIn(scope, since, spanMs)
    const count = (messages: string, from: string) =>
      this.db.all<{ span: number; every: number; out: number }>(
        `SELECT (timestamp - ?) / ? AS span, ${messages} FROM ${from} AND timestamp >= ? GROUP BY span`,
        since,
        spanMs,
        since,
      )
    const sent = new Map(
      count(
        `count(*) AS every, sum(status IS NULL OR status NOT IN ('refused', 'queued', 'sending')) AS out`,
        'message INDEXED BY message_sent WHERE sent = 1',
      ).map(row => [row.span, row]),
    )
    // Received messages are all (from an index with all needed columns) minus the sent ones: a busy gateway
    // has many rows a day.
    return count('count(*) AS every', 'message INDEXED BY message_time WHERE 1').map(({ span, every }) => {
      const ours = sent.get(span) ?? { every: 0, out: 0 }
      return { span, received: every - ours.every, sent: ours.out }
    })
  }

  #countMessagesIn(
    scope: Scope,
    since: number,
    spanMs: number,
  ): { span: number; received: number; sent: number }[] {
    const { sql, params } = scopeSqlOf(scope)
    return this.db.all(
      `SELECT (timestamp - ?) / ? AS span, sum(sent <> 1) AS received,
        sum(sent = 1 AND (status IS NULL OR status NOT IN ('refused', 'queued', 'sending'))) AS sent
      FROM message m INDEXED BY message_time WHERE timestamp >= ?${sql} GROUP BY span`,
      ...[since, spanMs, since, ...params],
    )
  }
}
