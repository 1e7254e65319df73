/** The event log as everybody outside is told of it: what an event refers to is read and shown. */
import { badArgument } from '../model/error.ts'
import { type Event, eventTypes } from '../model/event.ts'
import type { SentStatus } from '../model/message.ts'
import type { Views } from '../receive/view.ts'
import type { EventPage, Events, EventType, LoggedEvent, WantedEvents } from '../storage/events.ts'
import type { StoredMessage } from '../storage/messages.ts'
import type { MessageLog } from '../storage/store.ts'

export interface EventReaderPorts {
  events: Events
  log: Pick<MessageLog, 'byIds'>
  views: Pick<Views, 'of'>
  meant: Meant
}

/** A session and a user, by name or id. */
export type Who = Pick<WantedEvents, 'session' | 'user'>
/** As they are kept. @throws SvcError `session_not_found`; `invalid_arguments` for a name that no user has, or several */
export type Meant = (who: Who, field?: string) => Promise<Who>

/** An event, and what it is chosen by. */
export interface ToldEvent {
  event: Event
  /** Name of the session. */
  session?: string
  /** Of a message: the user on the other side. */
  user?: string
  /** Of a message: its row. */
  row?: StoredMessage
  /** Nobody outside is told of it. */
  inside?: boolean
}

export interface ToldPage {
  events: ToldEvent[]
  /** As of the log. */
  cursor: string
  gone?: true
}

/** Characters of messages in a page. */
const pageCharacters = 512 * 1024
/** Events read at a time by who follows. */
const followed = 100
/** Without any sign the log is looked at after this. */
const lookEveryMs = 30_000

/** Where a reader says that it is: `0` is the beginning of any log. */
const placed = (after: string) => (after === '0' ? '' : after)

export class EventReader {
  readonly #ports: EventReaderPorts

  constructor(ports: EventReaderPorts) {
    this.#ports = ports
  }

  head(before?: number): Promise<string> {
    return this.#ports.events.head(before)
  }

  wait(seen: string, signal: AbortSignal): Promise<void> {
    return this.#ports.events.wait(seen, lookEveryMs, signal)
  }

  /**
   * Where a reader begins: where it says it is, which is kept of a named one; else where that was; else at the end.
   *
   * @throws SvcError `invalid_arguments` for what is no cursor; `rate_limited` for a new name where there are too many
   */
  async begin(after: string | undefined, consumer: string | undefined): Promise<string> {
    const { events } = this.#ports
    const said = after === undefined ? undefined : placed(after)
    if (consumer === undefined) return said ?? events.head()
    const known = said === undefined ? await events.position(consumer) : undefined
    const cursor = said ?? known ?? (await events.head())
    // One that lost its place has one again.
    const isLost = known !== undefined && (await events.after(known, { limit: 1 })).gone
    if (known === undefined || isLost) await events.move(consumer, cursor)
    return cursor
  }

  /** A named reader is still there. */
  async seen(consumer: string): Promise<void> {
    await this.#ports.events.position(consumer)
  }

  /** What somebody wants to hear of, who may name a user. @param field of the user @throws SvcError as `Meant` */
  async wanted<W extends Who>(wanted: W, field?: string): Promise<W> {
    return { ...wanted, ...(await this.#ports.meant(wanted, field)) }
  }

  /**
   * Events after a cursor, oldest first; those whose message is gone are passed over.
   *
   * @param turn awaited before each piece of the work, for who reads page after page
   */
  async page(after: string, wanted: WantedEvents, turn?: () => Promise<void>): Promise<ToldPage> {
    await turn?.()
    const { events, ...page } = await readPage(this.#ports, placed(after), wanted)
    const told: ToldEvent[] = []
    for (const event of events) {
      await turn?.()
      told.push(await this.#told(event))
    }
    return { ...page, events: told }
  }

  /**
   * Events as they come, until the signal, or with `toEnd` until there are no more; `onGone` is called where retention
   * took some before they were read.
   */
  async *follow(
    after: string,
    wanted: Omit<WantedEvents, 'limit'>,
    signal: AbortSignal,
    { onGone, toEnd }: { onGone?: () => void; toEnd?: boolean } = {},
  ): AsyncGenerator<Event, void, void> {
    for (let cursor = after; !signal.aborted; ) {
      const page = await this.page(cursor, { ...wanted, limit: followed })
      if (page.gone) onGone?.()
      for (const { event } of page.events) {
        if (signal.aborted) return
        yield event
      }
      if (page.cursor === cursor) {
        if (toEnd) return
        await this.wait(cursor, signal)
      }
      cursor = page.cursor
    }
  }

  async #told(read: ReadEvent): Promise<ToldEvent> {
    const { cursor: id, type, at, status, data, row } = read
    const rest = { id, type, timestamp: new Date(at).toISOString() }
    const session = sessionOf(read)
    if (!row) return { event: { ...rest, data } as Event, ...(session && { session }) }
    const shown = await this.#ports.views.of(row)
    const imported = type === 'message.received' && (row.past || row.direction === 'sent')
    return {
      ...{
        event: { ...rest, data: shown } as Event,
        session,
        row,
        user: row.direction === 'received' ? row.from_user : shown.to_user,
      },
      inside: status === 'sending' || imported === true,
    }
  }
}

/** An event, and the message that it tells of, as it was then. */
export interface ReadEvent extends LoggedEvent {
  row?: StoredMessage
}

/**
 * Reads a page with its messages, as far as there is room for them: the rest is read the next time. What tells of a message that is
 * gone is passed over.
 */
export async function readPage(
  { events: log, log: messages }: Pick<EventReaderPorts, 'log'> & { events: Pick<Events, 'after'> },
  after: string,
  wanted: WantedEvents,
): Promise<Omit<EventPage, 'events'> & { events: ReadEvent[] }> {
  const page = await log.after(after, wanted)
  const ids = [...new Set(page.events.flatMap(({ message }) => message ?? []))]
  const found = await messages.byIds(ids, pageCharacters)
  const rows = new Map(found.map(row => [row.id, row]))
  const last = found.length < ids.length ? found.at(-1)?.id : undefined
  const unread = new Set(last === undefined ? [] : ids.slice(ids.indexOf(last) + 1))
  const end = page.events.findIndex(({ message }) => message !== undefined && unread.has(message))
  const taken = end === -1 ? page.events : page.events.slice(0, end)
  const events = taken.flatMap((event): ReadEvent[] => {
    const row = event.message === undefined ? undefined : rows.get(event.message)
    if (row) return [{ ...event, row: asOf(row, event.status) }]
    return event.message === undefined ? [event] : []
  })
  return { ...page, events, cursor: end === -1 ? page.cursor : taken.at(-1)!.cursor }
}

/** The name of the session that an event is of; '' where it is of none. */
export const sessionOf = ({ type, data, row }: ReadEvent): string =>
  row?.session ?? (type.startsWith('session.') && data && 'name' in data ? String(data.name) : '')

/** A row as it was: the reason is that of the newest status alone. */
function asOf(row: StoredMessage, status: SentStatus | undefined): StoredMessage {
  if (status === undefined || row.status === status) return row
  const { reason: _, reason_code: _code, reason_quote: _quote, ...rest } = row
  return { ...rest, status }
}

/**
 * Types that callers write as one text.
 *
 * @throws SvcError `invalid_arguments`
 */
export function typesOf(text: string | undefined): { types?: EventType[] } {
  if (text === undefined) return {}
  const types = text.split(',').map(part => part.trim())
  if (!types.every(type => (eventTypes as readonly string[]).includes(type)))
    throw badArgument('types', `expected some of ${eventTypes.join(', ')}, separated by commas`)
  return { types: types as EventType[] }
}
