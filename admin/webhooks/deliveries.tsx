/** The latest delivery attempts of a webhook, newest first. Each opens in place. */
import { useSignal } from '@preact/signals'
import { useCallback } from 'preact/hooks'
import { useAnswer } from '../answers.ts'
import { deliveryProblem, errorText } from '../errors.ts'
import { t } from '../i18n.ts'
import { ago, relative } from '../times.ts'
import { State, Time } from '../ui/marks.tsx'
import { useWork } from '../ui/work.ts'
import { type WebhookDelivery, type WebhookEndpoint, type WebhookTest, webhooks } from './endpoints.ts'
import { outcomeLooks, typeTexts } from './words.ts'

export function Deliveries({ endpoint }: { endpoint: WebhookEndpoint }) {
  const { id, tries } = endpoint
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
      <ul class="deliveries">
        {all?.map(one => (
          <Delivery key={`${one.event} ${one.at}`} endpoint={endpoint} one={one} />
        ))}
      </ul>
    </>
  )
}

interface DeliveryProps {
  endpoint: WebhookEndpoint
  one: WebhookDelivery
}

function Delivery(props: DeliveryProps) {
  const isOpen = useSignal(false)
  const { at, type, outcome, status, took_ms, detail, code } = props.one
  // The HTTP status is already shown.
  const isKnown = detail === undefined || detail === `HTTP ${status}`
  return (
    <li>
      <details onToggle={({ currentTarget: { open } }) => (isOpen.value = open)}>
        <summary>
          <State {...outcomeLooks[outcome]} />
          <span class="what">
            {type === 'webhook.test' ? t('webhooks.type_test') : (knownType(type) ?? <code>{type}</code>)}
            <span class="soft small">
              {status === undefined
                ? t('webhooks.no_answer', { ms: took_ms })
                : t('webhooks.answered', { status, ms: took_ms })}
            </span>
            {!isKnown && <span class="small problem foreign">{deliveryProblem(code, detail)}</span>}
          </span>
          <Time at={at} class="soft small">
            {ago(at)}
          </Time>
        </summary>
        {isOpen.value && <Attempt {...props} />}
      </details>
    </li>
  )
}

/** What was sent, what was answered, and the next try. */
function Attempt({ endpoint, one: { at, event, status = 0, type } }: DeliveryProps) {
  const { value, again } = useAnswer(
    useCallback(() => webhooks.attemptsAt(endpoint.id, event), []),
    2000,
  )
  const { busy, work } = useWork()
  const result = useSignal<WebhookTest | undefined>(undefined)
  const [newest] = value.value ?? []
  const own = value.value?.find(other => other.at === at)
  const send = async () => {
    result.value = undefined
    result.value = (await webhooks.sendAgain(endpoint.id, event)).replay.result
    again()
  }
  return (
    <div class="attempt">
      {status >= 200 && <p>{t(`webhooks.said_${Math.floor(status / 100) as 2 | 3 | 4 | 5}`, { status })}</p>}
      {newest?.next_try_at !== undefined && (
        <p>{t('webhooks.next_try', { when: relative(newest.next_try_at) })}</p>
      )}
      {own && status > 0 && <Body label={t('webhooks.answer')} text={own.response} />}
      {newest?.payload && endpoint.expires_at === undefined && (
        <button type="button" class="button small" aria-disabled={busy.value} onClick={() => work(send)}>
          {t('webhooks.send_again')}
        </button>
      )}
      <Result isBusy={busy.value} result={result.value} />
      {newest && type !== 'webhook.test' && (
        <Body label={t('webhooks.sent')} text={newest.payload && JSON.stringify(newest.payload, null, 2)} />
      )}
    </div>
  )
}

const Body = ({ label, text }: { label: string; text: string | undefined }) => (
  <figure>
    <figcaption class="soft small">{label}</figcaption>
    {text === undefined ? t('webhooks.nothing') : <pre class="foreign">{text}</pre>}
  </figure>
)

/** How a delivery went that a person asked for. */
export function Result({ isBusy, result }: { isBusy: boolean; result: WebhookTest | undefined }) {
  const { success, status = 0, took_ms = 0, detail, code } = result ?? {}
  return (
    <p class="small" role="status">
      {isBusy && t('webhooks.testing')}
      {success && <span class="may">{t('webhooks.tested', { status, ms: took_ms })}</span>}
      {success === false && (
        <span class="problem">{t('webhooks.test_failed', { detail: deliveryProblem(code, detail) })}</span>
      )}
    </p>
  )
}

const knownType = (type: string): string | undefined =>
  type in typeTexts ? t(typeTexts[type as keyof typeof typeTexts]) : undefined
