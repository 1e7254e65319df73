/**
 * The event log: everything that somebody outside may want to hear of, in one order, and how far its readers have come.
 *
 * What tells of a message is there with the message, in the same durable write, and refers to its row instead of copying it.
 * What tells of sessions and endpoints is appended by who changed them.
 *
 * A cursor stands for a place in the log of one store: at most 40 letters and digits that name the store, `-`, and a number that
 * grows; '' is the beginning. It is to be kept and given back, not made. An event's own cursor is its id: the same whoever
 * reads it and whatever is filtered. Verbs are as those of `Store`. Each that takes a cursor rejects with SvcError `invalid_arguments` for one that
 * is none of this store.
 */
import type { SentStatus } from '../model/message.ts'

export type EventType = 'message.received' | 'message.status' | 'session.status' | 'endpoint.disabled'

/** What an engine is given to append. */
export type NewEvent =
  | { type: 'session.status'; session: string; data: object }
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
  /** Of that session alone; names are compared without case. */
  session?: string
  /** Messages from and to that user alone. */
  user?: string
  /**
   * Also what nobody outside is told of: the status `sending`, which a message has while it is handed over; and imported
   * messages, as `message.received` whatever they are.
   */
  whole?: true
}

export interface EventPage {
  /** Oldest first. */
  events: LoggedEvent[]
  /**
   * How far was looked, to read on from. A page may hold nothing and yet end before the end of the log: who reads goes on
   * until the cursor stays the same.
   */
  cursor: string
  /** Retention took events after the given cursor: the page begins with the oldest that is kept. */
  gone?: true
}

export interface Events {
  /**
   * Events after a cursor, oldest first. Of each session the newest `session.status` is kept for
   * ever, so a reader from the beginning meets all sessions there were. A cursor beyond the end, as after a backup was
   * restored, is read as the end, with `gone`.
   */
  after(cursor: string, wanted: WantedEvents): Promise<EventPage>

  /** The end of the log as it is now; with `before` (Unix ms) the place behind which what was written since then stands. */
  head(before?: number): Promise<string>

  /** Resolves when there is an event after `seen`, or as `MessageLog.wait`. May resolve for nothing. */
  wait(seen: string, ms: number, signal: AbortSignal): Promise<void>

  /**
   * Appends events, in their order. Durable.
   *
   * @param seen nothing is appended when an event of one of these sessions came after that cursor: who compares and appends
   *   has to compare again
   * @returns whether it was appended
   */
  append(events: readonly NewEvent[], seen?: string): Promise<boolean>

  /** How far a named reader has come; undefined for one that was never moved. */
  position(reader: string): Promise<string | undefined>

  /** Sets how far it has come. Not durable. */
  move(reader: string, cursor: string): Promise<void>
}

/** The order of cursors: those of one store end in a number that grows along the log. Otherwise they are not taken apart. */
export const placeOf = (cursor: string): number => Number(cursor.slice(cursor.lastIndexOf('-') + 1))

/** The place right before an event, from which a reader is given it first. */
export const placeBefore = (event: string): string =>
  event.replace(/-(\d+)$/, (_all, place: string) => `-${Math.max(0, Number(place) - 1)}`)
