/** The delivery state of a sent message. There is no read state: WeChat does not report it. */
import type { Message } from '../api.ts'
import { ownWords, whyOf } from '../errors.ts'
import { isEnglish, type TextKey, t } from '../i18n.ts'
import { beginNow, loginPath } from '../sessions/names.ts'
import { asksFirst } from '../talks.ts'
import { Icon, type IconName } from '../ui/icon.tsx'
import { Link } from '../ui/link.tsx'

type SentStatus = NonNullable<Message['status']>

const states: Readonly<Record<SentStatus, { icon: IconName; text: TextKey; about: TextKey }>> = {
  queued: { icon: 'clock', text: 'delivery.queued', about: 'delivery.queued_about' },
  sending: { icon: 'up', text: 'delivery.sending', about: 'delivery.sending_about' },
  accepted: { icon: 'check', text: 'delivery.accepted', about: 'delivery.accepted_about' },
  suspect: { icon: 'question', text: 'delivery.suspect', about: 'delivery.suspect_about' },
  refused: { icon: 'warn', text: 'delivery.refused', about: 'delivery.refused_about' },
  unknown: { icon: 'question', text: 'delivery.unknown', about: 'delivery.unknown_about' },
}

/** The state as an icon, with a tooltip and a text for screen readers. */
export function Delivery({ status, size = 14 }: { status: SentStatus; size?: number }) {
  const { icon, text, about } = states[status]
  return (
    <span class={`delivery ${status}`} title={t(about)}>
      <Icon name={icon} size={size} />
      <span class="visually-hidden">{t(text)}</span>
    </span>
  )
}

/** Whether the message was cancelled or declined before it was sent. A cancelled message is no failure. */
export const isCancelled = ({ status, reason, reason_code = reason }: Message): boolean =>
  status === 'refused' && (reason_code === 'cancelled' || reason_code === 'declined')

/** Reasons of which the message field says what helps. */
export const closed: Readonly<Record<string, TextKey>> = {
  window_closed: 'delivery.closed',
  quota_exhausted: 'delivery.used',
}

const refusals: Readonly<Record<string, TextKey>> = {
  invalid_arguments: 'delivery.nobody',
  rate_limited: 'delivery.limited',
  upstream_error: 'delivery.upstream',
  ...closed,
}

/** The note below a message whose state needs attention; '' for others. */
export function deliveryNote(message: Message): string {
  const { status, reason, reason_code: code = '' } = message
  if (isCancelled(message))
    return t(code === 'declined' ? 'delivery.declined_note' : 'delivery.cancelled_note')
  if (asksFirst(message)) return t('delivery.approval_note')
  if (status === 'queued') return t('delivery.queued_note')
  if (message.sent_with !== undefined) return t('delivery.joined_note')
  if (status === 'refused') {
    const why = refusals[code] ? t(refusals[code]) : whyOf(code) || (isEnglish() ? reason : '')
    return why ? t('delivery.refused_note', { reason: why }) : t('delivery.refused')
  }
  if (status === 'unknown') return t('delivery.unknown_note')
  if (status === 'suspect') return t('delivery.suspect_note')
  return ''
}

/**
 * The service's own words, if the note does not have them. For a file that waits for approval: where it is
 * from.
 */
export const quotedReason = (message: Message): string => {
  const { status, reason = '', reason_code: code = '', reason_quote: quote = '' } = message
  if (asksFirst(message)) return quote && t('delivery.file_from', { source: quote })
  return status === 'refused' && (code in refusals || whyOf(code) !== '' || !isEnglish())
    ? ownWords(code, reason, quote)
    : ''
}

/** What helps after a failed send. `later`: it is sent by itself when the user writes or the pace allows. */
export type Remedy = 'again' | 'queue' | 'later' | 'login' | 'none'

/** @param code from the error catalogue; '' for messages of an older version */
export function remedyFor(code: string): Remedy {
  if (code === 'window_closed' || code === 'quota_exhausted') return 'queue'
  if (code === 'rate_limited') return 'later'
  if (code === 'session_expired' || code === 'not_connected') return 'login'
  const isFinal = /^(invalid_arguments|not_found|text_too_long|payload_too_large|forbidden)$/.test(code)
  return isFinal ? 'none' : 'again'
}

interface RemedyProps {
  remedy: Remedy
  session: string
  /** The label for `again`. */
  again: string
  /** Sends it again; with `queue` as soon as it can be sent. */
  onAgain(queue: boolean): void
}

/** The button for a remedy. */
export function RemedyButton({ remedy, session, again, onAgain }: RemedyProps) {
  if (remedy === 'none') return null
  if (remedy === 'login') {
    return (
      <Link class="link" href={loginPath(session)} state={beginNow}>
        {t('sessions.login_again')}
      </Link>
    )
  }
  const text = { again, queue: t('composer.queue'), later: t('delivery.when_possible') }[remedy]
  return (
    <button type="button" class="link" onClick={() => onAgain(remedy !== 'again')}>
      {text}
    </button>
  )
}
