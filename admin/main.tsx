import { render } from 'preact'
import { App } from './app.tsx'
import { startTexts } from './i18n.ts'
import { follow } from './live.ts'
import { startTheme } from './theme.ts'

startTheme()
await startTexts()
follow()
render(<App />, document.getElementById('app')!)
