/** The pages, each loaded when it is opened; and where the focus goes then. */
import { ChatPage } from './conversations/chat-page.tsx'
// What several pages share comes with the first script: each would be a request of its own, and they are small.
import './users/name-edit.tsx'
import { Overview } from './pages/overview.tsx'
import './ui/ask.tsx'
import './ui/choice.tsx'
import { later } from './ui/lazy-page.tsx'
import './ui/menu.tsx'
import { loadLayers } from './ui/layers.ts'

/**
 * The focus follows the person to the heading of another page, so that the keyboard goes on from there and a screen
 * reader says where one is. Not at the first page, nor where the new page has put it itself.
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
  settings: later(async () => (await import('./pages/settings.tsx')).Settings, focusHeading),
  webhooks: later(async () => (await import('./pages/webhooks.tsx')).Webhooks, focusHeading),
}

/** Each loads a part of the panel that this page does without. */
export const others = [...Object.values(pages), ChatPage].map(page => page.load).concat(loadLayers)

/** Loads the page of this address ahead, while other things come. */
export async function loadPage(path: string): Promise<void> {
  const [, first = '', , user = ''] = path.split('/')
  const page = first === '' ? pages.overview : Object.entries(pages).find(([name]) => name === first)?.[1]
  await Promise.all([
    page?.load(),
    first === 'conversations' && user !== '' && ChatPage.load(),
    first === 'sessions' && loadLayers(),
  ])
}
