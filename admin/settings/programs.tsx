/** Where programs find the service. */
import { t } from '../i18n.ts'
import { status } from '../live.ts'
import { isOwner } from '../rights.ts'
import { base, elsewhere, phonePath } from '../service-urls.ts'
import { Copyable } from '../ui/copy.tsx'
import { Setting } from './setting.tsx'

export function Programs() {
  const { rest_url, sandbox_phone } = status.value ?? {}
  const rest = rest_url && elsewhere(rest_url)
  return (
    <>
      <p class="soft">{t('settings.programs_about')}</p>
      <div class="card settings-rows">
        {rest && (
          <Setting name={t('settings.mcp')}>
            <Copyable text={`${rest}/mcp`} what={t('settings.mcp')} />
          </Setting>
        )}
        {rest && (
          <Away to={`${rest}/docs`} name={t('settings.rest_docs')} about={t('settings.rest_docs_about')} />
        )}
        <Away to={`${base}/docs`} name={t('settings.panel_docs')} about={t('settings.panel_docs_about')} />
        {sandbox_phone && isOwner() && (
          <Away to={phonePath} name={t('settings.phone')} about={t('settings.phone_about')} />
        )}
      </div>
    </>
  )
}

const Away = ({ to, name, about }: { to: string; name: string; about: string }) => (
  <Setting name={name} about={about}>
    <a class="button" href={to} target="_blank" rel="noopener">
      {t('settings.open')}
      <span class="visually-hidden">
        {' '}
        {name} {t('settings.new_tab')}
      </span>
    </a>
  </Setting>
)
