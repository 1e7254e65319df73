/**
 * Webhook endpoints, and how far each has come in the event log.
 *
 * An endpoint has read the log up to its `position`. A conversation that is not done up to there has a lane, which says how
 * far it is; what has no lane is done. So what is kept grows with what is under way, not with what waits.
 *
 * What is true of every verb stands in `store.ts`. The process that polls delivers. Nothing here keeps two processes apart but
 * the epoch: an engine that lets several poll at a time has to add who delivers which endpoint.
 */
import type { WebhookEnding } from '../model/event.ts'
import type { WebhookDelivery, WebhookFailure } from '../model/webhook.ts'

/** A secret that deliveries are signed with. */
export interface WebhookSecret {
  /** `whsec_` and base64. */
  secret: string
  /** Unix ms: of one that was replaced, until when it still signs. */
  until?: number
}

/** What somebody asked for. */
export interface NewWebhook {
  /** New; letters, digits and `_`. */
  id: string
  url: string
  /** Of events; empty: all. */
  types: readonly string[]
  /** Only events of this session, and of this user; the session follows a rename. */
  session?: string
  user?: string
  /** Sent along; the values are secret. */
  headers: Readonly<Record<string, string>>
  /** The newest first. */
  secrets: readonly WebhookSecret[]
  /** What links in deliveries are signed with; never leaves. */
  link_key: string
  /** May lie in a private network, or on this machine. */
  allow_private: boolean
  /** Its answers may be sent to the user. */
  replies: boolean
  /** Unix ms. */
  created_at: number
  /** Cursor: everything in the event log up to here is behind it. */
  position: string
}

/** An endpoint as it is. */
export interface Webhook extends NewWebhook {
  paused: boolean
  /** Why it was switched off, and when (Unix ms). */
  disabled?: { reason: string; code?: WebhookEnding; at: number }
  /**
   * Changes when another process delivers, it is resumed after failures or replayed, or a session is renamed: what is kept is read again.
   */
  epoch: number
  /** Cursor: up to here events come again, since somebody asked for it. */
  replayed?: string
  last_success_at?: number
  /** Unix ms: since when nothing of it succeeded. */
  failing_since?: number
  /** Of the newest try that failed. */
  last_error?: string
  last_error_code?: WebhookFailure
  /** Unix ms: after a failure, when the next try is due at the latest. */
  next_try_at?: number
  /** Tries so far, by outcome. */
  tries: Readonly<Record<TryOutcome, number>>
}

/** How an endpoint does, by its newest tries. */
export type WebhookHealth = Pick<
  Webhook,
  'last_success_at' | 'failing_since' | 'last_error' | 'last_error_code' | 'next_try_at'
>

/** done: answered with 2xx; failed: comes again; gave_up: failed for the last time, its conversation goes on. */
export const tryOutcomes = ['done', 'failed', 'gave_up'] as const
export type TryOutcome = (typeof tryOutcomes)[number]

/** One try to deliver an event. */
export interface WebhookTry {
  /** Unix ms of its beginning. */
  at: number
  event: string
  type: string
  outcome: TryOutcome
  /** HTTP status, where there was an answer. */
  status?: number
  took_ms: number
  /** What went wrong, for people. */
  detail?: string
  code?: WebhookDelivery['code']
}

/** The user of a session, '' for what happens to a session itself; both are '' for what concerns none. */
export interface Conversation {
  session: string
  user: string
}

/** A conversation that is not done up to the endpoint's position. */
export interface WebhookLane extends Conversation {
  /** Cursor: done up to here. */
  position: string
  /** The event it stands at, which failed. */
  trouble?: { event: string; tries: number; failed_at: number; retry_at: number }
}

/** What of an endpoint can be changed; undefined as a value takes it away. */
export type WebhookChange = Partial<Pick<Webhook, 'paused' | 'disabled' | keyof WebhookHealth>> & {
  /** A new secret; the newest of before signs as well until then (Unix ms), and no older one. */
  rotation?: { secret: string; until: number }
}

/** Whether a resume has something to try at once: without, it leaves alone what is under way. */
export const isTroubled = (webhook: Webhook, lanes: readonly WebhookLane[]): boolean =>
  webhook.disabled !== undefined ||
  webhook.failing_since !== undefined ||
  webhook.next_try_at !== undefined ||
  lanes.some(({ trouble }) => trouble !== undefined)

/** The secrets after a rotation. */
export const rotated = (
  [newest]: readonly WebhookSecret[],
  { secret, until }: NonNullable<WebhookChange['rotation']>,
): WebhookSecret[] => [{ secret }, ...(newest ? [{ secret: newest.secret, until }] : [])]

/** What became of an endpoint since it was told of last. */
export interface WebhookProgress {
  epoch: number
  /** Cursor: it has read up to here. */
  position: string
  /** Lanes that are new or have moved. */
  lanes: readonly WebhookLane[]
  /** Conversations that have no lane any more. */
  ended: readonly Conversation[]
  /** Oldest first. */
  tries: readonly WebhookTry[]
  health: WebhookHealth
}

/** Endpoints. */
export interface Webhooks {
  /** All of them, oldest first. */
  list(): Promise<Webhook[]>

  get(id: string): Promise<Webhook | undefined>

  add(webhook: NewWebhook): Promise<void>

  /**
   * `paused: false` begins a new epoch of an endpoint that is switched off or has failures: they are tried at once.
   *
   * @returns whether there is one of that id
   */
  change(id: string, change: WebhookChange): Promise<boolean>

  /**
   * Sets the position, whichever way that moves it: everything after it comes again, as a replay up to `replayed`, in a new
   * epoch, and is tried at once. Lanes at it or beyond go. @returns as `change`
   */
  rewind(id: string, position: string, replayed: string): Promise<boolean>

  /** With all that is kept of it. @returns whether there was one */
  remove(id: string): Promise<boolean>

  readonly progress: WebhookProgresses
}

/** Tries kept of an endpoint, by outcome: the newest. */
export const triesKept: Readonly<Record<TryOutcome, number>> = { done: 100, failed: 200, gave_up: 1000 }

export interface WebhookProgresses {
  /**
   * This process delivers from now on. Another epoch of each endpoint for which another process delivered last: what that one
   * did not keep yet is not kept any more. All are tried at once.
   */
  takeOver(): Promise<void>

  lanes(id: string): Promise<WebhookLane[]>

  /**
   * Keeps what became of an endpoint: position and lanes as given, tries added, `health` in place of what stood there (but for a
   * `last_success_at` that is absent). Not durable: events may come again.
   *
   * @returns false, and nothing is kept, where it is another epoch's, or the endpoint was removed
   */
  keep(id: string, progress: WebhookProgress): Promise<boolean>

  /** Adds and counts a try by hand, whoever delivers; nothing else changes. Not durable. @returns whether there is an endpoint */
  tried(id: string, one: WebhookTry): Promise<boolean>

  /** Tries that are kept, the one that was kept last first. */
  tries(id: string, limit: number, outcome?: TryOutcome): Promise<WebhookTry[]>
}
