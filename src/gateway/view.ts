/** Stored rows as the messages that doors show: decoded from the raw text, quotes resolved from the store. */

import { decodeMessage } from '../ilink/decode.ts'
import type { Message } from '../model/message.ts'
import type { Store, StoredMessage } from '../store/store.ts'

/** The message of a row; `redelivered` marks one that was handed out before. */
export function viewOf(store: Store, row: StoredMessage, redelivered = false): Message {
  const message = decodeMessage(row.raw, {
    id: row.id,
    message_id: row.message_id,
    session: row.session,
    bot_id: row.bot_id,
    direction: row.direction,
    ...(row.status && { status: row.status }),
    timestamp: row.timestamp,
    quoted: id => store.byMessageId(id),
  })
  return redelivered ? { ...message, redelivered: true } : message
}
