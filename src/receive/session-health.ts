/** How a session is, by what WeChat answers to its polls alone: which state follows which (protocol notes 5.6). */

import type { Updates } from '../ilink/api.ts'
import { type Marks, standingOf } from '../model/session.ts'

export interface SessionHealth {
  readonly standing: 'connected' | 'lapsed' | 'expired'
  /** -14 in a row, to the probes of an expired session. */
  readonly refusals: number
  /** Answers in a row with neither messages nor a cursor. */
  readonly bare: number
  /** It has answered an idle poll with both: only then does an answer without them say something. */
  readonly whole: boolean
}

/**
 * What a poll brought:
 * - refused: -14
 * - held: WeChat lets it wait, which it does not with a token that it refuses
 * - whole: no messages, in an answer with `msgs` and a cursor
 * - alive: messages, or one of the two
 * - bare: success with neither
 */
export type Heard = 'refused' | 'held' | 'whole' | 'alive' | 'bare'

/** What an answer says of its session; undefined where none came. */
export function heardIn({ form, messages }: Updates): Heard | undefined {
  if (form === undefined || form === 'bare') return form
  return form === 'whole' && messages.length === 0 ? 'whole' : 'alive'
}

/**
 * So many bare answers in a row are a lapse. A lapse is known from a single report alone (protocol notes 5.6), so the first
 * message or cursor ends it.
 */
const lapsedAfter = 3
const ladderMs = [5000, 30_000, 2 * 60_000, 10 * 60_000, 30 * 60_000] as const

/** Wait before the next try of what WeChat has refused `times` times in a row, counted from 0. */
export const retryAfterMs = (times: number): number => ladderMs[times] ?? ladderMs[4]

/** As a session is found on disk. */
export const healthOf = (bot: Marks): SessionHealth => ({
  standing: standingOf(bot),
  ...{ refusals: 0, bare: 0, whole: bot.lapsed_at !== undefined || bot.idle_at !== undefined },
})

/** What the session is after that. */
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
      // A lapse that ends with a message may have been none: until it answers an idle poll with both, nothing is known.
      const isKnown = heard === 'whole' || (whole && standing !== 'lapsed')
      return { standing: 'connected', refusals: 0, bare: 0, whole: isKnown }
    }
  }
}
