/** Turns what is stored about a person into the facts of a plan. */
import type { KnownUser } from '../model/session.ts'
import { untilSaid } from '../model/topic.ts'
import type { PersonTopics } from '../storage/topics.ts'
import { burstMs, type PlanFacts, quietUntil } from './plan.ts'

/** @param right absent: the account is not connected */
export function planFactsOf(
  { bulletins, isSending, notices, topics }: PersonTopics,
  right: Pick<KnownUser, 'remaining' | 'last_received'> | undefined,
  now: number,
): PlanFacts {
  const since = right?.last_received ?? 0
  const used = bulletins.filter(({ created_at }) => created_at >= since)
  return {
    now,
    remaining: right?.remaining ?? 0,
    used: used.reduce((sum, { answers }) => sum + answers, 0),
    isSending,
    isConnected: right !== undefined,
    bulletins: used
      .map(({ created_at, priority }) => ({ at: created_at, priority }))
      .filter(({ at }) => at > now - burstMs && at <= now),
    topics: topics.map(({ answers, digest, id, min_priority, missed, paused_until, quiet, time_zone }) => ({
      id,
      min_priority,
      digest,
      answers,
      ...heldUntil(quietUntil(quiet, minutesIn(time_zone, now), now), paused_until, now),
      missed: Object.keys(missed.more).length + Object.keys(missed.expired).length,
    })),
    notices: notices.map(
      ({ count, has_media, id, is_repeat, member, priority, received_at, reported, state }) => ({
        id,
        topic: member,
        priority,
        received_at,
        has_media,
        wasSent: state !== 'waiting',
        isRepeat: is_repeat,
        isFile: has_media && count === reported,
      }),
    ),
  }
}

/** Returns until when quiet hours or a pause hold a topic, whichever ends later. */
function heldUntil(quiet_until: number | undefined, paused_until = 0, now: number) {
  if (paused_until <= (quiet_until ?? now)) return { quiet_until }
  return { quiet_until: paused_until < untilSaid ? paused_until : Number.POSITIVE_INFINITY, isPaused: true }
}

/** Returns a time as `14:03`, in a zone. @param at Unix ms */
export const timeIn = (timeZone: string | undefined, at: number): string =>
  new Intl.DateTimeFormat('en-GB', {
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
    ...(timeZone !== undefined && { timeZone }),
  }).format(at)

/** Returns the minutes of the day in a zone. @param at Unix ms */
function minutesIn(timeZone: string | undefined, at: number): number {
  const [hours = 0, minutes = 0] = timeIn(timeZone, at).split(':').map(Number)
  return hours * 60 + minutes
}
