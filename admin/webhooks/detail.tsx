/** The side sheet of a webhook: its state, what it gets, its deliveries. */
import { useSignal } from '@preact/signals'
import { deliveryProblem } from '../errors.ts'
import { gap, isolated, t } from '../i18n.ts'
import { ago, relative, whole } from '../times.ts'
import { Icon } from '../ui/icon.tsx'
import { Fact, State } from '../ui/marks.tsx'
import { Sheet } from '../ui/sheet.tsx'
import { useWork } from '../ui/work.ts'
import type { Asked } from './ask.tsx'
import { Deliveries, Result } from './deliveries.tsx'
import { type WebhookEndpoint, type WebhookTest, webhooks } from './endpoints.ts'
import { eventsOf, finish, isOff, LastDelivery, partsOf } from './table.tsx'
import { statusLooks } from './words.ts'

interface DetailProps {
  endpoint: WebhookEndpoint
  onAsk(question: Asked): void
  onClose(): void
}

export function WebhookDetail({ endpoint, onAsk, onClose }: DetailProps) {
  const { status } = endpoint
  return (
    <Sheet
      title={isolated(partsOf(endpoint).host)}
      onClose={onClose}
      footer={
        <>
          <button type="button" class="button" onClick={() => onAsk({ what: 'replay', endpoint })}>
            {t('webhooks.replay_menu')}
          </button>
          <button type="button" class="button" onClick={() => onAsk({ what: 'rotate', endpoint })}>
            {t('webhooks.rotate')}
          </button>
          <button type="button" class="button" onClick={() => onAsk({ what: 'remove', endpoint })}>
            {t('webhooks.remove')}
          </button>
        </>
      }
    >
      {status === 'active' ? <State {...statusLooks.active} /> : <Trouble endpoint={endpoint} />}
      <Facts endpoint={endpoint} />
      <section>
        <Test id={endpoint.id} />
        <Deliveries endpoint={endpoint} />
      </section>
    </Sheet>
  )
}

/** Why nothing is delivered. */
function Trouble({ endpoint }: { endpoint: WebhookEndpoint }) {
  const { id, status, failing_since = 0, last_error, last_error_code, next_try_at: next } = endpoint
  const { disabled_reason, disabled_code, disabled_at = 0 } = endpoint
  return (
    <div class={`notice ${statusLooks[status].tone}`}>
      <Icon name={status === 'paused' ? 'pause' : 'warn'} />
      <p>
        {status === 'paused' && t('webhooks.is_paused')}
        {status === 'failing' &&
          t('webhooks.is_failing', {
            when: ago(failing_since),
            error: deliveryProblem(last_error_code, last_error),
          }) + (next === undefined ? '' : gap() + t('webhooks.next_try', { when: relative(next) }))}
        {status === 'disabled' &&
          t('webhooks.is_disabled', {
            when: ago(disabled_at),
            reason: deliveryProblem(disabled_code, disabled_reason),
          })}
      </p>
      <button
        type="button"
        class="button"
        onClick={() =>
          finish(webhooks.resume(id), isOff(endpoint) ? 'webhooks.resumed' : 'webhooks.tried_again')
        }
      >
        {t(isOff(endpoint) ? 'webhooks.resume' : 'webhooks.try_again')}
      </button>
    </div>
  )
}

function Facts({ endpoint }: { endpoint: WebhookEndpoint }) {
  const { session, user, headers, rotating_until, tries, allow_private, replies } = endpoint
  const masked = Object.entries(headers)
  return (
    <dl>
      <Fact label={t('webhooks.address')}>
        <code class="foreign block" dir="ltr">
          {endpoint.url}
        </code>
      </Fact>
      <Fact label={t('webhooks.types')}>{eventsOf(endpoint)}</Fact>
      {session !== undefined && (
        <Fact label={t('search.account')}>
          <bdi>{session}</bdi>
        </Fact>
      )}
      {user !== undefined && (
        <Fact label={t('search.person')}>
          <bdi>{user}</bdi>
        </Fact>
      )}
      {masked.length > 0 && (
        <Fact label={t('webhooks.headers')}>
          {masked.map(([name, value]) => (
            <code key={name} class="foreign block" dir="ltr">{`${name}: ${value}`}</code>
          ))}
        </Fact>
      )}
      {(allow_private || replies) && (
        <Fact label={t('webhooks.options')}>
          {allow_private && <span class="block">{t('webhooks.private')}</span>}
          {replies && <span class="block">{t('webhooks.replies')}</span>}
        </Fact>
      )}
      <Fact label={t('webhooks.last')}>
        <LastDelivery endpoint={endpoint} />
      </Fact>
      <Fact label={t('webhooks.tries')}>
        {t('webhooks.counts', { done: tries.done, failed: tries.failed, gave_up: tries.gave_up })}
      </Fact>
      {rotating_until !== undefined && (
        <Fact label={t('webhooks.old_secret')}>
          {t('webhooks.signs_until', { when: whole(rotating_until) })}
        </Fact>
      )}
    </dl>
  )
}

/** The head of the deliveries: a test delivery and its result. */
function Test({ id }: { id: string }) {
  const { busy, work } = useWork()
  const result = useSignal<WebhookTest | undefined>(undefined)
  const send = async () => {
    result.value = undefined
    result.value = await webhooks.test(id)
  }
  return (
    <div class="deliveries-head">
      <h3>{t('webhooks.log')}</h3>
      <Result isBusy={busy.value} result={result.value} />
      <button type="button" class="button small" aria-disabled={busy.value} onClick={() => work(send)}>
        {t('webhooks.test')}
      </button>
    </div>
  )
}
