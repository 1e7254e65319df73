/** The newest backup, and what is wrong with backups. */
import { type Answer, call } from '../api.ts'
import { bytes, gap, isolated, t } from '../i18n.ts'
import { ago, every, whole } from '../times.ts'
import { CopyButton } from '../ui/copy.tsx'
import { tell, tellBegun, tellError } from '../ui/toasts.tsx'
import { useWork } from '../ui/work.ts'
import type { Matter } from './row.tsx'

export const askBackups = () => call('get_backups', {})

interface BackupsProps {
  status: Answer<'get_backups'>
  /** Called after a backup. */
  onChange(): void
}

/** The section of the overview. */
export function Backups({ status: { folder, every_ms, keep, newest }, onChange }: BackupsProps) {
  const plan =
    every_ms !== undefined &&
    keep !== undefined &&
    t('backups.schedule', { every: every(every_ms), count: keep })
  return (
    <section class="backups" aria-labelledby="backups">
      <h2 id="backups">{t('backups.heading')}</h2>
      <div class="rows row">
        <div class="row-main">
          <p title={newest && whole(newest.created_at)}>
            {newest
              ? t('backups.newest', { when: ago(newest.created_at), size: bytes(newest.size) })
              : t('backups.none')}
          </p>
          <p class="soft small path">{newest?.path ?? folder ?? ''}</p>
          {plan && <p class="soft small">{plan}</p>}
        </div>
        <CopyButton text={newest?.path ?? folder ?? ''} what={t('backups.file')} />
        {folder !== undefined && <BackUpNow onChange={onChange} />}
      </div>
    </section>
  )
}

/** A failure, or that the newest backup is old, as a matter of the overview. */
export const backupTrouble = (
  { folder, every_ms = 0, newest, failure }: Answer<'get_backups'>,
  onChange: () => void,
): Matter => ({
  tone: 'bad',
  title: t(failure ? 'backups.failed' : 'backups.late'),
  action: folder !== undefined && <BackUpNow onChange={onChange} />,
  note:
    (failure
      ? t('backups.failed_why', { when: ago(failure.at), error: isolated(failure.error) })
      : t('backups.late_about', { when: ago(newest?.created_at ?? 0), every: every(every_ms) })) +
    (folder === undefined ? '' : gap() + t('backups.again')),
})

const toast = { id: 'backup' }

export function BackUpNow({ onChange }: Pick<BackupsProps, 'onChange'>) {
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
