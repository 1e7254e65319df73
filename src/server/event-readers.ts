/**
 * The readers of `GET /events`. Each reader first catches up: it gets missed events page by page, as fast
 * as it reads. Then it is live: each new event is read and encoded once for all live readers of a caller.
 */

import { type Event, isNamedOnly } from '../model/event.ts'
import type { Principal } from '../model/principal.ts'
import { sessionKeyOf } from '../model/session.ts'
import type { OpenedEvents } from '../operations/events.ts'
import { SharedTurns, systemClock } from '../platform/clock.ts'
import { RoomPart } from '../platform/runtime.ts'
import { followSignal } from '../platform/signals.ts'
import type { PublicEvent } from '../push/events.ts'
import { cursorNumberOf, isEventInScope } from '../storage/events.ts'
import { createEventStream, type Outlet } from './event-stream.ts'
import { beginStream } from './limits.ts'
import type { RouteContext } from './route.ts'

/**
 * Maximum unread bytes of one reader. Beyond it the reader is disconnected; it can reconnect and continue.
 */
const maxUnreadBytes = 256 * 1024
/** A reader that catches up gets more events only if it has at most this many unread bytes. */
const maxAheadBytes = 16 * 1024
/** A reader that catches up is disconnected if it reads nothing for this time. */
const stuckTimeoutMs = 60_000
/** Interval at which active named readers are recorded. */
const activeIntervalMs = 60 * 60_000
/** Interval of comments that keep a stream open. */
const commentIntervalMs = 7000
const pageEvents = 100

/** A client of `GET /events`. */
interface StreamReader {
  readonly events: OpenedEvents
  /** The reader got all events up to here. */
  cursor: string
  readonly outlet: Outlet
  /** True once the reader has caught up and gets new events. */
  isLive: boolean
  /** Aborts when the reader has disconnected, its key ends or the service stops. */
  readonly disconnected: AbortController
  /** Removes the listeners for the ends of the service and the key. */
  stopListening(): void
  /** Called when the reader has read something. */
  onRead?: () => void
}

const encoder = new TextEncoder()
const encodeEvent = (event: Event) => encoder.encode(`id: ${event.id}\ndata: ${JSON.stringify(event)}\n\n`)

/** All event streams of one caller, who may see the same in each. */
export class EventStreams extends RoomPart<RouteContext> {
  readonly #readers = new Set<StreamReader>()
  /** Shares the event loop among readers that catch up. */
  readonly #turns = new SharedTurns(systemClock)
  #unsubscribe: (() => void) | undefined
  /** Live readers got all events up to here. */
  #reachedCursor: string | undefined
  #ready = Promise.withResolvers<void>()

  /**
   * Opens a stream of events. It ends when the reader disconnects, its key ends or the service stops.
   *
   * @throws SvcError `rate_limited` if the key has too many streams
   */
  open(events: OpenedEvents, by: Principal): Response {
    const endStream = beginStream(by)
    const abort = new AbortController()
    const ends = [this.ports.shutdown.draining, by.ended].flatMap(signal =>
      signal ? followSignal(signal, abort) : [],
    )
    let reader: StreamReader
    return createEventStream(maxUnreadBytes, {
      start: outlet => {
        reader = {
          events,
          outlet,
          cursor: events.cursor,
          isLive: false,
          disconnected: abort,
          stopListening() {
            for (const unfollow of ends) unfollow()
            endStream()
          },
        }
        this.#addReader(reader)
      },
      pull: () => reader.onRead?.(),
      cancel: () => void this.#removeReader(reader),
    })
  }

  #addReader(reader: StreamReader): void {
    this.#readers.add(reader)
    reader.disconnected.signal.addEventListener('abort', () => this.#endStream(reader), { once: true })
    if (reader.disconnected.signal.aborted) {
      this.#endStream(reader)
      return
    }
    this.#subscribe(reader.events)
    // Send the position immediately: a reader that disconnects before the first event continues from here.
    reader.outlet.enqueue(encoder.encode(`: svc\nid: ${reader.cursor}\n\n`))
    this.#startReading(reader)
  }

  #startReading(reader: StreamReader): void {
    this.#catchUp(reader).catch(error => {
      if (!reader.disconnected.signal.aborted)
        this.ports.log.warn('an event stream was disconnected', { error })
      this.#disconnect(reader, error)
    })
  }

  /** Sends a reader the events that it missed, until it is live. @throws Error if it does not read */
  async #catchUp(reader: StreamReader): Promise<void> {
    const { signal } = reader.disconnected
    const turn = this.#turns.join()
    let lost: string | undefined
    for (let limit = pageEvents; !signal.aborted; ) {
      await this.#waitForReader(reader)
      const page = await reader.events.page(reader.cursor, limit, turn)
      if (signal.aborted) return
      if (page.gone && lost !== reader.cursor) {
        lost = reader.cursor
        reader.outlet.enqueue(encoder.encode(`event: gone\ndata: {"after":"${lost}"}\n\n`))
      }
      const sent = await this.#sendMissed(reader, page.events)
      if (signal.aborted) return
      if (sent < page.events.length) {
        limit = Math.max(1, sent)
        continue
      }
      limit = Math.min(limit * 2, pageEvents)
      reader.cursor = page.cursor
      await this.#ready.promise
      // No `await` from here on, so no new event is missed.
      if (
        this.#reachedCursor === undefined ||
        cursorNumberOf(reader.cursor) < cursorNumberOf(this.#reachedCursor)
      )
        continue
      reader.isLive = true
      return
    }
  }

  /**
   * Sends events of a page to a reader as long as it reads them. The rest is read from the log again later,
   * so thousands of readers that do not read keep no page in memory.
   *
   * @returns how many events were sent
   */
  async #sendMissed(reader: StreamReader, missed: readonly PublicEvent[]): Promise<number> {
    const { disconnected, outlet } = reader
    for (const [index, { event, isThere }] of missed.entries()) {
      if (outlet.unreadBytes > maxAheadBytes) await new Promise(resolve => setImmediate(resolve))
      const mayLeave = await isThere()
      if (disconnected.signal.aborted || outlet.unreadBytes > maxAheadBytes) return index
      if (mayLeave) outlet.enqueue(encodeEvent(event))
      reader.cursor = event.id
    }
    return missed.length
  }

  /** Waits until a reader has few unread bytes. @throws Error if this takes too long */
  async #waitForReader(reader: StreamReader): Promise<void> {
    while (reader.outlet.unreadBytes > maxAheadBytes && !reader.disconnected.signal.aborted) {
      const wait = new AbortController()
      const unfollow = followSignal(reader.disconnected.signal, wait)
      reader.onRead = () => wait.abort()
      await this.ports.clock.sleep(stuckTimeoutMs, wait.signal)
      unfollow()
      delete reader.onRead
      if (!wait.signal.aborted) throw new Error('too slow')
    }
  }

  /** Subscribes to events once for all readers, through the first reader's `events`. */
  #subscribe(events: OpenedEvents): void {
    if (this.#unsubscribe) return
    const ending = new AbortController()
    const stop = events.subscribe({
      event: event => this.#publish(event),
      reached: cursor => {
        this.#reachedCursor = cursor
        this.#ready.resolve()
      },
    })
    this.#unsubscribe = () => {
      ending.abort()
      stop()
    }
    void this.#sendComments(ending.signal)
  }

  /** Sends a new event to all live readers whose filter it matches. */
  #publish(published: PublicEvent): void {
    const before = this.#reachedCursor ?? published.event.id
    this.#reachedCursor = published.event.id
    let bytes: Uint8Array | undefined
    for (const reader of [...this.#readers]) {
      // The reader may have got this event while it caught up.
      if (!reader.isLive || cursorNumberOf(published.event.id) <= cursorNumberOf(reader.cursor)) continue
      if (mayBeRenamed(published, reader.events.wanted)) {
        reader.isLive = false
        if (cursorNumberOf(before) > cursorNumberOf(reader.cursor)) reader.cursor = before
        this.#startReading(reader)
      }
      if (!reader.isLive || !matchesFilter(published, reader.events.wanted)) continue
      bytes ??= encodeEvent(published.event)
      reader.cursor = published.event.id
      this.#send(reader, bytes)
    }
  }

  /**
   * Sends the comments that keep streams open. Live readers get their position too, as their filter may
   * skip events.
   */
  async #sendComments(signal: AbortSignal): Promise<void> {
    const { clock } = this.ports
    for (let recordedAt = clock.monotonic(); !signal.aborted; ) {
      await clock.sleep(commentIntervalMs, signal)
      if (signal.aborted) return
      if (clock.monotonic() - recordedAt >= activeIntervalMs) {
        recordedAt = clock.monotonic()
        this.#markActive()
      }
      const comment = encoder.encode(': here\n\n')
      const position = encoder.encode(`: here\nid: ${this.#reachedCursor}\n\n`)
      for (const reader of [...this.#readers])
        if (reader.isLive) this.#send(reader, position)
        else if (reader.outlet.unreadBytes < maxUnreadBytes) reader.outlet.enqueue(comment)
    }
  }

  /** Records all named readers as active. */
  #markActive(): void {
    const { log } = this.ports
    const named = new Map([...this.#readers].map(({ events }) => [events.consumer, events]))
    for (const events of named.values())
      events.seen().catch(error => log.warn('an active reader of events was not recorded', { error }))
  }

  /** Sends bytes to a reader, or disconnects it if it has too many unread bytes. */
  #send(reader: StreamReader, bytes: Uint8Array): void {
    if (reader.outlet.unreadBytes < maxUnreadBytes) reader.outlet.enqueue(bytes)
    else this.#disconnect(reader, new Error('too slow'))
  }

  #disconnect(reader: StreamReader, error: unknown): void {
    if (this.#removeReader(reader)) reader.outlet.error(error)
  }

  #endStream(reader: StreamReader): void {
    if (this.#removeReader(reader)) reader.outlet.close()
  }

  /** Removes a reader. The last one ends the subscription. @returns whether it was there */
  #removeReader(reader: StreamReader): boolean {
    if (!this.#readers.delete(reader)) return false
    reader.stopListening()
    reader.disconnected.abort()
    if (this.#readers.size === 0) {
      this.#unsubscribe?.()
      this.#unsubscribe = undefined
      this.#reachedCursor = undefined
      this.#ready = Promise.withResolvers<void>()
    }
    return true
  }
}

const isSameSession = (one: string | undefined, other: string | undefined): boolean =>
  one !== undefined && other !== undefined && sessionKeyOf(one) === sessionKeyOf(other)

/**
 * Whether the session of a reader may have another name than the reader knows: its account and its name do not come
 * together any more. The reader then reads the event in the log, by the name that the session has now.
 */
function mayBeRenamed({ event, session, bot }: PublicEvent, wanted: OpenedEvents['wanted']): boolean {
  if (wanted.session === undefined) return false
  const isNamed = isSameSession(session, wanted.session)
  const previous = event.type === 'session.status' ? event.data.previous_name : undefined
  if (previous !== undefined) return isNamed || isSameSession(previous, wanted.session)
  return bot !== undefined && isNamed !== (bot === wanted.bot)
}

/** Whether an event matches a reader's filter, by the same rules as the event log. */
function matchesFilter({ event, session, bot, user }: PublicEvent, wanted: OpenedEvents['wanted']): boolean {
  return (
    (wanted.types?.includes(event.type) ?? !isNamedOnly(event.type)) &&
    (wanted.session === undefined || isSameSession(session, wanted.session)) &&
    (wanted.user === undefined || user === wanted.user) &&
    (wanted.scope === undefined || isEventInScope(wanted.scope, event.type, bot, user))
  )
}
