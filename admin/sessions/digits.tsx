/** The field for the number that the phone shows. */
import { useSignal } from '@preact/signals'
import { useEffect, useId, useRef } from 'preact/hooks'
import { errorText } from '../errors.ts'
import { t } from '../i18n.ts'

export function Digits({ wrong, give }: { wrong: boolean; give(code: string): Promise<void> }) {
  const id = useId()
  const field = useRef<HTMLInputElement>(null)
  const checking = useSignal(false)
  const problem = useSignal(wrong ? t('login.wrong_code') : '')
  useEffect(() => field.current?.focus(), [])
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    const code = field.current?.value.trim() ?? ''
    if (code === '' || checking.value) return
    problem.value = ''
    checking.value = true
    try {
      await give(code)
    } catch (error) {
      problem.value = errorText(error).title
      checking.value = false
    }
  }
  return (
    <form class="login-digits" onSubmit={submit} noValidate>
      <p>{t('login.digits')}</p>
      <div class="field">
        <label for={id}>{t('login.digits_label')}</label>
        <div>
          <input
            class="input mono"
            id={id}
            ref={field}
            inputMode="numeric"
            autocomplete="one-time-code"
            maxLength={32}
            aria-describedby={`${id}-problem`}
            aria-invalid={problem.value !== ''}
          />
          <button class="button primary" type="submit" aria-disabled={checking.value}>
            {t('login.digits_go')}
          </button>
        </div>
        <p class="problem" id={`${id}-problem`} role="alert">
          {problem.value}
        </p>
        <p class="soft small" role="status">
          {checking.value && t('login.checking')}
        </p>
      </div>
    </form>
  )
}
