/** What one may do with a conversation besides answering. */
import { useSignal } from '@preact/signals'
import { t } from '../i18n.ts'
import { navigate } from '../service-urls.ts'
import { copy } from '../ui/copy.tsx'
import { Menu } from '../ui/menu.tsx'
import { tell } from '../ui/toasts.tsx'
import { Jump } from './jump.tsx'
import { hrefOf, narrowly, type Place, searchNow } from './place.ts'
import type { Thread } from './thread.ts'

/** Searches in this conversation; on a phone that is another page. */
const searchHere = ({ session, userId, q }: Place) => {
  const filter = { account: session, person: userId }
  const wide = !matchMedia(narrowly).matches
  navigate(hrefOf({ ...(wide && { session, userId }), q, filter }), { state: searchNow })
}

export function ChatMenu({ thread, place }: { thread: Thread; place: Place }) {
  const asking = useSignal(false)
  const ask = (open: boolean) => {
    asking.value = open
  }
  const copyId = async () => {
    if (await copy(place.userId)) tell(t('action.copied'))
  }
  const toMedia = () => navigate(hrefOf({ ...place, media: 'IMAGE', m: undefined }))
  return (
    <>
      <Menu
        label={t('chat.menu')}
        actions={[
          { id: 'search', label: t('chat.search'), icon: 'search', run: () => searchHere(place) },
          { id: 'jump', label: t('chat.jump'), icon: 'calendar', run: () => ask(true) },
          { id: 'media', label: t('gallery.title'), icon: 'image', run: toMedia },
          { id: 'copy', label: t('chat.copy_id'), icon: 'copy', run: copyId },
        ]}
      />
      {asking.value && <Jump {...{ thread, place }} onClose={() => ask(false)} />}
    </>
  )
}
