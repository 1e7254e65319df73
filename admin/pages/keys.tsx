/** The page of keys. The URL names the tab and the key whose detail is open. */
import { AddKey } from '../access/add.tsx'
import { type Asked, RevokeKey, RotateKey, Secret } from '../access/ask.tsx'
import { KeyDetail } from '../access/detail.tsx'
import { type Key, keys, loadKeys } from '../access/keys.ts'
import {
  AddedRelayView,
  AddRelay,
  AllowRelay,
  loadRelays,
  RelayList,
  RemoveRelay,
} from '../access/relays.tsx'
import { KeyTable } from '../access/table.tsx'
import { t } from '../i18n.ts'
import { setParams, useParam } from '../place.ts'
import { useAsked } from '../ui/ask.tsx'
import { AddButton, ListPage, Nothing, NothingFound, useLoading } from '../ui/list-page.tsx'
import { Tabs } from '../ui/tabs.tsx'

const isActive = ({ status }: Key): boolean => status === 'active'

const loadAll = async (): Promise<void> => {
  await Promise.all([loadKeys(), loadRelays()])
}

export function KeysPage() {
  const { failure, again } = useLoading(loadAll)
  const { question, ask, close } = useAsked<Asked>()
  const shown = useParam('key')
  const isEnded = useParam('show') === 'ended'
  const all = keys.value?.toReversed()
  const open = all?.find(({ id }) => id === shown)
  const add = (
    <span class="page-actions">
      <AddButton text={t('access.add')} onClick={() => ask({ what: 'add' })} />
      <button type="button" class="button" onClick={() => ask({ what: 'relay' })}>
        {t('relay.add')}
      </button>
    </span>
  )
  return (
    <ListPage
      title={t('nav.keys')}
      about={t('access.about')}
      action={add}
      all={all}
      failure={failure}
      onRetry={again}
      filters={all?.some(one => !isActive(one)) && <KeyTabs all={all} isEnded={isEnded} />}
      empty={
        <Nothing
          icon="key"
          title={t('access.none')}
          about={t('access.none_about')}
          action={add}
          command={addCommand}
        />
      }
      after={
        <>
          {open && <KeyDetail item={open} onAsk={ask} onClose={() => setParams({ key: '' })} />}
          <Question asked={question} onAsk={ask} onClose={close} />
        </>
      }
    >
      {all => {
        const some = all.filter(one => isActive(one) !== isEnded)
        return (
          <>
            {some.length === 0 ? <NothingFound /> : <KeyTable all={some} onAsk={ask} />}
            {!isEnded && <RelayList onAsk={ask} />}
          </>
        )
      }}
    </ListPage>
  )
}

const addCommand = 'svc key add support-bot --can reply'

function KeyTabs({ all, isEnded }: { all: readonly Key[]; isEnded: boolean }) {
  const active = all.filter(isActive).length
  return (
    <Tabs
      label={t('access.status')}
      value={isEnded ? 'ended' : ''}
      tabs={[
        { id: '', text: t('access.tab_active'), count: active },
        { id: 'ended', text: t('access.tab_ended'), count: all.length - active },
      ]}
      onChange={show => setParams({ show })}
    />
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
    case 'relay':
      return <AddRelay onClose={onClose} onAdded={added => onAsk({ what: 'relay_added', added })} />
    case 'relay_added':
      return <AddedRelayView added={asked.added} onClose={onClose} />
    case 'relay_remove':
      return <RemoveRelay item={asked.item} onClose={onClose} />
    case 'relay_allow':
      return <AllowRelay item={asked.item} onClose={onClose} />
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
