/** Which conversations the list shows: its tabs, and the accounts by their colours. */
import type { Conversation } from '../api.ts'
import { type TextKey, t } from '../i18n.ts'
import { userOf } from '../live.ts'
import { hrefOf, type Place, type Show, shows } from '../place.ts'
import { navigate } from '../service-urls.ts'
import { AccountDot, accountsInView } from '../sessions/colour.tsx'
import { waitsSince } from '../talks.ts'
import { Icon } from '../ui/icon.tsx'
import { Link } from '../ui/link.tsx'
import { Tabs } from '../ui/tabs.tsx'
import { rightOf } from '../users/reply-permission.tsx'

interface Tab {
  text: TextKey
  /** Says that there is none. */
  none: TextKey
  has(one: Conversation): boolean
}

export const tabs: Readonly<Record<Show, Tab>> = {
  all: { text: 'conversations.all', none: 'conversations.none', has: () => true },
  unread: {
    text: 'conversations.unread',
    none: 'conversations.none_unread',
    has: ({ unread }) => unread > 0,
  },
  waiting: {
    text: 'conversations.waiting',
    none: 'conversations.none_waiting',
    has: one => waitsSince(one, userOf(one.session, one.user_id)) !== undefined,
  },
  open: {
    text: 'conversations.open',
    none: 'conversations.none_open',
    has: ({ session, user_id }) => rightOf(session, user_id).kind === 'open',
  },
}

export const ListTabs = ({ place }: { place: Place }) => (
  <Tabs
    label={t('nav.conversations')}
    tabs={shows.map(id => ({ id, text: t(tabs[id].text) }))}
    value={place.show}
    onChange={show => navigate(hrefOf({ ...place, show }), { replace: true })}
  />
)

/** Names the colours of the accounts, and shows the conversations of one of them. */
export function Accounts({ place }: { place: Place }) {
  const { filter } = place
  const { account: only = '' } = filter
  const names = accountsInView()
  if (only === '' && names.length < 2) return null
  return (only === '' ? names : [only]).map(name => (
    <li key={name}>
      <Link
        class={only === '' ? 'chip' : 'chip only'}
        href={hrefOf({ ...place, filter: { ...filter, account: only === '' ? name : '' } })}
      >
        <AccountDot name={name} />
        <span class="foreign cut">{name}</span>
        {only !== '' && (
          <>
            <span class="visually-hidden">{t('conversations.show_all')}</span>
            <Icon name="close" size={14} />
          </>
        )}
      </Link>
    </li>
  ))
}
