/** Reads the event log for webhook endpoints. Endpoints with the same position and filter share one read. */

import { eventTypes, isNamedOnly } from '../model/event.ts'
import type { Message } from '../model/message.ts'
import { type Clock, SharedTurns, systemClock } from '../platform/clock.ts'
import { RoomPart } from '../platform/runtime.ts'
import type { Views } from '../receive/view.ts'
import type { EventFilter, EventLog, EventType } from '../storage/events.ts'
import type { MessageLog } from '../storage/store.ts'
import type { Webhook, WebhookConversation } from '../storage/webhooks.ts'
import { createRereader, type EventWithRow, readPage, sessionOf } from './events.ts'
import type { LaneEvent, LanePage } from './lanes.ts'

export interface FeedPorts {
  events: Pick<EventLog, 'listAfter'>
  log: Pick<MessageLog, 'getByIds'>
  views: Pick<Views, 'toMessage'>
  clock?: Pick<Clock, 'monotonic'>
}

export interface FeedPage extends LanePage {
  /** Retention removed events before they were read. */
  gone?: true
}

/** The events that an endpoint receives. */
type EndpointFilter = Pick<Webhook, 'types' | 'session' | 'user' | 'grant'>

/** Number of pages that are kept for other endpoints. */
const maxSharedPages = 8
/** Page size for a conversation that reads its own part of the log. */
const conversationPageSize = 32

/** Pages of the event log for all endpoints of a process. */
export class Feed extends RoomPart<FeedPorts> {
  readonly #pages = new Map<string, Promise<FeedPage>>()
  /** Shares the event loop among endpoints that read many pages: a hundred of them may be far behind. */
  readonly #turns = new SharedTurns(systemClock)

  /** Reads the events for an endpoint after a cursor, oldest first. */
  async readAfter(
    cursor: string,
    { types, session, user, grant: scope }: EndpointFilter,
    limit: number,
  ): Promise<FeedPage> {
    const own = scope && { bots: scope.bots, users: scope.users }
    const key = JSON.stringify([cursor, types, session, user, limit, own])
    const shared = this.#pages.get(key)
    if (shared) return shared
    const page = this.#readEvents(cursor, { limit, session, user, scope, ...typeFilterOf(types) })
    this.#pages.set(key, page)
    for (const old of [...this.#pages.keys()].slice(0, -maxSharedPages)) this.#pages.delete(old)
    // At the end of the log a page is not kept: the log may have grown at the next read.
    const found = await page.catch(() => undefined)
    if (!found || found.events.length === 0) this.#pages.delete(key)
    return page
  }

  /** Reads the events of one conversation for an endpoint, after a cursor, oldest first. */
  async readConversation(
    cursor: string,
    wants: EndpointFilter,
    { session, user }: WebhookConversation,
  ): Promise<FeedPage> {
    if (user !== '')
      return this.#readEvents(cursor, {
        limit: conversationPageSize,
        session,
        user,
        scope: wants.grant,
        ...typeFilterOf(wants.types),
      })
    const types = nonMessageTypes.filter(type =>
      wants.types.length === 0 ? !isNamedOnly(type) : wants.types.includes(type),
    )
    const page = await this.#readEvents(cursor, {
      limit: conversationPageSize,
      types,
      scope: wants.grant,
      ...(session !== '' && { session }),
    })
    return { ...page, events: page.events.filter(event => event.session === session) }
  }

  async #readEvents(from: string, filter: EventFilter): Promise<FeedPage> {
    const turn = this.#turns.join()
    await turn()
    const { events, ...page } = await readPage(this.ports, from, filter)
    const readAgain = createRereader(this.ports, this.ports.clock)
    const read: LaneEvent[] = []
    for (const event of events) {
      await turn()
      read.push(this.#toLaneEvent(event, readAgain))
    }
    return { ...page, events: read }
  }

  #toLaneEvent(read: EventWithRow, readAgain: ReturnType<typeof createRereader>): LaneEvent {
    const { cursor: id, type, at, row } = read
    const event = { id, type, at, session: sessionOf(read) }
    if (!row)
      return {
        ...event,
        user: '',
        data: async () => {
          const again = await readAgain(read)
          return again && (again.data ?? {})
        },
      }
    let view: Promise<Message> | undefined
    const readView = async () => {
      // Read again: the page may have been kept for other endpoints, and its event may have waited long for its
      // receiver.
      if (!(await readAgain(read))) return undefined
      view ??= this.ports.views.toMessage(row).catch(error => {
        view = undefined
        throw error
      })
      return view
    }
    return { ...event, user: row.peer, data: readView }
  }
}

/** Types of events that concern no message: they belong to a session, or to no session. */
const nonMessageTypes: readonly EventType[] = eventTypes.filter(type => !type.startsWith('message.'))

/** Returns the filter for an endpoint's types; no types mean all that need not be named. */
export const typeFilterOf = (types: readonly string[]): Pick<EventFilter, 'types'> =>
  types.length > 0 ? { types: types as EventType[] } : {}
