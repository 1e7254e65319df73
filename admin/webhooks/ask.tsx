/** The dialogs that change a webhook, and the secret that is shown once. */
import { useSignal } from '@preact/signals'
import { useCallback, useId, useRef } from 'preact/hooks'
import { useAnswer } from '../answers.ts'
import { errorText } from '../errors.ts'
import { number, t } from '../i18n.ts'
import { dateOf, now } from '../times.ts'
import { Ask, Consequence } from '../ui/ask.tsx'
import { Copyable } from '../ui/copy.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { mainAction } from '../ui/list-page.tsx'
import { tell } from '../ui/toasts.tsx'
import { type AddedWebhook, type ReplayedWebhook, type WebhookEndpoint, webhooks } from './endpoints.ts'

/** The open dialog, and its endpoint. */
export type Asked =
  | { what: 'add' }
  | { what: 'secret'; secret: string; replaced?: boolean }
  | { what: 'rotate' | 'remove' | 'replay'; endpoint: WebhookEndpoint }

interface QuestionProps {
  endpoint: WebhookEndpoint
  onClose(): void
}

export function RemoveWebhook({ endpoint: { id, url }, onClose }: QuestionProps) {
  return (
    <Ask
      alert
      title={t('webhooks.remove_title')}
      action={t('webhooks.remove')}
      danger
      onClose={onClose}
      run={async () => {
        await webhooks.remove(id)
        tell(t('webhooks.removed'))
        onClose()
      }}
    >
      <p class="foreign" dir="ltr">
        {url}
      </p>
      <ul class="consequences">
        <Consequence kind="lost">{t('webhooks.remove_about')}</Consequence>
      </ul>
    </Ask>
  )
}

export function RotateWebhook({
  endpoint: { id, url },
  onClose,
  onRotated,
}: QuestionProps & { onRotated(added: AddedWebhook): void }) {
  return (
    <Ask
      alert
      title={t('webhooks.rotate_title')}
      action={t('webhooks.rotate')}
      onClose={onClose}
      run={async () => onRotated(await webhooks.rotate(id))}
    >
      <p class="foreign" dir="ltr">
        {url}
      </p>
      <p>{t('webhooks.rotate_about')}</p>
    </Ask>
  )
}

const hourMs = 3_600_000

export function ReplayWebhook({ endpoint: { id, url }, onClose }: QuestionProps) {
  const field = useRef<HTMLInputElement>(null)
  const input = useId()
  const start = new Date(now.value - hourMs)
  // The field has no seconds.
  start.setSeconds(0, 0)
  const time = `${start.getHours()}`.padStart(2, '0')
  const minute = `${start.getMinutes()}`.padStart(2, '0')
  const from = useSignal(start.toISOString())
  return (
    <Ask
      alert
      title={t('webhooks.replay_title')}
      action={t('webhooks.replay')}
      onClose={onClose}
      run={async () => {
        if (from.value === '') return field.current?.focus()
        const { replay } = await webhooks.replay(id, from.value)
        tell(t('webhooks.replayed', { count: replay.events, events: eventsOf(replay) }))
        onClose()
      }}
    >
      <p class="foreign" dir="ltr">
        {url}
      </p>
      <div class="field">
        <label for={input}>{t('webhooks.replay_from')}</label>
        <input
          class="input"
          id={input}
          ref={field}
          type="datetime-local"
          defaultValue={`${dateOf(start.getTime())}T${time}:${minute}`}
          onInput={({ currentTarget: { value } }) => {
            from.value = value && new Date(value).toISOString()
          }}
        />
      </div>
      <p class="soft small" role="status">
        {from.value !== '' && <Extent key={from.value} id={id} from={from.value} />}
      </p>
    </Ask>
  )
}

/** How many events the replay would deliver. */
function Extent({ id, from }: { id: string; from: string }) {
  const { value, error } = useAnswer(
    useCallback(() => webhooks.wouldReplay(id, from), []),
    5000,
  )
  if (error.value !== undefined) return <>{errorText(error.value).title}</>
  if (!value.value) return <>{t('status.loading')}</>
  const { replay } = value.value
  return <>{t('webhooks.replay_about', { count: replay.events, events: eventsOf(replay) })}</>
}

const eventsOf = ({ events, events_is_lower_bound }: ReplayedWebhook['replay']): string =>
  `${number(events)}${events_is_lower_bound ? '+' : ''}`

export function Secret({
  secret,
  replaced,
  onClose,
}: {
  secret: string
  replaced?: boolean
  onClose(): void
}) {
  return (
    <Dialog
      title={t('webhooks.secret_title')}
      description={t('webhooks.secret_once')}
      onClose={onClose}
      loses={() => t('ask.secret')}
      focusAfter={mainAction}
      alert
      footer={
        <button class="button primary" type="button" onClick={onClose}>
          {t('access.secret_kept')}
        </button>
      }
    >
      <Copyable text={secret} what={t('webhooks.secret')} first />
      <p class="soft small">{t('webhooks.secret_about')}</p>
      {replaced && <p>{t('webhooks.secret_both')}</p>}
    </Dialog>
  )
}
