/** The keys under which the rows of a session are stored, and the sessions that a user wrote to. Both are cached. */
import type { Scope } from '../../model/access.ts'
import { sessionKeyOf } from '../../model/session.ts'
import type { Clock } from '../../platform/clock.ts'
import type { Log } from '../../platform/log.ts'
import { RoomPart } from '../../platform/runtime.ts'
import type { Sealer } from '../../platform/sealing.ts'
import type { Database } from '../../platform/sqlite.ts'

/** Maximum number of cached values. */
const unchangedKept = 1000

/**
 * Cache of values from the tables, valid until another process commits. After a write of this process, call
 * `forget`.
 */
class TableCache<T> extends RoomPart<{ db: Database }> {
  readonly #kept = new Map<string, T>()
  #version: unknown

  get(key: string, load: () => T): T {
    const version = this.ports.db.get`PRAGMA data_version`?.data_version
    if (version !== this.#version || this.#kept.size >= unchangedKept) this.#kept.clear()
    this.#version = version
    const found = this.#kept.get(key)
    if (found !== undefined) return found
    const value = load()
    this.#kept.set(key, value)
    return value
  }

  forget(key?: string): void {
    if (key === undefined) this.#kept.clear()
    else this.#kept.delete(key)
  }
}

export interface MessagePorts {
  db: Database
  clock: Clock
  log: Log
  sealer: Sealer
}

export class SqliteSessionKeys extends RoomPart<MessagePorts> {
  /** Session keys by folded name. */
  readonly #keys = new TableCache<Map<string, number[]>>(this.ports)
  /** Sessions of each user's newest messages. */
  readonly #writtenTo = new TableCache<string[]>(this.ports)
  /** Number of changes of this process to rows of sent messages and to names of their sessions. */
  sentChanges = 0

  /** Renames a session. Call it inside a transaction. @param keys keys of the session */
  renameSession(keys: readonly number[], newName: string): void {
    this.sentChanges += 1
    this.#keys.forget()
    this.#writtenTo.forget()
    this.ports.db.run`UPDATE session SET name = ${newName}, renaming = NULL,
      named = named + (SELECT max(named) + 1 FROM session) WHERE key IN (SELECT value FROM json_each(${JSON.stringify(keys)}))`
  }

  /**
   * Returns the keys of the sessions that have, or had, that name, ignoring case. The key for new rows is
   * last.
   */
  listSessionKeys(name: string): number[] {
    return this.keysOf([name])[0] ?? []
  }

  /**
   * Returns the keys of a session, or of all sessions, that may have messages of the scope's accounts;
   * undefined if these are all sessions.
   */
  listKeysIn(session: string | undefined, { bots }: Scope = {}): number[] | undefined {
    const named = session === undefined ? undefined : this.listSessionKeys(session)
    if (!bots) return named
    const own = this.ports.db.all<{ key: number }>`SELECT DISTINCT session AS key FROM session_bot
      WHERE bot_id IN (SELECT value FROM json_each(${JSON.stringify(bots)}))`
    return own.map(({ key }) => key).filter(key => named?.includes(key) !== false)
  }

  /** Returns the keys of each name, same as `listSessionKeys`. */
  keysOf(names: readonly string[]): number[][] {
    const keys = this.#keys.get('', () => {
      const byName = new Map<string, number[]>()
      const sessions = this.ports.db.all<{ key: number; name: string }>`SELECT key, name FROM session
        ORDER BY named, key`
      for (const { key, name } of sessions) {
        const folded = sessionKeyOf(name)
        byName.set(folded, [...(byName.get(folded) ?? []), key])
      }
      return byName
    })
    return names.map(name => keys.get(sessionKeyOf(name)) ?? [])
  }

  /** Returns the key for new rows of a session; adds one if there is none. Call it inside a transaction. */
  ensureKey(name: string): number {
    const known = this.#findRow(name)
    if (known?.unused_since !== undefined)
      this.ports.db.run`UPDATE session SET unused_since = NULL WHERE key = ${known.key}`
    if (known) return known.key
    this.#keys.forget()
    return this.ports.db
      .run`INSERT INTO session (name, named) SELECT ${name}, coalesce(max(named), 0) FROM session`
      .lastInsertRowid
  }

  /** Returns the key for new rows of a session; undefined if the session has none. */
  findKey(name: string): number | undefined {
    return this.#findRow(name)?.key
  }

  #findRow(name: string) {
    return this.ports.db.get<{ key: number; unused_since?: number }>`SELECT key, unused_since FROM session
      WHERE name = ${name} ORDER BY named DESC, key DESC LIMIT 1`
  }

  /** Returns the sessions of the newest messages that a user wrote. */
  findWrittenSessions(peer: string): readonly string[] {
    return this.#writtenTo.get(peer, () => {
      const rows = this.ports.db.all<{ name: string }>`SELECT DISTINCT name FROM (SELECT session AS key, sent
        FROM message INDEXED BY message_peer
        WHERE peer = ${peer} ORDER BY id DESC LIMIT 30) JOIN session USING (key) WHERE sent = 0`
      return rows.map(({ name }) => name)
    })
  }

  /** Forgets in which sessions a user wrote. Call it when the user wrote, or was erased. */
  forgetUser(user: string): void {
    this.#writtenTo.forget(user)
  }
}
