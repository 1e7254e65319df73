/** Shown when the URL names an account that does not exist. */

import { isolated, t } from '../i18n.ts'
import { Icon } from '../ui/icon.tsx'
import { Link } from '../ui/link.tsx'

export const NoAccount = ({ name }: { name: string }) => (
  <div class="empty" role="status">
    <Icon name="warn" size={32} />
    <p>{t('sessions.missing', { name: isolated(name) })}</p>
    <Link class="button" href="/sessions">
      {t('sessions.show_all')}
    </Link>
  </div>
)
