import { t } from '../i18n.ts'

export function Sessions() {
  return (
    <div class="page">
      <h1>{t('nav.sessions')}</h1>
    </div>
  )
}
