/** Stored rows as the messages that doors show: decoded from the raw text, quotes resolved from the store. */

import { decodeMessage } from '../ilink/decode.ts'
import type { Message } from '../model/message.ts'
import type { Store, StoredMessage } from '../store/store.ts'

/** The message of a row; `redelivered` marks one that was handed out before. */
export function viewOf(store: Store, row: StoredMessage, redelivered = false): Message {
  const message = decoded(row, id => {
    const found = store.byMessageId(id)
    // The store's own text is for searching; what was said stands in the raw message.
    return found && decoded(found)
  })
  return redelivered ? { ...message, redelivered: true } : message
}

const decoded = (row: StoredMessage, quoted?: (messageId: string) => Message | undefined): Message =>
  decodeMessage(row.raw, {
    id: row.id,
    message_id: row.message_id,
    session: row.session,
    bot_id: row.bot_id,
    direction: row.direction,
    ...(row.status && { status: row.status }),
    ...(row.reason !== undefined && { reason: row.reason }),
    ...(row.sent_with !== undefined && { sent_with: row.sent_with }),
    timestamp: row.timestamp,
    ...(quoted && { quoted }),
  })
