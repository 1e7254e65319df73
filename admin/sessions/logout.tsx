/** Asks before it deletes the credentials of an account. That may be final. */
import { useLocation } from 'wouter-preact'
import { outbox } from '../answers.ts'
import { call } from '../api.ts'
import { gap, isolated, t } from '../i18n.ts'
import { herePath } from '../service-urls.ts'
import { Ask, Consequence } from '../ui/ask.tsx'
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
        <Consequence kind="lost">
          {t('sessions.logout_loses')}
          {gap()}
          {t('sessions.logout_waiting')}
        </Consequence>
        {waiting > 0 && (
          <Consequence kind="waits">{t('sessions.logout_queued', { count: waiting })}</Consequence>
        )}
        <Consequence kind="kept">{t('sessions.logout_keeps')}</Consequence>
      </ul>
      <p class="soft small">{t('sessions.logout_rather')}</p>
    </Ask>
  )
}
