/** The accounts page: states, adding, renaming, choosing, logging out. The URL names the open dialog. */
import { useSignal } from '@preact/signals'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import type { SessionWithUsers } from '../api.ts'
import { gap, isolated, t } from '../i18n.ts'
import { conversations, sessions } from '../live.ts'
import { useParam } from '../place.ts'
import { may } from '../rights.ts'
import { AccountSheet, type Ask } from '../sessions/account.tsx'
import { Add } from '../sessions/add.tsx'
import { LoggedOut } from '../sessions/logged-out.tsx'
import { LoginDialog } from '../sessions/login.tsx'
import { Logout } from '../sessions/logout.tsx'
import { Bot } from '../sessions/mascot.tsx'
import { accountOf, accountPath, beginNow, loginPath } from '../sessions/names.ts'
import { comingLogins } from '../sessions/one-by-one.ts'
import { Rename } from '../sessions/rename.tsx'
import { AccountTable, AccountTabs } from '../sessions/table.tsx'
import { Icon } from '../ui/icon.tsx'
import { laterPart } from '../ui/lazy-page.tsx'
import { Link } from '../ui/link.tsx'
import { LoadingRows, PageHead } from '../ui/list-page.tsx'
import { set } from '../ui/set.ts'

const InvitationList = laterPart(async () => (await import('../sessions/invite.tsx')).InvitationList)
const Invite = laterPart(async () => (await import('../sessions/invite.tsx')).Invite)

export function Sessions() {
  const [path, navigate] = useLocation()
  const asked = useSignal<{ what: 'rename' | 'logout'; name: string } | undefined>(undefined)
  const [name = '', more = ''] = path.split('/').slice(2).map(decoded)
  const adding = name === 'add' && more === ''
  const chosen = adding || name === '' ? undefined : name
  const inviting = useSignal(false)
  const all = sessions.value
  const ask: Ask = (what, which) => {
    asked.value = { what, name: which }
  }
  // Also when the person goes back in the browser.
  useEffect(() => {
    if (more !== 'login') return
    return () => {
      comingLogins.value = []
    }
  }, [more])
  const close = () => navigate(`/sessions${location.search}`)
  const question = asked.value
  // A dialog that ends late must not close a newer one.
  const forget = () => {
    if (asked.peek() === question) asked.value = undefined
  }
  const account = useAccount(more === '' ? chosen : undefined)
  const isMissing = all && all.length > 0 && chosen !== undefined && more === '' && !account
  return (
    <div class="page sessions">
      <PageHead
        title={t('nav.sessions')}
        action={all && <AddAccounts all={all} onInvite={set(inviting, true)} />}
      />
      {isMissing && <Missing name={chosen} />}
      {all ? <Shown all={all} onAsk={ask} /> : <LoadingRows />}
      {account && <AccountSheet session={account} onAsk={ask} onClose={close} />}
      {all && adding && may('login') && <Add onClose={close} />}
      {all && chosen !== undefined && more === 'login' && may('login') && (
        <LoginDialog key={chosen} name={chosen} atOnce={isOurs(history.state)} onClose={close} />
      )}
      {inviting.value && <Invite onClose={set(inviting, false)} />}
      {question?.what === 'rename' && <Rename name={question.name} onClose={forget} />}
      {question?.what === 'logout' && <Logout name={question.name} onClose={forget} />}
    </div>
  )
}

interface AllProps {
  all: readonly SessionWithUsers[]
}

/** The ways to more accounts. */
const AddAccounts = ({ all, onInvite }: AllProps & { onInvite(): void }) => (
  <span class="page-actions">
    {may('invitations') && (
      <button class="button" type="button" onClick={onInvite}>
        {t('invite.invite')}
      </button>
    )}
    {all.length > 0 && may('login') && (
      <Link class="button primary" href="/sessions/add">
        <Icon name="add" />
        {t('sessions.add')}
      </Link>
    )}
  </span>
)

/** The accounts, the invitations, or what there is without an account. */
function Shown({ all, onAsk }: AllProps & { onAsk: Ask }) {
  const showsInvitations = useParam('show') === 'invitations' && may('invitations')
  if (all.length > 0 && !showsInvitations) return <AccountTable all={all} onAsk={onAsk} />
  return (
    <section class="account-list">
      <div class="list-filters">
        <AccountTabs all={all} />
      </div>
      {showsInvitations ? (
        <InvitationList />
      ) : conversations.value?.length ? (
        <LoggedOut conversations={conversations.value} />
      ) : (
        <Empty />
      )}
    </section>
  )
}

const Missing = ({ name }: { name: string }) => (
  <p class="notice warn" role="status">
    <Icon name="warn" />
    <span>
      {t('sessions.missing', { name: isolated(name) })}
      {gap()}
      <Link href="/sessions">{t('sessions.show_all')}</Link>
    </span>
  </p>
)

/** Returns the account of a name in the URL. If it gets another name, here or elsewhere, the URL follows. */
function useAccount(name = ''): SessionWithUsers | undefined {
  const [, navigate] = useLocation()
  const shown = useRef<SessionWithUsers>(undefined)
  const named = accountOf(name)
  const before = shown.current?.name === name ? shown.current.bot_id : undefined
  const renamed =
    named || before === undefined ? undefined : sessions.value?.find(({ bot_id }) => bot_id === before)
  useLayoutEffect(() => {
    if (renamed) navigate(`${accountPath(renamed.name)}${location.search}`, { replace: true })
    else shown.current = named
  })
  return named ?? renamed
}

/** Shown while there is no account. */
function Empty() {
  const [, navigate] = useLocation()
  return (
    <div class="card empty first-account">
      <Bot />
      <h2>{t('sessions.empty_title')}</h2>
      {may('login') && (
        <>
          <p>{t('sessions.empty_about')}</p>
          <button
            class="button primary"
            type="button"
            onClick={() => navigate(loginPath('default'), { state: beginNow })}
          >
            {t('welcome.go')}
          </button>
        </>
      )}
    </div>
  )
}

const isOurs = (state: unknown): boolean => (state as { begin?: unknown } | null)?.begin === true

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
