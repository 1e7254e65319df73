/**
 * What the rows of lanes know of the right to answer: contexts that contexts.json has no room for, or not yet.
 * Their tokens are sealed if there is a secret key; who uses one opens it.
 */
import { type Counter, type Inbound, newestContext, type UserContext } from '../../model/session.ts'
import { mapContext } from '../sealed-places.ts'
import { EnginePart } from './engine-part.ts'
import { findErased } from './erased-users.ts'
import { firstContextOf } from './messages.ts'

/** The data about the user's newest message in the row of a lane. */
export interface HeardRow {
  context?: string
  received_at?: number
  token?: string
  token_at?: number
}

/**
 * Returns the context that a lane keeps. A token counts only for the message that it came with.
 * `received_at` may change without the token: a version of svc may not know the column `token`, or only
 * contexts.json says that the user wrote.
 */
export function contextOfRow({ context, received_at, token, token_at }: HeardRow): UserContext | undefined {
  const kept: UserContext | undefined = context === undefined ? undefined : JSON.parse(context)
  if (received_at === undefined || token_at !== received_at) return kept
  const heard = { received_at, used: 0, first_seen: received_at }
  return newestContext(kept, token === undefined ? heard : { token, ...heard })
}

/** What sessions know of a user, by their names. */
type HeldContexts = ReadonlyMap<string, UserContext | undefined>

/** Counter and stored context of a user. */
interface KeptContext {
  counter: Counter
  context?: UserContext
}

/**
 * The contexts of users who wrote to a session long ago, which do not fit into its file; and the removal of
 * state when a session gets another bot. Methods that write run inside a transaction.
 */
export class SqliteContextArchive extends EnginePart {
  /** Adds contexts, or replaces them. */
  save(session: string, users: ReadonlyMap<string, UserContext>): void {
    const key = this.messages.ensureKey(session)
    for (const [user, context] of users)
      if (findErased(this.db, user) === undefined)
        this.db.run`INSERT INTO outbox_lane (session, peer, context)
        VALUES (${key}, ${user}, ${JSON.stringify(context)})
        ON CONFLICT (session, peer) DO UPDATE SET context = excluded.context`
  }

  /**
   * Returns the newest of the context in the file, the context stored here, and the context of the newest
   * message.
   */
  find(user: string, inFile: HeldContexts): HeldContexts {
    const rows = this.db.all<HeardRow & { session: string }>`
      SELECT wanted.value AS session, context, received_at, token, token_at
      FROM json_each(${JSON.stringify([...inFile.keys()])}) wanted CROSS JOIN outbox_lane l
      WHERE l.peer = ${user}
        AND l.session = (SELECT key FROM session WHERE name = wanted.value ORDER BY named DESC, key DESC LIMIT 1)`
    const inRows = new Map(rows.map(row => [row.session, contextOfRow(row)]))
    const now = this.clock.now()
    return new Map(
      [...inFile].map(([name, context]) => [name, newestContext(context, inRows.get(name), now)]),
    )
  }

  /** Returns the contexts of a session: of these users, or all. */
  list(session: string, users?: readonly string[]): ReadonlyMap<string, UserContext> {
    const key = this.messages.findKey(session)
    if (key === undefined) return new Map()
    const rows = this.db.all<{ peer: string; context: string }>(
      `SELECT peer, context FROM outbox_lane WHERE session = ? AND context IS NOT NULL
       ${users ? 'AND peer IN (SELECT value FROM json_each(?))' : ''}`,
      ...(users ? [key, JSON.stringify(users)] : [key]),
    )
    return new Map(rows.map(({ peer, context }) => [peer, JSON.parse(context)]))
  }

  /** Counter, and context if it is stored here, of each user; by session and user. */
  listLanes(sessions: readonly string[]): ReadonlyMap<string, ReadonlyMap<string, KeptContext>> {
    const rows = this.db.all<Counter & { session: string; peer: string; context?: string }>`
      SELECT s.name AS session, l.peer, l.received_at, l.used, l.last_sent_at, l.token_at, l.context
      FROM json_each(${JSON.stringify(sessions)}) wanted CROSS JOIN session s CROSS JOIN outbox_lane l
      WHERE s.key = (SELECT key FROM session WHERE name = wanted.value ORDER BY named DESC, key DESC LIMIT 1)
        AND l.session = s.key`
    const bySession = Map.groupBy(rows, row => row.session)
    const kept = ({ session: _, peer, context, ...counter }: (typeof rows)[number]) =>
      [peer, { counter, ...(context !== undefined && { context: JSON.parse(context) }) }] as const
    return new Map([...bySession].map(([session, own]) => [session, new Map(own.map(kept))]))
  }

  /** Returns the number of stored contexts, not counting these users. */
  count(session: string, besides: readonly string[]): number {
    const key = this.messages.findKey(session) ?? 0
    return this.db.one<{ n: number }>`SELECT count(*) AS n FROM outbox_lane WHERE session = ${key}
      AND context IS NOT NULL AND peer NOT IN (SELECT value FROM json_each(${JSON.stringify(besides)}))`.n
  }

  /** Returns the sessions of the user's newest messages, and the sessions with a context of the user here. */
  findSessions(user: string): ReadonlySet<string> {
    const holders = this.db.all<{ name: string }>`SELECT name FROM outbox_lane JOIN session ON key = session
      WHERE peer = ${user} AND context IS NOT NULL`
    return new Set([...this.messages.findWrittenSessions(user), ...holders.map(({ name }) => name)])
  }

  /**
   * Removes what the file has now: the contexts of these users, and the tokens of their messages. A token that
   * came since stays.
   */
  drop(session: string, inbound: readonly Inbound[]): void {
    const users = JSON.stringify(inbound.map(({ user_id, received_at }) => [user_id, received_at]))
    this.db.run`UPDATE outbox_lane SET context = NULL, token = iif(token_at <= u.at, NULL, token),
        token_at = iif(token_at <= u.at, NULL, token_at)
      FROM (SELECT value ->> 0 AS user, max(value ->> 1) AS at FROM json_each(${users}) GROUP BY 1) u
      WHERE session = ${this.messages.findKey(session) ?? 0} AND peer = u.user
      AND (context IS NOT NULL OR token_at <= u.at)`
  }

  /**
   * Removes the contexts that were stored with messages of a session that is gone; if it has another bot, the
   * counters too.
   */
  withdraw(session: string, inbound: readonly Inbound[], hasOtherBot: boolean): void {
    const key = this.messages.findKey(session) ?? 0
    for (const message of inbound) {
      const { user_id } = message
      const kept = this.list(session, [user_id]).get(user_id)
      // The same token is sealed to another text each time.
      const isFirst =
        kept && JSON.stringify(mapContext(kept, user_id, this.sealer.open)) === firstContextOf(message)
      if (isFirst)
        this.db.run`UPDATE outbox_lane SET context = NULL WHERE session = ${key} AND peer = ${user_id}`
      this.db.run`UPDATE outbox_lane SET token = NULL, token_at = 0 WHERE session = ${key}
        AND peer = ${message.user_id} AND received_at = ${message.received_at}`
      if (hasOtherBot)
        this.db.run`UPDATE outbox_lane SET received_at = NULL, used = 0 WHERE session = ${key}
          AND peer = ${message.user_id} AND received_at = ${message.received_at}`
    }
  }

  /**
   * Removes state for another bot: no user has written to it, none of its answers are counted, and no lane is
   * held. WeChat's refusals of the previous bot say nothing about it.
   */
  forget(session: string): void {
    this.db.run`UPDATE session SET renaming = NULL WHERE name = ${session}`
    this.db
      .run`UPDATE outbox_lane SET context = NULL, token = NULL, token_at = NULL, received_at = NULL, used = 0,
      last_sent_at = NULL, held_at = NULL, held_until = NULL, holds = 0, not_before = 0, failures = 0
      WHERE session = ${this.messages.findKey(session) ?? 0}`
  }
}
