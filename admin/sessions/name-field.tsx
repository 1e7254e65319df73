/** The field for the name of an account, with the rule and the error. */
import { useId } from 'preact/hooks'
import { ApiError } from '../api.ts'
import { errorText, nameReason } from '../errors.ts'
import { t } from '../i18n.ts'

/** Why a name was rejected, in the viewer's language. */
export function nameProblem(error: unknown): { text: string; reason: string } {
  if (error instanceof ApiError && error.code === 'invalid_arguments') {
    return { text: t('sessions.name_bad'), reason: nameReason(error) }
  }
  const { title, hint } = errorText(error)
  return { text: title, reason: hint }
}

export type NameProblem = ReturnType<typeof nameProblem>

export function NameField({
  label,
  value = '',
  placeholder = '',
  problem,
  maxLength,
}: {
  label: string
  value?: string
  placeholder?: string
  problem: NameProblem | undefined
  maxLength?: number
}) {
  const id = useId()
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        class="input"
        id={id}
        name="name"
        defaultValue={value}
        placeholder={placeholder}
        maxLength={maxLength}
        autocomplete="off"
        autocapitalize="none"
        spellcheck={false}
        dir="auto"
        data-autofocus
        aria-describedby={`${id}-rule ${id}-problem`}
        aria-invalid={problem !== undefined}
      />
      <p class="soft small" id={`${id}-rule`}>
        {t('sessions.name_rule')}
      </p>
      <p class="problem" id={`${id}-problem`} role="alert">
        {problem && (
          <>
            {problem.text} {problem.reason}
          </>
        )}
      </p>
    </div>
  )
}
