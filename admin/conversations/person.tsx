/** The person of a chat: names, times, the reply window, media, and the keys that may write to them. */
import { type Signal, useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { keys, loadKeys, mayWrite } from '../access/keys.ts'
import { call } from '../api.ts'
import { number, t } from '../i18n.ts'
import { conversationOf, online, userOf } from '../live.ts'
import { hrefOf, type Place } from '../place.ts'
import { may } from '../rights.ts'
import { AccountDot } from '../sessions/colour.tsx'
import { accountPath } from '../sessions/names.ts'
import { ago, left, timeNow } from '../times.ts'
import { Copyable } from '../ui/copy.tsx'
import { Icon } from '../ui/icon.tsx'
import { Link } from '../ui/link.tsx'
import { Fact, Time } from '../ui/marks.tsx'
import { set } from '../ui/set.ts'
import { tellError } from '../ui/toasts.tsx'
import { Avatar, Who } from '../users/avatar.tsx'
import { NameEdit } from '../users/name-edit.tsx'
import { RightBadge, rightOf } from '../users/reply-permission.tsx'
import type { ChatAsk } from './chat-menu.tsx'
import { Picture } from './media.tsx'
import { isThere, type MediaProps, mediaOf } from './use-blob.ts'

interface PersonProps {
  place: Place
  /** The dialog of the chat that is open. */
  asks: Signal<ChatAsk>
}

export function Person({ place, asks }: PersonProps) {
  const { session, userId } = place
  return (
    <>
      <div class="person-head">
        <Avatar session={session} id={userId} />
        <NameEdit session={session} userId={userId}>
          <h3>
            <Who session={session} id={userId} />
          </h3>
        </NameEdit>
        <Copyable text={userId} what={t('access.id')} short />
      </div>
      <Facts session={session} userId={userId} />
      <Pictures place={place} />
      {may('keys') && <Writers session={session} userId={userId} />}
      {may('forget') && (
        <button type="button" class="button plain person-forget" onClick={set(asks, 'forget')}>
          <Icon name="erase" size={18} />
          {t('chat.forget')}
        </button>
      )}
    </>
  )
}

interface WhoseProps {
  session: string
  userId: string
}

function Facts({ session, userId }: WhoseProps) {
  const { first_seen, last_received, last_sent } = userOf(session, userId) ?? {}
  const right = rightOf(session, userId)
  const window =
    right.kind === 'open'
      ? right.until !== undefined && t('right.open', { time: left(right.until - timeNow()) })
      : right.kind !== 'gone' && <RightBadge right={right} />
  const times = [
    ['person.first_seen', first_seen],
    ['person.last_seen', last_received],
    ['person.last_answer', last_sent],
  ] as const
  return (
    <dl>
      <Fact label={t('search.account')}>
        <Link href={accountPath(session)}>
          <AccountDot name={session} />
          <span class="foreign cut">{session}</span>
        </Link>
      </Fact>
      {times.map(
        ([label, at]) =>
          at !== undefined && (
            <Fact key={label} label={t(label)}>
              <Time at={at}>{ago(at)}</Time>
            </Fact>
          ),
      )}
      {window && <Fact label={t('person.window')}>{window}</Fact>}
      {right.kind === 'open' && <Fact label={t('person.answers')}>{number(right.answers)}</Fact>}
    </dl>
  )
}

const mostPictures = 6

/** The newest pictures, and the way to all media. */
function Pictures({ place }: { place: Place }) {
  const { session, userId } = place
  const found = useSignal<readonly MediaProps[] | undefined>(undefined)
  const newest = conversationOf(session, userId)?.last_message.id
  useEffect(() => {
    const gone = new AbortController()
    const wanted = { session, user_id: userId, msg_type: 'IMAGE' as const, limit: mostPictures }
    call('list_messages', wanted, { signal: gone.signal }).then(
      ({ messages }) => {
        const media = messages.flatMap(mediaOf)
        found.value = media.filter(one => one.item.kind === 'IMAGE' && isThere(one)).slice(0, mostPictures)
      },
      // The earlier pictures stay. The next message asks again.
      () => {},
    )
    return () => gone.abort()
  }, [session, userId, newest, online.value])
  return (
    <section>
      <h4>{t('gallery.title')}</h4>
      {(found.value?.length ?? 0) > 0 && (
        <ul class="person-pictures">
          {found.value!.map(one => (
            <li key={`${one.message.id} ${one.index}`} class="tile">
              <Picture {...one} />
            </li>
          ))}
        </ul>
      )}
      <Link class="small" href={hrefOf({ ...place, media: 'IMAGE', m: undefined })}>
        {t('person.all_media')}
      </Link>
    </section>
  )
}

/** The keys with which somebody may write to this person. The owner always may. */
function Writers({ session, userId }: WhoseProps) {
  useEffect(() => {
    if (!keys.peek()) void loadKeys().catch(tellError)
  }, [])
  const writers = keys.value?.filter(key => mayWrite(key, session, userId))
  return (
    <section>
      <h4>{t('person.writers')}</h4>
      {writers?.length === 0 && <p class="soft">{t('person.no_writers')}</p>}
      <ul class="person-list">
        {writers?.map(({ id, name, can }) => (
          <li key={id}>
            <Link href="/keys" class="cut foreign">
              {name}
            </Link>
            {can.every(word => word === 'read' || word === 'draft') && (
              <span class="soft small">{t('person.drafts')}</span>
            )}
          </li>
        ))}
      </ul>
    </section>
  )
}
