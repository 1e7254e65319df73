/** How an account is: the one judgement that every page shows. */
import type { Session, SessionWithUsers, Status } from '../api.ts'
import { inLanguage, type TextKey } from '../i18n.ts'
import { movedAt } from '../times.ts'

/**
 * The worst first. `silent`: connected, and WeChat has not answered for long, or polls fail. `starting`: it has not
 * answered since this process began to poll, which is no news yet.
 */
const healths = ['damaged', 'expired', 'silent', 'lapsed', 'pending', 'starting', 'well'] as const
export type Health = (typeof healths)[number]

/** A poll is answered within 40 s, whether there is something or not; some misses in a row are no news yet. */
const silentMs = 3 * 60_000
/** After the clock was set, or a sleep, a poll that was answered since is known by then. */
const catchUpMs = 60_000

/**
 * When WeChat answered last: a poll, or the login just now. Unix ms, as `now`; undefined where this process does not know,
 * and of an account that is not connected: it hears of nothing but that.
 */
export const heardAt = (
  { connected, last_poll_at, created_at = 0 }: Session,
  now: number,
): number | undefined =>
  connected ? (last_poll_at ?? (now - created_at < silentMs ? created_at : undefined)) : undefined

/** @param now Unix ms; of what another process polls, only failures are known */
export function healthOf(session: SessionWithUsers, service: Status | undefined, now: number): Health {
  const { status, connected, failing_since } = session
  if (status === 'expired') return 'expired'
  if (status === 'disconnected') return 'damaged'
  if (status === 'logging_in') return 'pending'
  if (status === 'lapsed') return 'lapsed'
  if (!connected) return 'well'
  if (failing_since !== undefined) return 'silent'
  if (service?.polls_since === undefined) return 'well'
  const heard = heardAt(session, now)
  const isLate = now - Math.max(heard ?? 0, service.polls_since) > silentMs
  if (isLate && now - movedAt > catchUpMs) return 'silent'
  return heard === undefined ? 'starting' : 'well'
}

interface Look {
  tone: '' | 'good' | 'warn' | 'bad'
  text: TextKey
  /** What to say beside the account. */
  trouble?: TextKey
  /** Whether a new login helps. */
  login?: true
}

export const looks: Readonly<Record<Health, Look>> = {
  expired: { tone: 'bad', text: 'session.expired', trouble: 'sessions.is_expired', login: true },
  damaged: { tone: 'bad', text: 'session.disconnected', trouble: 'sessions.is_damaged', login: true },
  silent: { tone: 'warn', text: 'overview.state_silent', trouble: 'sessions.is_silent' },
  lapsed: { tone: 'warn', text: 'session.lapsed', trouble: 'sessions.is_lapsed', login: true },
  pending: { tone: 'warn', text: 'session.logging_in', trouble: 'sessions.is_logging_in', login: true },
  starting: { tone: '', text: 'session.starting' },
  well: { tone: 'good', text: 'session.connected' },
}

/** From here on they are lines, and can be filtered. */
export const manyFrom = 9

/** Those in trouble first, then the default one, then by name. */
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
