/** The side sheet of an account: its state, its data, its users, and its actions. */
import { useLocation } from 'wouter-preact'
import type { Right } from '../../src/model/access.ts'
import { call, type SessionWithUsers } from '../api.ts'
import { pollProblem } from '../errors.ts'
import { isolated, type TextKey, t } from '../i18n.ts'
import { nameOf, status } from '../live.ts'
import { may } from '../rights.ts'
import { ago, now } from '../times.ts'
import { Icon } from '../ui/icon.tsx'
import { Link } from '../ui/link.tsx'
import { Fact, State, Time } from '../ui/marks.tsx'
import { type Action, Menu } from '../ui/menu.tsx'
import { Sheet } from '../ui/sheet.tsx'
import { tell, tellBegun, tellDoubt, tellError } from '../ui/toasts.tsx'
import { Who } from '../users/avatar.tsx'
import { type Health, healthOf, lastContactOf, looks } from './health.ts'
import { invitationName } from './invitations.ts'
import { accountPath, beginNow, loginPath } from './names.ts'
import { refreshSessions } from './use-login.ts'
import { Users } from './users.tsx'

/** Opens a dialog about an account. */
export type Ask = (what: 'rename' | 'logout', name: string) => void

interface AccountProps {
  session: SessionWithUsers
  onAsk: Ask
}

export function AccountSheet({ session, onAsk, onClose }: AccountProps & { onClose(): void }) {
  const { name, bot_id } = session
  const health = healthOf(session, status.value, now.value)
  return (
    <Sheet
      title={isolated(name)}
      onClose={onClose}
      focusAfter={() =>
        document.querySelector<HTMLElement>(`.row-link[href$="${accountPath(name)}${location.search}"]`) ??
        undefined
      }
      footer={
        <>
          <Link class="button" href={`/conversations/${encodeURIComponent(name)}`}>
            {t('nav.conversations')}
          </Link>
          <AccountMenu session={session} onAsk={onAsk} />
        </>
      }
    >
      <p class="states">
        <State {...looks[health]} />
        <Marks session={session} />
      </p>
      <Trouble name={name} health={health} />
      {session.muted_since !== undefined && (
        <div class="notice bad">
          <Icon name="question" />
          <div>
            <p>{t('sessions.is_muted')}</p>
            <p class="soft">{t('overview.muted_about')}</p>
          </div>
        </div>
      )}
      <Facts session={session} />
      {bot_id !== undefined && <Users session={session} />}
    </Sheet>
  )
}

/** Whether it is the default account, and whether it is a guest's. */
export const Marks = ({ session: { invitation, is_default } }: { session: SessionWithUsers }) => (
  <>
    {is_default && (
      <span class="badge">
        <Icon name="star" size={14} />
        {t('session.default')}
      </span>
    )}
    {invitation !== undefined && <span class="badge">{t('session.guest')}</span>}
  </>
)

function Facts({ session }: { session: SessionWithUsers }) {
  const { name, bot_id, user_id, created_at, invitation } = session
  if ((bot_id ?? user_id ?? created_at) === undefined) return null
  return (
    <dl>
      <Fact label={t('sessions.last_poll')}>
        <LastPoll session={session} />
        {session.poll_error !== undefined && <p class="soft small">{pollProblem(session)}</p>}
      </Fact>
      <Fact label={t('sessions.since')}>
        {created_at !== undefined ? <Time at={created_at}>{ago(created_at)}</Time> : t('sessions.unknown')}
      </Fact>
      <Fact label={t('sessions.scanned_by')}>
        {user_id !== undefined && nameOf(name, user_id) !== undefined ? (
          <Who session={name} id={user_id} />
        ) : (
          <Id id={user_id} />
        )}
      </Fact>
      {invitation !== undefined && (
        <Fact label={t('invite.one')}>
          <bdi>{invitationName(invitation)}</bdi>
        </Fact>
      )}
      <Fact label={t('sessions.bot')}>
        <Id id={bot_id} />
      </Fact>
    </dl>
  )
}

function Trouble({ name, health }: { name: string; health: Health }) {
  const { tone, trouble } = looks[health]
  if (!trouble) return null
  return (
    <div class={`notice ${tone}`}>
      <Icon name={health === 'pending' ? 'clock' : 'warn'} />
      <div>
        <p>{t(trouble)}</p>
        <LoginAgain name={name} health={health} />
      </div>
    </div>
  )
}

/** A button, if a new login helps. */
export function LoginAgain({ name, health }: { name: string; health: Health }) {
  const [, navigate] = useLocation()
  if (!looks[health].login || !may('login')) return null
  return (
    <button class="button" type="button" onClick={() => navigate(loginPath(name), { state: beginNow })}>
      {t(health === 'pending' ? 'login.show_code' : 'sessions.login_again')}
      <span class="visually-hidden"> {isolated(name)}</span>
    </button>
  )
}

/** An id that may wrap before its @. */
function Id({ id }: { id: string | undefined }) {
  if (id === undefined) return <>{t('sessions.unknown')}</>
  const at = id.search(/@[^@]*$/)
  return (
    <span class="foreign">
      {at > 0 ? id.slice(0, at) : id}
      <wbr />
      {at > 0 && id.slice(at)}
    </span>
  )
}

export function LastPoll({ session }: { session: SessionWithUsers }) {
  if (!session.connected) return <>{t('sessions.not_connected')}</>
  // A process that does not poll does not know the time.
  const elsewhere = session.connected && status.value?.role === 'watcher'
  const lastContact = elsewhere ? undefined : lastContactOf(session, now.value)
  if (lastContact !== undefined) return <Time at={lastContact}>{ago(lastContact)}</Time>
  return <>{t(elsewhere ? 'sessions.elsewhere' : 'sessions.never')}</>
}

/** The menu of an account. */
export function AccountMenu({ session, onAsk }: AccountProps) {
  const [, navigate] = useLocation()
  const { name, is_default, status: state } = session
  const isNew = state === 'logging_in'
  const login: Action = {
    id: 'login',
    label: t(isNew ? 'login.show_code' : 'sessions.login_again'),
    icon: 'renew',
    // For an account that works, the login page asks first.
    run: () => navigate(loginPath(name), session.connected ? {} : { state: beginNow }),
  }
  const check: Action = {
    id: 'check',
    label: t('sessions.check'),
    icon: 'check',
    run: () => void checkNow(name),
  }
  const rename: Action = {
    id: 'rename',
    label: t('sessions.rename'),
    icon: 'edit',
    run: () => onAsk('rename', name),
  }
  const makeDefault: Action = {
    id: 'default',
    label: t('sessions.make_default'),
    icon: 'star',
    run: () =>
      void change(
        call('set_default', { session_name: name }),
        t('sessions.default_set', { name: isolated(name) }),
      ),
  }
  const logout: Action = {
    id: 'logout',
    label: t(isNew ? 'sessions.call_off' : 'sessions.logout'),
    icon: isNew ? 'close' : 'out',
    danger: true,
    run: isNew
      ? () => void change(call('logout', { session_name: name }), t('login.called_off'))
      : () => onAsk('logout', name),
  }
  const possible = isNew
    ? [login, logout]
    : [
        login,
        ...(session.bot_id === undefined ? [] : [check]),
        rename,
        ...(is_default ? [] : [makeDefault]),
        logout,
      ]
  const actions = possible.filter(({ id }) => may(actionRights[id] ?? 'login'))
  if (actions.length === 0) return null
  return <Menu label={t('session.menu', { name: isolated(name) })} actions={actions} />
}

/** The rights of the actions, by their ids. */
const actionRights: Readonly<Record<string, Right>> = {
  login: 'login',
  check: 'check',
  rename: 'rename',
  default: 'set_default',
  logout: 'logout',
}

const stateTexts: Readonly<Record<SessionWithUsers['status'], TextKey>> = {
  connected: 'session.connected',
  expired: 'session.expired',
  lapsed: 'session.lapsed',
  disconnected: 'session.disconnected',
  logging_in: 'session.logging_in',
}

async function checkNow(name: string): Promise<void> {
  const place = { id: `check-${encodeURIComponent(name)}` }
  tellBegun(t('sessions.checking', { name: isolated(name) }), place)
  try {
    const [checked] = await call('check_sessions', { session: name })
    const { answered, status: found } = checked!
    await refreshSessions()
    const say = answered && found === 'connected' ? tell : tellDoubt
    say(
      answered
        ? t('sessions.checked', { name: isolated(name), state: t(stateTexts[found]) })
        : t('sessions.check_unanswered', { name: isolated(name) }),
      place,
    )
  } catch (error) {
    tellError(error, place)
  }
}

/** Waits for a change of an account, then shows `done`. */
async function change(work: Promise<unknown>, done: string): Promise<void> {
  try {
    await work
    await refreshSessions()
    tell(done)
  } catch (error) {
    tellError(error)
  }
}
