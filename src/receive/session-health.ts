/** The health of a session: a state machine over WeChat's answers to its polls (protocol notes 5.6). */

import type { Updates } from '../ilink/api.ts'
import { loginStatusOf, type Marks } from '../model/session.ts'

export interface SessionHealth {
  readonly sessionStatus: 'connected' | 'lapsed' | 'expired'
  /** Number of -14 answers in a row to the probes of an expired session. */
  readonly refusals: number
  /** Number of answers in a row with neither messages nor a cursor. */
  readonly bareAnswers: number
  /**
   * Whether WeChat has answered an idle poll with both `msgs` and a cursor. Only then does an answer without
   * them mean something.
   */
  readonly hasBeenWhole: boolean
}

/**
 * What a poll brought:
 * - refused: -14
 * - held: WeChat holds the poll, which it does not do with a token that it refuses
 * - whole: no messages, in an answer with `msgs` and a cursor
 * - alive: messages, or one of `msgs` and a cursor
 * - bare: success with neither
 */
export type PollOutcome = 'refused' | 'held' | 'whole' | 'alive' | 'bare'

/** Returns what an answer says about its session; undefined if no answer came. */
export function pollOutcomeOf({ form, messages }: Updates): PollOutcome | undefined {
  if (form === undefined || form === 'bare') return form
  return form === 'whole' && messages.length === 0 ? 'whole' : 'alive'
}

/**
 * This many bare answers in a row are a lapse. Only one report describes a lapse (protocol notes 5.6), so
 * the first message or cursor ends it.
 */
const lapsedAfter = 3
const retryWaitsMs = [5000, 30_000, 2 * 60_000, 10 * 60_000, 30 * 60_000] as const

/** Returns the wait before the next try after `times` refusals in a row, counted from 0. */
export const retryAfterMs = (times: number): number => retryWaitsMs[times] ?? retryWaitsMs[4]

/** Returns the health that is stored in a session's marks. */
export const sessionHealthOf = (bot: Marks): SessionHealth => ({
  sessionStatus: loginStatusOf(bot),
  refusals: 0,
  bareAnswers: 0,
  hasBeenWhole: bot.lapsed_at !== undefined || bot.idle_at !== undefined,
})

/** Returns the health after a poll. */
export function nextHealth(health: SessionHealth, heard: PollOutcome): SessionHealth {
  const { bareAnswers, refusals, sessionStatus, hasBeenWhole } = health
  switch (heard) {
    case 'refused':
      return {
        sessionStatus: 'expired',
        refusals: sessionStatus === 'expired' ? refusals + 1 : 0,
        bareAnswers: 0,
        hasBeenWhole,
      }
    case 'held':
      return sessionStatus === 'expired'
        ? { sessionStatus: 'connected', refusals: 0, bareAnswers, hasBeenWhole }
        : health
    case 'bare': {
      const isLapsed = sessionStatus === 'lapsed' || (hasBeenWhole && bareAnswers + 1 >= lapsedAfter)
      return {
        sessionStatus: isLapsed ? 'lapsed' : 'connected',
        refusals: 0,
        bareAnswers: bareAnswers + 1,
        hasBeenWhole,
      }
    }
    default: {
      // A lapse that ends with a message may not have been one: what bare answers mean is known only after an idle
      // poll was answered with both.
      const isKnown = heard === 'whole' || (hasBeenWhole && sessionStatus !== 'lapsed')
      return { sessionStatus: 'connected', refusals: 0, bareAnswers: 0, hasBeenWhole: isKnown }
    }
  }
}
