/** What is saved in this browser: language, theme, notifications, the sign-in. */
import { chooseLanguage, gap, isolated, language, languages, type TextKey, t } from '../i18n.ts'
import { status } from '../live.ts'
import { askToNotify, type Notifying, notifying, stopNotifying } from '../notify.ts'
import { me } from '../rights.ts'
import { type Theme, theme, themes } from '../theme.ts'
import { whole } from '../times.ts'
import { Choice } from '../ui/choice.tsx'
import { tellError } from '../ui/toasts.tsx'
import { Setting } from './setting.tsx'
import { SignOut } from './sign-out.tsx'

export const Browser = () => (
  <>
    <div class="card settings-rows">
      <Choice
        label={t('settings.language')}
        value={language.value}
        onChange={code => chooseLanguage(code).catch(tellError)}
      >
        {languages.value.map(({ code, name }) => (
          <option key={code} value={code} lang={code}>
            {name}
          </option>
        ))}
      </Choice>
      <Setting name={t('settings.theme')} id="theme">
        <ThemeChoice />
      </Setting>
      <Notifications />
      {status.value?.token_required && <SignIn />}
    </div>
    <p class="soft small">{t('settings.looks_about')}</p>
  </>
)

const themeNames: Readonly<Record<Theme, TextKey>> = {
  system: 'settings.theme_system',
  light: 'settings.theme_light',
  dark: 'settings.theme_dark',
}

const ThemeChoice = () => (
  <div class="segments" role="radiogroup" aria-labelledby="theme">
    {themes.map(one => (
      <label key={one}>
        <input
          type="radio"
          name="theme"
          checked={theme.value === one}
          onChange={() => {
            theme.value = one
          }}
        />
        {t(themeNames[one])}
      </label>
    ))}
  </div>
)

const notifyTexts: Readonly<Record<Notifying, TextKey>> = {
  on: 'notify.about',
  off: 'notify.about',
  denied: 'notify.denied',
  insecure: 'notify.insecure',
  unable: 'notify.unable',
}

/** Notifications are off until the person turns them on. */
const Notifications = () => (
  <Setting name={t('notify.title')} about={t(notifyTexts[notifying.value])}>
    {notifying.value === 'off' && (
      <button type="button" class="button" onClick={() => askToNotify().catch(tellError)}>
        {t('notify.ask')}
      </button>
    )}
    {notifying.value === 'on' && (
      <button type="button" class="button" onClick={stopNotifying}>
        {t('notify.stop')}
      </button>
    )}
  </Setting>
)

function SignIn() {
  const { name, expires_at } = me.value ?? {}
  const sentences = [
    name !== undefined && t('settings.access_key', { name: isolated(name) }),
    name !== undefined && expires_at !== undefined && t('settings.access_until', { when: whole(expires_at) }),
    t('settings.access_about'),
  ]
  return (
    <Setting name={t('settings.access')} about={sentences.filter(Boolean).join(gap())}>
      <SignOut />
    </Setting>
  )
}
