/** The event log of the engine in memory: an array. */
import { badArgument } from '../../src/model/error.ts'
import { sessionKey } from '../../src/model/session.ts'
import type { Clock } from '../../src/platform/clock.ts'
import type * as face from '../../src/storage/events.ts'
import type { Tables } from './memory-store.ts'

export interface Happened extends Omit<face.LoggedEvent, 'cursor'> {
  place: number
  /** Row id of the newest message by then. */
  newest: number
  session?: string
  imported?: true
}

/** A cursor bears which tables it is of. */
const stores = new WeakMap<Tables, string>()
let opened = 0

export class MemoryEvents implements face.Events {
  readonly #clock: Clock
  readonly #open: () => Tables

  constructor(clock: Clock, open: () => Tables) {
    this.#clock = clock
    this.#open = open
  }

  #cursor(place: number): string {
    const tables = this.#open()
    if (!stores.has(tables)) stores.set(tables, `memory${++opened}`)
    return `${stores.get(tables)}-${place}`
  }

  #place(cursor: string): number {
    const place = Number(cursor.split('-')[1] ?? 0)
    if (cursor !== '' && cursor !== this.#cursor(place)) throw badArgument('after', 'of another store')
    return place
  }

  #end = () => this.#open().lastEvent

  #of({ message, session: own }: Happened, { session, user }: face.WantedEvents): boolean {
    const row = this.#open().rows.find(({ id }) => id === message)
    const isOf = session === undefined || sessionKey(row?.session.name ?? own ?? '') === sessionKey(session)
    return isOf && (user === undefined || row?.peer === user)
  }

  async after(cursor: string, wanted: face.WantedEvents): Promise<face.EventPage> {
    const { events, eventsGone } = this.#open()
    const [asked, end] = [this.#place(cursor), this.#end()]
    const found = events.filter(
      event =>
        event.place > asked &&
        wanted.types?.includes(event.type) !== false &&
        (wanted.whole || !(event.status === 'sending' || event.imported)) &&
        this.#of(event, wanted),
    )
    const shown = found.slice(0, wanted.limit)
    return {
      events: shown.map(({ place, newest: _, session: _of, imported: _imported, ...event }) => ({
        ...structuredClone(event),
        cursor: this.#cursor(place),
      })),
      cursor: this.#cursor(shown.length < found.length ? shown.at(-1)!.place : end),
      ...((asked > end || (cursor !== '' && asked < eventsGone)) && { gone: true }),
    }
  }

  async head(before?: number): Promise<string> {
    if (before === undefined) return this.#cursor(this.#end())
    return this.#cursor(this.#open().events.findLast(({ at }) => at < before)?.place ?? 0)
  }

  async wait(seen: string, ms: number, signal: AbortSignal): Promise<void> {
    const tables = this.#open()
    if (!signal.aborted && this.#cursor(this.#end()) === seen) await tables.sleep(ms, signal)
  }

  async append(events: readonly face.NewEvent[], seen?: string): Promise<boolean> {
    const tables = this.#open()
    const place = seen === undefined ? Number.POSITIVE_INFINITY : this.#place(seen)
    const named = events.map(event => ('session' in event ? sessionKey(event.session) : undefined))
    const isNewer = (one: Happened) => one.place > place && one.session && named.includes(one.session)
    if (tables.events.some(isNewer)) return false
    for (const [nth, { type, data }] of events.entries())
      tables.happened({ type, at: this.#clock.now(), session: named[nth], data: structuredClone(data) })
    tables.wake()
    return true
  }

  async position(reader: string): Promise<string | undefined> {
    return this.#open().positions.get(reader)
  }

  async move(reader: string, cursor: string): Promise<void> {
    this.#place(cursor)
    this.#open().positions.set(reader, cursor)
  }

  /** What stands before the newest message that is gone goes, but for the newest of each session. */
  prune(): void {
    const tables = this.#open()
    const gone = (tables.rows[0]?.id ?? tables.lastId + 1) - 1
    const old = tables.events.filter(
      ({ newest, type }) => newest < gone + (type === 'message.received' ? 1 : 0),
    )
    tables.eventsGone = old.at(-1)?.place ?? tables.eventsGone
    const isLast = (one: Happened) => tables.events.findLast(({ session }) => session === one.session) === one
    const stays = (one: Happened) => !old.includes(one) || (one.session !== undefined && isLast(one))
    tables.events = tables.events.filter(stays)
  }
}
