/** Webhook endpoints in SQLite. */
import { sessionKeyOf } from '../../model/session.ts'
import type { Sealer } from '../../platform/sealing.ts'
import type { Database } from '../../platform/sqlite.ts'
import { cursorNumberOf } from '../events.ts'
import { refuseRevoked } from '../nouns/keys.ts'
import { mapWebhook } from '../sealed-places.ts'
import { laneOf, type WebhookLaneRow, type WebhookRow, webhookOf } from '../webhook-rows.ts'
import {
  hasFailures,
  maxTries,
  type NewWebhook,
  rotateSecrets,
  type TryOutcome,
  tryOutcomes,
  type Webhook,
  type WebhookChange,
  type WebhookConversation,
  type WebhookLane,
  type WebhookProgress,
  type WebhookTry,
} from '../webhooks.ts'
import type { ProcessOwner } from './engine-part.ts'
import { findErased, rejectErased } from './erased-users.ts'
import { drive, sqliteDialect } from './routines.ts'

export class SqliteWebhooks {
  readonly #db: Database
  readonly #owner: ProcessOwner
  readonly #sealer: Sealer

  constructor(db: Database, owner: ProcessOwner, sealer: Sealer) {
    this.#db = db
    this.#owner = owner
    this.#sealer = sealer
  }

  list(): Webhook[] {
    return this.#db.all<WebhookRow>`SELECT * FROM webhook ORDER BY created_at, rowid`.map(row =>
      this.#webhookOf(row),
    )
  }

  get(id: string): Webhook | undefined {
    const row = this.#db.get<WebhookRow>`SELECT * FROM webhook WHERE id = ${id}`
    return row && this.#webhookOf(row)
  }

  add(webhook: NewWebhook): void {
    const { id, url, session, user, created_at, position, made_by, grant } = webhook
    const sealed = this.#seal(webhook)
    this.#db.transaction(() => {
      drive(this.#db, refuseRevoked(sqliteDialect, made_by))
      for (const one of [...(user ? [user] : []), ...(grant?.users ?? [])]) rejectErased(this.#db, one)
      this.#db
        .run`INSERT INTO webhook (id, url, types, session, peer, headers, secrets, link_key, allow_private, replies,
          created_at, position, made_by, "grant")
        VALUES (${id}, ${url}, ${JSON.stringify(webhook.types)}, ${session}, ${user},
          ${sealed.headers}, ${sealed.secrets}, ${sealed.link_key},
          ${Number(webhook.allow_private)}, ${Number(webhook.replies)}, ${created_at}, ${position},
          ${made_by}, ${grant && JSON.stringify(grant)})`
    })
  }

  change(id: string, change: WebhookChange): boolean {
    return this.#db.transaction(() => {
      const webhook = this.get(id)
      if (!webhook) return false
      if (change.paused === false) drive(this.#db, refuseRevoked(sqliteDialect, webhook.made_by))
      const { rotation, ...rest } = change
      const now = {
        ...webhook,
        ...rest,
        ...(rotation && { secrets: rotateSecrets(webhook.secrets, rotation) }),
      }
      const retries = change.paused === false && hasFailures(webhook, this.listLanes(id))
      this.#db.run`UPDATE webhook SET paused = ${Number(now.paused)}, secrets = ${this.#seal(now).secrets},
          disabled = ${now.disabled?.reason}, disabled_code = ${now.disabled?.code},
          disabled_at = ${now.disabled?.at}, failing_since = ${now.failing_since}, last_error = ${now.last_error},
          last_error_code = ${now.last_error_code}, next_try_at = ${retries ? undefined : now.next_try_at},
          epoch = epoch + ${Number(retries)} WHERE id = ${id}`
      if (retries) this.#db.run`UPDATE webhook_lane SET retry_at = 0 WHERE webhook = ${id}`
      return true
    })
  }

  /** Returns the columns of an endpoint with secrets. */
  #seal({ id, headers, secrets, link_key }: NewWebhook) {
    const row = { headers: JSON.stringify(headers), secrets: JSON.stringify(secrets), link_key }
    return mapWebhook(row, id, this.#sealer.seal)
  }

  #webhookOf(row: WebhookRow): Webhook {
    return webhookOf(mapWebhook(row, row.id, this.#sealer.open))
  }

  rewind(id: string, position: string, replayed: string): boolean {
    return this.#db.transaction(() => {
      for (const lane of this.listLanes(id))
        if (cursorNumberOf(lane.position) >= cursorNumberOf(position)) this.#dropLane(id, lane)
      const { changes } = this.#db.run`UPDATE webhook
        SET replayed = ${replayed}, position = ${position}, epoch = epoch + 1, next_try_at = NULL WHERE id = ${id}`
      return changes > 0
    })
  }

  remove(id: string): boolean {
    return this.#db.transaction(() => {
      this.#db.run`DELETE FROM webhook_lane WHERE webhook = ${id}`
      this.#db.run`DELETE FROM webhook_try WHERE webhook = ${id}`
      return this.#db.run`DELETE FROM webhook WHERE id = ${id}`.changes > 0
    })
  }

  /** One process delivers for all endpoints, so there is nothing to do after its start. */
  takeOver(held?: ReadonlySet<string>): ReadonlySet<string> {
    const all = this.#db.all<{ id: string; deliverer?: string }>`SELECT id, deliverer FROM webhook`
    const me = this.#owner.name
    // A new one is taken along. Another process, if one delivers by now, took over from this one.
    if (held === undefined || all.some(({ deliverer }) => deliverer === undefined))
      this.#db.run`UPDATE webhook SET epoch = epoch + (deliverer IS NOT ${me}), deliverer = ${me},
        next_try_at = NULL WHERE ${Number(held === undefined)} OR deliverer IS NULL`
    return new Set(all.map(({ id }) => id))
  }

  /** Renames a session in the endpoints that are limited to it, and in their lanes. */
  renameSession(oldName: string, newName: string): void {
    const isIt = (row: { session?: string }) =>
      row.session !== undefined && sessionKeyOf(row.session) === sessionKeyOf(oldName)
    for (const webhook of this.list()) {
      const { id } = webhook
      if (isIt(webhook)) this.#db.run`UPDATE webhook SET session = ${newName} WHERE id = ${id}`
      for (const lane of this.listLanes(id).filter(isIt)) {
        this.#dropLane(id, lane)
        this.#putLane(id, { ...lane, session: newName })
      }
      this.#db.run`UPDATE webhook SET epoch = epoch + 1 WHERE id = ${id}`
    }
  }

  listLanes(id: string): WebhookLane[] {
    return this.#db.all<WebhookLaneRow>`SELECT * FROM webhook_lane WHERE webhook = ${id}`.map(laneOf)
  }

  save(id: string, { epoch, position, lanes, ended, tries, health }: WebhookProgress): boolean {
    return this.#db.transaction(() => {
      const { changes } = this.#db.run`UPDATE webhook SET position = ${position},
          last_success_at = coalesce(${health.last_success_at}, last_success_at),
          failing_since = ${health.failing_since}, last_error = ${health.last_error},
          last_error_code = ${health.last_error_code}, next_try_at = ${health.next_try_at}
        WHERE id = ${id} AND epoch = ${epoch}`
      if (changes === 0) return false
      for (const lane of lanes) this.#putLane(id, lane)
      for (const lane of ended) this.#dropLane(id, lane)
      if (tries.length > 0) this.#putTries(id, tries)
      return true
    })
  }

  addTry(id: string, attempt: WebhookTry): boolean {
    return this.#db.transaction(() => this.#putTries(id, [attempt]))
  }

  listTries(id: string, limit: number, outcome?: TryOutcome): WebhookTry[] {
    return this.#db.all`SELECT at, event, type, outcome, status, took_ms, detail, code FROM webhook_try
      WHERE webhook = ${id} AND (${outcome} IS NULL OR outcome = ${outcome})
      ORDER BY id DESC LIMIT ${limit}`
  }

  #dropLane(id: string, { session, user }: WebhookConversation): void {
    this.#db.run`DELETE FROM webhook_lane WHERE webhook = ${id} AND session = ${session} AND peer = ${user}`
  }

  #putLane(id: string, { session, user, position, trouble }: WebhookLane): void {
    if (findErased(this.#db, user) !== undefined) return
    this.#db.run`INSERT OR REPLACE INTO webhook_lane
        (webhook, session, peer, position, event, tries, failed_at, retry_at)
      VALUES (${id}, ${session}, ${user}, ${position}, ${trouble?.event}, ${trouble?.tries},
        ${trouble?.failed_at}, ${trouble?.retry_at})`
  }

  /** Counts all tries, and stores only as many as are kept. @returns whether there is an endpoint */
  #putTries(id: string, tries: readonly WebhookTry[]): boolean {
    const counted = (outcome: TryOutcome) => tries.filter(attempt => attempt.outcome === outcome).length
    const { changes } = this.#db.run`UPDATE webhook SET tries_done = tries_done + ${counted('done')},
        tries_failed = tries_failed + ${counted('failed')}, tries_gave_up = tries_gave_up + ${counted('gave_up')}
      WHERE id = ${id}`
    if (changes === 0) return false
    const kept = new Set(
      tryOutcomes.flatMap(outcome =>
        tries.filter(attempt => attempt.outcome === outcome).slice(-maxTries[outcome]),
      ),
    )
    for (const attempt of tries.filter(attempt => kept.has(attempt)))
      this.#db.run`INSERT INTO webhook_try (webhook, at, event, type, outcome, status, took_ms, detail, code)
        VALUES (${id}, ${attempt.at}, ${attempt.event}, ${attempt.type}, ${attempt.outcome}, ${attempt.status}, ${attempt.took_ms},
          ${attempt.detail}, ${attempt.code})`
    for (const outcome of new Set([...kept].map(attempt => attempt.outcome)))
      this.#db.run`DELETE FROM webhook_try WHERE webhook = ${id} AND outcome = ${outcome} AND id <=
        (SELECT id FROM webhook_try WHERE webhook = ${id} AND outcome = ${outcome}
          ORDER BY id DESC LIMIT 1 OFFSET ${maxTries[outcome]})`
    return true
  }
}
