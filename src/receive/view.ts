/** Stored rows as the messages that doors show: decoded from the raw text, quotes resolved from the store. */

import { Buffer } from 'node:buffer'
import { decodeMessage } from '../ilink/decode.ts'
import { isSvcError } from '../model/error.ts'
import type { Message } from '../model/message.ts'
import type { Store, StoredMessage } from '../storage/sqlite/store.ts'

/**
 * The message of a row.
 *
 * @param redelivered marks one that was handed out before
 * @param onQuoted is given the row that the message quotes, which is decoded too
 */
export function viewOf(
  store: Store,
  row: StoredMessage,
  redelivered = false,
  onQuoted?: (quoted: StoredMessage) => void,
): Message {
  const message = decoded(store, row, id => {
    const found = store.byMessageId(id)
    if (found) onQuoted?.(found)
    // The store's own text is for searching; what was said stands in the raw message.
    return found && decoded(store, found)
  })
  return {
    ...message,
    ...(row.user_name !== undefined && { user_name: row.user_name }),
    ...(redelivered && { redelivered }),
  }
}

/** What an answer may have, as JSON, with some room for what is around the messages. */
const answerBytes = 4 * 1024 * 1024 - 1024
/**
 * Of how many stored characters an answer is made. Whatever they are, decoding them takes the main thread 0.1 s for a million
 * (Bun 1.4.5, objects of 50,000 keys); a thousand messages as people write them are half of it.
 */
const rawCharacters = 2 * 1024 * 1024
/** `"redelivered":true` and a comma, which a message may get in the end. */
const markBytes = 20

/** The messages of one answer. What does not fit is left where it is; the first message always fits. */
export class Answer {
  readonly #store: Store
  readonly #messages = new Map<number, Message>()
  readonly #hasRoom: ((message: Message) => boolean) | undefined
  #left: number
  #rawLeft = rawCharacters
  #isEmpty: boolean

  /** @param beside messages that go into the same answer; `hasRoom` as of a call */
  constructor(
    store: Store,
    { beside = [], hasRoom }: { beside?: readonly Message[]; hasRoom?: (message: Message) => boolean } = {},
  ) {
    this.#store = store
    this.#hasRoom = hasRoom
    this.#left = answerBytes - beside.reduce((sum, message) => sum + bytesOf(message), 0)
    this.#isEmpty = beside.length === 0
  }

  /** Takes the row in if it fits. */
  readonly fits = (row: StoredMessage): boolean => {
    if (!this.#affords(row)) return false
    let isWhole = true
    const message = viewOf(this.#store, row, false, quoted => {
      isWhole = this.#affords(quoted)
    })
    const left = this.#left - bytesOf(message)
    if ((left < 0 || !isWhole) && !this.#isEmpty) return false
    if (this.#hasRoom?.(message) === false) return false
    this.#messages.set(row.id, message)
    this.#left = left
    this.#isEmpty = false
    return true
  }

  /** Whether one more may be decoded. */
  #affords({ raw }: StoredMessage): boolean {
    this.#rawLeft -= raw.length
    return this.#rawLeft >= 0 || this.#isEmpty
  }

  /** Of rows that were taken in. */
  of(rows: readonly StoredMessage[], redelivered?: ReadonlySet<number>): Message[] {
    return rows.map(({ id }) => {
      const message = this.#messages.get(id)!
      return redelivered?.has(id) ? { ...message, redelivered: true } : message
    })
  }
}

const bytesOf = (message: Message) => Buffer.byteLength(JSON.stringify(message)) + markBytes

/** Each row by itself: one that cannot be read is shown by what its columns say, and keeps nobody from the others. */
function decoded(
  store: Store,
  row: StoredMessage,
  quoted?: (messageId: string) => Message | undefined,
): Message {
  const { id, message_id, session, bot_id, direction, status, reason, reason_code, sent_with, timestamp } =
    row
  const known = {
    ...{ id, message_id, session, bot_id, direction, timestamp },
    ...(status && { status }),
    ...(reason !== undefined && { reason }),
    ...(reason_code !== undefined && { reason_code }),
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
