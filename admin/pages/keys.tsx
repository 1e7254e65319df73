/** The page of keys and roles. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { AddKey } from '../access/add.tsx'
import { type Asked, RevokeKey, RotateKey, Secret } from '../access/ask.tsx'
import { KeyCard } from '../access/card.tsx'
import { keys, loadKeys } from '../access/keys.ts'
import { Roles } from '../access/roles.tsx'
import { errorText } from '../errors.ts'
import { t } from '../i18n.ts'
import { may } from '../rights.ts'
import { now } from '../times.ts'
import { Icon } from '../ui/icon.tsx'
import { Link } from '../ui/link.tsx'
import { set } from '../ui/set.ts'

export function KeysPage() {
  const asked = useSignal<Asked | undefined>(undefined)
  const failure = useSignal<unknown>(undefined)
  const load = () =>
    loadKeys().then(set(failure, undefined), error => {
      failure.value = error
    })
  // Last uses and expiries change by themselves: load them twice a minute.
  useEffect(() => void load(), [now.value])
  const all = keys.value?.toReversed()
  const active = all?.filter(({ status }) => status === 'active') ?? []
  const ended = all?.filter(({ status }) => status !== 'active') ?? []
  const ask = (question: Asked) => {
    asked.value = question
  }
  const question = asked.value
  // A dialog that ends late must not close a newer one: a key is shown only once.
  const close = () => {
    if (asked.peek() === question) asked.value = undefined
  }
  return (
    <div class="page sessions keys">
      <header>
        <div>
          <h1>{t('nav.keys')}</h1>
          <p class="soft">{t('access.about')}</p>
        </div>
        <div class="answers">
          {may('audit') && (
            <Link class="button" href="/audit">
              {t('nav.audit')}
            </Link>
          )}
          <button type="button" class="button primary" onClick={() => ask({ what: 'add' })}>
            <Icon name="add" />
            {t('access.add')}
          </button>
        </div>
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
          <h2>{t('access.none')}</h2>
          <p>{t('access.none_about')}</p>
        </div>
      )}
      {active.length > 0 && (
        <ul class="accounts">
          {active.map(one => (
            <KeyCard key={one.id} item={one} onAsk={ask} />
          ))}
        </ul>
      )}
      {ended.length > 0 && (
        <details class="more-fields">
          <summary>{t('access.ended', { count: ended.length })}</summary>
          <ul class="accounts">
            {ended.map(one => (
              <KeyCard key={one.id} item={one} onAsk={ask} />
            ))}
          </ul>
        </details>
      )}
      {(all || failure.value !== undefined) && <Roles />}
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
