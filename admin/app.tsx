/** The frame around the pages: the navigation, the notices, and the sign-in. */
import { useSignal } from '@preact/signals'
import type { FunctionComponent } from 'preact'
import { useEffect, useLayoutEffect } from 'preact/hooks'
import { Redirect, Route, Router, Switch, useLocation } from 'wouter-preact'
import type { Right } from '../src/model/access.ts'
import { outbox, questions, useOutbox, useQuestions } from './answers.ts'
import { onSignedOut } from './api.ts'
import { listenAgain } from './follow.ts'
import { language, type TextKey, t } from './i18n.ts'
import { online, signedOut, status, storeFails, unread } from './live.ts'
import { SignIn } from './pages/sign-in.tsx'
import { pages } from './pages.ts'
import { searchNow } from './place.ts'
import { may, me, rightName } from './rights.ts'
import { base, navigate } from './service-urls.ts'
import { Boundary } from './ui/boundary.tsx'
import { Icon, type IconName } from './ui/icon.tsx'
import { laterPart, Skeleton } from './ui/lazy-page.tsx'
import { Link } from './ui/link.tsx'
import { Count, Unread, unreadText } from './ui/marks.tsx'
import { set } from './ui/set.ts'
import { Toasts } from './ui/toasts.tsx'

interface Place {
  path: string
  icon: IconName
  text: TextKey
  /** The right without which the menu does not have it. */
  right?: Right
}

const places: readonly Place[] = [
  { path: '/', icon: 'overview', text: 'nav.overview' },
  { path: '/conversations', icon: 'conversations', text: 'nav.conversations' },
  { path: '/sessions', icon: 'sessions', text: 'nav.sessions' },
  { path: '/agents', icon: 'play', text: 'nav.agents', right: 'agents' },
  { path: '/keys', icon: 'key', text: 'nav.keys', right: 'keys' },
  { path: '/settings', icon: 'settings', text: 'nav.settings' },
]
/** In place of the keys, for a caller that may see only the log. */
const auditPlace: Place = { path: '/audit', icon: 'file', text: 'nav.audit' }

/** Pages that are reached from another page, with the path of that page. */
const below: Readonly<Record<string, { path: string; text: TextKey }>> = {
  webhooks: { path: '/settings', text: 'webhooks.title' },
  audit: { path: '/keys', text: 'nav.audit' },
}

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
  const own = below[first ?? '']
  const shown = places.flatMap(one => {
    if (one.right === undefined || may(one.right) || !me.value) return [one]
    return one.right === 'keys' && may('audit') ? [auditPlace] : []
  })
  const place = shown.find(one => one.path === `/${first}`) ?? shown.find(one => one.path === own?.path)
  const name = t(own?.text ?? places.find(one => one.path === `/${first}`)?.text ?? 'missing.title')
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
          {shown.map(({ path: to, icon, text, right }) => (
            // Keeps its place until the rights are known.
            <li key={to} class={right === undefined || me.value ? '' : 'unknown'}>
              <Link href={to} {...(place?.path === to && { 'aria-current': path === to ? 'page' : 'true' })}>
                <Icon name={icon} />
                <span class="cut">{t(text)}</span>
                {to === '/' && <Approvals />}
                {to === '/agents' && <Questions />}
                {to === '/conversations' && <Unread count={unread.value} />}
              </Link>
            </li>
          ))}
        </ul>
        <div class="foot soft small">
          {me.value?.name !== undefined && <bdi class="foreign">{me.value.name}</bdi>}
          {status.value && <span>svc {status.value.version}</span>}
        </div>
      </nav>
      {showsKeys.value && <Keys onClose={set(showsKeys, false)} />}
      <div class="beside">
        <Offline />
        <main class="main" id="main" tabIndex={-1}>
          <Boundary key={place?.path}>
            <Switch>
              <Route path="/sessions/*?" component={pages.sessions} />
              <Route path="/settings" component={pages.settings} />
              {guarded.map(([path, right, Page]) => (
                <Route key={path} path={path}>
                  {may(right) ? <Page /> : me.value ? <Denied right={right} /> : <Skeleton />}
                </Route>
              ))}
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

/** Pages for callers with a right. */
const guarded: readonly [path: string, right: Right, page: FunctionComponent][] = [
  ['/', 'sessions', pages.overview],
  ['/conversations/:session?/:user?', 'history', pages.conversations],
  ['/agents', 'agents', pages.agents],
  ['/keys', 'keys', pages.keys],
  ['/audit', 'audit', pages.audit],
  ['/webhooks', 'webhooks', pages.webhooks],
]

/** The number of sends that wait for the approval of this person. */
function Approvals() {
  useOutbox()
  const asked = outbox.value?.filter(({ waits_for }) => waits_for === 'approval') ?? []
  return may('approve') ? <Count of={asked.length} text="nav.approvals" /> : null
}

/** The number of questions that agents ask. */
function Questions() {
  useQuestions()
  return <Count of={questions.value?.length ?? 0} text="nav.questions" />
}

/**
 * In the chunk of the settings, which is loaded anyway. One more chunk would split those of the first view.
 */
const Keys = laterPart(async () => (await import('./pages/settings.tsx')).Keys)

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

/** Says above the page that the service, or its store, cannot be reached. */
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
          <span>{t(storeFails.value ? 'status.store_fails' : 'status.offline')}</span>
          <button type="button" class="button plain" onClick={listenAgain}>
            {t('action.retry')}
          </button>
        </div>
      )}
    </div>
  )
}

const Missing = () => <Empty title={t('missing.title')} about={t('missing.about')} />
const Denied = ({ right }: { right: Right }) => (
  <Empty title={t('denied.title')} about={t('error.no_right', { right: rightName(right) })} />
)

const Empty = ({ title, about }: { title: string; about: string }) => (
  <div class="page">
    <div class="card empty">
      <h1>{title}</h1>
      <p>{about}</p>
      <Link class="button primary" href="/">
        {t('missing.go')}
      </Link>
    </div>
  </div>
)
