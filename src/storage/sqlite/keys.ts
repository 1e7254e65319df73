/** Keys in SQLite. */
import { type KeyRow, keyOf } from '../key-rows.ts'
import {
  familyOf,
  hasKeyEnded,
  keyEndedReason,
  keyOfMaker,
  listBelow,
  maxKeysBelow,
  type NewKey,
  type StoredKey,
  sameNameError,
  tooManyKeysError,
} from '../keys.ts'
import { askLifeMs } from '../outbox-rules.ts'
import { askAgain } from '../rules/outbox-ends.ts'
import { EnginePart, listMade, refuseRevoked, type SqliteContext } from './engine-part.ts'
import { rejectErased } from './erased-users.ts'
import type { SqliteEventLog } from './events.ts'
import type { SqliteOutboxPlans } from './outbox-plans.ts'

/** SQL for the revision of a change that is written now. */
const nextRevision = 'SELECT coalesce(max(revision), 0) + 1 FROM access_key'

export class SqliteKeys extends EnginePart {
  readonly #plans: SqliteOutboxPlans
  readonly #events: SqliteEventLog

  constructor(ground: SqliteContext, plans: SqliteOutboxPlans, events: SqliteEventLog) {
    super(ground)
    this.#plans = plans
    this.#events = events
  }

  hasAny(): boolean {
    return this.db.get`SELECT 1 AS found FROM access_key LIMIT 1` !== undefined
  }

  list(): StoredKey[] {
    return this.db.all<KeyRow>`SELECT * FROM access_key ORDER BY created_at, rowid`.map(keyOf)
  }

  get(id: string): StoredKey | undefined {
    const row = this.db.get<KeyRow>`SELECT * FROM access_key WHERE id = ${id}`
    return row && keyOf(row)
  }

  add({ id, name, hash, grant, can, made_by, created_at, expires_at }: NewKey): void {
    this.db.transaction(() => {
      refuseRevoked(this.db, made_by)
      for (const user of grant.users ?? []) rejectErased(this.db, user)
      const now = this.clock.now()
      const maker = keyOfMaker(made_by)
      const all = maker === undefined ? [] : listMade(this.db)
      if (maker !== undefined && familyOf(all, maker).size > maxKeysBelow) throw tooManyKeysError()
      const seen = maker === undefined ? undefined : listBelow(all, maker)
      const namesakes = this.db.all<KeyRow>`SELECT * FROM access_key WHERE name = ${name}`
        .filter(row => !hasKeyEnded(keyOf(row), now))
        .flatMap(row => (seen?.has(row.id) === false ? [] : row.id))
      if (namesakes.length > 0) throw sameNameError(namesakes)
      this.db.run(
        `INSERT INTO access_key (id, name, hash, "grant", can, made_by, created_at, expires_at, revision)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, (${nextRevision}))`,
        ...[id, name, hash, JSON.stringify(grant), JSON.stringify(can), made_by, created_at, expires_at],
      )
    })
  }

  listChangedSince(revision: number): { keys: StoredKey[]; revision: number } {
    const rows = this.db.all<KeyRow>`SELECT * FROM access_key WHERE revision > ${revision} ORDER BY revision`
    return { keys: rows.map(keyOf), revision: rows.at(-1)?.revision ?? revision }
  }

  rotate(id: string, hash: string, keepUntil: number): boolean {
    const { changes } = this.db.run(
      `UPDATE access_key SET replaced_hash = hash, replaced_until = ?, hash = ?, revision = (${nextRevision})
       WHERE id = ? AND revoked_at IS NULL`,
      ...[keepUntil, hash, id],
    )
    return changes > 0
  }

  revoke(id: string, at: number): string[] {
    return this.db.transaction(() => {
      const ended = this.db.all<{ id: string }>`WITH RECURSIVE ending (id) AS (
          SELECT ${id} UNION SELECT k.id FROM access_key k JOIN ending e
            ON k.made_by IN ('key:' || e.id, 'panel:' || e.id))
        SELECT k.id FROM access_key k JOIN ending USING (id) WHERE k.revoked_at IS NULL`.map(row => row.id)
      const ids = JSON.stringify(ended)
      this.db.run(
        `UPDATE access_key SET revoked_at = ?, revision = (${nextRevision})
         WHERE id IN (SELECT value FROM json_each(?))`,
        ...[at, ids],
      )
      this.db.run`DELETE FROM person_mark WHERE reader IN (SELECT value FROM json_each(${ids}))`
      this.#askAgain(ids, at)
      this.#disableWebhooks(ids, at)
      return ended
    })
  }

  listExpired(at: number): string[] {
    return this.db.all<{ id: string }>`SELECT id FROM access_key
      WHERE expires_at <= ${at} AND revoked_at IS NULL ORDER BY expires_at`.map(({ id }) => id)
  }

  endExpired(at: number): string[] {
    return this.db.transaction(() => this.listExpired(at).flatMap(id => this.revoke(id, at)))
  }

  /** @param keys ids as JSON */
  #disableWebhooks(keys: string, at: number): void {
    const found = this.db.all<{ id: string; url: string }>`SELECT id, url FROM webhook WHERE disabled IS NULL
      AND substr(made_by, instr(made_by, ':') + 1) IN (SELECT value FROM json_each(${keys}))
      ORDER BY created_at, rowid`
    for (const { id } of found)
      this.db.run`UPDATE webhook SET disabled = ${keyEndedReason}, disabled_code = 'key_revoked',
        disabled_at = ${at} WHERE id = ${id}`
    this.#events.append(
      found.map(webhook => ({
        type: 'endpoint.disabled',
        data: { ...webhook, reason: keyEndedReason, reason_code: 'key_revoked' },
      })),
    )
  }

  /** Lets the queued sends of these keys, and of their webhooks, wait for a person's approval. */
  #askAgain(keys: string, at: number): void {
    const found = this.db.all<{ id: number }>`SELECT o.id FROM outbox o
      LEFT JOIN webhook w ON o.made_by = 'webhook:' || w.id
      WHERE o.mode = 'queue' AND o.ended_at IS NULL AND o.asked IS NULL
      AND substr(coalesce(w.made_by, o.made_by), instr(coalesce(w.made_by, o.made_by), ':') + 1)
        IN (SELECT value FROM json_each(${keys})) ORDER BY o.id`
    for (const { id } of found) this.#plans.change(id, (entry, plan) => askAgain(entry, at + askLifeMs, plan))
  }

  noteUse(id: string, at: number, address: string | undefined): void {
    this.db.run`UPDATE access_key SET last_used_at = ${at}, last_address = ${address} WHERE id = ${id}`
  }
}
