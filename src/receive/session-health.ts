/** The health of a session: a state machine over WeChat's answers to its polls (protocol notes 5.6). */

import type { Updates } from '../ilink/api.ts'
import { type Marks, standingOf } from '../model/session.ts'

export interface SessionHealth {
  readonly standing: 'connected' | 'lapsed' | 'expired'
  /** Number of -14 answers in a row to the probes of an expired session. */
  readonly refusals: number
  /** Number of answers in a row with neither messages nor a cursor. */
  readonly bare: number
  /**
   * Whether it has answered an idle poll with both `msgs` and a cursor. Only then does an answer without
   * them mean something.
   */
  readonly whole: boolean
}

/**
 * What a poll brought:
 * - refused: -14
 * - held: WeChat holds the poll, which it does not do with a token that it refuses
 * - whole: no messages, in an answer with `msgs` and a cursor
 * - alive: messages, or one of `msgs` and a cursor
 * - bare: success with neither
 */
export type Heard = 'refused' | 'held' | 'whole' | 'alive' | 'bare'

/** Returns what an answer says about its session; undefined if no answer came. */
export function heardIn({ form, messages }: Updates): Heard | undefined {
  if (form === undefined || form === 'bare') return form
  return form === 'whole' && messages.length === 0 ? 'whole' : 'alive'
}

/**
 * This many bare answers in a row are a lapse. Only one report describes a lapse (protocol notes 5.6), so
 * the first message or cursor ends it.
 */
const lapsedAfter = 3
const ladderMs = [5000, 30_000, 2 * 60_000, 10 * 60_000, 30 * 60_000] as const

/** Returns the wait before the next try after `times` refusals in a row, counted from 0. */
export const retryAfterMs = (times: number): number => ladderMs[times] ?? ladderMs[4]

/** Returns the health that is stored in a session's marks. */
export const healthOf = (bot: Marks): SessionHealth => ({
  standing: standingOf(bot),
  refusals: 0,
  bare: 0,
  whole: bot.lapsed_at !== undefined || bot.idle_at !== undefined,
})

/** Returns the health after a poll. */
export function healthAfter(health: SessionHealth, heard: Heard): SessionHealth {
  const { bare, refusals, standing, whole } = health
  switch (heard) {
    case 'refused':
      return { standing: 'expired', refusals: standing === 'expired' ? refusals + 1 : 0, bare: 0, whole }
    case 'held':
      return standing === 'expired' ? { standing: 'connected', refusals: 0, bare, whole } : health
    case 'bare': {
      const isLapsed = standing === 'lapsed' || (whole && bare + 1 >= lapsedAfter)
      return { standing: isLapsed ? 'lapsed' : 'connected', refusals: 0, bare: bare + 1, whole }
    }
    default: {
      // A lapse that a message ends may not have been one. Not known until an idle poll is answered with
      // both.
      const isKnown = heard === 'whole' || (whole && standing !== 'lapsed')
      return { standing: 'connected', refusals: 0, bare: 0, whole: isKnown }
    }
  }
}
