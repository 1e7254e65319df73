/** The accounts as a table, problems first. If they are many: with a filter, and several can be logged in again. */
import { type Signal, useSignal } from '@preact/signals'
import type { SessionWithUsers } from '../api.ts'
import { isolated, number, t } from '../i18n.ts'
import { status } from '../live.ts'
import { setParams, useParam } from '../place.ts'
import { may } from '../rights.ts'
import { now } from '../times.ts'
import { Chip } from '../ui/chips.tsx'
import { FilterField } from '../ui/filter-field.tsx'
import { Icon } from '../ui/icon.tsx'
import { useLoading } from '../ui/list-page.tsx'
import { State } from '../ui/marks.tsx'
import { RowLink, Table } from '../ui/rows.tsx'
import { Tabs } from '../ui/tabs.tsx'
import { AccountMenu, type Ask, LastPoll, LoginAgain, Marks } from './account.tsx'
import { byTrouble, healthOf, looks, manyFrom } from './health.ts'
import { invitationName, loadInvitations } from './invitations.ts'
import { accountPath } from './names.ts'
import { logInOneByOne } from './one-by-one.ts'

interface TableProps {
  all: readonly SessionWithUsers[]
  onAsk: Ask
}

export function AccountTable({ all, onAsk }: TableProps) {
  const wanted = useSignal('')
  const chosen = useSignal<ReadonlySet<string>>(new Set())
  const many = all.length >= manyFrom
  const needle = many ? wanted.value.trim().toLocaleLowerCase() : ''
  const invitation = useParam('invitation')
  const hasGuests = all.some(one => one.invitation !== undefined)
  useLoading(async () => {
    if (hasGuests && may('invitations')) await loadInvitations()
  }, `${hasGuests}`)
  const found = useFound(all, needle, invitation)
  // An account that is filtered out is no longer chosen.
  const names = found.map(({ name }) => name).filter(name => chosen.value.has(name))
  const choose = (which: readonly string[]) => {
    chosen.value = new Set(which)
  }
  return (
    <section class="account-list" aria-label={t('nav.sessions')}>
      <div class="list-filters">
        <AccountTabs all={all} />
        {(hasGuests || invitation !== '') && <InvitationChip all={all} value={invitation} />}
        {many && may('login') && <OneByOne found={found} names={names} onChoose={choose} />}
        {many && <FilterField label={t('overview.filter')} wanted={wanted} />}
      </div>
      <p class="visually-hidden" role="status">
        {needle === '' ? '' : t('overview.found', { count: found.length })}
      </p>
      {found.length === 0 ? (
        <p class="soft">{t(needle + invitation === '' ? 'sessions.no_trouble' : 'overview.found_none')}</p>
      ) : (
        <Table
          columns={columns}
          lead={
            many && (
              <ChooseAll
                isChosen={names.length === found.length}
                onChoose={all => choose(all ? found.map(({ name }) => name) : [])}
              />
            )
          }
        >
          <Groups found={found} onAsk={onAsk} {...(many && { chosen })} />
        </Table>
      )}
    </section>
  )
}

/** The accounts of the tab, the filter and the invitation, those with problems first. */
function useFound(all: readonly SessionWithUsers[], needle: string, wanted: string) {
  const isOnlyTrouble = useParam('show') === 'trouble' && all.length >= manyFrom
  return (isOnlyTrouble ? all.filter(isTroubled) : all)
    .filter(({ name }) => name.toLocaleLowerCase().includes(needle))
    .filter(({ invitation = '' }) => wanted === '' || invitation === wanted)
    .toSorted(byTrouble(status.value, now.value))
}

interface GroupsProps extends Omit<LineProps, 'session'> {
  found: readonly SessionWithUsers[]
}

/** One's own accounts, then the guests of each invitation. */
function Groups({ found, ...line }: GroupsProps) {
  const groups = [...Map.groupBy(found, ({ invitation = '' }) => invitation)].sort(
    ([one], [other]) => Number(one !== '') - Number(other !== ''),
  )
  return groups.map(([id, some]) => (
    <tbody key={id}>
      {(groups.length > 1 || id !== '') && (
        <tr class="group">
          <th scope="rowgroup" colSpan={6}>
            <bdi>{invitationName(id)}</bdi> <span class="soft">{number(some.length)}</span>
          </th>
        </tr>
      )}
      {some.map(session => (
        <Line key={session.name} session={session} {...line} />
      ))}
    </tbody>
  ))
}

const isTroubled = (session: SessionWithUsers): boolean =>
  looks[healthOf(session, status.value, now.value)].trouble !== undefined

/** The tabs of the page: all accounts, those with problems if they are many, and the invitations. */
export function AccountTabs({ all }: { all: readonly SessionWithUsers[] }) {
  const tabs = [
    { id: '', text: t('sessions.all'), count: all.length },
    ...(all.length < manyFrom
      ? []
      : [{ id: 'trouble', text: t('overview.attention'), count: all.filter(isTroubled).length }]),
    ...(may('invitations') ? [{ id: 'invitations', text: t('invite.tab') }] : []),
  ]
  const value = useParam('show')
  if (tabs.length === 1) return null
  return (
    <Tabs
      label={t('access.status')}
      tabs={tabs}
      value={value}
      onChange={show => setParams({ show, invitation: '' })}
    />
  )
}

function InvitationChip({ all, value }: { all: readonly SessionWithUsers[]; value: string }) {
  const ids = new Set(all.flatMap(({ invitation = [] }) => invitation))
  return (
    <Chip
      label={t('invite.one')}
      options={[...ids].map(id => [id, invitationName(id)] as const)}
      value={value}
      any={t('sessions.all')}
      onChange={invitation => setParams({ invitation })}
    />
  )
}

interface OneByOneProps {
  found: readonly SessionWithUsers[]
  /** The names of those that are chosen. */
  names: readonly string[]
  onChoose(names: readonly string[]): void
}

/** Chooses the accounts that a login helps, and logs the chosen ones in again. */
function OneByOne({ found, names, onChoose }: OneByOneProps) {
  const lost = found.filter(session => looks[healthOf(session, status.value, now.value)].login)
  return (
    <>
      {lost.length > 0 && (
        <button type="button" class="button" onClick={() => onChoose(lost.map(({ name }) => name))}>
          {t('sessions.choose_troubled', { count: lost.length })}
        </button>
      )}
      {names.length > 0 && (
        <button type="button" class="button" onClick={() => logInOneByOne(names)}>
          <Icon name="renew" />
          {t('sessions.login_chosen', { count: names.length })}
        </button>
      )}
    </>
  )
}

const columns = [
  ['access.name'],
  ['access.status', 'wide'],
  ['sessions.last_poll', 'wide'],
  ['access.users', 'wide number'],
] as const

interface ChooseAllProps {
  /** Whether all are chosen. */
  isChosen: boolean
  onChoose(all: boolean): void
}

const ChooseAll = ({ isChosen, onChoose }: ChooseAllProps) => (
  <th scope="col">
    <input
      type="checkbox"
      aria-label={t('approvals.choose_all')}
      checked={isChosen}
      onChange={event => onChoose(event.currentTarget.checked)}
    />
  </th>
)

interface LineProps {
  session: SessionWithUsers
  /** The names of those that are chosen; absent if accounts cannot be chosen. */
  chosen?: Signal<ReadonlySet<string>>
  onAsk: Ask
}

function Line({ session, chosen, onAsk }: LineProps) {
  const { name, user_count } = session
  const health = healthOf(session, status.value, now.value)
  const choose = (isChosen: boolean) => {
    const names = new Set(chosen!.value)
    names[isChosen ? 'add' : 'delete'](name)
    chosen!.value = names
  }
  return (
    <tr>
      {chosen && (
        <td>
          <input
            type="checkbox"
            aria-label={t('sessions.choose', { name: isolated(name) })}
            checked={chosen.value.has(name)}
            onChange={event => choose(event.currentTarget.checked)}
          />
        </td>
      )}
      <th scope="row">
        <span class="account-line">
          <RowLink href={`${accountPath(name)}${location.search}`}>
            <bdi>{name}</bdi>
          </RowLink>
          <span class="wide">
            <Marks session={session} />
          </span>
        </span>
        <span class="narrow small">
          <State {...looks[health]} />
          <Marks session={session} />
        </span>
      </th>
      <td class="wide">
        <State {...looks[health]} />
      </td>
      <td class="wide soft">
        <LastPoll session={session} />
      </td>
      <td class="wide number">{number(user_count)}</td>
      <td>
        <span class="account-actions">
          <LoginAgain name={name} health={health} />
          <AccountMenu session={session} onAsk={onAsk} />
        </span>
      </td>
    </tr>
  )
}
