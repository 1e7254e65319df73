/** A conversation: its header, its messages, and the message field. */
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { ApiError } from '../api.ts'
import { t } from '../i18n.ts'
import { nameOf, sessions, status } from '../live.ts'
import { hrefOf, type Place } from '../place.ts'
import { answering, may } from '../rights.ts'
import { healthOf, looks } from '../sessions/health.ts'
import { accountOf, accountPath } from '../sessions/names.ts'
import { NoAccount } from '../sessions/no-account.tsx'
import { now } from '../times.ts'
import { Icon } from '../ui/icon.tsx'
import { Link } from '../ui/link.tsx'
import { State } from '../ui/marks.tsx'
import { Avatar, Who } from '../users/avatar.tsx'
import { NameEdit } from '../users/name-edit.tsx'
import { RightBadge, rightOf } from '../users/reply-permission.tsx'
import { ChatMenu } from './chat-menu.tsx'
import { Composer } from './composer.tsx'
import { deskOf } from './desks.ts'
import { Gallery } from './gallery.tsx'
import { Lightbox } from './lightbox.tsx'
import { Log } from './log.tsx'
import { threadOf } from './thread.ts'

export { sendOn } from './desks.ts'

export function Chat({ place, narrow }: { place: Place; narrow: boolean }) {
  const { session, userId } = place
  const thread = threadOf(session, userId)
  const desk = deskOf(session, userId)
  const right = rightOf(session, userId)
  // Messages of a logged-out account can still be read. An account that never existed has none.
  const isNothing = right.kind === 'gone' && thread.messages.value.length === 0
  const { error } = thread
  const isUnknown = error.value instanceof ApiError && error.value.code === 'session_not_found'
  const account = accountOf(session)
  const health = account ? healthOf(account, status.value, now.value) : 'well'
  const heading = useRef<HTMLHeadingElement>(null)
  const dragging = useSignal(false)
  const inGallery = place.media !== ''
  // On a narrow screen the chat is the whole page.
  const Heading = narrow ? 'h1' : 'h2'
  useEffect(() => {
    // On a phone, focus in the message field would open the keyboard.
    if (narrow && !inGallery) heading.current?.focus({ preventScroll: true })
  }, [thread, narrow, inGallery])

  useEffect(() => {
    // Without this, a file dropped outside of the chat would replace the page.
    const hold = (event: DragEvent) => {
      if (event.dataTransfer?.types.includes('Files')) event.preventDefault()
    }
    for (const event of ['dragover', 'drop'] as const) addEventListener(event, hold)
    return () => {
      for (const event of ['dragover', 'drop'] as const) removeEventListener(event, hold)
    }
  }, [])

  const hasFiles = (event: DragEvent) =>
    answering() !== undefined && may('upload') && (event.dataTransfer?.types.includes('Files') ?? false)

  return (
    <section
      class="chat"
      aria-label={t('chat.with', { user: nameOf(session, userId) ?? userId })}
      onDragEnter={event => {
        if (hasFiles(event)) dragging.value = true
      }}
      onDragOver={event => {
        if (hasFiles(event)) event.preventDefault()
      }}
      onDragLeave={event => {
        const to = event.relatedTarget as Node | null
        if (!to || !event.currentTarget.contains(to)) dragging.value = false
      }}
      onDrop={event => {
        dragging.value = false
        const files = event.dataTransfer?.files
        if (!files?.length || !hasFiles(event)) return
        event.preventDefault()
        desk.attach(files)
      }}
    >
      <header class="chat-head">
        {narrow && (
          <Link
            class="button plain icon-only back"
            href={hrefOf({ show: place.show, q: place.q, filter: place.filter })}
            aria-label={t('chat.back')}
          >
            <Icon name="back" />
          </Link>
        )}
        <Avatar session={session} id={userId} />
        <div class="grow">
          <NameEdit session={session} userId={userId}>
            <Heading ref={heading} tabIndex={-1}>
              <Who session={session} id={userId} />
            </Heading>
          </NameEdit>
          <div class="chat-state">
            {(sessions.value?.length ?? 0) > 1 && (
              <span class="session-tag cut" title={t('chat.session', { session })}>
                {session}
              </span>
            )}
            {/* For an account that cannot send, the state of the account is enough. */}
            {!isNothing && right.kind !== 'expired' && right.kind !== 'damaged' && (
              <RightBadge right={right} full />
            )}
            {looks[health].trouble && (
              <Link href={accountPath(session)}>
                <State {...looks[health]} />
              </Link>
            )}
          </div>
        </div>
        <ChatMenu thread={thread} place={place} />
      </header>
      {isNothing && (isUnknown || thread.state.value === 'ready') ? (
        <NoAccount name={session} />
      ) : inGallery ? (
        <Gallery place={place} narrow={narrow} />
      ) : (
        <Log key={`${session}/${userId}`} thread={thread} desk={desk} place={place} />
      )}
      {!isNothing && !inGallery && answering() && (
        <Composer key={`composer ${session}/${userId}`} desk={desk} right={right} narrow={narrow} />
      )}
      {dragging.value && <div class="drop">{t('composer.drop')}</div>}
      <Lightbox />
    </section>
  )
}
