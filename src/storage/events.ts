/**
 * The event log: everything that somebody outside may want to hear of, in one order, and how far its readers have come.
 *
 * What tells of a message is there with the message, in the same durable write, and refers to its row instead of copying it.
 * What tells of sessions and endpoints is appended by the process that changed them, at once after that. What `store.ts`
 * says of every verb, and of the order of rows, is true of events too. Retention takes events with the rows that they stand
 * between.
 *
 * A cursor stands for a place in the log of one store: at most 40 letters and digits that name the store, `-`, and a number
 * below 2^53 that grows; '' is the beginning. It is to be kept and given back, not made. An event's own cursor is its id: the
 * same whoever reads it and whatever is filtered. Each verb that takes a cursor rejects with SvcError `invalid_arguments` for
 * a text that is none. One of another store stands for a lost place: it is read as the beginning, with `gone`.
 */
import type { SentStatus } from '../model/message.ts'

export type EventType =
  | 'message.received'
  | 'message.status'
  | 'session.status'
  | 'session.muted'
  | 'endpoint.disabled'

/** What an engine is given to append. */
export type NewEvent =
  | { type: 'session.status' | 'session.muted'; session: string; data: object }
  | { type: 'endpoint.disabled'; data: object }

export interface LoggedEvent {
  cursor: string
  type: EventType
  /** Unix ms, when it was written down. */
  at: number
  /** Of `message.*`: row id. Retention may have taken the row meanwhile. */
  message?: number
  /** Of `message.status`: as it was then. */
  status?: SentStatus
  /** As it was appended. */
  data?: object
}

export interface WantedEvents {
  /** Events at most. */
  limit: number
  /** All by default. */
  types?: readonly EventType[]
  /** Of that session alone: messages as of `Wanted`, `session.*` by the name that they were appended with (`sessionKey`). */
  session?: string
  /** Messages from and to that user alone, and no other events. */
  user?: string
  /**
   * Also what nobody outside is told of: the status `sending`, which a message has while it is handed over; and imported
   * messages, as `message.received` whatever they are.
   */
  hidden?: true
}

export interface EventPage {
  /** Oldest first. */
  events: LoggedEvent[]
  /**
   * How far was looked, to read on from; never ''. A page may hold nothing and yet end before the end of the log: who reads
   * goes on until the cursor stays the same.
   */
  cursor: string
  /**
   * Events after the given cursor are lost, wanted ones or not. Where retention took them, the page begins with the oldest
   * one that is kept after the cursor. A cursor of another store, or beyond the end, is read as the beginning. Not of ''.
   */
  gone?: true
}

export const readersKept = 1000
/** A reader that was not seen for so long may lose its place to another one. */
export const readerUnseenMs = 7 * 24 * 60 * 60_000

export interface Events {
  /**
   * Events after a cursor, oldest first. Of each session the newest event of each `session.*` is kept for
   * ever, so a reader from the beginning meets all sessions there were. A cursor is beyond the end after a backup was restored.
   */
  after(cursor: string, wanted: WantedEvents): Promise<EventPage>

  /**
   * The end of the log as it is now; with `before` (Unix ms) the place of the newest event of before then, or that before all
   * others. Never ''. The newest is the last in the order, also where the clock was set back.
   */
  head(before?: number): Promise<string>

  /** Resolves when the log does not end at `seen`, or as `MessageLog.wait`. */
  wait(seen: string, ms: number, signal: AbortSignal): Promise<void>

  /**
   * Appends events, in their order.
   *
   * @param seen nothing is appended when a `session.*` of one of these sessions stands after that cursor: the caller
   *   compares again
   * @returns whether it was appended
   */
  append(events: readonly NewEvent[], seen?: string): Promise<boolean>

  /**
   * How far a named reader has come; undefined for one that was never moved, and a cursor of another store for one that lost its
   * place. It was seen now, which is not durable.
   */
  position(reader: string): Promise<string | undefined>

  /**
   * Sets how far it has come, further or back. It was seen now. Not durable. Where `readersKept` others have a place, the one
   * that was not seen for longest loses it; the newest `readersKept` losses are remembered. Who lost its place has none.
   *
   * @throws SvcError `rate_limited` where that one was seen within `readerUnseenMs`; `retryAfter`, in s, says when it is over
   */
  move(reader: string, cursor: string): Promise<void>
}

/** The order of cursors: those of one store end in a number that grows along the log. Otherwise they are not taken apart. */
export const placeOf = (cursor: string): number => Number(cursor.slice(cursor.lastIndexOf('-') + 1))

/** The place right before an event, from which a reader is given it first. */
export const placeBefore = (event: string): string =>
  event.replace(/-(\d+)$/, (_all, place: string) => `-${Math.max(0, Number(place) - 1)}`)
