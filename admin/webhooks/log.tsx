/** The latest delivery attempts of a webhook, newest first. */
import { useCallback } from 'preact/hooks'
import { useAnswer } from '../answers.ts'
import { deliveryProblem, errorText } from '../errors.ts'
import { t } from '../i18n.ts'
import { stamp, whole } from '../times.ts'
import { Icon } from '../ui/icon.tsx'
import { type WebhookDelivery, type WebhookEndpoint, webhooks } from './endpoints.ts'
import { outcomeLooks } from './words.ts'

interface DeliveriesProps {
  endpoint: WebhookEndpoint
  /** Loads the endpoints again; the log then shows new attempts. */
  onReload(): Promise<void>
  onReplay(event: string): void
}

export function Deliveries({ endpoint: { id, tries }, onReload, onReplay }: DeliveriesProps) {
  const count = tries.done + tries.failed + tries.gave_up
  const { value, error } = useAnswer(
    useCallback(() => webhooks.log(id), [id, count]),
    2000,
  )
  const all = value.value
  return (
    <>
      {error.value !== undefined && <p class="problem small">{errorText(error.value).title}</p>}
      {all?.length === 0 && <p class="soft small">{t('webhooks.log_none')}</p>}
      {all && all.length > 0 && (
        <ul>
          {all.map(one => (
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
  const { at, event, type, outcome, status, took_ms, detail, code } = one
  const { tone, text } = outcomeLooks[outcome]
  // The HTTP status is already shown.
  const isKnown = detail === undefined || detail === `HTTP ${status}`
  const why = isKnown ? undefined : deliveryProblem(code, detail)
  const time = stamp(at)
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
      {/* A test is no event, so no replay can begin there. */}
      {type !== 'webhook.test' && (
        <button type="button" class="button plain small" onClick={onReplay}>
          <Icon name="clock" />
          {t('webhooks.replay_here')}
          <span class="visually-hidden"> {event}</span>
        </button>
      )}
    </li>
  )
}
