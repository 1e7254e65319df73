/** Backups: the newest one, the schedule, how to make one, and how to restore it. */
import { useAnswer } from '../answers.ts'
import { quoted } from '../commands.ts'
import { bytes, t } from '../i18n.ts'
import { status } from '../live.ts'
import { askBackups, BackUpNow } from '../overview/backups.tsx'
import { isOwner } from '../rights.ts'
import { ago, every, relative, whole } from '../times.ts'
import { Copyable } from '../ui/copy.tsx'
import { Setting } from './setting.tsx'

/** Options to paste. */
const schedule = '--backup-to /srv/backups --backup-every 1d --backup-keep 7'

export function BackupSettings() {
  const { value, again } = useAnswer(askBackups, 30_000)
  const backups = value.value
  if (!backups) return <span class="skeleton block" />
  const { folder, every_ms, failure, keep = 0, newest } = backups
  const command = (words: string) => <Copyable text={`svc ${words}`} what={t('overview.command')} />
  const next = every_ms !== undefined && newest && newest.created_at + every_ms
  return (
    <div class="card settings-rows">
      <Setting
        name={t('backups.last')}
        about={
          newest
            ? t('backups.newest', { when: ago(newest.created_at), size: bytes(newest.size) })
            : t('backups.none')
        }
      >
        {newest && <Copyable text={newest.path} what={t('backups.file')} />}
        {failure && (
          <p class="problem small">
            {t('backups.failed_why', { when: ago(failure.at), error: failure.error })}
          </p>
        )}
      </Setting>
      <Setting
        name={t('backups.plan')}
        about={
          every_ms === undefined
            ? t('settings.backups_about')
            : t('backups.schedule', { every: every(every_ms), count: keep })
        }
      >
        {folder !== undefined ? (
          <Copyable text={folder} what={t('backups.folder')} />
        ) : (
          <Copyable text={schedule} what={t('settings.options')} />
        )}
        {next && (
          <p class="soft small" title={whole(next)}>
            {t('backups.next', { when: relative(next) })}
          </p>
        )}
      </Setting>
      <Setting name={t('backups.run')}>
        {folder !== undefined ? (
          <BackUpNow onChange={again} />
        ) : (
          isOwner() && command(`backup svc.tar -d ${quoted(status.value?.base_path ?? '')}`)
        )}
      </Setting>
      {isOwner() && (
        <Setting name={t('backups.restore')} about={t('backups.restore_about')}>
          {command(`restore ${quoted(newest?.path ?? 'svc.tar')} -d restored`)}
        </Setting>
      )}
    </div>
  )
}
