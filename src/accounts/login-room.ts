/** Checks before a new login: is there capacity for it, and which bots are logged in already. */
import { SvcError } from '../model/error.ts'
import { fetchLimitVariable } from '../platform/process.ts'
import type { SessionRecord } from '../storage/state.ts'

/** Capacity of a process: logins in progress, and sessions with a login. */
export interface LoginCapacity {
  pending: number
  sessions: number
}

/**
 * Checks that another login fits.
 *
 * @param pending number of logins in progress
 * @throws SvcError `rate_limited` for too many logins, `forbidden` for too many sessions
 */
export function checkCapacity(
  pending: number,
  name: string,
  records: readonly SessionRecord[],
  most: LoginCapacity,
): void {
  if (pending >= most.pending) {
    throw new SvcError('rate_limited', `${pending} logins are in progress, which is the maximum`, {
      hint: 'Finish one of them on the phone, or log its session out. Then log in again.',
      retryAfter: 60,
    })
  }
  if (records.length + pending < most.sessions) return
  const others = records.filter(record => record.bot && record.name !== name).length
  if (others + pending >= most.sessions) {
    throw new SvcError('forbidden', `this process can poll ${most.sessions} sessions at a time`, {
      hint: `Start svc again with ${fetchLimitVariable}=60000 in its environment.`,
    })
  }
}

const maxTokensSent = 10

/** Returns the bot tokens of the newest sessions, except those of one session. */
export function newestTokensOf(records: readonly SessionRecord[], except: string | undefined): string[] {
  const usable = ({ name, bot }: SessionRecord) =>
    bot && bot.expired_at === undefined && name !== except ? bot : []
  const bots = records.flatMap(usable).sort((a, b) => b.created_at - a.created_at)
  return bots.slice(0, maxTokensSent).map(bot => bot.token)
}
