/** Many accounts as a table with a filter, problems first. Several can be chosen and logged in again. */
import { useComputed, useSignal } from '@preact/signals'
import type { SessionWithUsers } from '../api.ts'
import { isolated, t } from '../i18n.ts'
import { status } from '../live.ts'
import { may } from '../rights.ts'
import { now } from '../times.ts'
import { FilterField } from '../ui/filter-field.tsx'
import { Icon } from '../ui/icon.tsx'
import { Link } from '../ui/link.tsx'
import { State } from '../ui/marks.tsx'
import { AccountMenu, type Ask, LastPoll } from './account.tsx'
import { byTrouble, healthOf, looks } from './health.ts'
import { accountPath } from './names.ts'
import { logInOneByOne } from './one-by-one.ts'

interface TableProps {
  all: readonly SessionWithUsers[]
  onAsk: Ask
}

export function AccountTable({ all, onAsk }: TableProps) {
  const wanted = useSignal('')
  const chosen = useSignal<ReadonlySet<string>>(new Set())
  const needle = useComputed(() => wanted.value.trim().toLocaleLowerCase()).value
  const found = all
    .filter(({ name }) => name.toLocaleLowerCase().includes(needle))
    .toSorted(byTrouble(status.value, now.value))
  // An account that is filtered out is no longer chosen.
  const names = found.map(({ name }) => name).filter(name => chosen.value.has(name))
  const troubled = found.filter(session => looks[healthOf(session, status.value, now.value)].login)
  const choose = (which: readonly string[]) => {
    chosen.value = new Set(which)
  }
  return (
    <section class="card account-table" aria-label={t('nav.sessions')}>
      <header>
        <FilterField label={t('overview.filter')} wanted={wanted} />
        {troubled.length > 0 && may('login') && (
          <button type="button" class="button" onClick={() => choose(troubled.map(({ name }) => name))}>
            {t('sessions.choose_troubled', { count: troubled.length })}
          </button>
        )}
        {may('login') && (
          <button
            type="button"
            class="button primary"
            aria-disabled={names.length === 0}
            onClick={() => names.length > 0 && logInOneByOne(names)}
          >
            <Icon name="renew" />
            {names.length === 0
              ? t('sessions.login_again')
              : t('sessions.login_chosen', { count: names.length })}
          </button>
        )}
      </header>
      <p class="visually-hidden" role="status">
        {needle === '' ? '' : t('overview.found', { count: found.length })}
      </p>
      {found.length === 0 ? (
        <p class="soft none">{t('overview.found_none')}</p>
      ) : (
        <table>
          <thead>
            <tr>
              <th scope="col">
                <input
                  type="checkbox"
                  aria-label={t('sessions.choose_all')}
                  checked={names.length === found.length}
                  onChange={event => choose(event.currentTarget.checked ? found.map(({ name }) => name) : [])}
                />
              </th>
              <th scope="col">{t('sessions.name')}</th>
              <th scope="col">{t('sessions.state')}</th>
              <th scope="col" class="wide">
                {t('sessions.last_poll')}
              </th>
              <th scope="col" class="wide">
                {t('sessions.people')}
              </th>
              <th scope="col">
                <span class="visually-hidden">{t('sessions.actions')}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {found.map(session => (
              <Line
                key={session.name}
                session={session}
                chosen={chosen.value.has(session.name)}
                onChoose={isChosen =>
                  choose(isChosen ? [...names, session.name] : names.filter(name => name !== session.name))
                }
                onAsk={onAsk}
              />
            ))}
          </tbody>
        </table>
      )}
    </section>
  )
}

interface LineProps {
  session: SessionWithUsers
  chosen: boolean
  onChoose(isChosen: boolean): void
  onAsk: Ask
}

function Line({ session, chosen, onChoose, onAsk }: LineProps) {
  const { name, is_default, user_count } = session
  return (
    <tr>
      <td>
        <input
          type="checkbox"
          aria-label={t('sessions.choose', { name: isolated(name) })}
          checked={chosen}
          onChange={event => onChoose(event.currentTarget.checked)}
        />
      </td>
      <th scope="row">
        <Link class="foreign" href={accountPath(name)}>
          {name}
        </Link>
        {is_default && <span class="badge">{t('session.default')}</span>}
      </th>
      <td>
        <State {...looks[healthOf(session, status.value, now.value)]} />
      </td>
      <td class="wide soft small">
        <LastPoll session={session} />
      </td>
      <td class="wide soft small">{user_count}</td>
      <td>
        <AccountMenu session={session} onAsk={onAsk} />
      </td>
    </tr>
  )
}
