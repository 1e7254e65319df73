/** The page of keys and roles. */
import { AddKey } from '../access/add.tsx'
import { type Asked, RevokeKey, RotateKey, Secret } from '../access/ask.tsx'
import { KeyCard } from '../access/card.tsx'
import { type Key, keys, loadKeys } from '../access/keys.ts'
import { Roles } from '../access/roles.tsx'
import { t } from '../i18n.ts'
import { useAsked } from '../ui/ask.tsx'
import { Icon } from '../ui/icon.tsx'
import { ListPage, Nothing, useLoading } from '../ui/list-page.tsx'

export function KeysPage() {
  const { failure, again } = useLoading(loadKeys)
  const { question, ask, close } = useAsked<Asked>()
  const add = (
    <button type="button" class="button primary" onClick={() => ask({ what: 'add' })}>
      <Icon name="add" />
      {t('access.add')}
    </button>
  )
  return (
    <ListPage
      title={t('nav.keys')}
      about={t('access.about')}
      action={add}
      all={keys.value}
      failure={failure}
      onRetry={again}
      empty={<Nothing title={t('access.none')} about={t('access.none_about')} />}
      after={
        <>
          {(keys.value || failure !== undefined) && <Roles />}
          <Question asked={question} onAsk={ask} onClose={close} />
        </>
      }
    >
      {all => <Cards all={all.toReversed()} onAsk={ask} />}
    </ListPage>
  )
}

function Cards({ all, onAsk }: { all: readonly Key[]; onAsk(question: Asked): void }) {
  const cards = (some: readonly Key[]) => (
    <ul class="accounts">
      {some.map(one => (
        <KeyCard key={one.id} item={one} onAsk={onAsk} />
      ))}
    </ul>
  )
  const active = all.filter(({ status }) => status === 'active')
  const ended = all.filter(({ status }) => status !== 'active')
  return (
    <>
      {active.length > 0 && cards(active)}
      {ended.length > 0 && (
        <details class="more-fields">
          <summary>{t('access.ended', { count: ended.length })}</summary>
          {cards(ended)}
        </details>
      )}
    </>
  )
}

interface QuestionProps {
  asked: Asked | undefined
  onAsk(question: Asked): void
  onClose(): void
}

function Question({ asked, onAsk, onClose }: QuestionProps) {
  const show = (added: Extract<Asked, { what: 'secret' }>['added']) => onAsk({ what: 'secret', added })
  switch (asked?.what) {
    case 'add':
      return <AddKey onClose={onClose} onAdded={show} />
    case 'secret':
      return <Secret {...asked} onClose={onClose} />
    case 'rotate':
      return <RotateKey {...asked} onClose={onClose} onRotated={show} />
    case 'revoke':
      return <RevokeKey {...asked} onClose={onClose} />
    default:
      return null
  }
}
