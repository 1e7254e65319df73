/** The card of a webhook: its state, its events, its menu. */
import { useSignal } from '@preact/signals'
import { deliveryProblem } from '../errors.ts'
import { isolated, listed, type TextKey, t } from '../i18n.ts'
import { ago, whole } from '../times.ts'
import { Icon } from '../ui/icon.tsx'
import { Fact, State, Time } from '../ui/marks.tsx'
import { type Action, Menu } from '../ui/menu.tsx'
import { tell, tellError } from '../ui/toasts.tsx'
import { useWork } from '../ui/work.ts'
import type { Asked } from './ask.tsx'
import { type WebhookEndpoint, webhooks } from './endpoints.ts'
import { Deliveries } from './log.tsx'
import { statusLooks, typeTexts } from './words.ts'

interface EndpointProps {
  endpoint: WebhookEndpoint
  onAsk(question: Asked): void
  onReload(): Promise<void>
}

export function Endpoint({ endpoint, onAsk, onReload }: EndpointProps) {
  const { url, status, allow_private, replies } = endpoint
  const open = useSignal(false)
  return (
    <li class="card account">
      <header>
        <div class="account-name">
          <h2 class="foreign" dir="ltr">
            {url}
          </h2>
          <p>
            <State {...statusLooks[status]} />
            {allow_private && <span class="badge">{t('webhooks.private')}</span>}
            {replies && <span class="badge">{t('webhooks.replies')}</span>}
          </p>
        </div>
        <Menu label={t('session.menu', { name: isolated(url) })} actions={actionsOf(endpoint, onAsk)} />
      </header>
      <Trouble endpoint={endpoint} />
      <Facts endpoint={endpoint} />
      <Test endpoint={endpoint} />
      <details
        onToggle={event => {
          open.value = event.currentTarget.open
        }}
      >
        <summary>{t('webhooks.log')}</summary>
        {open.value && (
          <Deliveries
            endpoint={endpoint}
            onReload={onReload}
            onReplay={event => onAsk({ what: 'replay', endpoint, event })}
          />
        )}
      </details>
    </li>
  )
}

/** Waits for a change, then shows `done` or the error. */
const finish = (work: Promise<unknown>, done: TextKey) => void work.then(() => tell(t(done)), tellError)
const isOff = ({ status }: WebhookEndpoint) => status === 'paused' || status === 'disabled'

function actionsOf(endpoint: WebhookEndpoint, onAsk: EndpointProps['onAsk']): Action[] {
  const pause: Action = {
    id: 'pause',
    label: t('webhooks.pause'),
    icon: 'pause',
    run: () => finish(webhooks.pause(endpoint.id), 'webhooks.paused'),
  }
  return [
    ...(isOff(endpoint) ? [] : [pause]),
    {
      id: 'replay',
      label: t('webhooks.replay_menu'),
      icon: 'clock',
      run: () => onAsk({ what: 'replay', endpoint }),
    },
    {
      id: 'rotate',
      label: t('webhooks.rotate'),
      icon: 'renew',
      run: () => onAsk({ what: 'rotate', endpoint }),
    },
    {
      id: 'remove',
      label: t('webhooks.remove'),
      icon: 'close',
      danger: true,
      run: () => onAsk({ what: 'remove', endpoint }),
    },
  ]
}

/** Why nothing is delivered, if there is a problem. */
function Trouble({ endpoint }: { endpoint: WebhookEndpoint }) {
  const {
    id,
    url,
    status,
    failing_since = 0,
    last_error,
    last_error_code,
    disabled_reason,
    disabled_code,
    disabled_at = 0,
  } = endpoint
  if (status === 'active') return null
  return (
    <div class={`notice ${statusLooks[status].tone}`}>
      <Icon name={status === 'paused' ? 'pause' : 'warn'} />
      <div>
        <p>
          {status === 'paused' && t('webhooks.is_paused')}
          {status === 'failing' &&
            t('webhooks.is_failing', {
              when: ago(failing_since),
              error: deliveryProblem(last_error_code, last_error),
            })}
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
          <Icon name="play" />
          {t(isOff(endpoint) ? 'webhooks.resume' : 'webhooks.try_again')}
          <span class="visually-hidden"> {isolated(url)}</span>
        </button>
      </div>
    </div>
  )
}

function Facts({ endpoint }: { endpoint: WebhookEndpoint }) {
  const { types, session, user, headers, last_success_at, rotating_until, tries } = endpoint
  const masked = Object.entries(headers)
  const words = types.map(type => t(typeTexts[type]))
  return (
    <dl>
      <Fact label={t('webhooks.types')}>{words.length === 0 ? t('webhooks.types_all') : listed(words)}</Fact>
      {session !== undefined && (
        <Fact label={t('search.account')}>
          <span class="foreign">{session}</span>
        </Fact>
      )}
      {user !== undefined && (
        <Fact label={t('search.person')}>
          <span class="foreign">{user}</span>
        </Fact>
      )}
      {masked.length > 0 && (
        <Fact label={t('webhooks.headers')}>
          {masked.map(([name, value]) => (
            <p key={name}>
              <code class="foreign" dir="ltr">{`${name}: ${value}`}</code>
            </p>
          ))}
        </Fact>
      )}
      <Fact label={t('webhooks.last_success')}>
        {last_success_at === undefined ? (
          t('sessions.never')
        ) : (
          <Time at={last_success_at}>{ago(last_success_at)}</Time>
        )}
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

/** A test delivery and its result. */
function Test({ endpoint: { id, url } }: { endpoint: WebhookEndpoint }) {
  const { busy, work } = useWork()
  const result = useSignal<Awaited<ReturnType<typeof webhooks.test>> | undefined>(undefined)
  const send = async () => {
    result.value = undefined
    result.value = await webhooks.test(id)
  }
  const { success, status = 0, took_ms = 0, detail, code } = result.value ?? {}
  return (
    <div class="webhook-test">
      <button type="button" class="button" aria-disabled={busy.value} onClick={() => work(send)}>
        <Icon name="send" />
        {t('webhooks.test')}
        <span class="visually-hidden"> {isolated(url)}</span>
      </button>
      <p role="status">
        {busy.value && t('webhooks.testing')}
        {result.value &&
          (success ? (
            <span class="may">{t('webhooks.tested', { status, ms: took_ms })}</span>
          ) : (
            <span class="problem">
              {t('webhooks.test_failed', { detail: deliveryProblem(code, detail) })}
            </span>
          ))}
      </p>
    </div>
  )
}
