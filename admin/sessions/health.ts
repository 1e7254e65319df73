/** The health of an account, the same on every page. */
import type { Session, SessionWithUsers, Status } from '../api.ts'
import { inLanguage, type TextKey } from '../i18n.ts'
import { movedAt } from '../times.ts'
import type { Look } from '../ui/marks.tsx'

/**
 * The worst first. `silent`: connected, but WeChat has not answered for long, or polls fail. `starting`:
 * WeChat has not answered since this process began to poll, which is normal at first.
 */
const healths = ['damaged', 'expired', 'silent', 'lapsed', 'pending', 'starting', 'well'] as const
export type Health = (typeof healths)[number]

/** WeChat answers a poll within 40 s, with or without messages. A few missed polls are normal. */
const silentMs = 3 * 60_000
/** After the clock was set, or after a sleep, a new poll has been answered within this time. */
const catchUpMs = 60_000

/**
 * When WeChat last answered: a poll, or a recent login. Unix ms, like `now`. Undefined if this process does
 * not know, or if the account is not connected.
 */
export const lastContactOf = (
  { connected, last_poll_at, created_at = 0 }: Session,
  now: number,
): number | undefined =>
  connected ? (last_poll_at ?? (now - created_at < silentMs ? created_at : undefined)) : undefined

/** If another process polls, only failures are known. @param now Unix ms */
export function healthOf(session: SessionWithUsers, service: Status | undefined, now: number): Health {
  const { status, connected, failing_since } = session
  if (status === 'expired') return 'expired'
  if (status === 'disconnected') return 'damaged'
  if (status === 'logging_in') return 'pending'
  if (status === 'lapsed') return 'lapsed'
  if (!connected) return 'well'
  if (failing_since !== undefined) return 'silent'
  if (service?.polls_since === undefined) return 'well'
  const lastContact = lastContactOf(session, now)
  const isLate = now - Math.max(lastContact ?? 0, service.polls_since) > silentMs
  if (isLate && now - movedAt > catchUpMs) return 'silent'
  return lastContact === undefined ? 'starting' : 'well'
}

interface HealthLook extends Look {
  /** The problem, in words. */
  trouble?: TextKey
  /** Whether a new login helps. */
  login?: true
}

export const looks: Readonly<Record<Health, HealthLook>> = {
  expired: { tone: 'bad', text: 'session.expired', trouble: 'sessions.is_expired', login: true },
  damaged: { tone: 'bad', text: 'session.disconnected', trouble: 'sessions.is_damaged', login: true },
  silent: { tone: 'warn', text: 'overview.state_silent', trouble: 'sessions.is_silent' },
  lapsed: { tone: 'warn', text: 'session.lapsed', trouble: 'sessions.is_lapsed', login: true },
  pending: { tone: 'warn', text: 'session.logging_in', trouble: 'sessions.is_logging_in', login: true },
  starting: { tone: '', text: 'session.starting' },
  well: { tone: 'good', text: 'session.connected' },
}

/** From this number of accounts on, they are a table with a filter. */
export const manyFrom = 9

/** Sorts accounts: problems first, then the default one, then by name. */
export function byTrouble(service: Status | undefined, now: number) {
  const byName = inLanguage(Intl.Collator, { numeric: true })
  const rank = (session: SessionWithUsers) => {
    const health = healthOf(session, service, now)
    return healths.indexOf(looks[health].trouble ? health : 'well')
  }
  return (one: SessionWithUsers, other: SessionWithUsers): number =>
    rank(one) - rank(other) ||
    Number(other.is_default) - Number(one.is_default) ||
    byName.compare(one.name, other.name)
}
