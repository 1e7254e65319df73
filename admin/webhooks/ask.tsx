/** What is asked before a webhook is changed, and the secret that is shown once. */
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useId, useRef } from 'preact/hooks'
import { t } from '../i18n.ts'
import { isolated } from '../sessions/names.ts'
import { dateOf, now } from '../times.ts'
import { Copyable } from '../ui/copy.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Icon } from '../ui/icon.tsx'
import { tell, tellError } from '../ui/toasts.tsx'
import { type AddedWebhook, type WebhookEndpoint, webhooks } from './endpoints.ts'

/** What the page asks, and of which endpoint. */
export type Asked =
  | { what: 'add' }
  | { what: 'secret'; secret: string; replaced?: boolean }
  | { what: 'rotate' | 'remove'; endpoint: WebhookEndpoint }
  /** `event`: where to begin; asked for without. */
  | { what: 'replay'; endpoint: WebhookEndpoint; event?: string }

interface ConfirmProps {
  title: string
  action: string
  danger?: boolean
  onClose(): void
  /** Closes what is asked when it has worked. */
  run(): Promise<void>
  children: ComponentChildren
}

function Confirm({ title, action, danger, onClose, run, children }: ConfirmProps) {
  const busy = useSignal(false)
  const go = async () => {
    if (busy.value) return
    busy.value = true
    try {
      await run()
    } catch (error) {
      tellError(error)
      onClose()
    }
  }
  return (
    <Dialog
      title={title}
      onClose={onClose}
      alert
      footer={
        <>
          <button class="button" type="button" data-autofocus onClick={onClose}>
            {t('action.cancel')}
          </button>
          <button
            class={`button ${danger ? 'danger' : 'primary'}`}
            type="button"
            aria-disabled={busy.value}
            onClick={go}
          >
            {action}
          </button>
        </>
      }
    >
      {children}
    </Dialog>
  )
}

interface AskProps {
  endpoint: WebhookEndpoint
  onClose(): void
}

export function RemoveWebhook({ endpoint: { id, url }, onClose }: AskProps) {
  return (
    <Confirm
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
        <li class="lost">
          <Icon name="warn" />
          {t('webhooks.remove_about')}
        </li>
      </ul>
    </Confirm>
  )
}

export function RotateWebhook({
  endpoint: { id, url },
  onClose,
  onRotated,
}: AskProps & { onRotated(added: AddedWebhook): void }) {
  return (
    <Confirm
      title={t('webhooks.rotate_title')}
      action={t('webhooks.rotate')}
      onClose={onClose}
      run={async () => onRotated(await webhooks.rotate(id))}
    >
      <p class="foreign" dir="ltr">
        {url}
      </p>
      <p>{t('webhooks.rotate_about')}</p>
    </Confirm>
  )
}

const hourMs = 3_600_000

export function ReplayWebhook({ endpoint: { id, url }, event, onClose }: AskProps & { event?: string }) {
  const field = useRef<HTMLInputElement>(null)
  const input = useId()
  const start = new Date(now.value - hourMs)
  const time = `${start.getHours()}`.padStart(2, '0')
  const minute = `${start.getMinutes()}`.padStart(2, '0')
  return (
    <Confirm
      title={t('webhooks.replay_title')}
      action={t('webhooks.replay')}
      onClose={onClose}
      run={async () => {
        const chosen = new Date(field.current?.value ?? '')
        if (event === undefined && Number.isNaN(chosen.getTime())) return field.current?.focus()
        const { replay } = await webhooks.replay(id, event ?? chosen.toISOString())
        tell(t('webhooks.replayed', { count: replay.events }))
        onClose()
      }}
    >
      <p class="foreign" dir="ltr">
        {url}
      </p>
      {event === undefined ? (
        <div class="field">
          <label for={input}>{t('webhooks.replay_from')}</label>
          <input
            class="input"
            id={input}
            ref={field}
            type="datetime-local"
            defaultValue={`${dateOf(start.getTime())}T${time}:${minute}`}
          />
        </div>
      ) : (
        <p>{t('webhooks.replay_event', { event: isolated(event) })}</p>
      )}
      <p class="soft small">{t('webhooks.replay_about')}</p>
    </Confirm>
  )
}

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
      alert
      footer={
        <button class="button primary" type="button" data-autofocus onClick={onClose}>
          {t('webhooks.secret_kept')}
        </button>
      }
    >
      <Copyable text={secret} what={t('webhooks.secret')} />
      <p class="soft small">{t('webhooks.secret_about')}</p>
      {replaced && <p>{t('webhooks.secret_both')}</p>}
    </Dialog>
  )
}
