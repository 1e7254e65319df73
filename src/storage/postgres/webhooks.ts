/** Webhook endpoints in PostgreSQL. */
import type { PgQueries } from '../../platform/postgres.ts'
import { constantSql, noSql, type Sql, sql } from '../../platform/sql.ts'
import { cursorNumberOf } from '../events.ts'
import { refuseRevoked } from '../nouns/keys.ts'
import { mapWebhook } from '../sealed-places.ts'
import { type WebhookRow, webhookOf } from '../webhook-rows.ts'
import {
  hasFailures,
  type NewWebhook,
  rotateSecrets,
  type Webhook,
  type WebhookChange,
  type WebhookStore,
} from '../webhooks.ts'
import { drive } from './drive.ts'
import { type EngineContext, guard, PgPart } from './part.ts'
import { postgresDialect } from './routines.ts'
import { listLanes, PgWebhookProgress } from './webhook-progress.ts'

type Row = WebhookRow & { nth: number; version: string }

/** SQL for the number of a cursor, as `cursorNumberOf` returns it. */
const cursorNumber = constantSql(`coalesce(substring(position from '\\d+$'), '0')::numeric`)

export class PgWebhooks extends PgPart implements WebhookStore {
  readonly progress: PgWebhookProgress

  constructor(context: EngineContext) {
    super(context)
    this.progress = new PgWebhookProgress(context)
  }

  async list(): Promise<Webhook[]> {
    const rows = await this.db.all<Row>(sql`SELECT *, '' AS version FROM webhook ORDER BY created_at, nth`)
    return rows.map(row => this.#webhookOf(row))
  }

  async get(id: string): Promise<Webhook | undefined> {
    return (await this.#read(this.db, id, noSql))?.webhook
  }

  async #read(queries: PgQueries, id: string, lock: Sql) {
    const row = await queries.get<Row>(
      sql`SELECT *, xmin::text AS version FROM webhook WHERE id = ${id}${lock}`,
    )
    return row && { webhook: this.#webhookOf(row), version: row.version }
  }

  #webhookOf({ nth: _, version: __, ...row }: Row): Webhook {
    return webhookOf(mapWebhook(row, row.id, this.sealer.open))
  }

  /** Returns the columns of an endpoint with secrets. */
  #seal({ id, headers, secrets, link_key }: NewWebhook) {
    const row = { headers: JSON.stringify(headers), secrets: JSON.stringify(secrets), link_key }
    return mapWebhook(row, id, this.sealer.seal)
  }

  /** Runs a write, makes it durable, and wakes those who wait for a change of an endpoint. */
  async #written<T>(work: () => Promise<T>): Promise<T> {
    const result = await this.durably(work)
    await this.db.touch()
    return result
  }

  async add(webhook: NewWebhook): Promise<void> {
    const { id, url, types, session, user, allow_private, replies, created_at, position, made_by, grant } =
      webhook
    const { headers, secrets, link_key } = this.#seal(webhook)
    const adding = sql`INSERT INTO webhook (id, url, types, session, peer, headers, secrets, link_key, allow_private,
          replies, created_at, position, made_by, "grant")
        VALUES (${id}, ${url}, ${JSON.stringify(types)}, ${session}, ${user}, ${headers}, ${secrets}, ${link_key},
          ${Number(allow_private)}, ${Number(replies)}, ${created_at}, ${position}, ${made_by},
          ${grant && JSON.stringify(grant)})`
    await this.#written(() =>
      this.db.retry(async attempt =>
        attempt.script([...(await drive(attempt, refuseRevoked(postgresDialect, made_by))), adding]),
      ),
    )
  }

  change(id: string, change: WebhookChange): Promise<boolean> {
    return this.#written(() =>
      this.db.retry(async attempt => {
        const found = await this.#read(attempt, id, attempt.lock)
        if (!found) return false
        const { webhook, version } = found
        const { rotation, ...rest } = change
        const now = {
          ...webhook,
          ...rest,
          ...(rotation && { secrets: rotateSecrets(webhook.secrets, rotation) }),
        }
        const held =
          change.paused === false ? await drive(attempt, refuseRevoked(postgresDialect, webhook.made_by)) : []
        const retries = change.paused === false && hasFailures(webhook, await listLanes(attempt, id))
        await attempt.script([
          // Deliverers change it with each progress, also with that of its lanes.
          guard(sql`SELECT true FROM webhook WHERE id = ${id} AND xmin = ${version}::xid`),
          sql`UPDATE webhook SET paused = ${Number(now.paused)}, secrets = ${this.#seal(now).secrets},
            disabled = ${now.disabled?.reason}, disabled_code = ${now.disabled?.code},
            disabled_at = ${now.disabled?.at}, failing_since = ${now.failing_since}, last_error = ${now.last_error},
            last_error_code = ${now.last_error_code}, next_try_at = ${retries ? undefined : now.next_try_at},
            epoch = epoch + ${Number(retries)} WHERE id = ${id}`,
          ...(retries ? [sql`UPDATE webhook_lane SET retry_at = 0 WHERE webhook = ${id}`] : []),
          ...held,
        ])
        return true
      }),
    )
  }

  rewind(id: string, position: string, replayed: string): Promise<boolean> {
    return this.#written(async () => {
      const [changed] = await this.db.script([
        sql`UPDATE webhook SET replayed = ${replayed}, position = ${position}, epoch = epoch + 1, next_try_at = NULL
          WHERE id = ${id} RETURNING id`,
        sql`DELETE FROM webhook_lane WHERE webhook = ${id} AND ${cursorNumber} >= ${cursorNumberOf(position)}`,
      ])
      return changed!.length > 0
    })
  }

  remove(id: string): Promise<boolean> {
    return this.#written(async () => {
      const [removed] = await this.db.script([
        sql`DELETE FROM webhook WHERE id = ${id} RETURNING id`,
        sql`DELETE FROM webhook_lane WHERE webhook = ${id}`,
        sql`DELETE FROM webhook_try WHERE webhook = ${id}`,
      ])
      return removed!.length > 0
    })
  }
}
