/** The frame around the pages: the navigation, the notices, and the sign-in. */
import { useSignal } from '@preact/signals'
import type { FunctionComponent } from 'preact'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { Redirect, Route, Router, Switch, useLocation } from 'wouter-preact'
import type { Right } from '../src/model/access.ts'
import { outbox, questions, useOutbox, useQuestions } from './answers.ts'
import { onSignedOut } from './api.ts'
import { listenAgain } from './follow.ts'
import { language, type TextKey, t } from './i18n.ts'
import { nameOf, online, signedOut, status, storeFails, unread } from './live.ts'
import { SignIn } from './pages/sign-in.tsx'
import { pages } from './pages.ts'
import { searchNow, usePlace } from './place.ts'
import { may, mayApprove, me, rightName } from './rights.ts'
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
  /** Whether a group begins here. */
  begins?: boolean
}

const places: readonly Place[] = [
  { path: '/', icon: 'overview', text: 'nav.overview' },
  { path: '/conversations', icon: 'conversations', text: 'nav.conversations' },
  { path: '/approvals', icon: 'approvals', text: 'approvals.title', right: 'approve' },
  { path: '/sessions', icon: 'sessions', text: 'nav.sessions', begins: true },
  { path: '/agents', icon: 'agents', text: 'nav.agents', right: 'agents' },
  { path: '/keys', icon: 'key', text: 'nav.keys', right: 'keys', begins: true },
  { path: '/audit', icon: 'audit', text: 'nav.audit', right: 'audit' },
  { path: '/webhooks', icon: 'webhooks', text: 'webhooks.title', right: 'webhooks' },
  { path: '/topics', icon: 'topics', text: 'topics.title', right: 'topics' },
  { path: '/settings', icon: 'settings', text: 'nav.settings', begins: true },
]
/** What fits into the bar of a phone. If there is more, one of them is the button for the others. */
const inBar = 5

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
  const place = places.find(one => one.path === `/${first}`)
  const showsKeys = useSignal(false)
  useKeys(set(showsKeys, true))
  return (
    <div class="shell">
      <Title text={place?.text ?? 'missing.title'} />
      <a class="button primary skip" href="#main">
        {t('nav.skip')}
      </a>
      <nav class="rail" aria-label={t('nav.label')}>
        <div class="brand">
          <span class="logo" />
          svc
        </div>
        <Places path={path} />
        <div class="foot soft small">
          {me.value?.name !== undefined && <bdi class="foreign">{me.value.name}</bdi>}
          {status.value && <span>svc {status.value.version.split('+')[0]}</span>}
        </div>
      </nav>
      {showsKeys.value && <Keys onClose={set(showsKeys, false)} />}
      <div class="beside">
        <Offline />
        <main class="main" id="main" tabIndex={-1}>
          <Boundary key={place?.path}>
            <Switch>
              <Route path="/sessions/*?" component={pages.sessions} />
              <Route path="/settings/:group?" component={pages.settings} />
              <Route path="/approvals/:id?" component={pages.approvals} />
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

/** The title of the window: the contact whose chat is open, or the page. */
function Title({ text }: { text: TextKey }) {
  const { session, userId } = usePlace()
  const isChat = text === 'nav.conversations' && userId !== ''
  const name = isChat ? (nameOf(session, userId) ?? userId) : t(text)
  const waiting = unread.value > 0 ? `(${unreadText(unread.value)}) ` : ''
  useEffect(() => {
    document.title = `${waiting}${name} · svc`
  }, [name, waiting])
  return null
}

/** The links to the pages. On a phone the last ones are behind a button. */
function Places({ path }: { path: string }) {
  useOutbox()
  useQuestions()
  const shown = places.filter(({ right }) => right === undefined || may(right) || !me.value)
  const bar = shown.length > inBar ? inBar - 1 : shown.length
  const isRest = shown.slice(bar).some(({ path: to }) => isAt(path, to))
  const isBehind = shown.slice(bar).some(({ path: to }) => to === '/agents')
  const rest = useRef<HTMLUListElement>(null)
  useEffect(() => {
    if (rest.current?.matches(':popover-open')) rest.current.hidePopover()
  }, [path])
  const toLine = (place: Place) => <PlaceLine key={place.path} place={place} path={path} />
  return (
    <>
      <ul>
        {shown.slice(0, bar).map(toLine)}
        {bar < shown.length && (
          <li class="further">
            <button type="button" popovertarget="more-places" data-current={isRest ? '' : undefined}>
              <Icon name="more" />
              <span class="cut">{t('nav.more')}</span>
              {isBehind && <Questions />}
            </button>
          </li>
        )}
      </ul>
      {bar < shown.length && (
        <ul id="more-places" ref={rest} popover="auto">
          {shown.slice(bar).map(toLine)}
        </ul>
      )}
    </>
  )
}

const isAt = (path: string, to: string): boolean => `/${path.split('/')[1]}` === to

function PlaceLine({ place: { path: to, icon, text, right, begins }, path }: { place: Place; path: string }) {
  return (
    // Keeps its place until the rights are known.
    <li class={`${right === undefined || me.value ? '' : 'unknown'} ${begins ? 'begins' : ''}`}>
      <Link href={to} {...(isAt(path, to) && { 'aria-current': path === to ? 'page' : 'true' })}>
        <Icon name={icon} />
        <span class="cut">{t(text)}</span>
        {to === '/approvals' && <Approvals />}
        {to === '/agents' && <Questions />}
        {to === '/conversations' && <Unread count={unread.value} />}
      </Link>
    </li>
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
  ['/topics', 'topics', pages.topics],
]

/** The number of sends that wait for the approval of this person. */
function Approvals() {
  const asked = outbox.value?.filter(one => one.waits_for === 'approval' && mayApprove(one.made_by)) ?? []
  return <Count of={asked.length} text="nav.approvals" />
}

/** The number of questions that agents ask. */
function Questions() {
  return <Count of={questions.value?.length ?? 0} text="nav.questions" />
}

/**
 * In the chunk of the settings, which is loaded anyway. One more chunk would split those of the first view.
 */
const Keys = laterPart(async () => (await import('./pages/settings.tsx')).Keys)
const goToNextNeed = async () => navigate((await import('./pages/settings.tsx')).nextNeed())

/**
 * Ctrl+K or ⌘K goes to the search, even from a text field. Outside of text fields / does the same, and ?
 * shows all keys, and N goes to the next thing that needs the person.
 */
function useKeys(show: () => void): void {
  // A layout effect runs before the first drawing, so no early key press is lost.
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (document.querySelector('[role$=dialog]')) return
      const writes = (event.target as HTMLElement).matches('input:not([type=range]), textarea, select')
      const held = event.ctrlKey || event.metaKey
      if (event.key === '?' && !writes) show()
      if (event.key === 'n' && !writes && !held && !event.altKey) void goToNextNeed()
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
