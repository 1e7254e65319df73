/** Where the panel is open to others, it asks for the service's token first. */
import { useSignal } from '@preact/signals'
import { api } from '../api.ts'
import { errorText } from '../errors.ts'
import { t } from '../i18n.ts'
import { listenAgain, refresh } from '../live.ts'

export function SignIn() {
  const problem = useSignal('')
  const busy = useSignal(false)
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    const token = new FormData(event.currentTarget as HTMLFormElement).get('token')
    busy.value = true
    try {
      await api.signIn(String(token).trim())
      await refresh()
      listenAgain()
    } catch (error) {
      problem.value = errorText(error).title
    } finally {
      busy.value = false
    }
  }
  return (
    <main class="sign-in">
      <form class="card" onSubmit={submit}>
        <div>
          <h1>{t('signin.title')}</h1>
          <p class="soft">{t('signin.about')}</p>
        </div>
        <div class="field">
          <label for="token">{t('signin.token')}</label>
          <input
            class="input mono"
            id="token"
            name="token"
            type="password"
            autocomplete="current-password"
            required
            aria-describedby="token-where"
            aria-invalid={problem.value !== ''}
          />
          <p class="soft small" id="token-where">
            {t('signin.where')}
          </p>
          <p class="problem" role="alert">
            {problem.value}
          </p>
        </div>
        <button class="button primary" type="submit" disabled={busy.value}>
          {t('signin.go')}
        </button>
      </form>
    </main>
  )
}
