/** Links to the newest conversations. */
import { drafted } from '../answers.ts'
import type { Conversation } from '../api.ts'
import { Delivery } from '../conversations/delivery.tsx'
import { preview } from '../conversations/message-summary.ts'
import { t } from '../i18n.ts'
import { hrefOf } from '../place.ts'
import { talkKey } from '../talks.ts'
import { Link } from '../ui/link.tsx'
import { ShortTime, Unread } from '../ui/marks.tsx'
import { Avatar, Who } from '../users/avatar.tsx'

const mostShown = 5

export function Recent({ conversations }: { conversations: readonly Conversation[] }) {
  return (
    <section class="recent" aria-labelledby="recent">
      <header class="section-head">
        <h2 id="recent">{t('overview.recent')}</h2>
        {conversations.length > mostShown && (
          <Link class="link" href="/conversations">
            {t('overview.recent_all')}
          </Link>
        )}
      </header>
      {conversations.length === 0 ? (
        <p class="rows soft none">{t('overview.recent_none')}</p>
      ) : (
        <ul class="rows">
          {conversations.slice(0, mostShown).map(one => (
            <li key={`${one.session} ${one.user_id}`}>
              <Line conversation={one} />
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

function Line({ conversation }: { conversation: Conversation }) {
  const { session, user_id: userId, last_message: last, unread } = conversation
  return (
    <Link class="talk" href={hrefOf({ session, userId })}>
      <Avatar session={session} id={userId} />
      <span class="first">
        <Who session={session} id={userId} />
        <ShortTime at={last.timestamp} />
      </span>
      <span class="second soft small">
        {last.status && <Delivery status={last.status} />}
        <span class="cut grow">
          {last.direction === 'sent' && t('overview.you')}
          <bdi>{preview(last)}</bdi>
        </span>
        {drafted.value.has(talkKey(session, userId)) && (
          <span class="badge warn">{t('conversations.draft')}</span>
        )}
        <Unread count={unread} />
      </span>
    </Link>
  )
}
