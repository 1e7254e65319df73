/** The side sheet of a key: what it may do, who made it, when it was used. */
import type { ComponentChildren } from 'preact'
import { bytes, isolated, listed, t } from '../i18n.ts'
import { callerName, may } from '../rights.ts'
import { ago, relative, whole } from '../times.ts'
import { Link } from '../ui/link.tsx'
import { Fact, State, Time } from '../ui/marks.tsx'
import { Sheet } from '../ui/sheet.tsx'
import type { Asked } from './ask.tsx'
import { type Key, keys } from './keys.ts'
import { accountsOf, Until } from './table.tsx'
import { roles, statusLooks, wordText } from './words.ts'

interface DetailProps {
  item: Key
  onAsk(question: Asked): void
  onClose(): void
}

export function KeyDetail({ item, onAsk, onClose }: DetailProps) {
  const { id, name, status, rotating_until } = item
  return (
    <Sheet
      title={name}
      onClose={onClose}
      footer={
        <>
          {status !== 'revoked' && (
            <>
              <button type="button" class="button" onClick={() => onAsk({ what: 'rotate', item })}>
                {t('access.rotate')}
              </button>
              <button type="button" class="button" onClick={() => onAsk({ what: 'revoke', item })}>
                {t('access.revoke')}
              </button>
            </>
          )}
          {may('audit') && (
            <Link class="button plain" href={`/audit?who=key:${id}`}>
              {t('access.deeds')}
            </Link>
          )}
        </>
      }
    >
      <State {...statusLooks[status]} />
      {rotating_until !== undefined && (
        <p class="notice small" title={whole(rotating_until)}>
          {t('access.rotating', { when: relative(rotating_until) })}
        </p>
      )}
      <May item={item} />
      <Facts item={item} />
    </Sheet>
  )
}

const May = ({ item: { can, tools = [] } }: { item: Key }) => (
  <section>
    <h3>{t('access.may')}</h3>
    <ul class="plain-list">
      {can.map(word => (
        <li key={word}>
          {wordText(word)}
          {word in roles && (
            <span class="soft small block">{t(roles[word as keyof typeof roles].about)}</span>
          )}
        </li>
      ))}
      {tools.length > 0 && (
        <li>
          {t('access.tools')} <code>{tools.join(', ')}</code>
        </li>
      )}
    </ul>
  </section>
)

function Facts({ item }: { item: Key }) {
  const { id, users, topics, created_at, made_by, last_used_at, last_address = '' } = item
  const accounts = accountsOf(item)
  return (
    <dl>
      <Fact label={t('nav.sessions')}>
        {accounts ? names(accounts, t('access.nothing')) : t('access.all_accounts')}
      </Fact>
      <Fact label={t('access.users')}>
        {users ? names(users, t('access.nothing')) : t('access.all_users')}
      </Fact>
      {topics && <Fact label={t('topics.title')}>{names(topics, t('access.nothing'))}</Fact>}
      <Limits limits={item.limits} />
      <Fact label={t('access.last_used')}>
        {last_used_at === undefined ? (
          t('sessions.never')
        ) : (
          <Time at={last_used_at}>
            {ago(last_used_at)}
            {last_address !== '' && ` · ${last_address}`}
          </Time>
        )}
      </Fact>
      <Fact label={t('access.expires')}>
        <Until item={item} />
      </Fact>
      <Fact label={t('access.made')}>
        <span title={whole(created_at)}>
          {t('access.made_by', { when: ago(created_at), name: isolated(makerOf(made_by)) })}
        </span>
      </Fact>
      <Fact label={t('access.id')}>
        <code>{id}</code>
      </Fact>
    </dl>
  )
}

/** The name of who made a key. */
function makerOf(madeBy: string): string {
  const id = madeBy.split(':')[1]
  return keys.value?.find(one => one.id === id)?.name ?? callerName(madeBy)
}

const names = (all: readonly string[], none: string): ComponentChildren =>
  all.length === 0 ? none : <span class="foreign">{listed(all.map(isolated))}</span>

function Limits({ limits = {} }: { limits?: Key['limits'] }) {
  const { calls_per_second, open, bytes_per_day } = limits
  const words = [
    ...(calls_per_second === undefined ? [] : [t('access.per_second', { count: calls_per_second })]),
    ...(open === undefined ? [] : [t('access.at_once', { count: open })]),
    ...(bytes_per_day === undefined ? [] : [t('access.per_day', { size: bytes(bytes_per_day) })]),
  ]
  return words.length === 0 ? null : <Fact label={t('access.limits')}>{listed(words)}</Fact>
}
