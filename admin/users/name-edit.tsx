/** Shows a user, with a button to edit the name. */
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { errorText } from '../errors.ts'
import { isolated, listed, t } from '../i18n.ts'
import { nameOf, showName } from '../live.ts'
import { may } from '../rights.ts'
import { Icon, IconButton } from '../ui/icon.tsx'
import { set } from '../ui/set.ts'
import { tellDoubt } from '../ui/toasts.tsx'
import { useWork } from '../ui/work.ts'

/** The limit of src/model/user-name.ts. */
const longest = 64

interface Props {
  session: string
  userId: string
  /** Shown while the name is not being edited. */
  children: ComponentChildren
}

/** The user and a button. The button turns into a field for the name. */
export function NameEdit({ session, userId, children }: Props) {
  const open = useSignal(false)
  const button = useRef<HTMLButtonElement>(null)
  const wasOpen = useRef(false)
  useLayoutEffect(() => {
    // If the person has moved the focus elsewhere, leave it there.
    if (wasOpen.current && !open.value && document.activeElement === document.body) button.current?.focus()
    wasOpen.current = open.value
  }, [open.value])
  const close = set(open, false)
  const label = t(nameOf(session, userId) === undefined ? 'name.give' : 'name.change')
  return (
    <div class="name-edit">
      <div class={open.value ? 'visually-hidden' : 'cut'}>{children}</div>
      {open.value ? (
        <NameForm session={session} userId={userId} onClose={close} />
      ) : (
        may('names') && (
          <button
            ref={button}
            type="button"
            class="button plain icon-only"
            aria-label={label}
            title={label}
            onClick={set(open, true)}
          >
            <Icon name="edit" size={16} />
          </button>
        )
      )}
    </div>
  )
}

interface FormProps {
  session: string
  userId: string
  onClose(): void
}

function NameForm({ onClose, ...user }: FormProps) {
  const { before, field, problem, save } = useNaming(user, onClose)
  return (
    <form class="name-form" noValidate onSubmit={save}>
      <input
        ref={field}
        class="input"
        defaultValue={before}
        maxLength={longest}
        placeholder={t('name.label')}
        aria-label={t('name.label')}
        aria-invalid={problem !== ''}
        autocomplete="off"
        spellcheck={false}
        enterkeyhint="done"
        dir="auto"
        onKeyDown={event => {
          if (event.key !== 'Escape') return
          event.stopPropagation()
          onClose()
        }}
      />
      <IconButton type="submit" icon="check" size={18} label={t('name.save')} />
      <IconButton icon="close" size={18} label={t('action.cancel')} onClick={onClose} />
      <p class="problem small" role="alert">
        {problem}
      </p>
    </form>
  )
}

/** What the field begins with, what `save` does with its text, and why that failed. */
function useNaming({ session, userId }: Omit<FormProps, 'onClose'>, onClose: () => void) {
  const field = useRef<HTMLInputElement>(null)
  const problem = useSignal('')
  const { work } = useWork(error => {
    const isInvalid = error instanceof ApiError && error.code === 'invalid_arguments'
    problem.value = isInvalid ? t('name.bad') : errorText(error).title
    const at = document.activeElement
    if (at === document.body || field.current?.form?.contains(at)) field.current?.focus()
  })
  const before = nameOf(session, userId) ?? ''
  // A layout effect runs before the next key press.
  useLayoutEffect(() => field.current?.select(), [])
  const give = async () => {
    const name = field.current?.value.trim() ?? ''
    if (name === before) return onClose()
    const given = await call('name_user', { session, user_id: userId, name })
    showName(given)
    if (given.namesakes) {
      const accounts = listed([...new Set(given.namesakes.map(one => isolated(one.session)))])
      tellDoubt(t('name.shared', { accounts }))
    }
    // The form may be closed already.
    if (field.current) onClose()
  }
  const save = (event: Event) => {
    event.preventDefault()
    void work(give)
  }
  return { before, field, problem: problem.value, save }
}
