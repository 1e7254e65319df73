/** The frame around the pages: the rail with its four places, what is said everywhere, and who must sign in first. */
import { useEffect } from 'preact/hooks'
import { Link, Route, Switch, useLocation } from 'wouter-preact'
import { onSignedOut } from './api.ts'
import { language, type TextKey, t } from './i18n.ts'
import { online, signedOut, status, unread } from './live.ts'
import { Conversations } from './pages/conversations.tsx'
import { Overview } from './pages/overview.tsx'
import { Sessions } from './pages/sessions.tsx'
import { Settings } from './pages/settings.tsx'
import { SignIn } from './pages/sign-in.tsx'
import { Icon, type IconName } from './ui/icon.tsx'
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
    <>
      {signedOut.value ? <SignIn /> : <Shell />}
      <Toasts />
    </>
  )
}

function Shell() {
  const [path] = useLocation()
  const place = places.findLast(one => path === one.path || path.startsWith(`${one.path}/`)) ?? places[0]!
  useEffect(() => {
    document.title = `${t(place.text)} · svc`
  }, [place, language.value])
  return (
    <div class="shell">
      <a class="button primary skip" href="#main">
        {t('nav.skip')}
      </a>
      <nav class="rail" aria-label={t('nav.label')}>
        <div class="brand">
          <img src="/icon.svg" alt="" width={28} height={28} />
          svc
        </div>
        <ul>
          {places.map(({ path: to, icon, text }) => (
            <li key={to}>
              <Link href={to} {...(place.path === to && { 'aria-current': 'page' })}>
                <Icon name={icon} />
                {t(text)}
                {to === '/conversations' && unread.value > 0 && (
                  <span class="count">
                    {unread.value > 99 ? '99+' : unread.value}
                    <span class="visually-hidden"> {t('nav.unread')}</span>
                  </span>
                )}
              </Link>
            </li>
          ))}
        </ul>
        <div class="foot soft small">{status.value && <span>svc {status.value.version}</span>}</div>
      </nav>
      <main class="main" id="main" tabIndex={-1}>
        <Switch>
          <Route path="/sessions/:rest*" component={Sessions} />
          <Route path="/conversations/:session?/:user?" component={Conversations} />
          <Route path="/settings" component={Settings} />
          <Route component={Overview} />
        </Switch>
      </main>
      <div role="status">
        {!online.value && (
          <div class="notice warn offline">
            <Icon name="warn" />
            {t('status.offline')}
          </div>
        )}
      </div>
    </div>
  )
}
