/** The pages, each loaded when it is opened, and the focus after that. */
import { ChatPage } from './conversations/chat-page.tsx'
// Small modules that several pages share are in the first script. Otherwise each would be a separate request.
import './access/keys.ts'
import './users/name-edit.tsx'
import { Overview } from './pages/overview.tsx'
import './ui/ask.tsx'
import './ui/chips.tsx'
import './ui/choice.tsx'
import './ui/copy.tsx'
import './ui/field.tsx'
import { loadLayers } from './ui/layers.ts'
import { later } from './ui/lazy-page.tsx'
import './ui/list-page.tsx'
import './sessions/invitations.ts'
import './sessions/login-first.tsx'
import './sessions/name-field.tsx'
import './ui/menu.tsx'
import './ui/rows.tsx'
import './ui/sheet.tsx'
import './ui/tabs.tsx'

/**
 * Puts the focus on the heading of a new page. The keyboard goes on from there, and a screen reader reads the
 * heading. The first page, and a page that sets the focus itself, are left alone.
 */
function focusHeading(): void {
  const main = document.getElementById('main')
  const heading = main?.querySelector('h1')
  if (!main || !heading) return
  const isFirst = main.dataset.visited === undefined
  main.dataset.visited = ''
  if (isFirst || main.contains(document.activeElement)) return
  main.scrollTop = 0
  heading.tabIndex = -1
  heading.focus({ preventScroll: true })
}

export const pages = {
  overview: later(async () => Overview, focusHeading),
  sessions: later(async () => (await import('./pages/sessions.tsx')).Sessions, focusHeading),
  conversations: later(async () => (await import('./pages/conversations.tsx')).Conversations, focusHeading),
  approvals: later(async () => (await import('./pages/approvals.tsx')).Approvals, focusHeading),
  settings: later(async () => (await import('./pages/settings.tsx')).Settings, focusHeading),
  agents: later(async () => (await import('./pages/agents.tsx')).Agents, focusHeading),
  keys: later(async () => (await import('./pages/keys.tsx')).KeysPage, focusHeading),
  audit: later(async () => (await import('./pages/audit.tsx')).Audit, focusHeading),
  topics: later(async () => (await import('./pages/topics.tsx')).TopicsPage, focusHeading),
  webhooks: later(async () => (await import('./pages/webhooks.tsx')).Webhooks, focusHeading),
}

/** Functions that load the other parts of the panel. */
export const others = [...Object.values(pages), ChatPage].map(page => page.load).concat(loadLayers)

/** Loads the page of a path ahead of time. */
export async function loadPage(path: string): Promise<void> {
  const [, first = '', , user = ''] = path.split('/')
  const page = first === '' ? pages.overview : Object.entries(pages).find(([name]) => name === first)?.[1]
  await Promise.all([
    page?.load(),
    first === 'conversations' && user !== '' && ChatPage.load(),
    first === 'sessions' && loadLayers(),
  ])
}
