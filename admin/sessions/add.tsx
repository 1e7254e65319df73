/** The first half of adding an account: what it shall be called. */
import { useSignal } from '@preact/signals'
import { useId } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { api } from '../api.ts'
import { t } from '../i18n.ts'
import { Dialog } from '../ui/dialog.tsx'
import { NameField, type NameProblem, nameProblem } from './name-field.tsx'
import { accountOf, beginNow, freeName, isolated, loginPath } from './names.ts'

export function Add({ onClose }: { onClose(): void }) {
  const [, navigate] = useLocation()
  const problem = useSignal<NameProblem | undefined>(undefined)
  const form = useId()
  const busy = useSignal(false)
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    const typed = String(new FormData(event.currentTarget as HTMLFormElement).get('name')).trim()
    const name = typed || freeName()
    if (busy.value) return
    const taken = accountOf(name)
    const refused = { text: t('login.name_taken', { name: isolated(taken?.name ?? name) }), reason: '' }
    if (taken && taken.status !== 'logging_in') {
      problem.value = refused
      return
    }
    busy.value = true
    try {
      // Begun here, where a refused name can be mended; the next dialog joins it.
      const { login_id, session } = await api.login(name, false)
      // Closed meanwhile.
      if (location.pathname !== '/sessions/add') return void (await api.cancelLogin(login_id))
      if (login_id === '') problem.value = refused
      else navigate(loginPath(session), { state: beginNow, replace: true })
    } catch (error) {
      problem.value = nameProblem(error)
    } finally {
      busy.value = false
    }
  }
  return (
    <Dialog
      title={t('login.add_title')}
      onClose={onClose}
      footer={
        <>
          <button class="button" type="button" onClick={onClose}>
            {t('action.cancel')}
          </button>
          <button class="button primary" type="submit" form={form} aria-disabled={busy.value}>
            {t('login.show_code')}
          </button>
        </>
      }
    >
      <form id={form} onSubmit={submit} noValidate>
        <NameField label={t('sessions.name_optional')} placeholder={freeName()} problem={problem.value} />
      </form>
    </Dialog>
  )
}
