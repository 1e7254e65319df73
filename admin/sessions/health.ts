/** How an account is: the one judgement that every page shows. */
import type { SessionWithUsers, Status } from '../api.ts'
import { inLanguage, type TextKey } from '../i18n.ts'

/** The worst first. `silent`: connected, and WeChat has not answered for long, or polls fail. */
export const healths = ['damaged', 'expired', 'silent', 'lapsed', 'pending', 'well'] as const
export type Health = (typeof healths)[number]

/** A poll is answered within 40 s, whether there is something or not; some misses in a row are no news yet. */
export const silentMs = 3 * 60_000

/** @param now Unix ms; of what another process polls, only failures are known */
export function healthOf(session: SessionWithUsers, service: Status | undefined, now: number): Health {
  const { status, connected, failing_since, last_poll_at, created_at } = session
  if (status === 'expired') return 'expired'
  if (status === 'disconnected') return 'damaged'
  if (status === 'logging_in') return 'pending'
  if (status === 'lapsed') return 'lapsed'
  if (!connected) return 'well'
  if (failing_since !== undefined) return 'silent'
  if (service?.role !== 'poller' || now - service.started_at < silentMs) return 'well'
  return now - Math.max(last_poll_at ?? service.started_at, created_at ?? 0) > silentMs ? 'silent' : 'well'
}

interface Look {
  tone: 'good' | 'warn' | 'bad'
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
  well: { tone: 'good', text: 'session.connected' },
}

/** From here on they are lines, and can be filtered. */
export const manyFrom = 9

/** Those in trouble first, then the default one, then by name. */
export function byTrouble(service: Status | undefined, now: number) {
  const byName = inLanguage(Intl.Collator, { numeric: true })
  const rank = (session: SessionWithUsers) => healths.indexOf(healthOf(session, service, now))
  return (one: SessionWithUsers, other: SessionWithUsers): number =>
    rank(one) - rank(other) ||
    Number(other.is_default) - Number(one.is_default) ||
    byName.compare(one.name, other.name)
}
