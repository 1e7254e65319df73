/** A message with its headings above and its notes below. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { ApiError, Message } from '../api.ts'
import { errorText, ownWords } from '../errors.ts'
import { gap, t } from '../i18n.ts'
import { online } from '../live.ts'
import { day } from '../times.ts'
import { Icon } from '../ui/icon.tsx'
import { set } from '../ui/set.ts'
import { Bubble } from './bubble.tsx'
import { closed, RemedyButton, remedyFor } from './delivery.tsx'
import type { Bars } from './message-bar.tsx'
import type { Desk } from './outgoing.ts'
import type { Outgoing } from './pieces.ts'
import { isDoubtful } from './pieces.ts'
import type { Row } from './rows.ts'

interface RowViewProps {
  row: Row
  needle: string
  looked: boolean
  unfolded: Set<number>
  desk: Desk
  bars: Bars
  onQuote(quote: NonNullable<Message['ref_msg']>): void
  onAgain(message: Message, queue: boolean): void
}

export function RowView({ row, desk, ...props }: RowViewProps) {
  const { message, newDay, ofDay, unreadFromHere, first, last, decides, outgoing } = row
  return (
    <>
      {newDay && (
        <p class="day small">
          <span>{day(ofDay)}</span>
        </p>
      )}
      {unreadFromHere && (
        <p class="day unread-line small">
          <span>{t('chat.unread_line')}</span>
        </p>
      )}
      <Bubble
        {...props}
        message={message}
        ofDay={ofDay}
        first={first}
        last={last}
        decides={decides}
        hasAgain={desk.hasAgain(message)}
      />
      {outgoing && <OnItsWay one={outgoing} desk={desk} />}
    </>
  )
}

/** A text is stored before it goes to WeChat. If that takes longer, svc's pace holds it back. */
const paceMs = 2000

function Waits() {
  const isSlow = useSignal(false)
  useEffect(() => {
    const timer = setTimeout(set(isSlow, true), paceMs)
    return () => clearTimeout(timer)
  }, [isSlow])
  return isSlow.value ? (
    <p class="note small" role="status">
      {t('delivery.pace_note')}
    </p>
  ) : null
}

/** The progress of the upload; or why the message failed before it was stored, and what to do. */
function OnItsWay({ one, desk }: { one: Outgoing; desk: Desk }) {
  if (one.state.value === 'sending') {
    const files = one.files.filter(({ progress }) => progress.value < 1)
    if (files.length === 0) return one.queue || one.files.length > 0 ? null : <Waits />
    const share = one.files.reduce((sum, { progress }) => sum + progress.value, 0) / one.files.length
    return <progress class="on-its-way" value={share} aria-label={t('composer.uploading')} />
  }
  const error = one.error.value
  const drop = (
    <button type="button" class="link" onClick={() => desk.drop(one)}>
      {t('chat.discard')}
    </button>
  )
  if (!online.value && desk.sendsOn(one)) {
    return (
      <p class="note queued small" role="status">
        <span>{t('delivery.offline_note')}</span>
        {drop}
      </p>
    )
  }
  const { title, hint } = errorText(error)
  const { code = '', message = '', details } = error as Partial<ApiError>
  const words = ownWords(code, message, details?.quote)
  // A message that was to wait can only be tried again.
  const remedy = one.queue && remedyFor(code) !== 'none' ? 'again' : remedyFor(code)
  return (
    <div class={isDoubtful(error) ? 'failed doubtful small' : 'failed small'} role="alert">
      <Icon name="warn" size={16} />
      <span class="foreign">
        {t(isDoubtful(error) ? 'delivery.doubtful_note' : 'delivery.refused_note', {
          reason: closed[code] ? t(closed[code]) : `${title}${hint && gap()}${hint}`,
        })}
      </span>
      {message !== title && words !== '' && <span class="foreign soft">{words}</span>}
      <span class="remedies">
        <RemedyButton
          remedy={remedy}
          session={desk.session}
          again={t('action.retry')}
          onAgain={queue => (queue ? desk.queue(one) : desk.retry(one))}
        />
        {drop}
      </span>
    </div>
  )
}
