/** Replaces "Send it" if the sending account is not logged in. */
import { isolated, t } from '../i18n.ts'
import { may } from '../rights.ts'
import { Link } from '../ui/link.tsx'
import { beginNow, loginPath } from './names.ts'

export const LoginFirst = ({ name }: { name: string }) =>
  may('login') && (
    <Link class="button primary" href={loginPath(name)} state={beginNow}>
      {t('sessions.login_first', { name: isolated(name) })}
    </Link>
  )
