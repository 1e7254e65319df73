/** The chat, loaded when one is opened, or ahead of that: the list alone is there sooner. */
import { later } from '../ui/lazy-page.tsx'

export const ChatPage = later(
  async () => (await import('./chat.tsx')).Chat,
  undefined,
  () => <section class="chat" aria-busy="true" />,
)
