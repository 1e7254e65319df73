/** Shown when all accounts are logged out: buttons to log them in again. */
import type { Conversation } from '../api.ts'
import { isolated, t } from '../i18n.ts'
import { may } from '../rights.ts'
import { Link } from '../ui/link.tsx'
import { Bot } from './mascot.tsx'
import { beginNow, loginPath } from './names.ts'

/** The accounts with the newest messages; the others have no button. */
const mostShown = 5

export function LoggedOut({ conversations }: { conversations: readonly Conversation[] }) {
  const names = new Set(conversations.map(({ session }) => session))
  return (
    <section class="card empty first-account logged-out">
      <Bot />
      <h2>{t('overview.says_out')}</h2>
      <p>{t('sessions.out_about')}</p>
      {(may('login') ? [...names] : []).slice(0, mostShown).map((name, index) => (
        <Link
          key={name}
          class={index === 0 ? 'button primary' : 'button'}
          href={loginPath(name)}
          state={beginNow}
        >
          {t('sessions.out_login', { name: isolated(name) })}
        </Link>
      ))}
      {may('login') && (
        <Link class="button plain" href="/sessions/add">
          {t('sessions.add')}
        </Link>
      )}
    </section>
  )
}
