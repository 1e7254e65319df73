import { t } from '../i18n.ts'

export function Conversations() {
  return (
    <div class="page">
      <h1>{t('nav.conversations')}</h1>
    </div>
  )
}
