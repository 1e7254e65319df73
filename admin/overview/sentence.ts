/** The overall state in one sentence, and since when WeChat has not answered. */
import type { SessionWithUsers } from '../api.ts'
import { pollProblem } from '../errors.ts'
import { gap, t } from '../i18n.ts'
import { type Health, healthOf } from '../sessions/health.ts'
import { ago } from '../times.ts'
import type { Concern, Snapshot } from './concerns.ts'

const minuteMs = 60_000

export interface Judgement {
  tone: 'good' | 'calm' | 'warn' | 'bad'
  text: string
}

/** Returns the overall state in one sentence: the worst problem. */
export function sentenceOf(
  { status, sessions, conversations, now }: Snapshot,
  concerns: readonly Concern[],
): Judgement {
  if (concerns.some(({ kind }) => kind === 'store')) return { tone: 'bad', text: t('overview.says_store') }
  if (concerns.some(({ kind }) => kind === 'stalled'))
    return { tone: 'bad', text: t('overview.says_stalled') }
  const all = sessions.length
  if (all === 0)
    return { tone: 'calm', text: t(conversations.length > 0 ? 'overview.says_out' : 'overview.says_none') }
  const count = (...wanted: Health[]) =>
    sessions.filter(one => wanted.includes(healthOf(one, status, now))).length
  const bad = count('expired', 'damaged')
  if (bad > 0) return { tone: 'bad', text: t('overview.says_bad', { count: bad, all }) }
  const silent = count('silent')
  if (silent > 0) return { tone: 'warn', text: t('overview.silent', { count: silent }) }
  const lapsed = count('lapsed')
  if (lapsed > 0) return { tone: 'warn', text: t('overview.says_lapsed', { count: lapsed }) }
  const muted = sessions.filter(({ muted_since }) => muted_since !== undefined).length
  if (muted > 0) return { tone: 'warn', text: t('overview.says_muted', { count: muted }) }
  const pending = count('pending')
  if (pending > 0) return { tone: 'calm', text: t('overview.says_pending', { count: pending }) }
  const starting = count('starting')
  if (starting > 0) return { tone: 'calm', text: t('overview.says_starting', { count: starting }) }
  return { tone: 'good', text: t('overview.says_well', { count: all }) }
}

/** Since when WeChat has not answered these accounts, and why. */
export function silenceOf(sessions: readonly SessionWithUsers[], now: number): string {
  const problem = sessions.map(pollProblem).find(Boolean) ?? ''
  const since = Math.max(...sessions.map(({ last_poll_at = 0 }) => last_poll_at))
  const isKnown = since > 0
  // "Just now" beside "does not answer" would be confusing.
  const isOld = isKnown && now - since >= minuteMs
  const when = isOld ? t('overview.silent_since', { when: ago(since) }) : ''
  const always = isKnown || problem !== '' ? '' : t('overview.silent_always')
  return [when || always, problem].filter(Boolean).join(gap())
}
