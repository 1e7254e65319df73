/** The frame around the pages: the navigation, the notices, and the sign-in. */
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
  // Render everything again when the language changes.
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
  // The webhooks page is reached from the settings.
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
              {/* The menu calls sessions accounts. */}
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

/**
 * In the chunk of the settings, which is loaded anyway. One more chunk would split those of the first view.
 */
const Keys = later(
  async () => (await import('./pages/settings.tsx')).Keys,
  undefined,
  () => null,
)

/**
 * Ctrl+K or ⌘K goes to the search, even from a text field. Outside of text fields / does the same, and ?
 * shows all keys.
 */
function useKeys(show: () => void): void {
  // A layout effect runs before the first drawing, so no early key press is lost.
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (document.querySelector('[role$=dialog]')) return
      const writes = (event.target as HTMLElement).matches('input:not([type=range]), textarea, select')
      const held = event.ctrlKey || event.metaKey
      if (event.key === '?' && !writes) show()
      // Ignore Shift and Alt for the slash: some keyboards need them to type it.
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

/** A connection that comes back within this time is not reported. */
const patienceMs = 1500

/** Says that the service cannot be reached, above the page. */
function Offline() {
  const isLate = useSignal(false)
  const isOnline = online.value
  useEffect(() => {
    if (isOnline) {
      isLate.value = false
      return
    }
    const timer = setTimeout(set(isLate, true), patienceMs)
    return () => clearTimeout(timer)
  }, [isOnline, isLate])
  return (
    <div role="status">
      {isLate.value && (
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
