/** What contexts.json has no room for: the contexts of those who wrote long ago, each in the row of its lane. */
import type { UserContext } from '../../model/session.ts'
import { EnginePart } from './engine-part.ts'

/**
 * The contexts of those who wrote to a session long ago, which its file has no room for; and what ends with the bot of a
 * session.
 */
export interface ContextArchive {
  /** Adds to them, or replaces. Durable. */
  keep(session: string, users: ReadonlyMap<string, UserContext>): Promise<void>

  /** Those of a session: of these users, or of all. */
  of(session: string, users?: readonly string[]): Promise<ReadonlyMap<string, UserContext>>

  /** How many there are of a session. */
  count(session: string): Promise<number>

  /** Sessions that may know a user: those that the user's newest messages went to, and those with a context here. */
  knowing(user: string): Promise<ReadonlySet<string>>

  /** These stand in the file again. Nothing is written where none of them is here. */
  drop(session: string, users: readonly string[]): Promise<void>

  /** Another bot: nobody has written to it, nothing is counted of its answers, and no lane of it is held. Durable. */
  forget(session: string): Promise<void>
}

export class Archive extends EnginePart {
  /** Inside a transaction. */
  keep(session: string, users: ReadonlyMap<string, UserContext>): void {
    const key = this.messages.keyOf(session)
    for (const [user, context] of users)
      this.db.run`INSERT INTO outbox_lane (session, peer, context)
        VALUES (${key}, ${user}, ${JSON.stringify(context)})
        ON CONFLICT (session, peer) DO UPDATE SET context = excluded.context`
  }

  of(session: string, users?: readonly string[]): Map<string, UserContext> {
    const key = this.messages.knownKey(session)
    if (key === undefined) return new Map()
    const rows = this.db.all<{ peer: string; context: string }>(
      `SELECT peer, context FROM outbox_lane WHERE session = ? AND context IS NOT NULL
       ${users ? 'AND peer IN (SELECT value FROM json_each(?))' : ''}`,
      ...(users ? [key, JSON.stringify(users)] : [key]),
    )
    return new Map(rows.map(({ peer, context }) => [peer, JSON.parse(context)]))
  }

  count(session: string): number {
    const key = this.messages.knownKey(session) ?? 0
    const row = this.db.get`SELECT count(*) AS n FROM outbox_lane WHERE session = ${key}
      AND context IS NOT NULL`
    return Number(row?.n)
  }

  knowing(user: string): ReadonlySet<string> {
    const holders = this.db.all<{ name: string }>`SELECT name FROM outbox_lane JOIN session ON key = session
      WHERE peer = ${user} AND context IS NOT NULL`
    return new Set([...this.messages.writtenTo(user), ...holders.map(({ name }) => name)])
  }

  drop(session: string, users: readonly string[]): void {
    const kept = [...this.of(session, users).keys()]
    if (kept.length === 0) return
    this.db.run`UPDATE outbox_lane SET context = NULL
      WHERE session = ${this.messages.knownKey(session) ?? 0} AND peer IN (SELECT value
      FROM json_each(${JSON.stringify(kept)}))`
  }

  /** What WeChat refused the former bot says nothing of the new one. */
  forget(session: string): void {
    this.db.run`UPDATE session SET renaming = NULL WHERE name = ${session}`
    this.db.run`UPDATE outbox_lane SET context = NULL, received_at = NULL, used = 0, last_sent_at = NULL,
      held_at = NULL,
      held_until = NULL, holds = 0, not_before = 0, failures = 0
      WHERE session = ${this.messages.knownKey(session) ?? 0}`
  }
}
