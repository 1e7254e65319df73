/** The newest backup, and what is wrong with backups. */
import { type Answer, call } from '../api.ts'
import { bytes, gap, isolated, t } from '../i18n.ts'
import { ago, every, whole } from '../times.ts'
import { Copyable } from '../ui/copy.tsx'
import { tell, tellBegun, tellError } from '../ui/toasts.tsx'
import { useWork } from '../ui/work.ts'
import { Row } from './row.tsx'

interface BackupsProps {
  status: Answer<'backups'>
  /** Called after a backup. */
  onChange(): void
}

/** The section of the overview. */
export function Backups({ status: { folder, every_ms, keep, newest }, onChange }: BackupsProps) {
  return (
    <section class="card backups" aria-labelledby="backups">
      <header class="section-head">
        <h2 id="backups">{t('backups.heading')}</h2>
        {folder !== undefined && <BackUpNow onChange={onChange} />}
      </header>
      <p title={newest && whole(newest.created_at)}>
        {newest
          ? t('backups.newest', { when: ago(newest.created_at), size: bytes(newest.size) })
          : t('backups.none')}
      </p>
      <Copyable text={newest?.path ?? folder ?? ''} what={t('backups.file')} />
      {every_ms !== undefined && keep !== undefined && (
        <p class="soft small">{t('backups.schedule', { every: every(every_ms), count: keep })}</p>
      )}
    </section>
  )
}

/** A failure, or that the newest backup is old, as a problem of the overview. */
export function BackupTrouble({ status: { folder, every_ms = 0, newest, failure }, onChange }: BackupsProps) {
  return (
    <Row
      tone="bad"
      icon="file"
      title={t(failure ? 'backups.failed' : 'backups.late')}
      action={folder !== undefined && <BackUpNow onChange={onChange} />}
    >
      <p class="soft">
        {failure
          ? t('backups.failed_why', { when: ago(failure.at), error: isolated(failure.error) })
          : t('backups.late_about', { when: ago(newest?.created_at ?? 0), every: every(every_ms) })}
        {folder !== undefined && `${gap()}${t('backups.again')}`}
      </p>
    </Row>
  )
}

const toast = { id: 'backup' }

function BackUpNow({ onChange }: Pick<BackupsProps, 'onChange'>) {
  const { busy, work } = useWork(error => tellError(error, toast))
  const make = async () => {
    tellBegun(t('backups.making'), toast)
    try {
      const { size } = await call('backup', {})
      tell(t('backups.made', { size: bytes(size) }), toast)
    } finally {
      onChange()
    }
  }
  return (
    <button type="button" class="button" aria-disabled={busy.value} onClick={() => work(make)}>
      {t('backups.now')}
    </button>
  )
}
