/** The webhooks page. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { errorText } from '../errors.ts'
import { t } from '../i18n.ts'
import { now } from '../times.ts'
import { Icon } from '../ui/icon.tsx'
import { Link } from '../ui/link.tsx'
import { set } from '../ui/set.ts'
import { AddWebhook } from '../webhooks/add.tsx'
import { type Asked, RemoveWebhook, ReplayWebhook, RotateWebhook, Secret } from '../webhooks/ask.tsx'
import { Endpoint } from '../webhooks/endpoint.tsx'
import { endpoints, loadEndpoints } from '../webhooks/endpoints.ts'

export function Webhooks() {
  const asked = useSignal<Asked | undefined>(undefined)
  const failure = useSignal<unknown>(undefined)
  const load = () =>
    loadEndpoints().then(set(failure, undefined), error => {
      failure.value = error
    })
  // The states change by themselves: load them twice a minute, and when the page becomes visible.
  useEffect(() => void load(), [now.value])
  const all = endpoints.value
  const ask = (question: Asked) => {
    asked.value = question
  }
  const question = asked.value
  // A dialog that ends late must not close a newer one: a secret is shown only once.
  const close = () => {
    if (asked.peek() === question) asked.value = undefined
  }
  return (
    <div class="page sessions">
      <header>
        <div>
          <Link class="webhook-back" href="/settings">
            <Icon name="back" size={16} />
            {t('settings.title')}
          </Link>
          <h1>{t('webhooks.title')}</h1>
          <p class="soft">{t('webhooks.about')}</p>
        </div>
        <button type="button" class="button primary" onClick={() => ask({ what: 'add' })}>
          <Icon name="add" />
          {t('webhooks.add')}
        </button>
      </header>
      {!all && failure.value === undefined && <p class="soft">{t('status.loading')}</p>}
      {!all && failure.value !== undefined && (
        <div class="notice bad" role="alert">
          <Icon name="warn" />
          <p>{errorText(failure.value).title}</p>
          <button type="button" class="button" onClick={load}>
            {t('action.retry')}
          </button>
        </div>
      )}
      {all?.length === 0 && (
        <div class="card empty">
          <h2>{t('webhooks.none')}</h2>
          <p>{t('webhooks.none_about')}</p>
        </div>
      )}
      {all && all.length > 0 && (
        <ul class="accounts webhooks">
          {all.map(one => (
            <Endpoint key={one.id} endpoint={one} onAsk={ask} onReload={load} />
          ))}
        </ul>
      )}
      <Question asked={question} onAsk={ask} onClose={close} />
    </div>
  )
}

interface QuestionProps {
  asked: Asked | undefined
  onAsk(question: Asked): void
  onClose(): void
}

function Question({ asked, onAsk, onClose }: QuestionProps) {
  switch (asked?.what) {
    case 'add':
      return <AddWebhook onClose={onClose} onAdded={({ secret }) => onAsk({ what: 'secret', secret })} />
    case 'secret':
      return <Secret {...asked} onClose={onClose} />
    case 'rotate':
      return (
        <RotateWebhook
          {...asked}
          onClose={onClose}
          onRotated={({ secret }) => onAsk({ what: 'secret', secret, replaced: true })}
        />
      )
    case 'replay':
      return <ReplayWebhook {...asked} onClose={onClose} />
    case 'remove':
      return <RemoveWebhook {...asked} onClose={onClose} />
    default:
      return null
  }
}
