/** The field for the name of an account, with the rule and the error. */
import { ApiError } from '../api.ts'
import { errorText, nameReason } from '../errors.ts'
import { t } from '../i18n.ts'
import { Field } from '../ui/field.tsx'

/** Why a name was rejected, in the viewer's language. */
export function nameProblem(error: unknown): { text: string; reason: string } {
  if (error instanceof ApiError && error.code === 'invalid_arguments') {
    return { text: t('sessions.name_bad'), reason: nameReason(error) }
  }
  const { title, hint } = errorText(error)
  return { text: title, reason: hint }
}

export type NameProblem = ReturnType<typeof nameProblem>

interface NameFieldProps {
  label: string
  value?: string
  placeholder?: string
  problem: NameProblem | undefined
  maxLength?: number
}

export const NameField = ({ label, value = '', problem, ...input }: NameFieldProps) => (
  <Field
    label={label}
    about={t('sessions.name_rule')}
    problem={problem ? `${problem.text} ${problem.reason}` : ''}
    input={{
      ...input,
      name: 'name',
      defaultValue: value,
      autocapitalize: 'none',
      spellcheck: false,
      'data-autofocus': true,
    }}
  />
)
