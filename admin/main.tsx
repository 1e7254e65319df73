import { render } from 'preact'
import { App } from './app.tsx'
import { lookForUnsent } from './conversations/kept.ts'
import { readLanguage, startTexts } from './i18n.ts'
import { follow } from './live.ts'
import { loadOthers, loadPage, pages } from './pages.ts'
import { startTheme } from './theme.ts'

startTheme()
follow()
// Notifications come with the settings.
const notifies = localStorage.getItem('svc.notify') === 'on'
/** The browser paints the frame, and hears who presses, before the page is drawn. */
const breath = () => new Promise(done => setTimeout(done))

async function start() {
  await startTexts()
  // Before anything is seen nobody presses.
  readLanguage()
  render(<App />, document.getElementById('app')!)
  await breath()
  await Promise.all([loadPage(location.pathname), notifies && pages.settings.load()])
  setTimeout(later, 2000)
}

/** Once the first page has had its time: the others, which open then also while the service is away, and what was not sent. */
async function later(): Promise<void> {
  loadOthers()
  const found = await lookForUnsent()
  if (found.length > 0) (await import('./conversations/chat.tsx')).sendOn(found)
}
void start()
