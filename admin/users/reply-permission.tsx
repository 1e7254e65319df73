/** Whether the person may answer a user: the reply window, the answers left, the state of the account. */
import { t } from '../i18n.ts'
import { conversationOf, conversations, sessions, userOf } from '../live.ts'
import { left, timeNow } from '../times.ts'

export type Right =
  /** `until` is undefined for a user who never wrote to this session. */
  | { kind: 'open'; answers: number; until: number | undefined }
  /** `unknown`: the user never wrote to this account, or was erased. */
  | { kind: 'closed' | 'used' | 'expired' | 'damaged' | 'gone' | 'unknown' }

const soonMs = 2 * 3_600_000
const fewAnswers = 2
/** The answers that each message of the user allows. */
export const allAnswers = 10

/**
 * Whether the person may answer a user. Components that call it follow the clock, the accounts and the
 * conversations.
 */
export function rightOf(session: string, userId: string): Right {
  const all = sessions.value
  const account = all?.find(({ name }) => name === session)
  if (all && !account) return { kind: 'gone' }
  if (account?.status === 'expired') return { kind: 'expired' }
  if (account?.status === 'disconnected') return { kind: 'damaged' }
  const user = userOf(session, userId) ?? conversationOf(session, userId)
  if (!user && conversations.value) return { kind: 'unknown' }
  const until = user?.window_expires_at
  if (until !== undefined && until <= timeNow()) return { kind: 'closed' }
  const answers = user?.remaining ?? allAnswers
  return answers <= 0 ? { kind: 'used' } : { kind: 'open', answers, until }
}

/** Whether little time or few answers are left, so that the list of conversations should show it. */
export const isShort = (right: Right): boolean =>
  right.kind === 'used' ||
  (right.kind === 'open' &&
    right.until !== undefined &&
    (right.until - timeNow() < soonMs || right.answers <= fewAnswers))

/** A badge with the time or the answers left; with `full` in words. */
export function RightBadge({ right, full }: { right: Right; full?: boolean }) {
  if (right.kind !== 'open') {
    const text = right.kind === 'used' ? t('right.used') : t('right.closed')
    return (
      <span
        class="badge right"
        title={t(right.kind === 'used' ? 'error.quota_exhausted' : 'right.closed_about')}
      >
        {text}
      </span>
    )
  }
  const { answers, until } = right
  if (until === undefined) return null
  const time = left(until - timeNow())
  const level = isShort(right) ? 'warn' : 'good'
  const words = t('right.open_about', { time, count: answers })
  return (
    <span class={`badge right ${level}`} title={words}>
      {full ? (
        <>
          {t('right.open', { time })}
          <i />
          {t('right.answers', { count: answers })}
        </>
      ) : (
        <>
          <span aria-hidden="true">
            {time.split(' ')[0]}
            <i />
            {answers}
          </span>
          <span class="visually-hidden">{words}</span>
        </>
      )}
    </span>
  )
}
