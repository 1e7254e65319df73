/** The event log as endpoints read it: several that stand at the same place share one reading. */
import type { Message } from '../model/message.ts'
import { SharedTurns, systemClock } from '../platform/clock.ts'
import type { Views } from '../receive/view.ts'
import type { Events, EventType, WantedEvents } from '../storage/events.ts'
import type { MessageLog } from '../storage/store.ts'
import type { Conversation, Webhook } from '../storage/webhooks.ts'
import { type ReadEvent, readPage, sessionOf } from './events.ts'
import type { LaneEvent, LanePage } from './lanes.ts'

export interface FeedPorts {
  events: Pick<Events, 'after'>
  log: Pick<MessageLog, 'byIds'>
  views: Pick<Views, 'of'>
}

export interface FeedPage extends LanePage {
  /** Retention took some. */
  gone?: true
}

type Wants = Pick<Webhook, 'types' | 'session' | 'user'>

/** Pages that others may read too. */
const sharedPages = 8
/** Events that a conversation reads for itself at a time. */
const laneEvents = 32

export class Feed {
  readonly #ports: FeedPorts
  readonly #pages = new Map<string, Promise<FeedPage>>()
  /** Of endpoints that read page after page: a hundred of them may stand far back. */
  readonly #turns = new SharedTurns(systemClock)

  constructor(ports: FeedPorts) {
    this.#ports = ports
  }

  /** What an endpoint wants, after a cursor, oldest first. */
  async after(cursor: string, { types, session, user }: Wants, limit: number): Promise<FeedPage> {
    const key = JSON.stringify([cursor, types, session, user, limit])
    const known = this.#pages.get(key)
    if (known) return known
    const page = this.#read(cursor, { limit, session, user, ...typed(types) })
    this.#pages.set(key, page)
    for (const old of [...this.#pages.keys()].slice(0, -sharedPages)) this.#pages.delete(old)
    // The end of the log is elsewhere the next time.
    const found = await page.catch(() => undefined)
    if (!found || found.events.length === 0) this.#pages.delete(key)
    return page
  }

  /** The same of one conversation. */
  async ofConversation(cursor: string, wants: Wants, { session, user }: Conversation): Promise<FeedPage> {
    if (user !== '') return this.#read(cursor, { limit: laneEvents, session, user, ...typed(wants.types) })
    const types = noMessages.filter(type => wants.types.length === 0 || wants.types.includes(type))
    const page = await this.#read(cursor, { limit: laneEvents, types, ...(session !== '' && { session }) })
    return { ...page, events: page.events.filter(event => event.session === session) }
  }

  async #read(from: string, wanted: WantedEvents): Promise<FeedPage> {
    const turn = this.#turns.join()
    await turn()
    const { events, ...page } = await readPage(this.#ports, from, wanted)
    const read: LaneEvent[] = []
    for (const event of events) {
      await turn()
      read.push(await this.#laneEvent(event))
    }
    return { ...page, events: read }
  }

  async #laneEvent(read: ReadEvent): Promise<LaneEvent> {
    const { cursor: id, type, at, data = {}, row } = read
    const event = { id, type, at, session: sessionOf(read) }
    if (!row) return { ...event, user: '', data: async () => data }
    let made: Promise<Message> | undefined
    const shown = () => {
      made ??= this.#ports.views.of(row).catch(error => {
        made = undefined
        throw error
      })
      return made
    }
    // The row of a sent one does not name the user.
    const user = row.direction === 'received' ? row.from_user : (await shown()).to_user
    return { ...event, user, data: shown }
  }
}

/** A page of one conversation's own events, or of those that are no conversation's. */
const noMessages: readonly EventType[] = ['session.status', 'session.muted', 'endpoint.disabled']

/** As an endpoint is narrowed to types. */
export const typed = (types: readonly string[]): Pick<WantedEvents, 'types'> =>
  types.length > 0 ? { types: types as EventType[] } : {}
