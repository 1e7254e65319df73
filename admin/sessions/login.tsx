/**
 * The login dialog of an account: the code, the state on the phone, the result. Closing it cancels the login.
 */
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import type { Login, Message } from '../api.ts'
import { gap, isolated, type TextKey, t } from '../i18n.ts'
import { onMessages, peerOf, status } from '../live.ts'
import { hrefOf } from '../place.ts'
import { phonePath } from '../service-urls.ts'
import { copy } from '../ui/copy.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Icon } from '../ui/icon.tsx'
import { Code } from './code.tsx'
import { Digits } from './digits.tsx'
import { Bot } from './mascot.tsx'
import { nameProblem } from './name-field.tsx'
import { comingLogins, logInOneByOne } from './one-by-one.ts'
import { isOpen, useLogin } from './use-login.ts'

interface LoginProps {
  name: string
  /** Whether the login begins at once, because a button of the panel led here. */
  atOnce: boolean
  onClose(): void
}

export function LoginDialog({ name, atOnce, onClose }: LoginProps) {
  const following = useLogin(name, atOnce)
  const { progress } = following
  const login = progress.step === 'following' ? progress.login : undefined
  const confirmed = login?.status === 'confirmed' ? login.session : undefined
  const first = useFirst(confirmed)
  const title = t(confirmed === undefined ? 'login.title' : 'login.confirmed', {
    name: isolated(login?.session ?? name),
  })
  return (
    <Dialog
      title={title}
      onClose={onClose}
      footer={<Footer {...following} first={first} onClose={onClose} />}
    >
      <div class="login-stage">
        <Stage {...following} name={name} hasFirst={first !== undefined} />
      </div>
      <Sandbox link={login?.qr_url} />
    </Dialog>
  )
}

/** The first message that comes to the account once it is connected. */
function useFirst(session: string | undefined): Message | undefined {
  const first = useSignal<Message | undefined>(undefined)
  useEffect(
    () =>
      onMessages(messages => {
        first.value ??= messages.find(one => one.session === session && one.direction === 'received')
      }),
    [session],
  )
  return first.value
}

type Following = ReturnType<typeof useLogin>

/** What the dialog shows: the code, what the phone asks for, or how it ended. */
function Stage({ progress, giveCode, name, hasFirst }: Following & { name: string; hasFirst: boolean }) {
  switch (progress.step) {
    case 'starting':
      return <Before key="before" state="starting" text={t('login.starting')} />
    case 'ready':
      return <Before key="before" state="ready" text={t('login.ready')} />
    case 'connected':
      return <Code key="works" state="ready" text={t('login.connected_already', { name: isolated(name) })} />
    case 'failed': {
      const { text, reason } = nameProblem(progress.error)
      return <Ended key="end" text={text} about={reason} />
    }
    case 'following': {
      const { login } = progress
      if (isOpen(login)) return <Under key="under" login={login} giveCode={giveCode} />
      if (login.status === 'confirmed') return <Awake key="end" hasFirst={hasFirst} />
      const [text, about] = endOf(login)
      return <Ended key="end" text={t(text)} about={t(about)} />
    }
  }
}

/** The ways on. */
function Footer({ progress, begin, first, onClose }: Following & { first?: Message; onClose(): void }) {
  const { step } = progress
  const login = step === 'following' ? progress.login : undefined
  const isUnder = step === 'starting' || (login && isOpen(login))
  const hasNext = comingLogins.value.length > 0
  if (login?.status === 'confirmed') return hasNext ? <Next /> : <Onward first={first} onClose={onClose} />
  const again = { ready: 'login.show_code', connected: 'sessions.login_again' } as const
  return (
    <>
      <button class="button" type="button" onClick={onClose}>
        {t(isUnder ? 'action.cancel' : 'action.close')}
      </button>
      {isUnder ? (
        hasNext && <Next skips />
      ) : (
        <Primary onClick={() => begin(step === 'connected' || login?.status === 'already_bound')}>
          {t(step === 'ready' || step === 'connected' ? again[step] : 'login.again')}
        </Primary>
      )}
    </>
  )
}

const Before = ({ state, text }: { state: 'ready' | 'starting'; text: string }) => (
  <>
    <Code state={state} text={text} />
    <How />
  </>
)

const How = () => (
  <ol class="login-how">
    <li>{t('login.how_1')}</li>
    <li>{t('login.how_2')}</li>
    <li>{t('login.how_3')}</li>
  </ol>
)

/** A login under way. */
function Under({ login, giveCode }: { login: Login; giveCode(code: string): Promise<void> }) {
  const { notice, qr_svg, qr_url = '', revision, status: state } = login
  const news = state === 'waiting' && notice !== undefined ? renewals[notice] : undefined
  if (state === 'need_verifycode')
    return <Digits key={revision} wrong={notice === 'wrong_code'} give={giveCode} />
  return (
    <>
      <Code
        state={state === 'scaned' || state === 'waiting' ? state : 'starting'}
        text={t(news ?? textOf(state))}
        isNews={news !== undefined}
        {...(qr_svg !== undefined && { svg: qr_svg })}
      />
      {state === 'waiting' && (
        <>
          <How />
          <OnThisPhone link={qr_url} />
        </>
      )}
    </>
  )
}

const Awake = ({ hasFirst }: { hasFirst: boolean }) => (
  <div class="login-end good" role="status">
    <Bot awake />
    <p>{t(hasFirst ? 'login.first_came' : 'login.confirmed_about')}</p>
  </div>
)

const renewals: Readonly<Record<string, TextKey>> = {
  renewed: 'login.renewed',
  renewed_after_wrong_codes: 'login.renewed_after_wrong_codes',
}

const textOf = (state: Login['status']): TextKey =>
  state === 'scaned' ? 'login.scaned' : state === 'waiting' ? 'login.waiting' : 'login.renewing'

function endOf({ notice, status: state }: Login): [TextKey, TextKey] {
  if (notice === 'called_off') return ['login.called_off', 'login.called_off_about']
  if (notice === 'failed') return ['login.failed', 'login.failed_about']
  if (state === 'already_bound') return ['login.already_bound', 'login.already_bound_about']
  if (state === 'verify_code_blocked') return ['login.blocked', 'login.blocked_about']
  return ['login.expired', 'login.expired_about']
}

function Ended({ text, about }: { text: string; about: string }) {
  return (
    <div class="login-end" role="alert">
      <Icon name="warn" size={32} />
      <h3>{text}</h3>
      <p class="soft foreign">{about}</p>
    </div>
  )
}

/** Goes to the next chosen account. */
function Next({ skips }: { skips?: boolean }) {
  const [name = '', ...after] = comingLogins.value
  const go = () => logInOneByOne(comingLogins.value, true)
  const what = { name: isolated(name), count: after.length + 1 }
  return skips ? (
    <button class="button" type="button" onClick={go}>
      {t('login.skip', what)}
    </button>
  ) : (
    <Primary onClick={go}>{t('login.next', what)}</Primary>
  )
}

function Onward({ first, onClose }: { first: Message | undefined; onClose(): void }) {
  const [, navigate] = useLocation()
  const to = first ? hrefOf({ session: first.session, userId: peerOf(first) }) : '/conversations'
  return (
    <>
      <button class="button" type="button" onClick={() => navigate(to)}>
        {t(first ? 'audit.open_chat' : 'login.to_conversations')}
      </button>
      <Primary onClick={onClose}>{t('login.done')}</Primary>
    </>
  )
}

/** The button that goes on. It gets the focus. */
function Primary({ onClick, children }: { onClick(): void; children: ComponentChildren }) {
  const button = useRef<HTMLButtonElement>(null)
  useEffect(() => button.current?.focus(), [])
  return (
    <button class="button primary" type="button" ref={button} onClick={onClick}>
      {children}
    </button>
  )
}

/** A link for people who have the panel open on the same phone, which cannot scan its own screen. */
function OnThisPhone({ link }: { link: string }) {
  const copied = useSignal(false)
  return (
    <details class="login-link">
      <summary>{t('login.no_camera')}</summary>
      <p class="soft small">{t('login.link_about')}</p>
      <div>
        <input
          class="input mono"
          readOnly
          value={link}
          aria-label={t('login.link')}
          onFocus={event => event.currentTarget.select()}
        />
        <button
          class="button"
          type="button"
          onClick={async () => {
            copied.value = await copy(link)
          }}
        >
          <Icon name="copy" />
          {t('action.copy')}
        </button>
      </div>
      <p class="small good" role="status">
        {copied.value && t('action.copied')}
      </p>
    </details>
  )
}

/** The simulated phone tells codes apart by their ends. */
function Sandbox({ link }: { link: string | undefined }) {
  if (status.value?.sandbox_phone === undefined) return null
  const code = link === undefined ? null : new URL(link).searchParams.get('qrcode')
  return (
    <p class="notice sandbox">
      <Icon name="phone" />
      <span>
        {t('login.sandbox')}
        {gap()}
        <a href={phonePath} target="_blank" rel="noopener">
          {t('overview.sandbox_phone')}
        </a>
        {code !== null && (
          <span class="soft small block">{t('login.sandbox_code', { end: isolated(code.slice(-4)) })}</span>
        )}
      </span>
    </p>
  )
}
