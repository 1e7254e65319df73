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
    ...(row.direction === 'sent' && row.status && { status: row.status }),
    timestamp: row.timestamp,
    quoted: id => {
      const found = store.byMessageId(id)
      return (
        found && {
          raw: found.raw,
          message_id: found.message_id,
          from_user: found.from_user,
          timestamp: found.timestamp,
        }
      )
    },
  })
  return redelivered ? { ...message, redelivered: true } : message
}
