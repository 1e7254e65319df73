import { render } from 'preact'
import { followFileLinks, takeSecret } from './api.ts'
import { App } from './app.tsx'
import { lookForUnsent } from './conversations/kept.ts'
import { follow } from './follow.ts'
import { followLanguage, readLanguage, startTexts } from './i18n.ts'
import { loadPage, others, pages } from './pages.ts'
import { herePath } from './service-urls.ts'
import { startTheme } from './theme.ts'
import { tellError } from './ui/toasts.tsx'
import { holdSecondClicks, keepFocus } from './ui/work.ts'
import { yieldToBrowser } from './ui/yield.ts'

// Tells unloaded.ts that the script has loaded.
document.getElementById('app')!.dataset.begun = ''
takeSecret()
startTheme()
holdSecondClicks()
keepFocus()
follow()
followFileLinks(tellError)
// The code that shows notifications is part of the settings page.
const notifies = localStorage.getItem('svc.notify') === 'on'

async function start() {
  await startTexts()
  readLanguage()
  followLanguage()
  await yieldToBrowser()
  render(<App />, document.getElementById('app')!)
  await yieldToBrowser()
  await Promise.all([loadPage(herePath()), notifies && pages.settings.load()])
  setTimeout(later, 2000)
}

/**
 * Runs some time after the first page. Loads the other pages, so that they open even while the service is
 * down. Then sends messages that an earlier visit left unsent.
 */
async function later(): Promise<void> {
  for (const load of others) {
    await load()
    await yieldToBrowser()
  }
  const found = await lookForUnsent()
  if (found.length > 0) (await import('./conversations/chat.tsx')).sendOn(found)
}
void start()
