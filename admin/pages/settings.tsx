import { t } from '../i18n.ts'

export function Settings() {
  return (
    <div class="page">
      <h1>{t('nav.settings')}</h1>
    </div>
  )
}
