import { render } from 'preact'
import { App } from './app.tsx'
import { startTexts } from './i18n.ts'
import { follow } from './live.ts'
import { loadPage } from './pages.ts'
import { startTheme } from './theme.ts'

startTheme()
follow()
await Promise.all([startTexts(), loadPage(location.pathname)])
render(<App />, document.getElementById('app')!)
