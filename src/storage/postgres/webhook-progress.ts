/**
 * How far the endpoints are delivered, in PostgreSQL, and which node delivers for which. `webhook.deliverer` is the
 * node that does: only itself gives an endpoint up while it lives and polls.
 */
import { toJsonb } from '../../platform/postgres-values.ts'
import { noSql, type Sql, sql } from '../../platform/sql.ts'
import {
  maxTries,
  type TryOutcome,
  tryOutcomes,
  type WebhookConversation,
  type WebhookLane,
  type WebhookProgress,
  type WebhookProgressStore,
  type WebhookTry,
} from '../webhooks.ts'
import { PgPart } from './part.ts'

export class PgWebhookProgress extends PgPart implements Omit<WebhookProgressStore, 'listLanes'> {
  /** Rendezvous hashing over the nodes that poll: as one comes or goes, few endpoints change hands. */
  async takeOver(held?: ReadonlySet<string>): Promise<ReadonlySet<string>> {
    const me = this.owner
    const starts = held === undefined
    const rows = await this.db.all<{ id: string; own: boolean; changed: boolean }>(sql`WITH
      living AS (SELECT id FROM node WHERE polls AND lease_until > clock_timestamp() UNION SELECT ${me}),
      due AS MATERIALIZED (SELECT w.id, w.deliverer,
          (SELECT l.id FROM living l ORDER BY md5(l.id || ' ' || w.id) DESC LIMIT 1) = ${me} AS is_mine,
          w.deliverer IS NOT DISTINCT FROM ${me} AS is_held,
          w.deliverer IS NOT NULL AND w.deliverer IN (SELECT id FROM living) AS is_taken FROM webhook w),
      changed AS (UPDATE webhook w SET deliverer = CASE WHEN d.is_mine THEN ${me} END,
          epoch = epoch + CASE WHEN d.is_mine AND NOT d.is_held THEN 1 ELSE 0 END,
          next_try_at = CASE WHEN NOT d.is_mine THEN w.next_try_at END
        FROM due d WHERE w.id = d.id AND w.deliverer IS NOT DISTINCT FROM d.deliverer AND CASE
          WHEN NOT d.is_held THEN d.is_mine AND NOT d.is_taken
          WHEN d.is_mine THEN ${starts}::boolean AND w.next_try_at IS NOT NULL
          ELSE w.id <> ALL (${[...(held ?? [])]}::text[]) END
        RETURNING w.id)
      SELECT d.id, d.is_mine AND (d.is_held OR c.id IS NOT NULL) AS own, c.id IS NOT NULL AS changed
      FROM due d LEFT JOIN changed c USING (id)`)
    if (rows.some(({ changed }) => changed)) await this.db.barrier()
    return new Set(rows.filter(({ own }) => own).map(({ id }) => id))
  }

  async save(id: string, progress: WebhookProgress): Promise<boolean> {
    const { epoch, position, lanes, ended, tries, health } = progress
    const [saved] = await this.db.script([
      sql`WITH saved AS (UPDATE webhook SET position = ${position},
          last_success_at = coalesce(${health.last_success_at}, last_success_at),
          failing_since = ${health.failing_since}, last_error = ${health.last_error},
          last_error_code = ${health.last_error_code}, next_try_at = ${health.next_try_at}${counted(tries)}
        WHERE id = ${id} AND epoch = ${epoch} RETURNING id)${putLanes(lanes)}${dropLanes(ended)}${addTries(tries)}
        SELECT id FROM saved`,
      ...trimTries(id, tries),
    ])
    return saved!.length > 0
  }

  async addTry(id: string, attempt: WebhookTry): Promise<boolean> {
    const tries = [attempt]
    const [saved] = await this.db.script([
      sql`WITH saved AS (UPDATE webhook SET paused = paused${counted(tries)} WHERE id = ${id} RETURNING id)
        ${addTries(tries)} SELECT id FROM saved`,
      ...trimTries(id, tries),
    ])
    return saved!.length > 0
  }

  listTries(id: string, limit: number, outcome?: TryOutcome): Promise<WebhookTry[]> {
    return this.db.all(sql`SELECT t.at, t.event, t.type, t.outcome, t.status, t.took_ms, t.detail, t.code
      FROM unnest(${outcome === undefined ? tryOutcomes : [outcome]}::text[]) AS wanted (outcome), LATERAL
        (SELECT * FROM webhook_try WHERE webhook = ${id} AND outcome = wanted.outcome ORDER BY id DESC LIMIT ${limit}) t
      ORDER BY t.id DESC LIMIT ${limit}`)
  }
}

/** Parts of a statement that begins with `saved`, the endpoint if it may be changed. */

const counted = (tries: readonly WebhookTry[]): Sql => {
  const count = (wanted: TryOutcome) => tries.filter(({ outcome }) => outcome === wanted).length
  return tries.length === 0
    ? noSql
    : sql`, tries_done = tries_done + ${count('done')}, tries_failed = tries_failed + ${count('failed')},
        tries_gave_up = tries_gave_up + ${count('gave_up')}`
}

function putLanes(lanes: readonly WebhookLane[]): Sql {
  if (lanes.length === 0) return noSql
  const rows = lanes.map(({ session, user, position, trouble }) => ({ session, user, position, ...trouble }))
  return sql`, put AS (INSERT INTO webhook_lane (webhook, session, peer, position, event, tries, failed_at, retry_at)
    SELECT s.id, l.session, l."user", l.position, l.event, l.tries, l.failed_at, l.retry_at FROM saved s,
      jsonb_to_recordset(${toJsonb(rows)}::jsonb) AS l (session text, "user" text, position text, event text,
        tries integer, failed_at bigint, retry_at bigint)
    ON CONFLICT (webhook, session, peer) DO UPDATE SET position = excluded.position, event = excluded.event,
      tries = excluded.tries, failed_at = excluded.failed_at, retry_at = excluded.retry_at)`
}

function dropLanes(ended: readonly WebhookConversation[]): Sql {
  if (ended.length === 0) return noSql
  return sql`, dropped AS (DELETE FROM webhook_lane l USING saved s,
      jsonb_to_recordset(${toJsonb(ended)}::jsonb) AS e (session text, "user" text)
    WHERE l.webhook = s.id AND l.session = e.session AND l.peer = e."user")`
}

/** Stores only as many of each outcome as are kept. */
function addTries(tries: readonly WebhookTry[]): Sql {
  if (tries.length === 0) return noSql
  const kept = new Set(
    tryOutcomes.flatMap(wanted => tries.filter(({ outcome }) => outcome === wanted).slice(-maxTries[wanted])),
  )
  const rows = tries.filter(attempt => kept.has(attempt))
  return sql`, tried AS (INSERT INTO webhook_try (webhook, at, event, type, outcome, status, took_ms, detail, code)
    SELECT s.id, r.at, r.event, r.type, r.outcome, r.status, r.took_ms, r.detail, r.code FROM saved s,
      ROWS FROM (jsonb_to_recordset(${toJsonb(rows)}::jsonb) AS (at bigint, event text, type text, outcome text,
        status integer, took_ms bigint, detail text, code text)) WITH ORDINALITY AS r ORDER BY r.ordinality)`
}

/** Statements that remove the tries that are too many. */
const trimTries = (id: string, tries: readonly WebhookTry[]): Sql[] =>
  [...new Set(tries.map(({ outcome }) => outcome))].map(
    outcome => sql`DELETE FROM webhook_try WHERE webhook = ${id} AND outcome = ${outcome} AND id <= (SELECT id
      FROM webhook_try WHERE webhook = ${id} AND outcome = ${outcome} ORDER BY id DESC LIMIT 1 OFFSET ${maxTries[outcome]})`,
  )
