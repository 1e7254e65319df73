/** Rows of the message log: their input and output types. */
import type { Scope } from '../model/access.ts'
import type { Direction, MessageKind, SentStatus } from '../model/message.ts'
import type { Inbound } from '../model/session.ts'

/** A received message, as the poller passes it on. */
export interface ReceivedMessage {
  /** WeChat's id; undefined if WeChat sent none, then `derived_id` is used. */
  message_id?: string
  /** Deterministic: the same message delivered again has the same `derived_id`. */
  derived_id: string
  from_user: string
  msg_type: MessageKind
  text: string
  /** Unix ms. */
  timestamp: number
  /** Whether upstream stated the time. Only such a time can prove that a message was delivered before. */
  timed: boolean
  /**
   * For a new message: when the user wrote (Unix ms), which restarts the answer counter. Absent: the counter
   * is not restarted.
   */
  written_at?: number
  /** Context token of the message. */
  contextToken?: string
  contentHash: string
  /**
   * The whole message as upstream's JSON text: `item_list` has its items, an image for example as
   * `{"image_item":{…}}`.
   */
  raw: string
  /**
   * What the message says about the user (as in `Inbound`) if it is in the log already, or has no
   * `written_at`.
   */
  repeated?: Pick<Inbound, 'received_at' | 'again'>
}

/**
 * A message of a polled batch. `repeated` is always set. It has no effect if the message has no `from_user`.
 */
export type PolledMessage = ReceivedMessage & Required<Pick<ReceivedMessage, 'repeated'>>

/**
 * A message that another program received or sent, to be imported. `from_user` is always the user, also for a
 * sent message.
 */
export interface ImportedMessage extends ReceivedMessage {
  session: string
  bot_id: string
  direction: Direction
}

/** A message from the bot, as it is sent; `timestamp` in Unix ms. */
export interface SentMessage {
  client_id: string
  to_user: string
  msg_type: MessageKind
  text: string
  timestamp: number
  /** Same format as `ReceivedMessage.raw`. */
  raw: string
}

export interface StoredMessage {
  /** Row id: the position in the log. */
  id: number
  /**
   * Upstream's id, or `derived_id`. For a sent message without an id: `local:` and the `client_id`. Unique in
   * the log.
   */
  message_id: string
  /** Current name of the session. */
  session: string
  bot_id: string
  direction: Direction
  status?: SentStatus
  /** The user of the conversation. Not part of the public message. */
  peer: string
  /** The sender: the user, or the bot. */
  from_user: string
  msg_type: MessageKind
  text: string
  timestamp: number
  raw: string
  /**
   * Why a sent message was refused, or why its result is unknown. Also set while a queued message waits for a
   * person's approval.
   */
  reason?: string
  /** The part of the reason that svc did not write: WeChat's text, or the source of a file. */
  reason_quote?: string
  /** Code from the error catalogue. */
  reason_code?: string
  /** For a queued text that was joined to another message: the `message_id` of that message. */
  sent_with?: string
  /** The principal that sent it, as from `formatPrincipal`. */
  sent_by?: string
  /** Name of the key that `sent_by` acts with. */
  sent_by_name?: string
  /** Name that people gave to the user of the conversation. */
  user_name?: string
  /** Another program received it; it was imported. */
  past?: true
}

/** Which rows to read. */
export interface ReadFilter {
  /** Maximum number of rows. */
  limit: number
  /**
   * Maximum length of all `raw` together, in characters: reading ends before the row that exceeds it. The
   * first row is always returned.
   */
  characters?: number
  /** `received` leaves out imported messages (`past`). */
  direction?: Direction
  /**
   * Rows of the sessions with this name, also of sessions that were logged out under it; compared by
   * `sessionKeyOf`. After a rename only the new name finds them.
   */
  session?: string
  /** Only messages of these accounts and users. */
  scope?: Scope
}

/** Search filter. Here `direction` counts imported messages (`past`) as received. */
export interface HistoryFilter {
  /** The user of the conversation, as sender or recipient. */
  user_id?: string
  bot_id?: string
  /** Same as `ReadFilter.session`. */
  session?: string
  msg_type?: MessageKind
  /**
   * Messages whose `msg_type` is this kind, or that have another item of this kind in `raw`. Items of a
   * quoted message do not count.
   */
  has_kind?: MessageKind
  direction?: Direction
  /** Unix ms, inclusive. */
  since?: number
  /** Unix ms, exclusive. */
  until?: number
  /** Substring of the text; ignores case for A-Z only. */
  text_contains?: string
  limit: number
  offset: number
  /** Same as `ReadFilter.characters`. */
  characters?: number
  /** Row id: only rows before it. */
  before?: number
  /** Same as `ReadFilter.scope`; the total counts only these. */
  scope?: Scope
}

export interface HistoryRows {
  /** Newest first. */
  rows: StoredMessage[]
  /**
   * Number of rows that match the filter without `before`. Exact up to 10,000; larger totals are reported as
   * 10,000.
   */
  total: number
  total_is_lower_bound: boolean
  /** Row id to pass as `before` for the next page; absent on the last page. */
  next_before?: number
}
