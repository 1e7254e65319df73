/** Stored rows as the messages that doors show: decoded from the raw text, quotes resolved from the store. */

import { decodeMessage } from '../ilink/decode.ts'
import { isSvcError } from '../model/error.ts'
import type { Message } from '../model/message.ts'
import type { Store, StoredMessage } from '../store/store.ts'

/** The message of a row; `redelivered` marks one that was handed out before. */
export function viewOf(store: Store, row: StoredMessage, redelivered = false): Message {
  const message = decoded(store, row, id => {
    const found = store.byMessageId(id)
    // The store's own text is for searching; what was said stands in the raw message.
    return found && decoded(store, found)
  })
  return redelivered ? { ...message, redelivered: true } : message
}

/** Each row by itself: one that cannot be read is shown by what its columns say, and keeps nobody from the others. */
function decoded(
  store: Store,
  row: StoredMessage,
  quoted?: (messageId: string) => Message | undefined,
): Message {
  const { id, message_id, session, bot_id, direction, status, reason, sent_with, timestamp } = row
  const known = {
    ...{ id, message_id, session, bot_id, direction, timestamp },
    ...(status && { status }),
    ...(reason !== undefined && { reason }),
    ...(sent_with !== undefined && { sent_with }),
  }
  try {
    return decodeMessage(row.raw, { ...known, ...(quoted && { quoted }) })
  } catch (error) {
    if (isSvcError(error)) throw error
    store.unreadable(row, error)
    const to_user = direction === 'received' ? bot_id : ''
    return { ...known, from_user: row.from_user, to_user, msg_type: 'UNKNOWN', text: '', items: [] }
  }
}
