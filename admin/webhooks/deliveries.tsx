/** The latest delivery attempts of a webhook, newest first. */
import { useCallback } from 'preact/hooks'
import { useAnswer } from '../answers.ts'
import { deliveryProblem, errorText } from '../errors.ts'
import { t } from '../i18n.ts'
import { ago } from '../times.ts'
import { Middle, State, Time } from '../ui/marks.tsx'
import { type WebhookDelivery, type WebhookEndpoint, webhooks } from './endpoints.ts'
import { outcomeLooks, typeTexts } from './words.ts'

interface DeliveriesProps {
  endpoint: WebhookEndpoint
  onReplay(event: string): void
}

export function Deliveries({ endpoint: { id, tries }, onReplay }: DeliveriesProps) {
  const count = tries.done + tries.failed + tries.gave_up
  const { value, error } = useAnswer(
    useCallback(() => webhooks.log(id), [id, count]),
    2000,
    4000,
  )
  const all = value.value
  return (
    <>
      {error.value !== undefined && <p class="problem small">{errorText(error.value).title}</p>}
      {all?.length === 0 && <p class="soft small">{t('webhooks.log_none')}</p>}
      {all && all.length > 0 && (
        <ul class="deliveries">
          {all.map(one => (
            <Delivery key={`${one.event} ${one.at}`} one={one} onReplay={() => onReplay(one.event)} />
          ))}
        </ul>
      )}
    </>
  )
}

function Delivery({ one, onReplay }: { one: WebhookDelivery; onReplay(): void }) {
  const { at, event, type, outcome, status, took_ms, detail, code } = one
  // The HTTP status is already shown.
  const isKnown = detail === undefined || detail === `HTTP ${status}`
  return (
    <li>
      <State {...outcomeLooks[outcome]} />
      <p>
        {type === 'webhook.test' ? t('webhooks.type_test') : (knownType(type) ?? <code>{type}</code>)}
        <span class="soft small">
          {status === undefined
            ? t('webhooks.no_answer', { ms: took_ms })
            : t('webhooks.answered', { status, ms: took_ms })}
        </span>
        {!isKnown && <span class="small problem foreign">{deliveryProblem(code, detail)}</span>}
        <code class="soft small">
          <Middle text={event} />
        </code>
      </p>
      <div>
        <Time at={at} class="soft small">
          {ago(at)}
        </Time>
        {/* A test is no event, so no replay can begin there. */}
        {type !== 'webhook.test' && (
          <button type="button" class="link small" onClick={onReplay}>
            {t('webhooks.replay_here')}
            <span class="visually-hidden"> {event}</span>
          </button>
        )}
      </div>
    </li>
  )
}

const knownType = (type: string): string | undefined =>
  type in typeTexts ? t(typeTexts[type as keyof typeof typeTexts]) : undefined
