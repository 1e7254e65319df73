/** The frame around the pages: the rail with its four places, what is said everywhere, and who must sign in first. */
import { useSignal } from '@preact/signals'
import { useEffect, useLayoutEffect } from 'preact/hooks'
import { Redirect, Route, Router, Switch, useLocation } from 'wouter-preact'
import { onSignedOut } from './api.ts'
import { listenAgain } from './follow.ts'
import { language, type TextKey, t } from './i18n.ts'
import { online, signedOut, status, unread } from './live.ts'
import { SignIn } from './pages/sign-in.tsx'
import { pages } from './pages.ts'
import { searchNow } from './place.ts'
import { base, navigate } from './service-urls.ts'
import { Boundary } from './ui/boundary.tsx'
import { Icon, type IconName } from './ui/icon.tsx'
import { later } from './ui/lazy-page.tsx'
import { Link } from './ui/link.tsx'
import { Unread, unreadText } from './ui/marks.tsx'
import { set } from './ui/set.ts'
import { Toasts } from './ui/toasts.tsx'

const places: readonly { path: string; icon: IconName; text: TextKey }[] = [
  { path: '/', icon: 'overview', text: 'nav.overview' },
  { path: '/conversations', icon: 'conversations', text: 'nav.conversations' },
  { path: '/sessions', icon: 'sessions', text: 'nav.sessions' },
  { path: '/settings', icon: 'settings', text: 'nav.settings' },
]

onSignedOut.call = () => {
  signedOut.value = true
}

export function App() {
  // The whole page follows the language.
  void language.value
  return (
    <Router base={base}>
      {signedOut.value ? <SignIn /> : <Shell />}
      <Toasts />
    </Router>
  )
}

function Shell() {
  const [path] = useLocation()
  const [, first] = path.split('/')
  const isWebhooks = first === 'webhooks'
  // The settings lead there.
  const place = places.find(one => one.path === (isWebhooks ? '/settings' : `/${first}`))
  const name = t(isWebhooks ? 'webhooks.title' : (place?.text ?? 'missing.title'))
  const waiting = unread.value > 0 ? `(${unreadText(unread.value)}) ` : ''
  useEffect(() => {
    document.title = `${waiting}${name} · svc`
  }, [name, waiting])
  const showsKeys = useSignal(false)
  useKeys(set(showsKeys, true))
  return (
    <div class="shell">
      <a class="button primary skip" href="#main">
        {t('nav.skip')}
      </a>
      <nav class="rail" aria-label={t('nav.label')}>
        <div class="brand">
          <img src={`${base}/icon.svg`} alt="" width={28} height={28} loading="lazy" />
          svc
        </div>
        <ul>
          {places.map(({ path: to, icon, text }) => (
            <li key={to}>
              <Link href={to} {...(place?.path === to && { 'aria-current': path === to ? 'page' : 'true' })}>
                <Icon name={icon} />
                <span class="cut">{t(text)}</span>
                {to === '/conversations' && <Unread count={unread.value} />}
              </Link>
            </li>
          ))}
        </ul>
        <div class="foot soft small">{status.value && <span>svc {status.value.version}</span>}</div>
      </nav>
      {showsKeys.value && <Keys onClose={set(showsKeys, false)} />}
      <div class="beside">
        <Offline />
        <main class="main" id="main" tabIndex={-1}>
          <Boundary key={place?.path}>
            <Switch>
              <Route path="/" component={pages.overview} />
              <Route path="/sessions/*?" component={pages.sessions} />
              <Route path="/conversations/:session?/:user?" component={pages.conversations} />
              <Route path="/settings" component={pages.settings} />
              <Route path="/webhooks" component={pages.webhooks} />
              {/* As the menu calls them. */}
              <Route path="/accounts">
                <Redirect to="/sessions" replace />
              </Route>
              <Route component={Missing} />
            </Switch>
          </Boundary>
        </main>
      </div>
    </div>
  )
}

/** With the settings, which are loaded ahead anyway: each chunk of its own cuts those of the first view smaller. */
const Keys = later(
  async () => (await import('./pages/settings.tsx')).Keys,
  undefined,
  () => null,
)

/** Ctrl or ⌘ and K go to the search, from any page and from where one writes; so does /, and ? shows all keys, except in a text field. */
function useKeys(show: () => void): void {
  // Before the first drawing: a key that is pressed right after it is not lost.
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (document.querySelector('[role$=dialog]')) return
      const writes = (event.target as HTMLElement).matches('input:not([type=range]), textarea, select')
      const held = event.ctrlKey || event.metaKey
      if (event.key === '?' && !writes) show()
      // What a keyboard needs for a slash is its own affair.
      const isIt = held
        ? !event.shiftKey && !event.altKey && event.key.toLowerCase() === 'k'
        : event.key === '/' && !writes
      if (!isIt) return
      event.preventDefault()
      const field = document.querySelector<HTMLInputElement>('search input')
      field?.focus()
      if (field) field.select()
      else navigate('/conversations', { state: searchNow })
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
}

/** A broken line that heals at once is nobody's business. */
const patienceMs = 1500

/** Says that the service is not heard, above the page and not on it. */
function Offline() {
  const told = useSignal(false)
  const isOnline = online.value
  useEffect(() => {
    if (isOnline) {
      told.value = false
      return
    }
    const timer = setTimeout(set(told, true), patienceMs)
    return () => clearTimeout(timer)
  }, [isOnline, told])
  return (
    <div role="status">
      {told.value && (
        <div class="notice warn offline">
          <Icon name="warn" />
          <span>{t('status.offline')}</span>
          <button type="button" class="button plain" onClick={listenAgain}>
            {t('action.retry')}
          </button>
        </div>
      )}
    </div>
  )
}

const Missing = () => (
  <div class="page">
    <div class="card empty">
      <h1>{t('missing.title')}</h1>
      <p>{t('missing.about')}</p>
      <Link class="button primary" href="/">
        {t('missing.go')}
      </Link>
    </div>
  </div>
)
