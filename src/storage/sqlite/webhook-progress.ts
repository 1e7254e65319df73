/** How far the endpoints are delivered, in SQLite. */
import { sessionKeyOf } from '../../model/session.ts'
import type { Database } from '../../platform/sqlite.ts'
import { listLanes } from '../nouns/webhooks.ts'
import {
  maxTries,
  type TryOutcome,
  tryOutcomes,
  type WebhookConversation,
  type WebhookLane,
  type WebhookProgress,
  type WebhookTry,
} from '../webhooks.ts'
import type { ProcessOwner } from './engine-part.ts'
import { findErased } from './erased-users.ts'
import { drive } from './routines.ts'

export class SqliteWebhookProgress {
  readonly #db: Database
  readonly #owner: ProcessOwner

  constructor(db: Database, owner: ProcessOwner) {
    this.#db = db
    this.#owner = owner
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
    const webhooks = this.#db.all<{ id: string; session?: string }>`SELECT id, session FROM webhook`
    for (const webhook of webhooks) {
      const { id } = webhook
      if (isIt(webhook)) this.#db.run`UPDATE webhook SET session = ${newName} WHERE id = ${id}`
      for (const lane of drive(this.#db, listLanes(id)).filter(isIt)) {
        this.#dropLane(id, lane)
        this.#putLane(id, { ...lane, session: newName })
      }
      this.#db.run`UPDATE webhook SET epoch = epoch + 1 WHERE id = ${id}`
    }
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
