/** The users who wrote to an account, with the answers left for each. */
import { useSignal } from '@preact/signals'
import type { SessionUser, SessionWithUsers } from '../api.ts'
import { t } from '../i18n.ts'
import { hrefOf } from '../place.ts'
import { left, now, relative } from '../times.ts'
import { Link } from '../ui/link.tsx'
import { Time } from '../ui/marks.tsx'
import { set } from '../ui/set.ts'
import { Who } from '../users/avatar.tsx'
import { NameEdit } from '../users/name-edit.tsx'
import { rightOf } from '../users/reply-permission.tsx'

/** The others are shown on request. */
const shownAtFirst = 20

export function Users({ session }: { session: SessionWithUsers }) {
  const all = useSignal(false)
  const { name, users } = session
  if (users.length === 0) return <p class="soft">{t('conversations.none')}</p>
  const visible = all.value ? users : users.slice(0, shownAtFirst)
  return (
    <section class="users" aria-labelledby="users">
      <h3 id="users">{t('sessions.users', { count: users.length })}</h3>
      <ul class="rows">
        {visible.map(user => (
          <User key={user.user_id} session={name} user={user} />
        ))}
      </ul>
      {visible.length < users.length && (
        <button class="button plain" type="button" onClick={set(all, true)}>
          {t('sessions.users_more', { total: users.length })}
        </button>
      )}
    </section>
  )
}

function User({ session, user }: { session: string; user: SessionUser }) {
  const { user_id, last_received, window_expires_at } = user
  const right = rightOf(session, user_id)
  return (
    <li>
      <NameEdit session={session} userId={user_id}>
        <Link href={hrefOf({ session, userId: user_id })}>
          <Who session={session} id={user_id} />
        </Link>
      </NameEdit>
      <p class="soft small">
        {last_received !== undefined && (
          <Time at={last_received}>{t('sessions.wrote', { when: relative(last_received) })}</Time>
        )}
        {right.kind === 'open' && right.until !== undefined && (
          <span class="may">
            {t('sessions.answers', { count: right.answers, left: left(right.until - now.value) })}
          </span>
        )}
        {right.kind === 'used' && (
          <span>{t('sessions.answers', { count: 0, left: left((window_expires_at ?? 0) - now.value) })}</span>
        )}
        {(right.kind === 'closed' || (right.kind === 'open' && right.until === undefined)) && (
          <span>{t('sessions.window_closed')}</span>
        )}
      </p>
    </li>
  )
}
