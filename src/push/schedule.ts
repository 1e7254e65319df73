/**
 * When an endpoint is tried: rules as functions of what is known, without a clock of their own.
 *
 * A failure is the endpoint's while nothing of it succeeds, and the event's alone once others succeeded after it. `now` is
 * the monotonic time in ms; what is kept across restarts goes by Unix ms.
 */
import type { WebhookLane } from '../storage/webhooks.ts'

/** While nothing of an endpoint succeeds, one event is tried after each of these; the last one recurs. */
export const probeLadderMs = [5_000, 30_000, 2 * 60_000, 5 * 60_000, 15 * 60_000] as const
/** An event that fails while others succeed is tried again after each of these. */
export const eventLadderMs = [5_000, 5 * 60_000, 30 * 60_000, 2 * 3_600_000, 5 * 3_600_000] as const
/** Without a success for so long an endpoint is switched off. */
export const switchOffMs = 5 * 24 * 3_600_000
/** What Retry-After may ask for at most. */
const longestRetryMs = 24 * 3_600_000
/** Events under way at a time, of different conversations: at first, and at most. */
const firstWidth = 4
const fullWidth = 64
/** What is under way for longer leaves its place to others: nobody waits for what one conversation is slow at. */
const slowMs = 1000

/** How an endpoint does. */
export interface Pulse {
  /** Waits of the ladder since the last success. */
  readonly rounds: number
  /** Nothing is tried before, once `failing`. */
  readonly until: number
  /** More than one event failed since the last success, or it asked to be left alone. */
  readonly failing: boolean
  /** How many events may be under way. */
  readonly width: number
}

export const freshPulse: Pulse = { rounds: 0, until: 0, failing: false, width: firstWidth }

export interface Failure {
  /** When the try began. */
  beganAt: number
  now: number
  /** It says that it cannot keep up: 429, 502, 504. */
  slow: boolean
  /** The event has failed before. */
  again: boolean
  /** As it asked for. */
  retryAfterMs?: number
}

export const afterSuccess = ({ width }: Pulse): Pulse => ({
  ...{ rounds: 0, until: 0, failing: false, width: Math.min(fullWidth, width + 1) },
})

/** @param random 0 to 1 */
export function afterTrouble(before: Pulse, failure: Failure, random: number): Pulse {
  const { again, beganAt, now, slow, retryAfterMs } = failure
  const width = slow ? Math.max(1, Math.floor(before.width / 2)) : before.width
  // What was under way when the wait began says nothing new. The event that began it may come a moment before its end.
  const isNewRound = before.rounds === 0 || again || beganAt >= before.until
  const rounds = isNewRound ? before.rounds + 1 : before.rounds
  const stepMs = probeLadderMs[Math.min(rounds, probeLadderMs.length) - 1]!
  const until = isNewRound ? now + jittered(stepMs, random) : before.until
  const asked = retryAfterMs === undefined ? 0 : now + Math.min(retryAfterMs, longestRetryMs)
  const failing = before.failing || before.rounds > 0 || slow || retryAfterMs !== undefined
  return {
    ...{ rounds, failing },
    until: Math.max(until, asked),
    width: failing ? Math.min(width, firstWidth) : width,
  }
}

/** How many events may be under way now: one while it fails, and none until the wait is over. */
export const slotsOf = ({ failing, until, width }: Pulse, now: number): number =>
  failing ? Number(now >= until) : width

/**
 * What may be begun beside what is under way, and in how many ms that may be more. Of what is slow one more leaves its place
 * each second: an endpoint that hangs would have all under way otherwise, long before that is known.
 *
 * @param began when each that is under way began, oldest first
 */
export function roomOf(
  pulse: Pulse,
  began: readonly number[],
  now: number,
): { room: number; moreInMs: number } {
  const leaving = pulse.failing ? [] : began.map((at, nth) => Math.max(at, began[0]! + nth * slowMs) + slowMs)
  const slow = leaving.filter(at => at <= now).length
  return {
    room: Math.min(slotsOf(pulse, now) + slow, fullWidth) - began.length,
    moreInMs: (leaving[slow] ?? Number.POSITIVE_INFINITY) - now,
  }
}

/** @returns undefined when it failed for the last time; all times in Unix ms */
export function eventTrouble(
  before: WebhookLane['trouble'],
  { event, now, othersSucceeded }: { event: string; now: number; othersSucceeded: boolean },
  random: number,
): WebhookLane['trouble'] {
  const past = before?.event === event ? before.tries : 0
  const tries = past === 0 || othersSucceeded ? past + 1 : past
  const stepMs = eventLadderMs[tries - 1]
  if (stepMs === undefined) return undefined
  return { event, tries, failed_at: now, retry_at: now + jittered(stepMs, random) }
}

/** How long an event has to wait yet; a clock that was set back makes it no longer than the longest step. */
export const dueInMs = ({ retry_at, tries }: NonNullable<WebhookLane['trouble']>, now: number): number =>
  Math.min(Math.max(0, retry_at - now), eventLadderMs[tries - 1] ?? 0)

/** Whether an endpoint is to be switched off. @param trusted whether the clock may decide it */
export const isGivenUp = (
  { rounds }: Pulse,
  { failing_since }: { failing_since?: number },
  now: number,
  trusted: boolean,
): boolean =>
  // It had its chances since svc runs: a day on which svc was off is none.
  trusted &&
  rounds >= probeLadderMs.length &&
  failing_since !== undefined &&
  now - failing_since >= switchOffMs

/** Never later than told, so that a receiver is served within the longest step of its return. */
const jittered = (ms: number, random: number) => Math.round(ms * (0.8 + 0.2 * random))

/** What a Retry-After header says in ms: seconds or an HTTP date. @param now Unix ms */
export function retryAfterOf(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined
  if (/^\s*\d{1,9}\s*$/.test(header)) return Number(header) * 1000
  const at = Date.parse(header)
  return Number.isNaN(at) ? undefined : Math.max(0, at - now)
}

/** What an answer means. */
export interface Verdict {
  done: boolean
  /** Switched off. */
  gone: boolean
  slow: boolean
}

export const verdictOf = (status: number): Verdict => ({
  done: status >= 200 && status < 300,
  gone: status === 410,
  slow: status === 429 || status === 502 || status === 504,
})
