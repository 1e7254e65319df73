/** Webhook endpoints. */
import { constantSql, type Sql, sql } from '../../platform/sql.ts'
import { cursorNumberOf } from '../events.ts'
import { endedMakerError } from '../keys.ts'
import {
  changes,
  type Noun,
  type NounContext,
  openNoun,
  type Routine,
  type Runner,
  readAll,
  readHeld,
  write,
} from '../routine.ts'
import { changeSecrets, storeTables } from '../table-list.ts'
import { laneOf, type WebhookLaneRow, type WebhookRow, webhookOf } from '../webhook-rows.ts'
import {
  hasFailures,
  type NewWebhook,
  rotateSecrets,
  type Webhook,
  type WebhookLane,
  type WebhookProgressStore,
  type WebhookStore,
} from '../webhooks.ts'
import { makerOf, refuseRevoked } from './keys.ts'
import { createWebhookProgress } from './webhook-progress.ts'

type Webhooks = Omit<WebhookStore, 'progress'> & Pick<WebhookProgressStore, 'listLanes'>

/** @param isErased same as `createWebhookProgress` */
export function openWebhooks(
  context: NounContext,
  run: Runner,
  takeOver: WebhookProgressStore['takeOver'],
  isErased?: (user: string) => boolean,
): WebhookStore {
  const { listLanes, ...webhooks } = openNoun(createWebhooks(context), run)
  const progress = openNoun(createWebhookProgress(isErased), run)
  return { ...webhooks, progress: { ...progress, takeOver, listLanes } }
}

export function* listLanes(id: string): Routine<WebhookLane[]> {
  const rows = yield* readAll<WebhookLaneRow>(sql`SELECT session, peer, position, event, tries, failed_at,
    retry_at FROM webhook_lane WHERE webhook = ${id} ORDER BY session, peer`)
  return rows.map(laneOf)
}

const columns =
  constantSql(`id, url, types, session, peer, headers, secrets, link_key, allow_private, replies, paused,
  disabled, disabled_at, disabled_code, created_at, position, replayed, epoch, last_success_at, failing_since, last_error,
  last_error_code, next_try_at, tries_done, tries_failed, tries_gave_up, made_by, "grant", subscription, expires_at`)

/** SQL for the number of a cursor as text, as `cursorNumberOf` returns it. */
export const cursorDigits = (column: string): Sql =>
  constantSql(`coalesce(nullif(substr(${column}, length(rtrim(${column}, '0123456789')) + 1), ''), '0')`)
const cursorNumber = sql`CAST(${cursorDigits('position')} AS numeric)`

const table = storeTables.find(({ name }) => name === 'webhook')!

function createWebhooks(context: NounContext): Noun<Webhooks> {
  const { dialect, sealer } = context

  const opened = (row: WebhookRow): Webhook => webhookOf(changeSecrets(table, row, sealer.open))

  /** Returns the columns of an endpoint with secrets. */
  function sealed({ id, headers, secrets, link_key }: NewWebhook) {
    const row = { id, headers: JSON.stringify(headers), secrets: JSON.stringify(secrets), link_key }
    return changeSecrets(table, row, sealer.seal)
  }

  /** SQL that locks an endpoint first: its deliverer stores no progress until the write ends. */
  const locked = (id: string) => dialect.lock(sql`SELECT FROM webhook WHERE id = ${id}`)

  return {
    verbs: {
      *list() {
        const rows = yield* readAll<WebhookRow>(sql`SELECT ${columns} FROM webhook ORDER BY created_at, nth`)
        return rows.map(opened)
      },

      *get(id): Routine<Webhook | undefined> {
        const [row] = yield* readAll<WebhookRow>(sql`SELECT ${columns} FROM webhook WHERE id = ${id}`)
        return row && opened(row)
      },

      *add(webhook) {
        const {
          id,
          url,
          types,
          session,
          user,
          allow_private,
          replies,
          created_at,
          position,
          made_by,
          grant,
          subscription,
          expires_at,
        } = webhook
        const held = yield* refuseRevoked(dialect, made_by)
        for (const one of [...(user ? [user] : []), ...(grant?.users ?? [])]) yield* context.rejectErased(one)
        const { headers, secrets, link_key } = sealed(webhook)
        yield* write(
          ...held,
          sql`INSERT INTO webhook (id, url, types, session, peer, headers, secrets, link_key, allow_private, replies,
              created_at, position, made_by, "grant", subscription, expires_at)
            VALUES (${id}, ${url}, ${JSON.stringify(types)}, ${session}, ${user}, ${headers}, ${secrets}, ${link_key},
              ${Number(allow_private)}, ${Number(replies)}, ${created_at}, ${position}, ${made_by},
              ${grant && JSON.stringify(grant)}, ${subscription && JSON.stringify(subscription)}, ${expires_at})`,
        )
      },

      *change(id, change) {
        const [row] = yield* readHeld<WebhookRow & { version: string }>(
          sql`SELECT ${columns}, ${dialect.version} AS version FROM webhook WHERE id = ${id}`,
        )
        if (!row) return false
        const { version, ...own } = row
        const webhook = opened(own)
        const { retries: isRetried = false, rotation, ...rest } = change
        const resumes = change.paused === false || isRetried
        const now = {
          ...webhook,
          ...rest,
          ...(rotation && { secrets: rotateSecrets(webhook.secrets, rotation) }),
        }
        const living = resumes ? yield* refuseRevoked(dialect, webhook.made_by, endedMakerError) : []
        const subscription = now.subscription && JSON.stringify(now.subscription)
        const isElsewhere = change.allow_private !== undefined || change.subscription !== undefined
        const retries = resumes && hasFailures(webhook, yield* listLanes(id))
        yield* write(
          ...locked(id),
          // Deliverers change it with each progress, also with that of its lanes.
          ...dialect.expect(sql`(SELECT ${dialect.version} FROM webhook WHERE id = ${id}) = ${version}`),
          sql`UPDATE webhook SET paused = ${Number(now.paused)}, secrets = ${sealed(now).secrets},
            disabled = ${now.disabled?.reason}, disabled_code = ${now.disabled?.code},
            disabled_at = ${now.disabled?.at}, failing_since = ${now.failing_since}, last_error = ${now.last_error},
            last_error_code = ${now.last_error_code}, next_try_at = ${retries ? undefined : now.next_try_at},
            expires_at = ${now.expires_at}, allow_private = ${Number(now.allow_private)}, subscription = ${subscription},
            epoch = epoch + ${Number(retries || isElsewhere)} WHERE id = ${id}`,
          ...(retries ? [sql`UPDATE webhook_lane SET retry_at = 0 WHERE webhook = ${id}`] : []),
          ...living,
        )
        return true
      },

      rewind: (id, position, replayed) =>
        changes(
          ...locked(id),
          sql`DELETE FROM webhook_lane WHERE webhook = ${id} AND ${cursorNumber} >= ${cursorNumberOf(position)}`,
          sql`UPDATE webhook SET replayed = ${replayed}, position = ${position}, epoch = epoch + 1,
            next_try_at = NULL WHERE id = ${id} RETURNING id`,
        ),

      remove: id =>
        changes(
          ...locked(id),
          sql`DELETE FROM webhook_lane WHERE webhook = ${id}`,
          sql`DELETE FROM webhook_try WHERE webhook = ${id}`,
          // What it queued ends with its key, and counts for the key, as before.
          sql`UPDATE outbox SET made_by = ${makerOf(constantSql('outbox.made_by'))}
            WHERE made_by = ${`webhook:${id}`} AND ended_at IS NULL`,
          sql`DELETE FROM webhook WHERE id = ${id} RETURNING id`,
        ),

      listLanes,
    },
    modes: {
      list: 'plain',
      get: 'plain',
      listLanes: 'plain',
      add: 'news',
      change: 'news',
      rewind: 'news',
      remove: 'news',
    },
  }
}
