/** Notifies of new messages while the page is hidden, if the person turned that on. */
import { signal } from '@preact/signals'
import type { Message } from './api.ts'
import { preview } from './conversations/message-summary.ts'
import { t } from './i18n.ts'
import { nameOf, onMessages, peerOf } from './live.ts'
import { hrefOf } from './place.ts'
import { navigate } from './service-urls.ts'
import { talkKey } from './talks.ts'

const keptAt = 'svc.notify'

/** insecure: browsers allow notifications only for pages of this machine or over https. */
export type Notifying = 'on' | 'off' | 'denied' | 'insecure' | 'unable'

function asItIs(): Notifying {
  if (!isSecureContext) return 'insecure'
  if (!('Notification' in window)) return 'unable'
  if (Notification.permission === 'denied') return 'denied'
  return localStorage.getItem(keptAt) === 'on' && Notification.permission === 'granted' ? 'on' : 'off'
}

export const notifying = signal<Notifying>(asItIs())

/** Shows the browser's permission question. Call it only when the person pressed the button. */
export async function askToNotify(): Promise<void> {
  if ((await Notification.requestPermission()) === 'granted') localStorage.setItem(keptAt, 'on')
  notifying.value = asItIs()
}

export function stopNotifying(): void {
  localStorage.removeItem(keptAt)
  notifying.value = asItIs()
}

/** The most conversations to notify of at a time. */
const mostAtOnce = 5

onMessages(messages => {
  if (notifying.value !== 'on' || !document.hidden) return
  const newest = new Map<string, Message>()
  for (const message of messages)
    if (message.direction === 'received') newest.set(talkKey(message.session, peerOf(message)), message)
  for (const message of [...newest.values()].slice(-mostAtOnce)) tellOf(message)
})

function tellOf(message: Message): void {
  const { session } = message
  const userId = peerOf(message)
  try {
    const title = nameOf(session, userId) ?? t('notify.from', { user: userId.replace(/@im\.wechat$/, '') })
    // One notification per conversation, even with several tabs. The newest replaces the one before.
    const note = new Notification(title, { body: preview(message), tag: `${session}/${userId}` })
    note.onclick = () => {
      window.focus()
      navigate(hrefOf({ session, userId }))
      note.close()
    }
  } catch {
    // Browsers of phones have the constructor, but it throws.
    notifying.value = 'unable'
  }
}
