/** The settings of the panel, and facts about the service. */
import type { ComponentChildren } from 'preact'
import { chooseLanguage, gap, isolated, language, languages, type TextKey, t } from '../i18n.ts'
import { status } from '../live.ts'
import { askToNotify, type Notifying, notifying, stopNotifying } from '../notify.ts'
import { Nodes } from '../overview/nodes.tsx'
import { isOwner, may, me } from '../rights.ts'
import { base, elsewhere, phonePath } from '../service-urls.ts'
import { type Theme, theme, themes } from '../theme.ts'
import { ago, whole } from '../times.ts'
import { Choice } from '../ui/choice.tsx'
import { Copyable } from '../ui/copy.tsx'
import { tellError } from '../ui/toasts.tsx'
import { SignOut } from './sign-out.tsx'

export { Keys } from '../ui/keys.tsx'

const themeNames: Readonly<Record<Theme, TextKey>> = {
  system: 'settings.theme_system',
  light: 'settings.theme_light',
  dark: 'settings.theme_dark',
}

export function Settings() {
  return (
    <div class="page settings">
      <header>
        <h1 tabIndex={-1}>{t('settings.title')}</h1>
      </header>
      <div class="stack">
        <section class="card" aria-labelledby="looks">
          <h2 id="looks">{t('settings.looks')}</h2>
          <LanguageChoice />
          <ThemeChoice />
          <p class="soft small">{t('settings.looks_about')}</p>
        </section>
        <Notifications />
        {isOwner() && <Retention />}
        {status.value?.token_required && (
          <section class="card" aria-labelledby="sign-in">
            <h2 id="sign-in">{t('settings.access')}</h2>
            {me.value?.name !== undefined && (
              <p>
                {t('settings.access_key', { name: isolated(me.value.name) })}
                {me.value.expires_at !== undefined &&
                  `${gap()}${t('settings.access_until', { when: whole(me.value.expires_at) })}`}
              </p>
            )}
            <p class="soft">{t('settings.access_about')}</p>
            <SignOut />
          </section>
        )}
      </div>
      <div class="stack">
        {isOwner() && <Service />}
        <Links />
        {may('metrics') && <Nodes />}
      </div>
    </div>
  )
}

const LanguageChoice = () => (
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
  <section class="card" aria-labelledby="notify">
    <h2 id="notify">{t('notify.title')}</h2>
    <p class="soft">{t(notifyTexts[notifying.value])}</p>
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
  </section>
)

const ThemeChoice = () => (
  <fieldset class="field choice">
    <legend class="label">{t('settings.theme')}</legend>
    <div>
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
          <span>{t(themeNames[one])}</span>
        </label>
      ))}
    </div>
  </fieldset>
)

/** How long messages are kept, and how to change that. */
function Retention() {
  const state = status.value
  if (!state) return null
  const { store_max_age_days: days, store_max_count: count } = state
  return (
    <section class="card" aria-labelledby="retention">
      <h2 id="retention">{t('settings.retention')}</h2>
      <div>
        <p>{days > 0 ? t('settings.kept_days', { count: days }) : t('settings.kept_always')}</p>
        <p>{count > 0 ? t('settings.kept_count', { count }) : t('settings.kept_all')}</p>
      </div>
      <p class="soft">{t('settings.retention_about')}</p>
      <Copyable
        text={`--store-max-age-days ${days} --store-max-count ${count}`}
        what={t('settings.options')}
      />
      <p class="soft">{t('settings.backups_about')}</p>
    </section>
  )
}

function Service() {
  const state = status.value
  if (!state) return null
  return (
    <section class="card" aria-labelledby="service">
      <h2 id="service">{t('settings.service')}</h2>
      <dl class="facts">
        <Fact name={t('settings.version')}>{state.version}</Fact>
        <Fact name={t('settings.started')}>
          <time dateTime={new Date(state.started_at).toISOString()}>{whole(state.started_at)}</time>
          <span class="soft small block">{ago(state.started_at)}</span>
        </Fact>
        <Fact name={t('settings.role')}>
          {t(state.role === 'poller' ? 'settings.role_poller' : 'settings.role_watcher')}
        </Fact>
        <Fact name={t('settings.directory')}>
          <Copyable text={state.base_path} what={t('settings.directory')} />
        </Fact>
        <Fact name={t('settings.media_root')}>
          <Copyable text={state.media_root} what={t('settings.media_root')} />
          <p class="soft small">{t('settings.media_root_about')}</p>
        </Fact>
      </dl>
    </section>
  )
}

const Fact = ({ name, children }: { name: string; children: ComponentChildren }) => (
  <div>
    <dt class="soft">{name}</dt>
    <dd>{children}</dd>
  </div>
)

function Links() {
  const state = status.value
  if (!state) return null
  const { rest_url, sandbox_phone } = state
  const rest = rest_url && elsewhere(rest_url)
  return (
    <section class="card" aria-labelledby="links">
      <h2 id="links">{t('settings.programs')}</h2>
      <p class="soft">{t('settings.programs_about')}</p>
      <ul class="links">
        {rest && (
          <li>
            <Away to={`${rest}/docs`}>{t('settings.rest_docs')}</Away>
            <p class="soft small">{t('settings.rest_docs_about')}</p>
          </li>
        )}
        <li>
          <Away to={`${base}/docs`}>{t('settings.panel_docs')}</Away>
          <p class="soft small">{t('settings.panel_docs_about')}</p>
        </li>
        {sandbox_phone && isOwner() && (
          <li>
            <Away to={phonePath}>{t('settings.phone')}</Away>
            <p class="soft small">{t('settings.phone_about')}</p>
          </li>
        )}
      </ul>
      {rest && (
        <div class="field">
          <span class="label">{t('settings.mcp')}</span>
          <Copyable text={`${rest}/mcp`} what={t('settings.mcp')} />
        </div>
      )}
    </section>
  )
}

const Away = ({ to, children }: { to: string; children: ComponentChildren }) => (
  <a href={to} target="_blank" rel="noopener">
    {children}
    <span class="visually-hidden"> {t('settings.new_tab')}</span>
  </a>
)
