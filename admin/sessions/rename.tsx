/** Gives an account another name. */
import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import { call } from '../api.ts'
import { isolated, t } from '../i18n.ts'
import { Ask } from '../ui/ask.tsx'
import { tell } from '../ui/toasts.tsx'
import { NameField, type NameProblem, nameProblem } from './name-field.tsx'
import { refreshSessions } from './use-login.ts'

export function Rename({ name, onClose }: { name: string; onClose(): void }) {
  const called = useRef(name)
  const problem = useSignal<NameProblem | undefined>(undefined)
  return (
    <Ask
      title={t('sessions.rename_title', { name: isolated(name) })}
      description={t('sessions.rename_about')}
      action={t('sessions.rename')}
      onClose={onClose}
      // The row with the old name is gone, and so is its menu.
      focusAfter={() => menuOf(called.current)}
      onError={error => {
        problem.value = nameProblem(error)
      }}
      run={async typed => {
        const wanted = String(typed.get('name')).trim()
        if (wanted !== name) {
          const { new_name } = await call('rename_session', { old_name: name, new_name: wanted })
          called.current = new_name
          await refreshSessions()
          tell(t('sessions.renamed', { name: isolated(new_name) }))
        }
        onClose()
      }}
    >
      <NameField label={t('access.name')} value={name} problem={problem.value} />
    </Ask>
  )
}

const menuOf = (name: string) =>
  [...document.querySelectorAll<HTMLElement>('[aria-haspopup=menu]')].find(
    ({ ariaLabel }) => ariaLabel === t('session.menu', { name: isolated(name) }),
  )
