/** Rows of endpoints and their lanes, as an engine with tables stores them. */
import type { WebhookEnding } from '../model/event.ts'
import type { TryOutcome, Webhook, WebhookHealth, WebhookLane } from './webhooks.ts'

/** All fields of `trouble` are set if the lane is at a failed event; otherwise none. */
export type WebhookLaneRow = Omit<WebhookLane, 'user' | 'trouble'> &
  Partial<NonNullable<WebhookLane['trouble']>> & { peer: string }

export const laneOf = ({
  session,
  peer,
  position,
  event,
  tries = 0,
  failed_at = 0,
  retry_at = 0,
}: WebhookLaneRow) => ({
  session,
  user: peer,
  position,
  ...(event !== undefined && { trouble: { event, tries, failed_at, retry_at } }),
})

/** `types`, `headers`, `secrets`, `grant` and `subscription` are JSON. */
export type WebhookRow = Pick<
  Webhook,
  'id' | 'url' | 'session' | 'link_key' | 'created_at' | 'position' | 'epoch'
> &
  Pick<Webhook, 'made_by' | 'replayed' | 'expires_at'> &
  WebhookHealth &
  Record<'types' | 'headers' | 'secrets', string> &
  Record<'allow_private' | 'replies' | 'paused' | `tries_${TryOutcome}`, number> & {
    peer?: string
    grant?: string
    subscription?: string
    deliverer?: string
    disabled?: string
    disabled_code?: WebhookEnding
    disabled_at?: number
  }

export function webhookOf({
  peer,
  disabled,
  disabled_code: code,
  disabled_at = 0,
  ...row
}: WebhookRow): Webhook {
  const { deliverer: _, tries_done: done, tries_failed: failed, tries_gave_up: gave_up, ...rest } = row
  return {
    ...rest,
    user: peer,
    tries: { done, failed, gave_up },
    types: JSON.parse(row.types),
    headers: JSON.parse(row.headers),
    secrets: JSON.parse(row.secrets),
    allow_private: row.allow_private === 1,
    replies: row.replies === 1,
    paused: row.paused === 1,
    grant: row.grant === undefined ? undefined : JSON.parse(row.grant),
    subscription: row.subscription === undefined ? undefined : JSON.parse(row.subscription),
    ...(disabled !== undefined && { disabled: { reason: disabled, at: disabled_at, ...(code && { code }) } }),
  }
}
