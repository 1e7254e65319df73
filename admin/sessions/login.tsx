/**
 * The login dialog of an account: the code, the state on the phone, the result. Closing it cancels the login.
 */
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import type { Login } from '../api.ts'
import { gap, isolated, type TextKey, t } from '../i18n.ts'
import { status } from '../live.ts'
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

export function LoginDialog({
  name,
  atOnce,
  onClose,
}: {
  name: string
  /** Whether the login begins at once, because a button of the panel led here. */
  atOnce: boolean
  onClose(): void
}) {
  const { progress, begin, giveCode } = useLogin(name, atOnce)
  const login = progress.step === 'following' ? progress.login : undefined
  const confirmed = login?.status === 'confirmed'
  const next = comingLogins.value[0]
  const again = (force: boolean, text: TextKey) => (
    <>
      <button class="button" type="button" onClick={onClose}>
        {t('action.close')}
      </button>
      <Primary onClick={() => begin(force)}>{t(text)}</Primary>
    </>
  )
  const under = (
    <>
      <button class="button" type="button" onClick={onClose}>
        {t('action.cancel')}
      </button>
      {next !== undefined && <Next skips />}
    </>
  )
  const viewOf = (): [content: ComponentChildren, footer: ComponentChildren] => {
    switch (progress.step) {
      case 'starting':
        return [<Before key="before" state="starting" text={t('login.starting')} />, under]
      case 'ready': {
        const footer = again(false, 'login.show_code')
        return [<Before key="before" state="ready" text={t('login.ready')} />, footer]
      }
      case 'connected': {
        const text = t('login.connected_already', { name: isolated(name) })
        return [<Code key="works" state="ready" text={text} />, again(true, 'sessions.login_again')]
      }
      case 'failed': {
        const { text, reason } = nameProblem(progress.error)
        return [<Ended key="end" text={text} about={reason} />, again(false, 'login.again')]
      }
      case 'following':
        return ofLogin(progress.login)
    }
  }
  const ofLogin = (one: Login): [ComponentChildren, ComponentChildren] => {
    if (isOpen(one)) return [<Under key="under" login={one} giveCode={giveCode} />, under]
    if (confirmed) return [<Awake key="end" />, next === undefined ? <Onward onClose={onClose} /> : <Next />]
    const [text, about] = endOf(one)
    const footer = again(one.status === 'already_bound', 'login.again')
    return [<Ended key="end" text={t(text)} about={t(about)} />, footer]
  }
  const [content, footer] = viewOf()
  const title = t(confirmed ? 'login.confirmed' : 'login.title', { name: isolated(login?.session ?? name) })
  return (
    <Dialog title={title} onClose={onClose} footer={footer}>
      <div class="login-stage">{content}</div>
      <Sandbox />
    </Dialog>
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

const Awake = () => (
  <div class="login-end good" role="status">
    <Bot awake />
    <p>{t('login.confirmed_about')}</p>
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

function Onward({ onClose }: { onClose(): void }) {
  const [, navigate] = useLocation()
  return (
    <>
      <button class="button" type="button" onClick={() => navigate('/conversations')}>
        {t('login.to_conversations')}
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

function Sandbox() {
  if (status.value?.sandbox_phone === undefined) return null
  return (
    <p class="notice sandbox">
      <Icon name="phone" />
      <span>
        {t('login.sandbox')}
        {gap()}
        <a href={phonePath} target="_blank" rel="noopener">
          {t('overview.sandbox_phone')}
        </a>
      </span>
    </p>
  )
}
