import { render } from 'preact'
import { App } from './app.tsx'
import { lookForUnsent } from './conversations/kept.ts'
import { startTexts } from './i18n.ts'
import { follow } from './live.ts'
import { loadOthers, loadPage, pages } from './pages.ts'
import { startTheme } from './theme.ts'

startTheme()
follow()
// Notifications come with the settings.
const notifies = localStorage.getItem('svc.notify') === 'on'
await Promise.all([startTexts(), loadPage(location.pathname), notifies && pages.settings.load()])
render(<App />, document.getElementById('app')!)
loadOthers()
// The page that sends is not loaded where there is nothing to send.
void lookForUnsent().then(async found => {
  if (found.length > 0) (await import('./conversations/outgoing.ts')).sendOn(found)
})
