/** A row for each account: its state, when WeChat last answered, what waits. Accounts with problems come first. */
import { useSignal } from '@preact/signals'
import type { Conversation, OutboxEntry, SessionWithUsers, Status } from '../api.ts'
import { isolated, t } from '../i18n.ts'
import { may } from '../rights.ts'
import { byTrouble, type Health, healthOf, lastContactOf, looks, manyFrom } from '../sessions/health.ts'
import { accountPath } from '../sessions/names.ts'
import { ago, now, whole } from '../times.ts'
import { FilterField } from '../ui/filter-field.tsx'
import { Icon } from '../ui/icon.tsx'
import { Link } from '../ui/link.tsx'
import { State, unreadText } from '../ui/marks.tsx'
import { set } from '../ui/set.ts'

/**
 * The accounts to show at first; those with problems are always visible. A long list would push the rest far
 * down.
 */
const shownAtFirst = 5

interface AccountsProps {
  status: Status
  sessions: readonly SessionWithUsers[]
  conversations: readonly Conversation[]
  outbox: readonly OutboxEntry[]
}

export function Accounts({ status, sessions, conversations, outbox }: AccountsProps) {
  const wanted = useSignal('')
  const all = useSignal(false)
  const many = sessions.length >= manyFrom
  const health = (session: SessionWithUsers) => healthOf(session, status, now.value)
  const needle = wanted.value.trim().toLocaleLowerCase()
  const found = sessions
    .filter(({ name }) => !many || name.toLocaleLowerCase().includes(needle))
    .toSorted(byTrouble(status, now.value))
  const troubled = found.filter(session => looks[health(session)].trouble).length
  const visible = all.value || needle !== '' ? found : found.slice(0, Math.max(shownAtFirst, troubled))
  const unread = sumBySession(conversations, ({ unread: count }) => count)
  const queued = sumBySession(outbox, ({ waits_for }) => (waits_for === 'approval' ? 0 : 1))
  return (
    <section aria-labelledby="accounts">
      <header class="section-head">
        <h2 id="accounts">{t('nav.sessions')}</h2>
        {many && <FilterField label={t('overview.filter')} wanted={wanted} />}
        {(may('login') || may('check')) && (
          <Link class="link" href="/sessions">
            {t('overview.manage')}
          </Link>
        )}
      </header>
      {many && (
        <p class="visually-hidden" role="status">
          {needle === '' ? '' : t('overview.found', { count: found.length })}
        </p>
      )}
      {found.length === 0 ? (
        <p class="rows soft none">{t('overview.found_none')}</p>
      ) : (
        <ul class="fleet rows">
          {visible.map(session => (
            <Account
              key={session.name}
              session={session}
              health={health(session)}
              follows={status.role === 'watcher'}
              unread={unread.get(session.name) ?? 0}
              queued={queued.get(session.name) ?? 0}
            />
          ))}
        </ul>
      )}
      {visible.length < found.length && (
        <button type="button" class="link more" onClick={set(all, true)}>
          {t('overview.more', { count: found.length - visible.length })}
        </button>
      )}
    </section>
  )
}

interface AccountProps {
  session: SessionWithUsers
  health: Health
  /** Whether another process polls. Only the polling process knows the times. */
  follows: boolean
  unread: number
  queued: number
}

function Account({ session, health, follows, unread, queued }: AccountProps) {
  const { name, is_default, user_count, connected } = session
  const lastContact = lastContactOf(session, now.value)
  return (
    <li>
      <div class="name">
        <h3>
          <Link class="foreign" href={accountPath(name)}>
            {name}
          </Link>
        </h3>
        {is_default && <span class="badge">{t('session.default')}</span>}
      </div>
      <State {...looks[health]} />
      <p class="soft small facts">
        {connected && follows && <span>{t('overview.polled_elsewhere')}</span>}
        {connected && !follows && lastContact !== undefined && (
          <span title={whole(lastContact)}>{t('overview.polled', { when: ago(lastContact) })}</span>
        )}
        <span>{t('access.users_count', { count: user_count })}</span>
        {queued > 0 && <span>{t('overview.queued_here', { count: queued })}</span>}
      </p>
      <Link
        class="button plain talks"
        href={`/conversations/${encodeURIComponent(name)}`}
        aria-label={
          unread > 0
            ? t('overview.talks_unread', { name: isolated(name), count: Math.min(unread, 99) })
            : t('overview.talks_of', { name: isolated(name) })
        }
      >
        <Icon name="conversations" />
        {unread > 0 && <span class="count">{unreadText(unread)}</span>}
      </Link>
    </li>
  )
}

function sumBySession<T extends { session: string }>(
  all: readonly T[],
  countOf: (one: T) => number,
): ReadonlyMap<string, number> {
  const sums = new Map<string, number>()
  for (const one of all) sums.set(one.session, (sums.get(one.session) ?? 0) + countOf(one))
  return sums
}
