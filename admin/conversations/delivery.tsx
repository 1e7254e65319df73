/** How far a sent message has come, as far as that is known. There is no second check: WeChat tells nobody what was read. */
import type { Message } from '../api.ts'
import { type TextKey, t } from '../i18n.ts'
import { Icon, type IconName } from '../ui/icon.tsx'

type SentStatus = NonNullable<Message['status']>

const states: Readonly<Record<SentStatus, { icon: IconName; text: TextKey; about: TextKey }>> = {
  queued: { icon: 'clock', text: 'delivery.queued', about: 'delivery.queued_about' },
  sending: { icon: 'up', text: 'delivery.sending', about: 'delivery.sending_about' },
  accepted: { icon: 'check', text: 'delivery.accepted', about: 'delivery.accepted_about' },
  suspect: { icon: 'question', text: 'delivery.suspect', about: 'delivery.suspect_about' },
  refused: { icon: 'warn', text: 'delivery.refused', about: 'delivery.refused_about' },
  unknown: { icon: 'question', text: 'delivery.unknown', about: 'delivery.unknown_about' },
}

/** The state as a sign; said in full to who points at it, and to who listens. */
export function Delivery({ status, size = 14 }: { status: SentStatus; size?: number }) {
  const { icon, text, about } = states[status]
  return (
    <span class={`delivery ${status}`} title={t(about)}>
      <Icon name={icon} size={size} />
      <span class="visually-hidden">{t(text)}</span>
    </span>
  )
}

/** Taken back by somebody before it went out: no failure. */
export const isCancelled = ({ status, reason }: Message): boolean =>
  status === 'refused' && reason === 'cancelled'

/** Of a user whom WeChat does not know: sent again it is refused again. The reason is the log's, older ones begin with a field. */
export const isToNobody = ({ status, reason }: Message): boolean =>
  status === 'refused' && /^(to: )?WeChat knows no user /.test(reason ?? '')

/** What to say below a message whose state asks for attention; '' for the rest. */
export function deliveryNote(message: Message): string {
  const { status, reason } = message
  if (isCancelled(message)) return t('delivery.cancelled_note')
  if (isToNobody(message)) return t('delivery.nobody_note')
  if (status === 'queued') return t('delivery.queued_note')
  if (status === 'refused') return reason ? t('delivery.refused_note', { reason }) : t('delivery.refused')
  if (status === 'unknown') return t('delivery.unknown_note')
  if (status === 'suspect') return t('delivery.suspect_note')
  return ''
}
