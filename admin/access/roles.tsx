/** What the roles mean, and how a person signs in with a key. */
import { t } from '../i18n.ts'
import { Fact } from '../ui/marks.tsx'
import { roles } from './words.ts'

export const Roles = () => (
  <section class="card account" aria-labelledby="roles">
    <h2 id="roles">{t('access.roles')}</h2>
    <p class="soft">{t('access.roles_about')}</p>
    <dl>
      {Object.entries(roles).map(([word, { name, about }]) => (
        <Fact key={word} label={t(name)}>
          {t(about)} <code class="soft">{word}</code>
        </Fact>
      ))}
    </dl>
    <p>{t('access.people_about')}</p>
    <p class="soft small">{t('access.limits_note')}</p>
  </section>
)
