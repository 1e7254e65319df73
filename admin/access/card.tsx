/** The card of a key: what it may do, when it was used, its menu. */
import type { ComponentChildren } from 'preact'
import { bytes, isolated, listed, t } from '../i18n.ts'
import { callerName } from '../rights.ts'
import { ago, relative, whole } from '../times.ts'
import { Fact, State, Time } from '../ui/marks.tsx'
import { type Action, Menu } from '../ui/menu.tsx'
import type { Asked } from './ask.tsx'
import { type Key, keys } from './keys.ts'
import { statusLooks, wordText } from './words.ts'

interface CardProps {
  item: Key
  onAsk(question: Asked): void
}

export function KeyCard({ item, onAsk }: CardProps) {
  const { name, status, can, rotating_until } = item
  const actions: Action[] = [
    { id: 'rotate', label: t('access.rotate'), icon: 'renew', run: () => onAsk({ what: 'rotate', item }) },
    {
      id: 'revoke',
      label: t('access.revoke'),
      icon: 'close',
      danger: true,
      run: () => onAsk({ what: 'revoke', item }),
    },
  ]
  return (
    <li class="card account">
      <header>
        <div class="account-name">
          <h2 class="foreign">{name}</h2>
          <p>
            <State {...statusLooks[status]} />
            {can.map(word => (
              <span key={word} class="badge">
                {wordText(word)}
              </span>
            ))}
          </p>
        </div>
        {status !== 'revoked' && (
          <Menu label={t('session.menu', { name: isolated(name) })} actions={actions} />
        )}
      </header>
      {rotating_until !== undefined && (
        <p class="notice small">{t('access.rotating', { when: relative(rotating_until) })}</p>
      )}
      <Facts item={item} />
    </li>
  )
}

function Facts({ item }: { item: Key }) {
  const { id, tools = [], sessions, users, created_at, made_by, expires_at, revoked_at } = item
  const { last_used_at, last_address = '' } = item
  const maker = made_by.split(':')[1]
  return (
    <dl>
      {tools.length > 0 && (
        <Fact label={t('access.tools')}>
          <code>{tools.join(', ')}</code>
        </Fact>
      )}
      <Fact label={t('access.accounts')}>
        {sessions
          ? names(
              sessions.map(({ bot_id, session }) => session ?? t('access.logged_out', { id: bot_id })),
              t('access.nothing'),
            )
          : t('access.all_accounts')}
      </Fact>
      <Fact label={t('access.users')}>
        {users ? names(users, t('access.nothing')) : t('access.all_users')}
      </Fact>
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
      {revoked_at === undefined ? (
        <Fact label={t('access.expires')}>
          {expires_at === undefined ? (
            t('access.expires_never')
          ) : (
            <Time at={expires_at}>{relative(expires_at)}</Time>
          )}
        </Fact>
      ) : (
        <Fact label={t('access.revoked_at')}>
          <Time at={revoked_at}>{ago(revoked_at)}</Time>
        </Fact>
      )}
      <Fact label={t('access.made')}>
        <span title={whole(created_at)}>
          {t('access.made_by', {
            when: ago(created_at),
            name: isolated(callerName(made_by, keys.value?.find(one => one.id === maker)?.name)),
          })}
        </span>
      </Fact>
      <Fact label={t('access.id')}>
        <code>{id}</code>
      </Fact>
    </dl>
  )
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
