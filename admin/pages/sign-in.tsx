/** The page to sign in with the token, if the panel requires a sign-in. */
import { useSignal } from '@preact/signals'
import type { RefObject } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { signIn } from '../api.ts'
import { errorText } from '../errors.ts'
import { listenAgain } from '../follow.ts'
import { chooseLanguage, language, languages, t } from '../i18n.ts'
import { refresh } from '../live.ts'
import { base } from '../service-urls.ts'
import { Copyable } from '../ui/copy.tsx'
import { Icon, IconButton } from '../ui/icon.tsx'
import { set } from '../ui/set.ts'
import { useWork } from '../ui/work.ts'

/** Whether the person came by a printed link that was already used. */
const linkWasUsed = () => new URLSearchParams(location.search).get('link') === 'used'

export function SignIn() {
  const problem = useSignal('')
  const field = useRef<HTMLInputElement>(null)
  const { busy, work } = useWork(error => {
    problem.value = errorText(error).title
    field.current?.select()
  })
  useEffect(() => field.current?.focus(), [])
  useEffect(() => {
    document.title = `${t('signin.title')} · svc`
  }, [language.value])
  const enter = async () => {
    const token = field.current?.value.trim() ?? ''
    if (token === '') return field.current?.focus()
    problem.value = ''
    await signIn(token)
    if (linkWasUsed()) history.replaceState(null, '', location.pathname)
    await refresh()
    listenAgain()
  }
  return (
    <main class="sign-in" id="main" tabIndex={-1}>
      <form
        class="card"
        noValidate
        onSubmit={event => {
          event.preventDefault()
          void work(enter)
        }}
      >
        <header>
          <img src={`${base}/icon.svg`} alt="" width={44} height={44} />
          <h1>{t('signin.title')}</h1>
          <p class="soft">{t('signin.about')}</p>
        </header>
        {linkWasUsed() && (
          <p class="notice warn">
            <Icon name="clock" />
            {t('signin.link_used')}
          </p>
        )}
        <TokenField field={field} problem={problem.value} />
        <button class="button primary" type="submit" aria-disabled={busy.value}>
          {t(busy.value ? 'signin.busy' : 'signin.go')}
        </button>
        <div class="by-link">
          <p class="soft small">{t('signin.link')}</p>
          <Copyable text="svc panel link" what={t('overview.command')} />
        </div>
      </form>
      <Languages />
    </main>
  )
}

/** The field for the token or a key, which can be shown. */
function TokenField({ field, problem }: { field: RefObject<HTMLInputElement | null>; problem: string }) {
  const isVisible = useSignal(false)
  return (
    <div class="field">
      <label for="token">{t('signin.token')}</label>
      {/* Password managers need a user name to save a password. */}
      <input type="text" name="username" autocomplete="username" value="svc" readOnly hidden />
      <div class="token">
        <input
          class="input mono"
          id="token"
          name="token"
          ref={field}
          // The types allow no field whose type changes.
          type={(isVisible.value ? 'text' : 'password') as 'password'}
          autocomplete="current-password"
          autocapitalize="none"
          spellcheck={false}
          aria-describedby="token-where token-problem"
          aria-invalid={problem !== ''}
        />
        <IconButton
          icon={isVisible.value ? 'eye_off' : 'eye'}
          label={t(isVisible.value ? 'signin.hide' : 'signin.show')}
          aria-pressed={isVisible.value}
          onClick={set(isVisible, !isVisible.value)}
        />
      </div>
      <p class="problem" id="token-problem" role="alert">
        {problem}
      </p>
      <p class="soft small" id="token-where">
        {t('signin.where')}
      </p>
    </div>
  )
}

const Languages = () => (
  <ul class="languages">
    {languages.value.map(({ code, name }) => (
      <li key={code}>
        <button
          class="button plain"
          type="button"
          lang={code}
          aria-pressed={code === language.value}
          onClick={() => void chooseLanguage(code)}
        >
          {name}
        </button>
      </li>
    ))}
  </ul>
)
