/** The first visit: three steps that lead to a working bot. */

import { type TextKey, t } from '../i18n.ts'
import { may } from '../rights.ts'
import { beginNow, loginPath } from '../sessions/names.ts'
import { Icon, type IconName } from '../ui/icon.tsx'
import { Link } from '../ui/link.tsx'

const steps: readonly { icon: IconName; title: TextKey; about: TextKey }[] = [
  { icon: 'sessions', title: 'welcome.add', about: 'welcome.add_about' },
  { icon: 'phone', title: 'welcome.scan', about: 'welcome.scan_about' },
  { icon: 'conversations', title: 'welcome.write', about: 'welcome.write_about' },
]

export const Welcome = () => (
  <section class="card welcome" aria-labelledby="welcome">
    <h2 id="welcome">{t('welcome.title')}</h2>
    <p class="soft">{t('welcome.about')}</p>
    <ol>
      {steps.map(({ icon, title, about }) => (
        <li key={title}>
          <span class="sign">
            <Icon name={icon} size={24} />
          </span>
          <h3>{t(title)}</h3>
          <p class="soft">{t(about)}</p>
        </li>
      ))}
    </ol>
    {may('login') && (
      <Link class="button primary" href={loginPath('default')} state={beginNow}>
        <Icon name="add" />
        {t('welcome.go')}
      </Link>
    )}
  </section>
)
