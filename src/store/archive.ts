/** What contexts.json has no room for: the contexts of those who wrote long ago, each in the row of its lane. */
import type { UserContext } from '../model/session.ts'
import type { Database } from '../platform/sqlite.ts'
import type { Messages } from './messages.ts'

export class Archive {
  readonly #db: Database
  readonly #messages: Messages

  constructor(db: Database, messages: Messages) {
    this.#db = db
    this.#messages = messages
  }

  /** Inside a transaction. */
  keep(session: string, users: ReadonlyMap<string, UserContext>): void {
    const key = this.#messages.keyOf(session)
    for (const [user, context] of users)
      this.#db
        .prepare(
          `INSERT INTO outbox_lane (session, peer, context) VALUES (?, ?, ?)
           ON CONFLICT (session, peer) DO UPDATE SET context = excluded.context`,
        )
        .run(key, user, JSON.stringify(context))
  }

  find(session: string, user: string): UserContext | undefined {
    return this.#read(session, ' AND peer = ?', user).get(user)
  }

  /** Everybody kept of a session. */
  all(session: string): ReadonlyMap<string, UserContext> {
    return this.#read(session)
  }

  #read(session: string, only = '', ...params: string[]): Map<string, UserContext> {
    const key = this.#messages.knownKey(session)
    if (key === undefined) return new Map()
    return new Map(
      this.#db
        .prepare(`SELECT peer, context FROM outbox_lane WHERE session = ? AND context IS NOT NULL${only}`)
        .all(key, ...params)
        .map(row => [String(row.peer), JSON.parse(String(row.context)) as UserContext]),
    )
  }

  count(session: string): number {
    const key = this.#messages.knownKey(session) ?? 0
    const row = this.#db
      .prepare('SELECT count(*) AS n FROM outbox_lane WHERE session = ? AND context IS NOT NULL')
      .get(key)
    return Number(row?.n)
  }

  /** The sessions of which a user's context is kept here. */
  holders(user: string): string[] {
    return this.#db
      .prepare(
        'SELECT name FROM outbox_lane JOIN session ON key = session WHERE peer = ? AND context IS NOT NULL',
      )
      .all(user)
      .map(row => String(row.name))
  }

  /** These stand in contexts.json again. */
  drop(session: string, users: readonly string[]): void {
    this.#db
      .prepare(
        'UPDATE outbox_lane SET context = NULL WHERE session = ? AND peer IN (SELECT value FROM json_each(?))',
      )
      .run(this.#messages.knownKey(session) ?? 0, JSON.stringify(users))
  }

  /** Another bot: nobody has written to it, and what WeChat refused the former one says nothing of it. */
  forget(session: string): void {
    this.#db
      .prepare(
        `UPDATE outbox_lane SET context = NULL, received_at = NULL, used = 0, last_sent_at = NULL, held_at = NULL,
           held_until = NULL, holds = 0, not_before = 0, failures = 0 WHERE session = ?`,
      )
      .run(this.#messages.knownKey(session) ?? 0)
  }
}
