/** Rows of the message log, as they go in and as they come out. */
import type { Direction, MessageKind, SentStatus } from '../model/message.ts'
import type { Inbound } from '../model/session.ts'

/** A message as the poller hands it over. */
export interface ReceivedMessage {
  /** Upstream's; undefined when it sent none, then `derived_id` stands in. */
  message_id?: string
  /** Deterministic: the same for the same message delivered again. */
  derived_id: string
  from_user: string
  msg_type: MessageKind
  text: string
  /** Unix ms. */
  timestamp: number
  /** Whether upstream stated the time: only then may it show that a message came before. */
  timed: boolean
  /** If it is new: Unix ms when the user wrote, where the count of answers begins anew. Absent: it begins none. */
  written_at?: number
  /** The context token that it brought. */
  contextToken?: string
  contentHash: string
  /** The whole message, as upstream's JSON text: `item_list` has its items, an image as `{"image_item":{…}}`. */
  raw: string
  /** What it says of the user (as of `Inbound`) if the log has it already, or if it has no `written_at`. */
  repeated?: Pick<Inbound, 'received_at' | 'again'>
}

/** A message of a polled batch, with what it says of the right to answer. One without a `from_user` says nothing. */
export type PolledMessage = ReceivedMessage & Required<Pick<ReceivedMessage, 'repeated'>>

/** A message of another program, as it is to stand in the log. Here `from_user` is the user, also of a sent one. */
export interface PastMessage extends ReceivedMessage {
  session: string
  bot_id: string
  direction: Direction
}

/** A message from the bot, as it goes out; `timestamp` in Unix ms. */
export interface SentMessage {
  client_id: string
  to_user: string
  msg_type: MessageKind
  text: string
  timestamp: number
  /** As of a received one. */
  raw: string
}

export interface StoredMessage {
  /** Row id: the place in the log. */
  id: number
  /** Upstream's, or `derived_id`; of a sent message that has none, `local:` and the `client_id`. No two rows have the same. */
  message_id: string
  /** As it is called now. */
  session: string
  bot_id: string
  direction: Direction
  status?: SentStatus
  /** Who wrote it: the user, or the bot. */
  from_user: string
  msg_type: MessageKind
  text: string
  timestamp: number
  raw: string
  /** Of a sent message: why it was refused, or is in doubt. */
  reason?: string
  /** Words of the reason that are not svc's own: what WeChat said, where a file comes from. */
  reason_quote?: string
  /** Of the error catalogue; absent of what an older version sent. */
  reason_code?: string
  /** Of a queued text that went out joined to another one: the `message_id` of that one. */
  sent_with?: string
  /** What people call the user on the other side. */
  user_name?: string
  /** Another program received it. */
  past?: true
}

/** What to read. */
export interface Wanted {
  /** Rows at most. */
  limit: number
  /**
   * So many characters of `raw` at most: the reading ends before the row that would be too much. The first row always comes.
   */
  characters?: number
  /** `received` leaves out what has `past`. */
  direction?: Direction
  /**
   * Of the sessions that have that name, also of those that were logged out under it; compared by `sessionKey`. After a rename
   * only the new name finds them.
   */
  session?: string
}

/** `direction` counts what has `past` as received. */
export interface HistoryFilter {
  /** On either side of the conversation. */
  user_id?: string
  bot_id?: string
  /** As of `Wanted`. */
  session?: string
  msg_type?: MessageKind
  /** The `msg_type`, or the kind of another item of `raw`; not of one that an item quotes. */
  has_kind?: MessageKind
  direction?: Direction
  /** Unix ms, inclusive. */
  since?: number
  /** Unix ms, exclusive. */
  until?: number
  /** In the text, whatever the case of A-Z; of no other letter. */
  text_contains?: string
  limit: number
  offset: number
  /** As of `Wanted`. */
  characters?: number
  /** Row id: only what stands before it. */
  before?: number
}

export interface HistoryRows {
  /** Newest first. */
  rows: StoredMessage[]
  /** Of the filter without `before`. Exact up to 10,000, then that. */
  total: number
  total_is_lower_bound: boolean
  /** Row id to pass as `before` for the next page; absent on the last one. */
  next_before?: number
}
