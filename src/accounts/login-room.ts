/** What another login finds: room for it, and the bots that are logged in already. */
import { SvcError } from '../model/error.ts'
import { fetchLimitVariable } from '../platform/process.ts'
import type { SessionRecord } from '../storage/state.ts'

/** What a process has room for: logins under way, and sessions with one. */
export interface Room {
  pending: number
  sessions: number
}

/**
 * @param pending logins under way
 * @throws SvcError `rate_limited` for too many logins, `forbidden` for too many sessions
 */
export function checkRoom(
  pending: number,
  name: string,
  records: readonly SessionRecord[],
  most: Room,
): void {
  if (pending >= most.pending) {
    throw new SvcError('rate_limited', `${pending} logins are under way, as many as there may be`, {
      hint: 'Finish one of them on the phone, or log it out. Then log in again.',
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

const tokensTold = 10

/** Bot tokens of the sessions but one: those of the newest. */
export function tokensOf(records: readonly SessionRecord[], except: string | undefined): string[] {
  const usable = ({ name, bot }: SessionRecord) =>
    bot && bot.expired_at === undefined && name !== except ? bot : []
  const bots = records.flatMap(usable).sort((a, b) => b.created_at - a.created_at)
  return bots.slice(0, tokensTold).map(bot => bot.token)
}
