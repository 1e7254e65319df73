/** Checks before a new login: is there capacity for it, and which bots are logged in already. */
import { SvcError } from '../model/error.ts'
import { networkOf } from '../platform/address.ts'
import { formatCount } from '../platform/format.ts'
import { fetchLimitVariable } from '../platform/process.ts'
import type { StoredLogin } from '../storage/logins.ts'
import type { SessionRecord } from '../storage/state.ts'

/** Capacity of a process: logins in progress, and sessions with a login. */
export interface LoginCapacity {
  pending: number
  sessions: number
}

/**
 * Checks that another login fits.
 *
 * @param pending number of logins in progress; `own`: of the key and those that share its bounds, which have half of the
 *   places at most
 * @throws SvcError `rate_limited` for too many logins, `forbidden` for too many sessions
 */
export function checkCapacity(
  pending: { all: number; own: number },
  name: string,
  records: readonly SessionRecord[],
  most: LoginCapacity,
): void {
  if (pending.all >= most.pending || pending.own >= Math.ceil(most.pending / 2))
    throw tooManyLoginsError(pending.own > 0 ? pending.own : pending.all)
  if (records.length + pending.all < most.sessions) return
  const others = records.filter(record => record.bot && record.name !== name).length
  if (others + pending.all >= most.sessions) {
    throw new SvcError('forbidden', `this process can poll ${most.sessions} sessions at a time`, {
      hint: `Start svc again with ${fetchLimitVariable}=60000 in its environment.`,
    })
  }
}

/** Codes of one invitation that an address may have open. Many people may share one. */
const maxCodesOfAddress = 50

/**
 * Checks that another login by invitation fits: they have half of the places, and a quarter stays free for others. One
 * invitation has half of that half, so that nobody who has its link can keep the guests of the others waiting.
 *
 * @param by the invitation, and the address of its visitor, if that is known
 */
export function checkInvitedShare(
  logins: readonly Pick<StoredLogin, 'invitation'>[],
  by: Pick<NonNullable<StoredLogin['invitation']>, 'id' | 'address'>,
  { pending }: Pick<LoginCapacity, 'pending'>,
): void {
  const invited = logins.flatMap(({ invitation }) => invitation ?? [])
  const own = invited.filter(({ id }) => id === by.id)
  const network = by.address !== undefined && networkOf(by.address)
  const near = own.filter(({ address }) => address !== undefined && networkOf(address) === network)
  const isFull = invited.length >= Math.ceil(pending / 2) || logins.length >= Math.ceil((pending * 3) / 4)
  if (isFull || own.length >= Math.ceil(pending / 4) || near.length >= maxCodesOfAddress)
    throw tooManyLoginsError(invited.length)
}

const tooManyLoginsError = (count: number) =>
  new SvcError('rate_limited', `${formatCount(count, 'login')} in progress, which is the maximum`, {
    hint: 'Finish one of them on the phone, or log its session out. Then log in again.',
    retryAfter: 60,
  })

const maxTokensSent = 10

/** Returns the bot tokens of the newest sessions, except those of one session. */
export function newestTokensOf(records: readonly SessionRecord[], except: string | undefined): string[] {
  const usable = ({ name, bot }: SessionRecord) =>
    bot && bot.expired_at === undefined && name !== except ? bot : []
  const bots = records.flatMap(usable).sort((a, b) => b.created_at - a.created_at)
  return bots.slice(0, maxTokensSent).map(bot => bot.token)
}
