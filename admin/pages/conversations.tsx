/** The conversations page: the list beside the chat. On a phone they are separate. */
import { ChatPage } from '../conversations/chat-page.tsx'
import { List } from '../conversations/list.tsx'
import { t } from '../i18n.ts'
import { usePlace } from '../place.ts'
import { narrow } from '../screen.ts'
import { Icon } from '../ui/icon.tsx'

/** For pages that need it later. Here it is no script of its own. */
export { PickChip } from '../ui/pick.tsx'

export function Conversations() {
  const place = usePlace()
  const isOpen = place.userId !== ''
  return (
    <div class={`conversations${isOpen ? ' open' : ''}`}>
      {(!narrow.value || !isOpen) && <List place={place} />}
      {isOpen ? (
        <ChatPage key={`${place.session}/${place.userId}`} place={place} />
      ) : (
        !narrow.value && (
          <div class="empty choose">
            <Icon name="conversations" size={40} />
            <p>{t(place.q === '' ? 'conversations.choose' : 'search.choose')}</p>
          </div>
        )
      )}
    </div>
  )
}
