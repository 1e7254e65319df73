/** An error boundary around a page. A page that throws shows an error with a button to try again. */
import { Component, type ComponentChildren } from 'preact'
import { t } from '../i18n.ts'
import { Icon } from './icon.tsx'
import { NotLoaded } from './lazy-page.tsx'

interface State {
  error?: unknown
}

export class Boundary extends Component<{ children: ComponentChildren }, State> {
  override state: State = {}

  static override getDerivedStateFromError(error: unknown): State {
    return { error }
  }

  override componentDidCatch(error: unknown): void {
    console.error(error)
  }

  override render() {
    const { error } = this.state
    if (error === undefined) return this.props.children
    const again = () => {
      // A newer service has other file names. Only a reload gets the page that knows them.
      if (error instanceof NotLoaded) location.reload()
      else this.setState({ error: undefined })
    }
    return (
      <div class="page">
        <div class="card empty" role="alert">
          <Icon name="warn" size={32} />
          <h1>{t(error instanceof NotLoaded ? 'error.not_loaded' : 'error.unexpected')}</h1>
          {!(error instanceof NotLoaded) && <p class="foreign mono">{String(error)}</p>}
          <button type="button" class="button primary" onClick={again}>
            {t('action.retry')}
          </button>
        </div>
      </div>
    )
  }
}
