/** A conversation: its header, its messages, and the message field. */
import { effect, type Signal, signal, useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { ApiError } from '../api.ts'
import { t } from '../i18n.ts'
import { nameOf, sessions, status } from '../live.ts'
import { hrefOf, type Place } from '../place.ts'
import { answering, may } from '../rights.ts'
import { narrow, wide } from '../screen.ts'
import { healthOf, looks } from '../sessions/health.ts'
import { accountOf, accountPath } from '../sessions/names.ts'
import { NoAccount } from '../sessions/no-account.tsx'
import { now } from '../times.ts'
import { useFocus } from '../ui/focus.ts'
import { Icon, type IconName } from '../ui/icon.tsx'
import { Link } from '../ui/link.tsx'
import { State } from '../ui/marks.tsx'
import { set } from '../ui/set.ts'
import { Sheet } from '../ui/sheet.tsx'
import { Avatar, Who } from '../users/avatar.tsx'
import { NameEdit } from '../users/name-edit.tsx'
import { type Right, RightBadge, rightOf } from '../users/reply-permission.tsx'
import { type ChatAsk, ChatDialogs, ChatMenu } from './chat-menu.tsx'
import { Composer } from './composer.tsx'
import { deskOf } from './desks.ts'
import { Gallery } from './gallery.tsx'
import { Lightbox } from './lightbox.tsx'
import { Log } from './log.tsx'
import type { Desk } from './outgoing.ts'
import { Person } from './person.tsx'
import { threadOf } from './thread.ts'

/** For approvals, later. Here they split no script of the chat. */
export { Media } from './bubble.tsx'
export { sendOn } from './desks.ts'
export { Lightbox } from './lightbox.tsx'

/** Whether the person is shown beside the chat. Kept in this browser. */
const besides = signal(localStorage.getItem('svc.person') !== 'off')
effect(() => localStorage.setItem('svc.person', besides.value ? 'on' : 'off'))

export interface ChatProps {
  place: Place
}

export function Chat({ place }: ChatProps) {
  const { session, userId } = place
  const thread = threadOf(session, userId)
  const desk = deskOf(session, userId)
  const right = rightOf(session, userId)
  const asks = useSignal<ChatAsk>('')
  const inSheet = useSignal(false)
  const isWide = wide.value
  const shown = isWide ? besides : inSheet
  const { dragging, listeners } = useDrop(desk)
  // Messages of a logged-out account can still be read. An account that never existed has none.
  const isNothing = right.kind === 'gone' && thread.messages.value.length === 0
  const { error } = thread
  const isUnknown = error.value instanceof ApiError && error.value.code === 'session_not_found'
  const inGallery = place.media !== ''
  const person = <Person place={place} asks={asks} />
  return (
    <>
      <section
        class="chat"
        aria-label={t('chat.with', { user: nameOf(session, userId) ?? userId })}
        {...listeners}
      >
        <ChatHead place={place} right={isNothing ? undefined : right} asks={asks} shown={shown} />
        {isNothing && (isUnknown || thread.state.value === 'ready') ? (
          <NoAccount name={session} />
        ) : inGallery ? (
          <Gallery place={place} />
        ) : (
          <Log key={`${session}/${userId}`} thread={thread} desk={desk} place={place} />
        )}
        {!isNothing && !inGallery && answering() && (
          <Composer
            key={`composer ${session}/${userId}`}
            desk={desk}
            right={right}
            // Who looks at a message reads first, and goes on in the list.
            reads={narrow.value || place.m !== undefined}
          />
        )}
        {dragging.value && <div class="drop">{t('composer.drop')}</div>}
        <Lightbox />
        <ChatDialogs asks={asks} thread={thread} place={place} />
      </section>
      {isWide && shown.value && (
        <aside class="person" aria-label={t('person.title')}>
          {person}
        </aside>
      )}
      {!isWide && shown.value && (
        <Sheet title={t('person.title')} onClose={set(shown, false)}>
          <div class="person">{person}</div>
        </Sheet>
      )}
    </>
  )
}

interface ChatHeadProps extends ChatProps {
  /** Undefined if there is nothing to answer. */
  right: Right | undefined
  asks: Signal<ChatAsk>
  /** Whether the person is shown. */
  shown: Signal<boolean>
}

function ChatHead({ place, right, asks, shown }: ChatHeadProps) {
  const { session, userId } = place
  const account = accountOf(session)
  const health = account ? healthOf(account, status.value, now.value) : 'well'
  const heading = useRef<HTMLHeadingElement>(null)
  const inGallery = place.media !== ''
  // On a narrow screen the chat is the whole page.
  const isPage = narrow.value
  const Heading = isPage ? 'h1' : 'h2'
  // On a phone, focus in the message field would open the keyboard.
  useFocus(heading, isPage && !inGallery)
  return (
    <header class="chat-head">
      {isPage && (
        <Link
          class="button plain icon-only back"
          href={hrefOf({ show: place.show, q: place.q, filter: place.filter })}
          aria-label={t('chat.back')}
        >
          <Icon name="back" />
        </Link>
      )}
      {isPage ? (
        <span class="avatar-place">
          <Avatar session={session} id={userId} />
          <PersonButton shown={shown} />
        </span>
      ) : (
        <Avatar session={session} id={userId} />
      )}
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
          {right && right.kind !== 'expired' && right.kind !== 'damaged' && <RightBadge right={right} full />}
          {looks[health].trouble && (
            <Link href={accountPath(session)}>
              <State {...looks[health]} />
            </Link>
          )}
        </div>
      </div>
      {!isPage && <PersonButton shown={shown} icon="person" />}
      <ChatMenu place={place} asks={asks} />
    </header>
  )
}

interface PersonButtonProps {
  shown: Signal<boolean>
  /** Without it, it covers the avatar: a phone has no room beside it. */
  icon?: IconName
}

/** Shows or hides the person. */
const PersonButton = ({ shown, icon }: PersonButtonProps) => (
  <button
    type="button"
    class={icon ? 'button plain icon-only' : 'cover'}
    aria-label={t('person.title')}
    title={t('person.title')}
    aria-expanded={shown.value}
    onClick={() => {
      shown.value = !shown.value
    }}
  >
    {icon && <Icon name={icon} />}
  </button>
)

/** Takes files that are dropped on the chat. */
function useDrop(desk: Desk) {
  const dragging = useSignal(false)
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
  const listeners = {
    onDragEnter(event: DragEvent) {
      if (hasFiles(event)) dragging.value = true
    },
    onDragOver(event: DragEvent) {
      if (hasFiles(event)) event.preventDefault()
    },
    onDragLeave({ relatedTarget: to, currentTarget }: DragEvent) {
      if (!to || !(currentTarget as Element).contains(to as Node)) dragging.value = false
    },
    onDrop(event: DragEvent) {
      dragging.value = false
      const files = event.dataTransfer?.files
      if (!files?.length || !hasFiles(event)) return
      event.preventDefault()
      desk.attach(files)
    },
  }
  return { dragging, listeners }
}
