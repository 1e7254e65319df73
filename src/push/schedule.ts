/**
 * The rules for retries and back-off of webhook endpoints, as pure functions without a clock.
 *
 * While no event of an endpoint succeeds, a failure counts for the endpoint. Once other events succeeded
 * after it, it counts for its event only. `now` is monotonic time in ms. Values that are stored across
 * restarts are in Unix ms.
 */
import type { WebhookLane } from '../storage/webhooks.ts'

/**
 * Back-off of an endpoint: while nothing succeeds, one event is tried after each delay. The last one
 * repeats.
 */
export const endpointDelaysMs = [5_000, 30_000, 2 * 60_000, 5 * 60_000, 15 * 60_000] as const
/** Retry delays for an event that fails while others succeed. */
export const eventDelaysMs = [5_000, 5 * 60_000, 30 * 60_000, 2 * 3_600_000, 5 * 3_600_000] as const
/** An endpoint is switched off after this time without a success. */
export const disableAfterMs = 5 * 24 * 3_600_000
/** Upper limit for `Retry-After`. */
const maxRetryAfterMs = 24 * 3_600_000
/** Number of simultaneous deliveries, each of another conversation: at the start, and the maximum. */
const initialConcurrency = 4
const maxConcurrency = 64
/**
 * A delivery that takes longer is slow: others may start beside it, so a slow conversation does not block
 * them.
 */
const slowAfterMs = 1000

/** State of an endpoint, from which its back-off and number of simultaneous deliveries follow. */
export interface EndpointState {
  /** Number of back-off steps since the last success. */
  readonly backoffSteps: number
  /** End of the current wait. It counts only while `isFailing`. */
  readonly until: number
  /** True if more than one delivery failed since the last success, or the receiver is overloaded. */
  readonly isFailing: boolean
  /** How many deliveries may run at a time. */
  readonly concurrency: number
}

/** State of an endpoint without a result. */
export const initialState: EndpointState = {
  backoffSteps: 0,
  until: 0,
  isFailing: false,
  concurrency: initialConcurrency,
}

/** A failed delivery attempt. */
export interface AttemptFailure {
  /** When the attempt started. */
  beganAt: number
  now: number
  /** The receiver is overloaded: 429, 502 or 504. */
  slow: boolean
  /** True if the event failed before. */
  isRepeat: boolean
  /** The receiver's `Retry-After`. */
  retryAfterMs?: number
}

/** Returns an endpoint's state after a success. */
export const withSuccess = ({ concurrency }: EndpointState): EndpointState => ({
  backoffSteps: 0,
  until: 0,
  isFailing: false,
  concurrency: Math.min(maxConcurrency, concurrency + 1),
})

/** Returns an endpoint's state after a failure. @param random 0 to 1, for the jitter */
export function withFailure(before: EndpointState, failure: AttemptFailure, random: number): EndpointState {
  const { isRepeat, beganAt, now, slow, retryAfterMs } = failure
  const width = slow ? Math.max(1, Math.floor(before.concurrency / 2)) : before.concurrency
  // A delivery that already ran when the wait began adds no step. A repeated event always adds one: its own
  // retry time has another jitter, so it may start a little before `until`.
  const isNewRound = before.backoffSteps === 0 || isRepeat || beganAt >= before.until
  const steps = isNewRound ? before.backoffSteps + 1 : before.backoffSteps
  const stepMs = endpointDelaysMs[Math.min(steps, endpointDelaysMs.length) - 1]!
  const until = isNewRound ? now + withJitter(stepMs, random) : before.until
  const retryAt = retryAfterMs === undefined ? 0 : now + Math.min(retryAfterMs, maxRetryAfterMs)
  const isNowFailing = before.isFailing || before.backoffSteps > 0 || slow || retryAfterMs !== undefined
  return {
    backoffSteps: steps,
    isFailing: isNowFailing,
    until: Math.max(until, retryAt),
    concurrency: isNowFailing ? Math.min(width, initialConcurrency) : width,
  }
}

/** Returns how many deliveries may run now. A failing endpoint has none during the wait, and one after it. */
export const concurrencyOf = ({ isFailing, until, concurrency }: EndpointState, now: number): number =>
  isFailing ? Number(now >= until) : concurrency

/**
 * Returns how many more deliveries may start now (`free`), and in how many ms that number may grow
 * (`moreInMs`). Each second, one slow delivery stops counting. Otherwise an endpoint that hangs would soon
 * have the maximum running, before svc knows that it hangs.
 *
 * @param began start times of the running deliveries, oldest first
 */
export function capacityOf(
  state: EndpointState,
  began: readonly number[],
  now: number,
): { free: number; moreInMs: number } {
  const slowAt = state.isFailing
    ? []
    : began.map((at, index) => Math.max(at, began[0]! + index * slowAfterMs) + slowAfterMs)
  const slow = slowAt.filter(at => at <= now).length
  return {
    free: Math.min(concurrencyOf(state, now) + slow, maxConcurrency) - began.length,
    moreInMs: (slowAt[slow] ?? Number.POSITIVE_INFINITY) - now,
  }
}

/**
 * Returns the retry state of an event after a failure; undefined if it has no more retries. Times are Unix
 * ms.
 *
 * @param isOwn whether a repeated failure counts for the event, and not for the endpoint
 */
export function nextRetryOf(
  before: WebhookLane['trouble'],
  { event, now, isOwn }: { event: string; now: number; isOwn: boolean },
  random: number,
): WebhookLane['trouble'] {
  const earlier = before?.event === event ? before.tries : 0
  const tries = earlier === 0 || isOwn ? earlier + 1 : earlier
  const stepMs = eventDelaysMs[tries - 1]
  if (stepMs === undefined) return undefined
  return { event, tries, failed_at: now, retry_at: now + withJitter(stepMs, random) }
}

/** Returns in how many ms an event is due. One that failed later than now is: the clock then was ahead. */
export const remainingWaitOf = (
  { failed_at, retry_at }: NonNullable<WebhookLane['trouble']>,
  now: number,
): number => (failed_at > now ? 0 : Math.max(0, retry_at - now))

/** Whether to switch an endpoint off. @param trusted whether the system clock is reliable */
export const mustDisable = (
  { backoffSteps }: EndpointState,
  { failing_since }: { failing_since?: number },
  now: number,
  trusted: boolean,
): boolean =>
  // All back-off steps happened since svc started: time in which svc did not run does not count.
  trusted &&
  backoffSteps >= endpointDelaysMs.length &&
  failing_since !== undefined &&
  now - failing_since >= disableAfterMs

/** Shortens a delay by up to 20 %. It is never longer, so svc tries again within the longest delay. */
const withJitter = (ms: number, random: number) => Math.round(ms * (0.8 + 0.2 * random))

/** Parses a Retry-After header (seconds or an HTTP date) to ms. @param now Unix ms */
export function retryAfterOf(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined
  if (/^\s*\d{1,9}\s*$/.test(header)) return Number(header) * 1000
  const at = Date.parse(header)
  return Number.isNaN(at) ? undefined : Math.max(0, at - now)
}

/** Meaning of an HTTP status. */
export interface StatusMeaning {
  /** Delivered: 2xx. */
  done: boolean
  /** The endpoint is to be switched off: 410. */
  gone: boolean
  /** The receiver is overloaded: 429, 502 or 504. */
  slow: boolean
  /** The receiver does not want this one delivery, and works: 410 or 413. Counts for subscriptions of MCP Events. */
  refused: boolean
}

export const meaningOf = (status: number): StatusMeaning => ({
  done: status >= 200 && status < 300,
  gone: status === 410,
  slow: status === 429 || status === 502 || status === 504,
  refused: status === 410 || status === 413,
})
