/** The webhooks page. The URL names the webhook whose detail is open. */
import { t } from '../i18n.ts'
import { setParams, useParam } from '../place.ts'
import { useAsked } from '../ui/ask.tsx'
import { AddButton, ListPage, Nothing, useLoading } from '../ui/list-page.tsx'
import { AddWebhook } from '../webhooks/add.tsx'
import { type Asked, RemoveWebhook, ReplayWebhook, RotateWebhook, Secret } from '../webhooks/ask.tsx'
import { WebhookDetail } from '../webhooks/detail.tsx'
import { endpoints, loadEndpoints } from '../webhooks/endpoints.ts'
import { WebhookTable } from '../webhooks/table.tsx'

export function Webhooks() {
  const { failure, again } = useLoading(loadEndpoints)
  const { question, ask, close } = useAsked<Asked>()
  const shown = useParam('webhook')
  const open = endpoints.value?.find(({ id }) => id === shown)
  const add = <AddButton text={t('webhooks.add')} onClick={() => ask({ what: 'add' })} />
  return (
    <ListPage
      title={t('webhooks.title')}
      about={t('webhooks.about')}
      action={add}
      all={endpoints.value}
      failure={failure}
      onRetry={again}
      empty={
        <Nothing
          icon="webhooks"
          title={t('webhooks.none')}
          about={t('webhooks.none_about')}
          action={add}
          command="svc webhook add https://example.com/hook"
        />
      }
      after={
        <>
          {open && <WebhookDetail endpoint={open} onAsk={ask} onClose={() => setParams({ webhook: '' })} />}
          <Question asked={question} onAsk={ask} onClose={close} />
        </>
      }
    >
      {all => <WebhookTable all={all} onAsk={ask} />}
    </ListPage>
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
