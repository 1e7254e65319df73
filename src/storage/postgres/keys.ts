/**
 * Keys in PostgreSQL. Who changes keys locks the head, so that the names of keys in use stay different, and a reader
 * that follows the revisions misses no change.
 */
import { toJsonb } from '../../platform/postgres.ts'
import { constantSql, type Sql, sql } from '../../platform/sql.ts'
import { type KeyRow, keyOf } from '../key-rows.ts'
import {
  type KeyStore,
  type KeyUse,
  keyEndedReason,
  keyOfMaker,
  maxKeysBelow,
  type NewKey,
  type StoredKey,
  sameNameError,
  tooManyKeysError,
} from '../keys.ts'
import { askLifeMs } from '../outbox-rules.ts'
import { askAgain } from '../rules/outbox-ends.ts'
import { OutboxPlan } from '../rules/outbox-plan.ts'
import type { Attempt } from './database.ts'
import { PgEntries } from './entries.ts'
import { PgLanes } from './lanes.ts'
import { type PgPlan, statementsOf } from './outbox-plans.ts'
import { type EngineContext, PgPart, refuseRevoked } from './part.ts'

/** Locks the head, whose revision is beyond all that any node has seen. */
export const lockKeys: Sql = constantSql('UPDATE head SET revision = revision + 1')

/** SQL for the revision of a change that is written now, after `lockKeys`. */
export const nextKeyRevision: Sql = constantSql(
  '(SELECT greatest((SELECT max(revision) + 1 FROM access_key), revision) FROM head)',
)

/** SQL for the id of the key in a principal. */
const keyIdOf = (principal: Sql): Sql => sql`substr(${principal}, strpos(${principal}, ':') + 1)`

/** SQL for the id of the key that made an entry `e`, itself or as its webhook. */
export const makingKey: Sql = keyIdOf(
  constantSql(`coalesce((SELECT w.made_by FROM webhook w
    WHERE w.id = substr(e.made_by, 9) AND e.made_by LIKE 'webhook:%'), e.made_by)`),
)

/** SQL for the ids of keys that have not been revoked, among some keys and those that they made, oldest first. */
const listEnding = (ids: readonly string[]): Sql => sql`WITH RECURSIVE ending (id) AS (
    SELECT unnest(${ids}::text[]) UNION SELECT k.id FROM access_key k JOIN ending e
      ON k.made_by IN ('key:' || e.id, 'panel:' || e.id))
  SELECT k.id FROM access_key k JOIN ending USING (id) WHERE k.revoked_at IS NULL ORDER BY k.nth`

/** SQL for the condition that an entry `e` waits for its user, and one of these keys queued it, or a webhook of one. */
const isQueuedBy = (keys: readonly string[]): Sql => sql`e.mode = 'queue' AND e.ended_at IS NULL
  AND e.asked IS NULL AND ${makingKey} = ANY (${keys}::text[])`

export class PgKeys extends PgPart implements KeyStore {
  readonly #lanes: PgLanes
  readonly #entries: PgEntries

  constructor(context: EngineContext) {
    super(context)
    this.#lanes = new PgLanes(context)
    this.#entries = new PgEntries(context, this.#lanes)
  }

  async hasAny(): Promise<boolean> {
    return (await this.db.get(sql`SELECT 1 AS found FROM access_key LIMIT 1`)) !== undefined
  }

  async list(): Promise<StoredKey[]> {
    return (await this.db.all<Row>(sql`SELECT * FROM access_key ORDER BY created_at, nth`)).map(keyOfRow)
  }

  async get(id: string): Promise<StoredKey | undefined> {
    const row = await this.db.get<Row>(sql`SELECT * FROM access_key WHERE id = ${id}`)
    return row && keyOfRow(row)
  }

  async listChangedSince(revision: number): Promise<{ keys: StoredKey[]; revision: number }> {
    const rows = await this.db.all<Row>(
      sql`SELECT * FROM access_key WHERE revision > ${revision} ORDER BY revision, nth`,
    )
    return { keys: rows.map(keyOfRow), revision: rows.at(-1)?.revision ?? revision }
  }

  async add({ id, name, hash, grant, can, made_by, created_at, expires_at }: NewKey): Promise<void> {
    const maker = keyOfMaker(made_by)
    const namesakes = sql`SELECT id FROM access_key WHERE name = ${name} AND revoked_at IS NULL
      AND (expires_at IS NULL OR expires_at > ${this.clock.now()})
      AND (${maker}::text IS NULL OR id IN (SELECT keys_below(${maker}))) ORDER BY nth`
    const adding = sql`INSERT INTO access_key
        (id, name, hash, "grant", can, made_by, created_at, expires_at, revision)
      SELECT ${id}, ${name}, ${hash}, ${JSON.stringify(grant)}, ${JSON.stringify(can)}, ${made_by},
        ${created_at}::bigint, ${expires_at}::bigint, ${nextKeyRevision}
      WHERE NOT EXISTS (${namesakes}) AND (${maker}::text IS NULL
        OR (SELECT count(*) FROM family_of(${maker})) <= ${maxKeysBelow}) RETURNING id`
    if (await this.#change(adding, made_by)) return
    const others = await this.db.all<{ id: string }>(namesakes)
    if (others.length === 0) throw tooManyKeysError()
    throw sameNameError(others.map(({ id }) => id))
  }

  rotate(id: string, hash: string, keepUntil: number): Promise<boolean> {
    return this.#change(sql`UPDATE access_key SET replaced_hash = hash, replaced_until = ${keepUntil}, hash = ${hash},
      revision = ${nextKeyRevision} WHERE id = ${id} AND revoked_at IS NULL RETURNING id`)
  }

  /** @returns whether the statement changed a key */
  #change(statement: Sql, made_by?: string): Promise<boolean> {
    return this.durably(() =>
      this.db.retry(async attempt => {
        const held = await refuseRevoked(attempt, made_by)
        return (await attempt.script([lockKeys, ...held, statement])).at(-1)!.length > 0
      }),
    )
  }

  revoke(id: string, at: number): Promise<string[]> {
    return this.#end([id], at)
  }

  async endExpired(at: number): Promise<string[]> {
    const expired = await this.db.all<{ id: string }>(sql`SELECT id FROM access_key
      WHERE expires_at <= ${at} AND revoked_at IS NULL ORDER BY expires_at`)
    return expired.length === 0
      ? []
      : this.#end(
          expired.map(({ id }) => id),
          at,
        )
  }

  /** Ends keys and those that they made. @returns ids of the keys that had not been revoked */
  async #end(roots: readonly string[], at: number): Promise<string[]> {
    const ended = await this.durably(() =>
      this.db.retry(async attempt => {
        const ids = (await attempt.all<{ id: string }>(listEnding(roots))).map(({ id }) => id)
        if (ids.length === 0) return ids
        const webhooks = await attempt.all<{ id: string; url: string }>(sql`SELECT id, url FROM webhook
          WHERE disabled IS NULL AND ${keyIdOf(constantSql('made_by'))} = ANY (${ids}::text[])
          ORDER BY created_at, nth${attempt.lock}`)
        await attempt.script([
          sql`WITH off AS (UPDATE webhook SET disabled = ${keyEndedReason}, disabled_code = 'key_revoked',
              disabled_at = ${at} WHERE id = ANY (${webhooks.map(({ id }) => id)}::text[]) AND disabled IS NULL
              RETURNING id)
            SELECT expect((SELECT count(*) FROM off) = ${webhooks.length})`,
          ...(await this.#askAgain(attempt, ids, at)),
          lockKeys,
          sql`SELECT expect(ARRAY(${listEnding(roots)}) = ${ids}::text[])`,
          sql`UPDATE access_key SET revoked_at = ${at}, revision = ${nextKeyRevision} WHERE id = ANY (${ids}::text[])`,
          sql`DELETE FROM person_mark WHERE reader = ANY (${ids}::text[])`,
          // A call of the key may have added one since, see `refuseRevoked`.
          sql`SELECT expect(NOT EXISTS (SELECT 1 FROM webhook WHERE disabled IS NULL
            AND ${keyIdOf(constantSql('made_by'))} = ANY (${ids}::text[])))`,
          sql`SELECT add_events(${toJsonb(webhooks.map(webhook => this.#disabledEventOf(webhook)))}::jsonb)`,
        ])
        return ids
      }),
    )
    if (ended.length > 0) await this.db.touch()
    return ended
  }

  /** Returns statements that let the queued sends of these keys, and of their webhooks, wait for a person's approval. */
  async #askAgain(attempt: Attempt, keys: readonly string[], at: number): Promise<Sql[]> {
    await this.#lanes.lock(attempt, sql`l.id IN (SELECT e.lane FROM outbox e WHERE ${isQueuedBy(keys)})`)
    const plan: PgPlan = new OutboxPlan(this.clock.now())
    for (const entry of await this.#entries.load(attempt, isQueuedBy(keys)))
      askAgain(entry, at + askLifeMs, plan)
    return statementsOf(plan)
  }

  #disabledEventOf(webhook: { id: string; url: string }) {
    const data = { ...webhook, reason: keyEndedReason, reason_code: 'key_revoked' }
    return { type: 'endpoint.disabled', at: this.clock.now(), data: JSON.stringify(data) }
  }

  async noteUse(id: string, at: number, address: string | undefined): Promise<void> {
    await this.db.run(
      sql`UPDATE access_key SET last_used_at = ${at}, last_address = ${address} WHERE id = ${id}`,
    )
  }

  shareUse(own: readonly KeyUse[]): Promise<KeyUse[]> {
    const isToday = constantSql(`day_began > clock_timestamp() - interval '1 day'`)
    return this.db.all<KeyUse>(sql`WITH own AS (
        INSERT INTO key_use (key, node, calls, open, bytes, day_began)
          SELECT o.key, ${this.owner}, o.calls, o.open, o.bytes, clock_timestamp() - o."dayAgeMs" * interval '1 ms'
          FROM jsonb_to_recordset(${toJsonb(own)}::jsonb)
            AS o(key text, calls double precision, open integer, bytes bigint, "dayAgeMs" bigint) ORDER BY o.key
        ON CONFLICT (key, node) DO UPDATE SET calls = excluded.calls, open = excluded.open, bytes = excluded.bytes,
          day_began = excluded.day_began),
      old AS (DELETE FROM key_use WHERE NOT ${isToday} AND NOT lives(node))
      SELECT key, coalesce(sum(calls) FILTER (WHERE lives(node)), 0)::double precision AS calls,
        coalesce(sum(open) FILTER (WHERE lives(node)), 0)::integer AS open,
        coalesce(sum(bytes) FILTER (WHERE ${isToday}), 0)::bigint AS bytes,
        coalesce(max(extract(epoch FROM clock_timestamp() - day_began) * 1000) FILTER (WHERE ${isToday}), 0)::bigint AS "dayAgeMs"
      FROM key_use WHERE key = ANY (${own.map(({ key }) => key)}::text[]) AND node <> ${this.owner} GROUP BY key`)
  }
}

type Row = KeyRow & { nth: number }

const keyOfRow = ({ nth: _, ...row }: Row): StoredKey => keyOf(row)
