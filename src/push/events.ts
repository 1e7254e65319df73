/**
 * The event log in its public form: each event with the message that it refers to. Read by `GET /events`,
 * the library and webhooks.
 */

import { badArgument } from '../model/error.ts'
import { type Event, eventTypes } from '../model/event.ts'
import type { SentStatus } from '../model/message.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import { RoomPart } from '../platform/runtime.ts'
import { followSession, type SessionFollower } from '../receive/ingest.ts'
import type { Views } from '../receive/view.ts'
import {
  cursorNumberOf,
  type EventFilter,
  type EventLog,
  type EventPage,
  type EventType,
  type LoggedEvent,
} from '../storage/events.ts'
import type { StoredMessage } from '../storage/messages.ts'
import { freshMs } from '../storage/people.ts'
import type { SessionStore } from '../storage/state.ts'
import type { MessageLog } from '../storage/store.ts'

export interface EventReaderPorts {
  events: EventLog
  log: Pick<MessageLog, 'getByIds'>
  views: Pick<Views, 'toMessage'>
  resolveTarget: ResolveTarget
  sessions: Pick<SessionStore, 'get' | 'list'>
}

/** A session and a user, each by name or id. A scope leaves out what is not in it, as if it did not exist. */
export type SessionAndUser = Pick<EventFilter, 'session' | 'user' | 'scope'>
/**
 * Resolves a session and a user to the forms in the store.
 *
 * @param field argument that errors about the user name
 * @throws SvcError `session_not_found`; `invalid_arguments` for a name that no user has, or several
 */
export type ResolveTarget = (who: SessionAndUser, field?: string) => Promise<SessionAndUser>

/** An event in its public form, and the facts by which readers filter. */
export interface PublicEvent {
  event: Event
  /** Name of the session. */
  session?: string
  /** The account of the session or message. */
  bot?: string
  /** The user on the other side of a message. */
  user?: string
  /** The row of a message. */
  row?: StoredMessage
  /** True for an event that is not published. */
  isInternal?: boolean
  /** Whether it is still in the log. Ask before it leaves: its user may have been erased since it was read. */
  isThere(): Promise<boolean>
}

/** A page of events in their public form. */
export interface PublicEventPage {
  events: PublicEvent[]
  /** The log was read up to here. */
  cursor: string
  /** Retention removed events before they were read. */
  gone?: true
}

/** Maximum characters of all messages in a page. */
const maxPageCharacters = 512 * 1024
/** Page size of `follow`, in events. */
const followPageSize = 100
/** The log is read after this time even if nothing announced a change. */
const pollIntervalMs = 30_000

/**
 * Converts a reader's position to a cursor of the store. A reader writes `0` for the beginning of the log.
 */
const toCursor = (after: string) => (after === '0' ? '' : after)

/** Reads the event log for all interfaces. */
export class EventReader extends RoomPart<EventReaderPorts> {
  /** Returns the cursor of the newest event. @param before only of events before this time (Unix ms) */
  getHead(before?: number): Promise<string> {
    return this.ports.events.getHead(before)
  }

  /** Waits until the log may have events after a cursor. */
  wait(cursor: string, signal: AbortSignal): Promise<void> {
    return this.ports.events.wait(cursor, pollIntervalMs, signal)
  }

  /**
   * Returns the cursor at which a reader begins: `after` if given; else the stored position of a named
   * reader; else the end of the log. The position of a named reader is stored.
   *
   * @throws SvcError `invalid_arguments` if `after` is not a cursor; `rate_limited` for a new name if there
   *   are too many
   */
  async startReader(after: string | undefined, consumer: string | undefined): Promise<string> {
    const { events } = this.ports
    const requested = after === undefined ? undefined : toCursor(after)
    if (consumer === undefined) return requested ?? events.getHead()
    const stored = requested === undefined ? await events.getPosition(consumer) : undefined
    const cursor = requested ?? stored ?? (await events.getHead())
    // A reader whose position retention removed gets a new one.
    const isLost = stored !== undefined && (await events.listAfter(stored, { limit: 1 })).gone
    if (stored === undefined || isLost) await events.setPosition(consumer, cursor)
    return cursor
  }

  /** Records that a named reader is still active, so that its position is kept. */
  async markActive(consumer: string): Promise<void> {
    await this.ports.events.getPosition(consumer)
  }

  /**
   * Returns a copy of a filter with its session and user resolved.
   *
   * @param field argument that errors about the user name
   * @throws SvcError like `ResolveTarget`
   */
  async resolveFilter<W extends SessionAndUser>(
    filter: W,
    field?: string,
  ): Promise<W & Pick<SessionAndUser, 'scope'>> {
    return { ...filter, ...(await this.ports.resolveTarget(filter, field)) }
  }

  /** Returns what follows a session through renames, for a reader that reads page by page. */
  followSession(name: string): SessionFollower {
    return followSession(this.ports.sessions, name)
  }

  /**
   * Reads events after a cursor, oldest first. Skips events whose message was removed.
   *
   * @param turn awaited before each piece of work, so that a reader of many pages does not block the process
   */
  async readPage(after: string, filter: EventFilter, turn?: () => Promise<void>): Promise<PublicEventPage> {
    await turn?.()
    const { events, ...page } = await readPage(this.ports, toCursor(after), filter)
    const readAgain = createRereader(this.ports)
    const published: PublicEvent[] = []
    for (const event of events) {
      await turn?.()
      const isThere = async () => (await readAgain(event)) !== undefined
      published.push({ ...(await this.#toPublicEvent(event)), isThere })
    }
    return { ...page, events: published }
  }

  /**
   * Yields events as they come until the signal aborts. With `toEnd` it stops at the end of the log. Calls
   * `onGone` if retention removed events before they were read.
   */
  async *follow(
    after: string,
    filter: Omit<EventFilter, 'limit'>,
    signal: AbortSignal,
    { onGone, toEnd }: { onGone?: () => void; toEnd?: boolean } = {},
  ): AsyncGenerator<Event, void, void> {
    const named = filter.session === undefined ? undefined : this.followSession(filter.session)
    for (let cursor = after; !signal.aborted; ) {
      const session = (await named?.())?.session
      const page = await this.readPage(cursor, { ...filter, session, limit: followPageSize })
      if (page.gone) onGone?.()
      for (const { event, isThere } of page.events) {
        if (signal.aborted) return
        if (await isThere()) yield event
      }
      if (page.cursor === cursor) {
        if (toEnd) return
        await this.wait(cursor, signal)
      }
      cursor = page.cursor
    }
  }

  async #toPublicEvent(read: EventWithRow): Promise<Omit<PublicEvent, 'isThere'>> {
    const { cursor: id, type, at, status, data, row } = read
    const rest = { id, type, timestamp: new Date(at).toISOString() }
    const session = sessionOf(read)
    if (!row) {
      const bot = data && 'bot_id' in data ? String(data.bot_id) : undefined
      return { event: { ...rest, data } as Event, ...(session && { session }), ...(bot && { bot }) }
    }
    const view = await this.ports.views.toMessage(row)
    const imported = type === 'message.received' && (row.past || row.direction === 'sent')
    return {
      event: { ...rest, data: view } as Event,
      session,
      row,
      bot: row.bot_id,
      user: row.peer,
      isInternal: status === 'sending' || imported === true,
    }
  }
}

/** An event, with the message that it refers to in its state at that time. */
export interface EventWithRow extends LoggedEvent {
  row?: StoredMessage
}

/**
 * Reads a page of events with their messages, up to `maxPageCharacters`. The cursor is that of the last event
 * read, so the next page continues there. Skips events whose message was removed.
 */
export async function readPage(
  { events: log, log: messages }: Pick<EventReaderPorts, 'log'> & { events: Pick<EventLog, 'listAfter'> },
  after: string,
  filter: EventFilter,
): Promise<Omit<EventPage, 'events'> & { events: EventWithRow[] }> {
  const page = await log.listAfter(after, filter)
  const ids = [...new Set(page.events.flatMap(({ message }) => message ?? []))]
  const found = await messages.getByIds(ids, maxPageCharacters)
  const rows = new Map(found.map(row => [row.id, row]))
  const last = found.length < ids.length ? found.at(-1)?.id : undefined
  const unread = new Set(last === undefined ? [] : ids.slice(ids.indexOf(last) + 1))
  const end = page.events.findIndex(({ message }) => message !== undefined && unread.has(message))
  const taken = end === -1 ? page.events : page.events.slice(0, end)
  const events = taken.flatMap((event): EventWithRow[] => {
    const row = event.message === undefined ? undefined : rows.get(event.message)
    if (row) return [{ ...event, row: withStatus(row, event.status) }]
    return event.message === undefined ? [event] : []
  })
  return { ...page, events, cursor: end === -1 ? page.cursor : taken.at(-1)!.cursor }
}

/**
 * Returns a function that reads an event of this page again, some time after the page was read, and returns it as it
 * may be handed out; undefined if it is gone. Call it as soon as the page was read.
 */
export function createRereader(
  ports: Parameters<typeof readPage>[0],
  clock: Pick<Clock, 'monotonic'> = systemClock,
): (event: EventWithRow) => Promise<EventWithRow | undefined> {
  const readAt = clock.monotonic()
  return async event => {
    if (clock.monotonic() - readAt <= freshMs) return event
    const { cursor, type } = event
    const before = cursor.replace(/[0-9]+$/, String(cursorNumberOf(cursor) - 1))
    const { events } = await readPage(ports, before, { types: [type], limit: 1, hidden: true })
    return events.find(one => one.cursor === cursor)
  }
}

/** Returns the name of the session that an event concerns; '' if it concerns none. */
export const sessionOf = ({ type, data, row }: EventWithRow): string =>
  row?.session ?? (type.startsWith('session.') && data && 'name' in data ? String(data.name) : '')

/** Returns a row with an earlier status. A reason belongs to the newest status only, so it is left out. */
function withStatus(row: StoredMessage, status: SentStatus | undefined): StoredMessage {
  if (status === undefined || row.status === status) return row
  const { reason: _, reason_code: _code, reason_quote: _quote, ...rest } = row
  return { ...rest, status }
}

/**
 * Parses event types from a list separated by commas.
 *
 * @throws SvcError `invalid_arguments`
 */
export function parseTypes(text: string | undefined): { types?: EventType[] } {
  if (text === undefined) return {}
  const types = text.split(',').map(part => part.trim())
  if (!types.every(type => (eventTypes as readonly string[]).includes(type)))
    throw badArgument('types', `expected some of ${eventTypes.join(', ')}, separated by commas`)
  return { types: types as EventType[] }
}
