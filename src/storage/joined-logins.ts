/** Logins by invitation: which session gets the credentials, and how such a login ends. */
import { type BotInfo, sessionKeyOf } from '../model/session.ts'
import type { Joining, JoinOutcome } from './invitations.ts'
import type { StoredLogin } from './logins.ts'
import type { SessionRecord } from './state.ts'

/**
 * Returns the session that gets the credentials of a login by invitation: the one that the person has already, else the one
 * that the login is for, or one with the next number if another person has that by now.
 */
function placeOf(
  { session }: StoredLogin,
  { user_id }: BotInfo,
  records: readonly SessionRecord[],
): { session: string; isKnown: boolean } {
  const known = records.find(({ bot }) => user_id !== undefined && bot?.user_id === user_id)
  if (known) return { session: known.name, isKnown: true }
  const taken = new Set(records.map(({ name }) => sessionKeyOf(name)))
  return { session: freeNameOf(session, taken), isKnown: false }
}

/** @throws Error for a login without an invitation */
export function joiningOf(
  login: StoredLogin,
  bot: BotInfo,
  records: readonly SessionRecord[],
  at: number,
): Joining {
  if (!login.invitation) throw new Error('not a login by invitation')
  return { ...placeOf(login, bot, records), bot, invitation: login.invitation.id, login: login.id, at }
}

/**
 * Returns a name that no session has, with a number if that is needed.
 *
 * @param taken keys of names, as from `sessionKeyOf`
 * @param first lowest number; absent: the name alone is tried first
 */
export function freeNameOf(name: string, taken: ReadonlySet<string>, first?: number): string {
  let nth = first ?? 1
  let free = first === undefined ? name : `${name}-${nth}`
  while (taken.has(sessionKeyOf(free))) free = `${name}-${++nth}`
  return free
}

/** Returns a confirmed login with what became of it. */
export const toJoined = (
  { bot_id, ...login }: StoredLogin,
  outcome: JoinOutcome,
  session: string,
): StoredLogin =>
  outcome === 'over'
    ? { ...login, status: 'expired', joined: { outcome } }
    : { ...login, ...(bot_id !== undefined && { bot_id }), joined: { outcome, session } }
