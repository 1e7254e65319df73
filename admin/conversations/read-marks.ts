/** Marks conversations as read and unread. */
import { useSignal, useSignalEffect } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { type Conversation, call } from '../api.ts'
import { conversationOf, refresh, showChange } from '../live.ts'
import { may } from '../rights.ts'
import { markTalkRead, markTalkUnread } from '../talks.ts'
import { tellError } from '../ui/toasts.tsx'
import type { Thread } from './thread.ts'

/** Marks the conversation as read while its newest message is in view and the page has the focus. */
export function useMarkRead(thread: Thread, atEnd: { value: boolean }): void {
  const focus = useSignal(document.hasFocus())
  useEffect(() => {
    const updateFocus = () => {
      focus.value = document.hasFocus() && document.visibilityState === 'visible'
    }
    for (const event of ['focus', 'blur', 'visibilitychange']) addEventListener(event, updateFocus)
    // The focus may have changed since the first drawing.
    updateFocus()
    return () => {
      for (const event of ['focus', 'blur', 'visibilitychange']) removeEventListener(event, updateFocus)
    }
  }, [])
  /** The row id up to which it was marked as read here. A later mark as unread stays. */
  const seen = useRef(0)
  const telling = useSignal(false)
  useSignalEffect(() => {
    const last = thread.messages.value.at(-1)
    const known = conversationOf(thread.session, thread.userId)
    if (!last || !known || thread.hasNewer.value || last.id < known.last_message.id) return
    if (known.unread === 0) seen.current = last.id
    if (!may('conversations')) return
    if (!focus.value || !atEnd.value || telling.value || seen.current >= last.id) return
    seen.current = last.id
    const mark = { session: thread.session, user_id: thread.userId, up_to: last.id }
    showChange(changed => void markTalkRead(changed, mark))
    // One call at a time, even when many messages come.
    telling.value = true
    void call('mark_read', mark)
      .catch(tellError)
      .finally(() => {
        telling.value = false
      })
  })
}

/** Toggles the read mark of a conversation. The list shows it at once, and reverts it if the call fails. */
export async function mark({ session, user_id, unread, last_message }: Conversation): Promise<void> {
  try {
    if (unread > 0) {
      const read = { session, user_id, up_to: last_message.id }
      showChange(changed => void markTalkRead(changed, read))
      await call('mark_read', read)
    } else {
      showChange(changed => markTalkUnread(changed, { session, user_id }))
      await call('mark_unread', { session, user_id })
    }
  } catch (error) {
    tellError(error)
    await refresh().catch(() => {})
  }
}
