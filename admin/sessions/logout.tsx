/** Asks before an account's credentials are deleted: there may be no way back. */
import { useSignal } from '@preact/signals'
import { useLocation } from 'wouter-preact'
import { api } from '../api.ts'
import { t } from '../i18n.ts'
import { Dialog } from '../ui/dialog.tsx'
import { Icon } from '../ui/icon.tsx'
import { tell, tellError } from '../ui/toasts.tsx'
import { isolated } from './names.ts'
import { refreshSessions } from './use-login.ts'

export function Logout({ name, onClose }: { name: string; onClose(): void }) {
  const [path, navigate] = useLocation()
  const busy = useSignal(false)
  const logout = async () => {
    if (busy.value) return
    busy.value = true
    try {
      await api.logout(name)
      await refreshSessions()
      if (path !== '/sessions') navigate('/sessions', { replace: true })
      tell(t('sessions.logged_out', { name: isolated(name) }))
    } catch (error) {
      tellError(error)
    }
    onClose()
  }
  return (
    <Dialog
      title={t('sessions.logout_title', { name: isolated(name) })}
      onClose={onClose}
      alert
      footer={
        <>
          <button class="button" type="button" data-autofocus onClick={onClose}>
            {t('action.cancel')}
          </button>
          <button class="button danger" type="button" aria-disabled={busy.value} onClick={logout}>
            {t('sessions.logout')}
          </button>
        </>
      }
    >
      <ul class="consequences">
        <li class="lost">
          <Icon name="warn" />
          <span>
            {t('sessions.logout_loses')} {t('sessions.logout_waiting')}
          </span>
        </li>
        <li class="kept">
          <Icon name="check" />
          {t('sessions.logout_keeps')}
        </li>
      </ul>
      <p class="soft small">{t('sessions.logout_rather')}</p>
    </Dialog>
  )
}
