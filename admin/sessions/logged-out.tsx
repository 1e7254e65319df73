/** Nobody is logged in, and somebody was: the way back to each account. */
import type { Conversation } from '../api.ts'
import { isolated, t } from '../i18n.ts'
import { Link } from '../ui/link.tsx'
import { Bot } from './mascot.tsx'
import { beginNow, loginPath } from './names.ts'

/** Those that were written to last; of the others only messages are left. */
const shown = 5

export function LoggedOut({ conversations }: { conversations: readonly Conversation[] }) {
  const names = new Set(conversations.map(({ session }) => session))
  return (
    <section class="card empty first-account logged-out">
      <Bot />
      <h2>{t('sessions.out_title')}</h2>
      <p>{t('sessions.out_about')}</p>
      {[...names].slice(0, shown).map((name, index) => (
        <Link
          key={name}
          class={index === 0 ? 'button primary' : 'button'}
          href={loginPath(name)}
          state={beginNow}
        >
          {t('sessions.out_login', { name: isolated(name) })}
        </Link>
      ))}
      <Link class="button plain" href="/sessions/add">
        {t('sessions.add')}
      </Link>
    </section>
  )
}
