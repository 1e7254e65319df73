/** Gives an account another name. */
import { useSignal } from '@preact/signals'
import { useId } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { api } from '../api.ts'
import { t } from '../i18n.ts'
import { Dialog } from '../ui/dialog.tsx'
import { tell } from '../ui/toasts.tsx'
import { NameField, type NameProblem, nameProblem } from './name-field.tsx'
import { accountPath, isolated } from './names.ts'
import { refreshSessions } from './use-login.ts'

export function Rename({ name, onClose }: { name: string; onClose(): void }) {
  const [path, navigate] = useLocation()
  const problem = useSignal<NameProblem | undefined>(undefined)
  const busy = useSignal(false)
  const form = useId()
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    const wanted = String(new FormData(event.currentTarget as HTMLFormElement).get('name')).trim()
    if (wanted === name) return onClose()
    if (busy.value) return
    busy.value = true
    try {
      const { name: given } = await api.rename(name, wanted)
      await refreshSessions()
      if (decodeURIComponent(path) === `/sessions/${name}`) navigate(accountPath(given), { replace: true })
      tell(t('sessions.renamed', { name: isolated(given) }))
      onClose()
    } catch (error) {
      problem.value = nameProblem(error)
    } finally {
      busy.value = false
    }
  }
  return (
    <Dialog
      title={t('sessions.rename_title', { name: isolated(name) })}
      description={t('sessions.rename_about')}
      onClose={onClose}
      footer={
        <>
          <button class="button" type="button" onClick={onClose}>
            {t('action.cancel')}
          </button>
          <button class="button primary" type="submit" form={form} aria-disabled={busy.value}>
            {t('sessions.rename')}
          </button>
        </>
      }
    >
      <form id={form} onSubmit={submit} noValidate>
        <NameField label={t('sessions.name')} value={name} problem={problem.value} />
      </form>
    </Dialog>
  )
}
