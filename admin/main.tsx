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
/** The browser paints, and hears who presses, between one step and the next: on a phone each takes its time. */
const breath = () => new Promise(done => setTimeout(done))

async function start() {
  await startTexts()
  await breath()
  render(<App />, document.getElementById('app')!)
  await breath()
  readLanguage()
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
