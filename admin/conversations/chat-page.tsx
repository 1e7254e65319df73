/** The chat, in a chunk of its own, so that the list alone loads faster. */
import { later } from '../ui/lazy-page.tsx'

export const ChatPage = later(
  async () => (await import('./chat.tsx')).Chat,
  undefined,
  () => <section class="chat" aria-busy="true" />,
)
