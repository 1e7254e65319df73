/** The newest tries to deliver to a webhook, newest first. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { inLanguage, t } from '../i18n.ts'
import { whole } from '../times.ts'
import { Icon } from '../ui/icon.tsx'
import { tellError } from '../ui/toasts.tsx'
import { type WebhookDelivery, type WebhookEndpoint, webhooks } from './endpoints.ts'
import { outcomeLooks } from './words.ts'

interface DeliveriesProps {
  endpoint: WebhookEndpoint
  /** Looks how the endpoints do; more tries of this one are then shown. */
  onReload(): Promise<void>
  onReplay(event: string): void
}

export function Deliveries({ endpoint: { id, tries }, onReload, onReplay }: DeliveriesProps) {
  const all = useSignal<readonly WebhookDelivery[] | undefined>(undefined)
  const count = tries.done + tries.failed + tries.gave_up
  useEffect(() => {
    let isCurrent = true
    webhooks.log(id).then(
      found => {
        if (isCurrent) all.value = found
      },
      error => isCurrent && tellError(error),
    )
    return () => {
      isCurrent = false
    }
  }, [id, count])
  return (
    <>
      {all.value?.length === 0 && <p class="soft small">{t('webhooks.log_none')}</p>}
      {all.value && all.value.length > 0 && (
        <ul>
          {all.value.map(one => (
            <Delivery key={`${one.event} ${one.at}`} one={one} onReplay={() => onReplay(one.event)} />
          ))}
        </ul>
      )}
      <button type="button" class="button plain" onClick={onReload}>
        <Icon name="renew" />
        {t('webhooks.log_reload')}
      </button>
    </>
  )
}

function Delivery({ one, onReplay }: { one: WebhookDelivery; onReplay(): void }) {
  const { at, event, type, outcome, status, took_ms, detail } = one
  const { tone, text } = outcomeLooks[outcome]
  // The status alone stands there already.
  const why = detail === `HTTP ${status}` ? undefined : detail
  const time = inLanguage(Intl.DateTimeFormat, { dateStyle: 'short', timeStyle: 'medium' }).format(at)
  return (
    <li class="delivery-try">
      <div>
        <p>
          <span class={`badge ${tone}`}>{t(text)}</span>
          <time class="small" dateTime={new Date(at).toISOString()} title={whole(at)}>
            {time}
          </time>
          <span class="soft small">
            {status === undefined
              ? t('webhooks.no_answer', { ms: took_ms })
              : t('webhooks.answered', { status, ms: took_ms })}
          </span>
        </p>
        <p class="small">
          <code>{type}</code>
          <code class="foreign soft">{event}</code>
        </p>
        {why !== undefined && <p class="small problem foreign">{why}</p>}
      </div>
      <button
        type="button"
        class="button plain icon-only"
        aria-label={t('webhooks.replay_here', { event })}
        title={t('webhooks.replay_menu')}
        onClick={onReplay}
      >
        <Icon name="clock" />
      </button>
    </li>
  )
}
