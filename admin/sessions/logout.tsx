/** Asks before it deletes the credentials of an account. That may be final. */
import { useLocation } from 'wouter-preact'
import { outbox } from '../answers.ts'
import { call } from '../api.ts'
import { gap, isolated, t } from '../i18n.ts'
import { herePath } from '../service-urls.ts'
import { Ask } from '../ui/ask.tsx'
import { Icon } from '../ui/icon.tsx'
import { tell } from '../ui/toasts.tsx'
import { accountPath } from './names.ts'
import { refreshSessions } from './use-login.ts'

export function Logout({ name, onClose }: { name: string; onClose(): void }) {
  const [, navigate] = useLocation()
  const waiting = (outbox.value ?? []).filter(({ session }) => session === name).length
  return (
    <Ask
      title={t('sessions.logout_title', { name: isolated(name) })}
      action={t('sessions.logout')}
      danger
      alert
      onClose={onClose}
      run={async () => {
        await call('logout', { session_name: name })
        await refreshSessions()
        // If the person has opened another page, stay there.
        if (herePath() === accountPath(name)) navigate('/sessions', { replace: true })
        tell(t('sessions.logged_out', { name: isolated(name) }))
        onClose()
      }}
    >
      <ul class="consequences">
        <li class="lost">
          <Icon name="warn" />
          <span>
            {t('sessions.logout_loses')}
            {gap()}
            {t('sessions.logout_waiting')}
          </span>
        </li>
        {waiting > 0 && (
          <li class="waits">
            <Icon name="clock" />
            {t('sessions.logout_queued', { count: waiting })}
          </li>
        )}
        <li class="kept">
          <Icon name="check" />
          {t('sessions.logout_keeps')}
        </li>
      </ul>
      <p class="soft small">{t('sessions.logout_rather')}</p>
    </Ask>
  )
}
