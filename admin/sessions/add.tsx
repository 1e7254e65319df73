/** The first step of adding an account: its name. */
import { useSignal } from '@preact/signals'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { isolated, t } from '../i18n.ts'
import { Ask } from '../ui/ask.tsx'
import { NameField, type NameProblem, nameProblem } from './name-field.tsx'
import { accountOf, beginNow, freeName, loginPath } from './names.ts'
import { beginLogin } from './use-login.ts'

export function Add({ onClose }: { onClose(): void }) {
  const [, navigate] = useLocation()
  const problem = useSignal<NameProblem | undefined>(undefined)
  const left = useRef(new AbortController())
  useLayoutEffect(() => () => left.current.abort(), [])
  const begin = async (name: string) => {
    const taken = accountOf(name)
    const takenProblem = { text: t('login.name_taken', { name: isolated(taken?.name ?? name) }), reason: '' }
    if (taken && taken.status !== 'logging_in') {
      problem.value = takenProblem
      return
    }
    // The login starts here, where a rejected name can be corrected. The next dialog joins it.
    const login = await beginLogin(name, false, left.current.signal)
    if (login?.login_id === '') problem.value = takenProblem
    else if (login) navigate(loginPath(login.session), { state: beginNow, replace: true })
  }
  return (
    <Ask
      title={t('welcome.add')}
      action={t('login.show_code')}
      onClose={onClose}
      onError={error => {
        problem.value = nameProblem(error)
      }}
      run={typed => begin(String(typed.get('name')).trim() || freeName())}
    >
      <NameField label={t('sessions.name_optional')} placeholder={freeName()} problem={problem.value} />
    </Ask>
  )
}
