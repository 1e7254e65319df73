/** The menu of a conversation. */
import type { Signal } from '@preact/signals'
import { t } from '../i18n.ts'
import { conversationOf } from '../live.ts'
import { hrefOf, type Place, searchNow } from '../place.ts'
import { may } from '../rights.ts'
import { narrow } from '../screen.ts'
import { navigate } from '../service-urls.ts'
import { copy } from '../ui/copy.tsx'
import { laterPart } from '../ui/lazy-page.tsx'
import { type Action, Menu } from '../ui/menu.tsx'
import { set } from '../ui/set.ts'
import { tell } from '../ui/toasts.tsx'
import { forgetDesks } from './desks.ts'
import { Jump } from './jump.tsx'
import { mark } from './read-marks.ts'
import type { Thread } from './thread.ts'

/** Opens the search in this conversation. On a phone that is another page. */
const searchHere = ({ session, userId, q }: Place) => {
  const filter = { account: session, person: userId }
  navigate(hrefOf({ ...(!narrow.value && { session, userId }), q, filter }), { state: searchNow })
}

const Export = laterPart(async () => (await import('./export.tsx')).Export)
const Forget = laterPart(async () => (await import('./forget.tsx')).Forget)

/** The dialog of a chat that is open. */
export type ChatAsk = '' | 'jump' | 'export' | 'forget'

interface ChatMenuProps {
  place: Place
  asks: Signal<ChatAsk>
}

export function ChatMenu({ place, asks }: ChatMenuProps) {
  const copyId = async () => {
    if (await copy(place.userId)) tell(t('action.copied'))
  }
  const toMedia = () => navigate(hrefOf({ ...place, media: 'IMAGE', m: undefined }))
  const talk = conversationOf(place.session, place.userId)
  // An open chat counts as read, so it must be closed first.
  const markUnread = () => {
    if (!talk) return
    navigate(hrefOf({ show: place.show, q: place.q, filter: place.filter }))
    document.getElementById('main')?.focus()
    void mark({ ...talk, unread: 0 })
  }
  const unread: Action = { id: 'unread', label: t('chat.mark_unread'), icon: 'unread', run: markUnread }
  const exports: Action = {
    id: 'export',
    label: t('chat.export'),
    icon: 'download',
    run: set(asks, 'export'),
  }
  const forget: Action = {
    id: 'forget',
    label: t('chat.forget'),
    icon: 'erase',
    danger: true,
    run: set(asks, 'forget'),
  }
  return (
    <Menu
      label={t('chat.menu')}
      actions={[
        { id: 'search', label: t('chat.search'), icon: 'search', run: () => searchHere(place) },
        { id: 'jump', label: t('chat.jump'), icon: 'calendar', run: set(asks, 'jump') },
        { id: 'media', label: t('gallery.title'), icon: 'image', run: toMedia },
        ...(talk && may('conversations') ? [unread] : []),
        { id: 'copy', label: t('chat.copy_id'), icon: 'copy', run: copyId },
        ...(may('export') ? [exports] : []),
        ...(may('forget') ? [forget] : []),
      ]}
    />
  )
}

export function ChatDialogs({ place, asks, thread }: ChatMenuProps & { thread: Thread }) {
  const close = set(asks, '')
  return (
    <>
      {asks.value === 'jump' && <Jump thread={thread} place={place} onClose={close} />}
      {asks.value === 'export' && <Export place={place} onClose={close} />}
      {asks.value === 'forget' && <Forget place={place} dropUser={forgetDesks} onClose={close} />}
    </>
  )
}
