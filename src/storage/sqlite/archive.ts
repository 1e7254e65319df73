/** What contexts.json has no room for: the contexts of those who wrote long ago, each in the row of its lane. */
import type { UserContext } from '../../model/session.ts'
import type { Database } from '../../platform/sqlite.ts'
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
      this.#db.run`INSERT INTO outbox_lane (session, peer, context)
        VALUES (${key}, ${user}, ${JSON.stringify(context)})
        ON CONFLICT (session, peer) DO UPDATE SET context = excluded.context`
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
        .all(
          `SELECT peer, context FROM outbox_lane WHERE session = ? AND context IS NOT NULL${only}`,
          key,
          ...params,
        )
        .map((row): [string, UserContext] => [String(row.peer), JSON.parse(String(row.context))]),
    )
  }

  count(session: string): number {
    const key = this.#messages.knownKey(session) ?? 0
    const row = this.#db.get`SELECT count(*) AS n FROM outbox_lane WHERE session = ${key}
      AND context IS NOT NULL`
    return Number(row?.n)
  }

  /** The sessions of which a user's context is kept here. */
  holders(user: string): string[] {
    return this.#db.all`SELECT name FROM outbox_lane JOIN session ON key = session WHERE peer = ${user}
      AND context IS NOT NULL`.map(row => String(row.name))
  }

  /** These stand in contexts.json again. */
  drop(session: string, users: readonly string[]): void {
    this.#db.run`UPDATE outbox_lane SET context = NULL
      WHERE session = ${this.#messages.knownKey(session) ?? 0} AND peer IN (SELECT value
      FROM json_each(${JSON.stringify(users)}))`
  }

  /** Another bot: nobody has written to it, and what WeChat refused the former one says nothing of it. */
  forget(session: string): void {
    this.#db.run`UPDATE outbox_lane SET context = NULL, received_at = NULL, used = 0, last_sent_at = NULL,
      held_at = NULL,
      held_until = NULL, holds = 0, not_before = 0, failures = 0
      WHERE session = ${this.#messages.knownKey(session) ?? 0}`
  }
}
