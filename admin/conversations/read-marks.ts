/** Who has seen what. */
import { useSignal, useSignalEffect } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { api } from '../api.ts'
import { conversationOf, conversations } from '../live.ts'
import { tellError } from '../ui/toasts.tsx'
import type { Thread } from './thread.ts'

/** Tells the service, and the list, that the newest message was seen: it is in view, and somebody is here. */
export function useMarkRead(thread: Thread, atEnd: { value: boolean }): void {
  const focus = useSignal(document.hasFocus())
  useEffect(() => {
    const look = () => {
      focus.value = document.hasFocus() && document.visibilityState === 'visible'
    }
    for (const event of ['focus', 'blur', 'visibilitychange']) addEventListener(event, look)
    // Somebody may have come since the first drawing.
    look()
    return () => {
      for (const event of ['focus', 'blur', 'visibilitychange']) removeEventListener(event, look)
    }
  }, [])
  const told = useRef(0)
  useSignalEffect(() => {
    const last = thread.messages.value.at(-1)
    const known = conversationOf(thread.session, thread.userId)
    if (!focus.value || !atEnd.value || thread.hasNewer.value || !last || !known || known.unread === 0) return
    if (told.current >= last.id || last.id < known.last_message.id) return
    told.current = last.id
    conversations.value = conversations.peek()!.map(one => (one === known ? { ...one, unread: 0 } : one))
    void api.markRead(thread.session, thread.userId, last.id).catch(tellError)
  })
}
