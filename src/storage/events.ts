/**
 * The event log: everything that a client may want to hear about, in one order, and how far its readers are.
 *
 * An event about a message is stored in the same durable write as the message, and refers to its row instead
 * of copying it. An event about a session or an endpoint is appended by the process that changed it,
 * immediately after the change. The rules of `store.ts` for every method and for the order of rows also hold
 * for events. Retention removes events together with the rows around them.
 *
 * A cursor is a position in the log of one store: at most 40 letters and digits that name the store, `-`, and
 * a number below 2^53 that grows. '' is the start of the log. Clients store cursors and pass them back; they
 * do not build them. The cursor of an event is its id: it is the same for every reader and every filter. Each
 * method with a cursor parameter rejects with SvcError `invalid_arguments` if the string is not a cursor. A
 * cursor of another store counts as expired: it is read as the start of the log, with `gone`.
 */
import { hasMessage, isInScope, type Scope } from '../model/access.ts'
import { SvcError } from '../model/error.ts'
import type { SentStatus } from '../model/message.ts'
import { ownBounds } from '../model/shares.ts'

export type EventType =
  | 'message.received'
  | 'message.status'
  | 'session.status'
  | 'session.muted'
  | 'session.joined'
  | 'endpoint.disabled'
  | 'audit.line'
  | 'backup.failed'

/** An event to append. */
export type NewEvent =
  | { type: 'session.status' | 'session.muted'; session: string; data: object }
  | { type: 'endpoint.disabled' | 'audit.line' | 'backup.failed'; data: object }

export interface LoggedEvent {
  cursor: string
  type: EventType
  /** When the event was stored, in Unix ms. */
  at: number
  /** Row id of the message, for `message.*`. Retention may have removed the row since. */
  message?: number
  /** Status at that time, for `message.status`. */
  status?: SentStatus
  /** Data as it was appended. */
  data?: object
}

export interface EventFilter {
  /** Maximum number of events. */
  limit: number
  /** Default: all that need not be named (`isNamedOnly`), with `hidden` all. */
  types?: readonly EventType[]
  /**
   * Only events of this session. For messages like `ReadFilter.session`; for `session.*` by the name at the
   * time of the event, compared by `sessionKeyOf`.
   */
  session?: string
  /** Only messages from and to this user, and no other events. */
  user?: string
  /**
   * Only what a key with this scope may see, by `isEventInScope`: its messages; `session.*` by the account in
   * the data, and none of them if the scope names users. Never `endpoint.disabled`, also if the scope leaves
   * nothing out.
   */
  scope?: Scope
  /**
   * Also returns what is not published: the status `sending`, which a message has while it is handed to
   * WeChat, and imported messages, as `message.received` in both directions.
   */
  hidden?: true
}

/** Whether an event about an account and a user may be seen by a key with this scope. */
export const isEventInScope = (scope: Scope, type: EventType, bot?: string, user?: string): boolean =>
  type.startsWith('message.')
    ? bot !== undefined && user !== undefined && hasMessage(scope, bot, user)
    : type.startsWith('session.') && scope.users === undefined && isInScope(scope, bot)

export interface EventPage {
  /** Oldest first. */
  events: LoggedEvent[]
  /**
   * How far the log was read; pass it to read on. Never ''. A page may be empty and still end before the end
   * of the log: read on until the cursor no longer changes.
   */
  cursor: string
  /**
   * Events after the given cursor are lost (events that match the filter or others). If retention removed
   * them, the page starts with the oldest stored event after the cursor. A cursor of another store, or beyond
   * the end, is read as the start of the log. Never set for the cursor ''.
   */
  gone?: true
}

/** Maximum number of readers of a kind, events or messages, of a key and those that share its bounds (`familyOf`). */
export const maxReaders: number = ownBounds.readers
/** A reader that was idle for this long may lose its position to another reader. */
export const readerIdleMs = 7 * 24 * 60 * 60_000

/** @param waitMs until the reader that was idle longest may lose its place */
export const noPlaceError = (waitMs: number): SvcError =>
  new SvcError('rate_limited', `${maxReaders} readers have a place already`, {
    retryAfter: Math.ceil(waitMs / 1000),
    hint: 'Read under a name that there is, or without one, from a position that you keep yourself.',
  })

export interface EventLog {
  /**
   * Returns events after a cursor, oldest first. The newest event of each `session.*` type of each session is
   * never removed, so a reader that starts at the beginning sees every session that ever existed. A cursor
   * can be beyond the end after a backup was restored.
   */
  listAfter(cursor: string, wanted: EventFilter): Promise<EventPage>

  /**
   * Returns the cursor of the current end of the log. With `before` (Unix ms): the cursor of the newest event
   * before that time, or the cursor before the first event. Never ''. "Newest" means last in the order of the
   * log, also if the clock was set back.
   */
  getHead(before?: number): Promise<string>

  /** Resolves when the end of the log is not `seen`; otherwise like `MessageLog.wait`. */
  wait(seen: string, ms: number, signal: AbortSignal): Promise<void>

  /**
   * Appends events, in order.
   *
   * @param seen if a `session.*` event of one of these sessions is stored after this cursor, nothing is
   *   appended: the caller compares again
   * @returns whether the events were appended
   */
  append(events: readonly NewEvent[], seen?: string): Promise<boolean>

  /**
   * Returns the cursor of a named reader: undefined for a reader that was never moved, and a cursor of
   * another store for a reader that lost its position. Marks the reader as active now, which is not durable.
   */
  getPosition(reader: string): Promise<string | undefined>

  /**
   * Sets the position of a reader, forward or back, and marks the reader as active now. Not durable. If
   * `maxReaders` other readers have a position, the one that was idle longest loses its position. The readers of a
   * key (`<key id>/<name>`) and those that share its bounds (`familyOf`) are counted by themselves. The newest `maxReaders` losses are remembered. A
   * reader that lost its position does not count.
   *
   * @throws SvcError `rate_limited` if the reader that was idle longest was active within `readerIdleMs`;
   *   `retryAfter` (s) is the time until that ends
   */
  setPosition(reader: string, cursor: string): Promise<void>
}

/**
 * Returns the number of a cursor, which sorts the cursors of one store along the log. Nothing else of a
 * cursor is parsed.
 */
export const cursorNumberOf = (cursor: string): number => Number(cursor.slice(cursor.lastIndexOf('-') + 1))

/** Returns the cursor right before an event: a reader that starts there gets this event first. */
export const cursorBefore = (event: string): string =>
  event.replace(/-(\d+)$/, (_all, place: string) => `-${Math.max(0, Number(place) - 1)}`)
