import { t } from '../i18n.ts'

export function Overview() {
  return (
    <div class="page">
      <h1>{t('nav.overview')}</h1>
    </div>
  )
}
