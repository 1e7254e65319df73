/** A line of the list: a conversation, a found message, or a heading. */

import { drafted } from '../answers.ts'
import type { Conversation, Message } from '../api.ts'
import { isolated, t } from '../i18n.ts'
import { nameOf, peerOf, userOf } from '../live.ts'
import { hrefOf, type Place } from '../place.ts'
import { AccountDot, accountsInView } from '../sessions/colour.tsx'
import { talkKey, waitsSince } from '../talks.ts'
import { left, now } from '../times.ts'
import { IconButton } from '../ui/icon.tsx'
import { Link } from '../ui/link.tsx'
import { ShortTime, Time, Unread } from '../ui/marks.tsx'
import { Avatar, Who } from '../users/avatar.tsx'
import { isShort, RightBadge, rightOf } from '../users/reply-permission.tsx'
import { Delivery } from './delivery.tsx'
import { unsent, unsentAt } from './kept.ts'
import type { Line } from './lines.ts'
import { itemWords, preview, wordsOf } from './message-summary.ts'
import { mark } from './read-marks.ts'
import type { Search } from './search.ts'
import { around, Marked } from './text.tsx'

interface LineViewProps {
  line: Line
  place: Place
  needle: string
  search: Search
  tabIndex: number
  isOpen: boolean
}

export function LineView({ line, place, needle, search, tabIndex, isOpen }: LineViewProps) {
  if (line.kind === 'head') return <h2 class="list-section small soft">{line.text}</h2>
  if (line.kind === 'conversation')
    return <ConversationLine one={line.one} tabIndex={tabIndex} isOpen={isOpen} place={place} q={needle} />
  if (line.kind === 'hit')
    return <Hit message={line.message} needle={needle} tabIndex={tabIndex} place={place} />
  return (
    <button
      type="button"
      class="button plain more"
      tabIndex={tabIndex}
      data-stop
      aria-disabled={search.busy.value}
      onClick={() => search.more()}
    >
      {t('search.more')}
    </button>
  )
}

/** The account as a colour, if several are in view. */
const Account = ({ name, place }: { name: string; place: Place }) =>
  accountsInView().length > 1 && !place.filter.account ? <AccountDot name={name} /> : null

interface ConversationLineProps {
  one: Conversation
  place: Place
  q: string
  tabIndex: number
  isOpen: boolean
}

function ConversationLine({ one, place, q, tabIndex, isOpen }: ConversationLineProps) {
  const { session, user_id, last_message, unread } = one
  const right = rightOf(session, user_id)
  const since = place.show === 'waiting' ? waitsSince(one, userOf(session, user_id)) : undefined
  const notSent = unsent.value.get(unsentAt(session, user_id))
  const isAnswered = last_message.direction === 'received' && last_message.id > (notSent?.after ?? 0)
  return (
    <Link
      class="conversation"
      href={hrefOf({ session, userId: user_id, show: place.show, q, filter: place.filter })}
      tabIndex={tabIndex}
      data-stop
      {...(isOpen && { 'aria-current': 'true' as const })}
    >
      <span class="avatar-place">
        <Avatar session={session} id={user_id} />
        <Account name={session} place={place} />
      </span>
      <span class="two">
        <span class="upper">
          <Who session={session} id={user_id} />
          {since === undefined ? (
            <ShortTime at={last_message.timestamp} />
          ) : (
            <Time at={since} class="small soft">
              {t('conversations.waits', { time: left(now.value - since) })}
            </Time>
          )}
        </span>
        <span class="lower">
          {notSent !== undefined ? (
            <span class={`badge ${notSent.isDoubtful ? 'warn' : 'bad'}`} title={notSent.words}>
              {t(notSent.isDoubtful ? 'delivery.unknown' : 'delivery.refused')}
            </span>
          ) : (
            last_message.status && <Delivery status={last_message.status} />
          )}
          <span class={`cut foreign soft grow${unread > 0 ? ' strong' : ''}`} dir="auto">
            {notSent && !isAnswered ? notSent.words : preview(last_message)}
          </span>
          {drafted.value.has(talkKey(session, user_id)) && (
            <span class="badge warn">{t('conversations.draft')}</span>
          )}
          {isShort(right) && <RightBadge right={right} />}
          <Unread count={unread} />
        </span>
      </span>
    </Link>
  )
}

/** Marks a conversation as read or unread. Shown while the pointer or the focus is on its row. */
export function MarkButton({ one, tabIndex }: { one: Conversation; tabIndex: number }) {
  const isUnread = one.unread > 0
  const text = t(isUnread ? 'chat.mark_read' : 'chat.mark_unread')
  const name = nameOf(one.session, one.user_id) ?? one.user_id
  return (
    <IconButton
      icon={isUnread ? 'check' : 'unread'}
      size={16}
      class="button icon-only mark"
      tabIndex={tabIndex}
      label={`${text}: ${isolated(name)}`}
      title={text}
      onClick={() => void mark(one)}
    />
  )
}

interface HitProps {
  message: Message
  needle: string
  place: Place
  tabIndex: number
}

function Hit({ message, needle, place, tabIndex }: HitProps) {
  const userId = peerOf(message)
  const { session, id } = message
  const isOpen = place.m === id
  const first = message.items.find(({ kind }) => kind !== 'TEXT')
  const words = wordsOf(message)
  return (
    <Link
      class="conversation hit"
      href={hrefOf({ session, userId, show: place.show, q: needle, m: id, filter: place.filter })}
      // Back leads to what was there before the hits.
      replace={place.m !== undefined}
      tabIndex={tabIndex}
      data-stop
      {...(isOpen && { 'aria-current': 'true' as const })}
    >
      <span class="avatar-place">
        <Avatar session={session} id={userId} small />
        <Account name={session} place={place} />
      </span>
      <span class="two">
        <span class="upper">
          <Who session={session} id={userId} />
          <ShortTime at={message.timestamp} />
        </span>
        <span class="excerpt soft small foreign" dir="auto">
          {message.status && <Delivery status={message.status} size={12} />}
          {first && words !== itemWords(first) && <span>{itemWords(first)} </span>}
          <Marked text={around(words, needle)} needle={needle} />
        </span>
      </span>
    </Link>
  )
}
