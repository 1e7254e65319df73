/** How long messages are kept, and facts about the service. */
import { t } from '../i18n.ts'
import { status } from '../live.ts'
import { ago, whole } from '../times.ts'
import { Copyable } from '../ui/copy.tsx'
import { Setting } from './setting.tsx'

export function Retention() {
  const state = status.value
  if (!state) return null
  const { store_max_age_days: days, store_max_count: count } = state
  return (
    <div class="card settings-rows">
      <Setting name={t('settings.age')}>
        {days > 0 ? t('settings.kept_days', { count: days }) : t('settings.kept_always')}
      </Setting>
      <Setting name={t('settings.count')}>
        {count > 0 ? t('settings.kept_count', { count }) : t('settings.kept_all')}
      </Setting>
      <Setting name={t('settings.change')} about={t('settings.retention_about')}>
        <Copyable
          text={`--store-max-age-days ${days} --store-max-count ${count}`}
          what={t('settings.options')}
        />
      </Setting>
    </div>
  )
}

export function Service() {
  const state = status.value
  if (!state) return null
  return (
    <div class="card settings-rows">
      <Setting name={t('settings.version')}>{state.version}</Setting>
      <Setting name={t('settings.started')} about={whole(state.started_at)}>
        {ago(state.started_at)}
      </Setting>
      <Setting name={t('settings.role')}>
        {t(state.role === 'poller' ? 'settings.role_poller' : 'settings.role_watcher')}
      </Setting>
      <Setting name={t('settings.directory')}>
        <Copyable text={state.base_path} what={t('settings.directory')} />
      </Setting>
      <Setting name={t('settings.media_root')} about={t('settings.media_root_about')}>
        <Copyable text={state.media_root} what={t('settings.media_root')} />
      </Setting>
    </div>
  )
}
