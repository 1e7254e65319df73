/**
 * Webhook endpoints, and how much of the event log each has received.
 *
 * An endpoint has read the log up to its `position`. A conversation with undelivered events before that
 * position has a lane, which records how far delivery got. A conversation without a lane is complete. So the
 * stored data grows with the deliveries in progress, not with what waits.
 *
 * The rules for every method are in `store.ts`. A process that polls also delivers. An engine that lets several
 * processes poll at a time spreads the endpoints over them: only one delivers for an endpoint at a time. The epoch
 * rejects what a process that hung still wants to store.
 */
import type { Grant } from '../model/access.ts'
import type { WebhookEnding } from '../model/event.ts'
import type { MessageFilter } from '../model/occurrence.ts'
import type { WebhookDelivery, WebhookFailure } from '../model/webhook.ts'

/** A secret that signs deliveries. */
export interface WebhookSecret {
  /** `whsec_` and base64. */
  secret: string
  /** For a replaced secret: until when it still signs, in Unix ms. */
  until?: number
}

/** An endpoint to add. */
export interface NewWebhook {
  /** New; letters, digits and `_`. */
  id: string
  url: string
  /** Event types; empty: all. */
  types: readonly string[]
  /** Only events of this session, and of this user. The session follows a rename. */
  session?: string
  user?: string
  /** Sent with each delivery; the values are secret. */
  headers: Readonly<Record<string, string>>
  /** Newest first. */
  secrets: readonly WebhookSecret[]
  /** Signs the links in deliveries; never leaves svc. */
  link_key: string
  /** The URL may point to a private network, or to this machine. */
  allow_private: boolean
  /** Its answers may be sent to the user. */
  replies: boolean
  /** The principal that added it, as from `formatPrincipal`. Older versions stored none. */
  made_by?: string
  /** What its key may do: it gets only events in that scope. Absent for the owner. */
  grant?: Grant
  /** Unix ms. */
  created_at: number
  /** Cursor: events up to here are not delivered again. */
  position: string
  /**
   * Set for a subscription of MCP Events, whose deliveries have the form of that protocol: what it asks for. It has no
   * secrets after a person removed it: then its client cannot make it again before it would have ended.
   */
  subscription?: MessageFilter & {
    /** The certificates that the process which allowed its private address trusts there, PEM. */
    ca?: string | undefined
  }
  /** When a subscription ends, in Unix ms. */
  expires_at?: number
}

/** Whether events are delivered for a subscription. True for every other endpoint. @param now Unix ms */
export const isSubscribed = ({ subscription, secrets, expires_at = 0 }: NewWebhook, now: number): boolean =>
  subscription === undefined || (secrets.length > 0 && expires_at > now)

/** A stored endpoint. */
export interface Webhook extends NewWebhook {
  paused: boolean
  /** Why and when (Unix ms) svc disabled it. */
  disabled?: { reason: string; code?: WebhookEnding; at: number }
  /**
   * Changes when another process starts to deliver, the endpoint is resumed after failures or replayed, or a
   * session is renamed. The deliverer then reads the stored state again.
   */
  epoch: number
  /** Cursor: events up to here are repeated, since a replay was requested. */
  replayed?: string
  last_success_at?: number
  /** Since when no delivery succeeded, in Unix ms. */
  failing_since?: number
  /** From the newest failed try. */
  last_error?: string
  last_error_code?: WebhookFailure
  /** After a failure: when the next try is due at the latest, in Unix ms. */
  next_try_at?: number
  /** Number of tries so far, by outcome. */
  tries: Readonly<Record<TryOutcome, number>>
}

/** Health of an endpoint, from its newest tries. */
export type WebhookHealth = Pick<
  Webhook,
  'last_success_at' | 'failing_since' | 'last_error' | 'last_error_code' | 'next_try_at'
>

/**
 * done: answered with 2xx. failed: will be retried. gave_up: failed for the last time; its conversation
 * continues with the next event.
 */
export const tryOutcomes = ['done', 'failed', 'gave_up'] as const
export type TryOutcome = (typeof tryOutcomes)[number]

/** One try to deliver an event. */
export interface WebhookTry {
  /** Start of the try in Unix ms. */
  at: number
  event: string
  type: string
  outcome: TryOutcome
  /** HTTP status, if there was an answer. */
  status?: number
  took_ms: number
  /** Description of the error, for people. */
  detail?: string
  code?: WebhookDelivery['code']
  /** The beginning of the answer, as from `excerptOf`. */
  answer?: string | undefined
}

/**
 * A user of a session. `user` is '' for events of the session itself; both are '' for events of no session.
 */
export interface WebhookConversation {
  session: string
  user: string
}

/** A conversation with undelivered events before the endpoint's position. */
export interface WebhookLane extends WebhookConversation {
  /** Cursor: delivered up to here. */
  position: string
  /** The event that the lane is at, if its delivery failed. */
  trouble?: { event: string; tries: number; failed_at: number; retry_at: number }
}

/** Changes to an endpoint; the value undefined removes a field. */
export type WebhookChange = Partial<
  Pick<Webhook, 'paused' | 'disabled' | 'expires_at' | 'allow_private' | 'subscription' | keyof WebhookHealth>
> & {
  /** Retries what failed, as `paused: false` does. A paused endpoint stays so. */
  retries?: true
  /** A new secret. The newest previous secret signs as well until then (Unix ms); older ones are removed. */
  rotation?: { secret: string; until: number }
}

/** Whether a resume has something to retry now. If not, resuming leaves deliveries in progress alone. */
export const hasFailures = (webhook: Webhook, lanes: readonly WebhookLane[]): boolean =>
  webhook.disabled !== undefined ||
  webhook.failing_since !== undefined ||
  webhook.next_try_at !== undefined ||
  lanes.some(({ trouble }) => trouble !== undefined)

/** Returns the secrets after a rotation. */
export const rotateSecrets = (
  [newest]: readonly WebhookSecret[],
  { secret, until }: NonNullable<WebhookChange['rotation']>,
): WebhookSecret[] => [{ secret }, ...(newest ? [{ secret: newest.secret, until }] : [])]

/** Progress of an endpoint since it was last stored. */
export interface WebhookProgress {
  epoch: number
  /** Cursor: read up to here. */
  position: string
  /** Lanes that are new or have moved. */
  lanes: readonly WebhookLane[]
  /** Conversations that no longer have a lane. */
  ended: readonly WebhookConversation[]
  /** Oldest first. */
  tries: readonly WebhookTry[]
  health: WebhookHealth
}

/** The stored endpoints. */
export interface WebhookStore {
  /** Returns all endpoints, oldest first. */
  list(): Promise<Webhook[]>

  get(id: string): Promise<Webhook | undefined>

  /** @throws SvcError `unauthorized` if the key that adds it was revoked */
  add(webhook: NewWebhook): Promise<void>

  /**
   * Changes an endpoint. Another `allow_private` starts a new epoch. `paused: false` starts a new epoch if the endpoint is disabled or has failures: they
   * are retried immediately.
   *
   * @returns whether there is an endpoint with that id
   * @throws SvcError `forbidden` for `paused: false` if the key that added it was revoked
   */
  change(id: string, change: WebhookChange): Promise<boolean>

  /**
   * Sets the position, forward or back: everything after it is delivered again, as a replay up to `replayed`,
   * in a new epoch, and is tried immediately. Lanes at that position or beyond are removed. @returns whether
   * there is an endpoint with that id
   */
  rewind(id: string, position: string, replayed: string): Promise<boolean>

  /** Removes an endpoint with everything stored for it. @returns whether there was one */
  remove(id: string): Promise<boolean>

  readonly progress: WebhookProgressStore
}

/** Number of stored tries of an endpoint, by outcome; older ones are removed. */
export const maxTries: Readonly<Record<TryOutcome, number>> = { done: 100, failed: 200, gave_up: 1000 }

export interface WebhookProgressStore {
  /**
   * Records that this process delivers from now on, for the endpoints that it is to deliver for. Starts a new
   * epoch for each of them for which it did not deliver last: progress that another process has not stored is
   * rejected. All failed events are tried immediately.
   *
   * @param held endpoints for which this process still delivers. Without it, delivery starts. With it, only
   *   endpoints that this process did not deliver for are taken, and one in `held` is not given up yet: another
   *   process gets it after the next call without it. Call it again with every read of the endpoints
   * @returns ids of the endpoints that this process is to deliver for
   */
  takeOver(held?: ReadonlySet<string>): Promise<ReadonlySet<string>>

  listLanes(id: string): Promise<WebhookLane[]>

  /**
   * Stores the progress of an endpoint: sets position and lanes, adds the tries, and replaces the health
   * (except an absent `last_success_at`). Not durable: events may be delivered again.
   *
   * @returns false, and nothing is stored, if the epoch changed or the endpoint was removed
   */
  save(id: string, progress: WebhookProgress): Promise<boolean>

  /**
   * Adds and counts a manual try, from any process; nothing else changes. Not durable.
   *
   * @param epoch of the endpoint when the try began, if it was of an event: its user may have been erased since
   * @returns false, and nothing is stored, if the epoch changed or there is no endpoint
   */
  addTry(id: string, attempt: WebhookTry, epoch?: number): Promise<boolean>

  /** Returns the stored tries, newest first. Only those of one `event` have their answers. */
  listTries(id: string, limit: number, outcome?: TryOutcome, event?: string): Promise<WebhookTry[]>
}
