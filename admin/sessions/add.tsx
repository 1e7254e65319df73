/** The first half of adding an account: what it shall be called. */
import { useSignal } from '@preact/signals'
import { useId } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { t } from '../i18n.ts'
import { Dialog } from '../ui/dialog.tsx'
import { NameField, type NameProblem } from './name-field.tsx'
import { accountOf, beginNow, freeName, isolated, loginPath } from './names.ts'

export function Add({ onClose }: { onClose(): void }) {
  const [, navigate] = useLocation()
  const problem = useSignal<NameProblem | undefined>(undefined)
  const form = useId()
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    const typed = String(new FormData(event.currentTarget as HTMLFormElement).get('name')).trim()
    const name = typed || freeName()
    const taken = accountOf(name)
    if (taken && taken.status !== 'logging_in') {
      problem.value = { text: t('login.name_taken', { name: isolated(taken.name) }), reason: '' }
    } else navigate(loginPath(name), { state: beginNow, replace: true })
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
          <button class="button primary" type="submit" form={form}>
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
