/**
 * The readers of `GET /events`. Each reader first catches up: it gets missed events page by page, as fast
 * as it reads. Then it is live: each new event is read and encoded once for all live readers.
 */
import type { Event } from '../model/event.ts'
import { sessionKey } from '../model/session.ts'
import type { OpenedEvents } from '../operations/events.ts'
import { SharedTurns, systemClock } from '../platform/clock.ts'
import { following } from '../platform/signals.ts'
import type { ToldEvent } from '../push/events.ts'
import { placeOf } from '../storage/events.ts'
import { eventStream, type Outlet } from './event-stream.ts'
import type { RouteContext } from './route.ts'

/**
 * Maximum unread bytes of one reader. Beyond it the reader is disconnected; it can reconnect and continue.
 */
const behindBytes = 256 * 1024
/** A reader that catches up gets more events only if it has at most this many unread bytes. */
const aheadBytes = 16 * 1024
/** A reader that catches up is disconnected if it reads nothing for this time. */
const stuckMs = 60_000
/** Interval at which active named readers are recorded. */
const seenEveryMs = 60 * 60_000
/** Interval of comments that keep a stream open. */
const quietMs = 7000
const pageEvents = 100

/** A client of `GET /events`. */
interface Reader {
  readonly events: OpenedEvents
  /** The reader got all events up to here. */
  cursor: string
  readonly outlet: Outlet
  /** True once the reader has caught up and gets new events. */
  live: boolean
  /** Aborts when the reader has disconnected or the service stops. */
  readonly gone: AbortController
  /** Removes the listener for the stop of the service. */
  stay(): void
  /** Called when the reader has read something. */
  hasRoom?: () => void
}

const encoder = new TextEncoder()
const encode = (event: Event) => encoder.encode(`id: ${event.id}\ndata: ${JSON.stringify(event)}\n\n`)

/** All event streams of a service. */
export class EventStreams {
  readonly #context: RouteContext
  readonly #readers = new Set<Reader>()
  /** Shares the event loop among readers that catch up. */
  readonly #turns = new SharedTurns(systemClock)
  #unsubscribe: (() => void) | undefined
  /** Live readers got all events up to here. */
  #reached: string | undefined
  #ready = Promise.withResolvers<void>()

  constructor(context: RouteContext) {
    this.#context = context
  }

  /** Opens a stream of events. It ends when the reader disconnects or the service stops. */
  open(events: OpenedEvents): Response {
    const { waiting } = this.#context
    const abort = new AbortController()
    const unfollow = following(waiting.signal, abort)
    let reader: Reader
    return eventStream(behindBytes, {
      start: outlet => {
        reader = { events, outlet, cursor: events.cursor, live: false, gone: abort, stay: unfollow }
        this.#join(reader)
      },
      pull: () => reader.hasRoom?.(),
      cancel: () => void this.#leave(reader),
    })
  }

  #join(reader: Reader): void {
    this.#readers.add(reader)
    reader.gone.signal.addEventListener('abort', () => this.#end(reader), { once: true })
    if (reader.gone.signal.aborted) {
      this.#end(reader)
      return
    }
    this.#begin(reader.events)
    // Send the position immediately: a reader that disconnects before the first event continues from here.
    reader.outlet.enqueue(encoder.encode(`: svc\nid: ${reader.cursor}\n\n`))
    this.#catchUp(reader).catch(error => {
      if (!reader.gone.signal.aborted) this.#context.log.warn('an event stream was disconnected', { error })
      this.#cut(reader, error)
    })
  }

  /** Sends a reader the events that it missed, until it is live. @throws Error if it does not read */
  async #catchUp(reader: Reader): Promise<void> {
    const { signal } = reader.gone
    const turn = this.#turns.join()
    let lost: string | undefined
    for (let limit = pageEvents; !signal.aborted; ) {
      await this.#room(reader)
      const page = await reader.events.page(reader.cursor, limit, turn)
      if (signal.aborted) return
      if (page.gone && lost !== reader.cursor) {
        lost = reader.cursor
        reader.outlet.enqueue(encoder.encode(`event: gone\ndata: {"after":"${lost}"}\n\n`))
      }
      const sent = await this.#giveMissed(reader, page.events)
      if (signal.aborted) return
      if (sent < page.events.length) {
        limit = Math.max(1, sent)
        continue
      }
      limit = Math.min(limit * 2, pageEvents)
      reader.cursor = page.cursor
      await this.#ready.promise
      // No `await` from here on, so no new event is missed.
      if (this.#reached === undefined || placeOf(reader.cursor) < placeOf(this.#reached)) continue
      reader.live = true
      return
    }
  }

  /**
   * Sends events of a page to a reader as long as it reads them. The rest is read from the log again later,
   * so thousands of readers that do not read keep no page in memory.
   *
   * @returns how many events were sent
   */
  async #giveMissed(reader: Reader, missed: readonly ToldEvent[]): Promise<number> {
    const { gone, outlet } = reader
    for (const [index, { event }] of missed.entries()) {
      if (outlet.waiting > aheadBytes) await new Promise(resolve => setImmediate(resolve))
      if (gone.signal.aborted || outlet.waiting > aheadBytes) return index
      outlet.enqueue(encode(event))
      reader.cursor = event.id
    }
    return missed.length
  }

  /** Waits until a reader has few unread bytes. @throws Error if this takes too long */
  async #room(reader: Reader): Promise<void> {
    while (reader.outlet.waiting > aheadBytes && !reader.gone.signal.aborted) {
      const wait = new AbortController()
      const unfollow = following(reader.gone.signal, wait)
      reader.hasRoom = () => wait.abort()
      await this.#context.clock.sleep(stuckMs, wait.signal)
      unfollow()
      delete reader.hasRoom
      if (!wait.signal.aborted) throw new Error('too slow')
    }
  }

  /** Subscribes to events once for all readers, through the first reader's `events`. */
  #begin(events: OpenedEvents): void {
    if (this.#unsubscribe) return
    const ending = new AbortController()
    const stop = events.subscribe({
      event: event => this.#tell(event),
      reached: cursor => {
        this.#reached = cursor
        this.#ready.resolve()
      },
    })
    this.#unsubscribe = () => {
      ending.abort()
      stop()
    }
    void this.#saySo(ending.signal)
  }

  /** Sends a new event to all live readers whose filter it matches. */
  #tell(published: ToldEvent): void {
    this.#reached = published.event.id
    let bytes: Uint8Array | undefined
    for (const reader of [...this.#readers]) {
      if (!reader.live || !fits(published, reader.events.wanted)) continue
      // The reader may have got this event while it caught up.
      if (placeOf(published.event.id) <= placeOf(reader.cursor)) continue
      bytes ??= encode(published.event)
      reader.cursor = published.event.id
      this.#give(reader, bytes)
    }
  }

  /**
   * Sends the comments that keep streams open. Live readers get their position too, as their filter may
   * skip events.
   */
  async #saySo(signal: AbortSignal): Promise<void> {
    const { clock } = this.#context
    for (let recordedAt = clock.monotonic(); !signal.aborted; ) {
      await clock.sleep(quietMs, signal)
      if (signal.aborted) return
      if (clock.monotonic() - recordedAt >= seenEveryMs) {
        recordedAt = clock.monotonic()
        this.#noteSeen()
      }
      const comment = encoder.encode(': here\n\n')
      const position = encoder.encode(`: here\nid: ${this.#reached}\n\n`)
      for (const reader of [...this.#readers])
        if (reader.live) this.#give(reader, position)
        else if (reader.outlet.waiting < behindBytes) reader.outlet.enqueue(comment)
    }
  }

  /** Records all named readers as active. */
  #noteSeen(): void {
    const { log } = this.#context
    const named = new Map([...this.#readers].map(({ events }) => [events.consumer, events]))
    for (const events of named.values())
      events.seen().catch(error => log.warn('an active reader of events was not recorded', { error }))
  }

  /** Sends bytes to a reader, or disconnects it if it has too many unread bytes. */
  #give(reader: Reader, bytes: Uint8Array): void {
    if (reader.outlet.waiting < behindBytes) reader.outlet.enqueue(bytes)
    else this.#cut(reader, new Error('too slow'))
  }

  #cut(reader: Reader, error: unknown): void {
    if (this.#leave(reader)) reader.outlet.error(error)
  }

  #end(reader: Reader): void {
    if (this.#leave(reader)) reader.outlet.close()
  }

  /** Removes a reader. The last one ends the subscription. @returns whether it was there */
  #leave(reader: Reader): boolean {
    if (!this.#readers.delete(reader)) return false
    reader.stay()
    reader.gone.abort()
    if (this.#readers.size === 0) {
      this.#unsubscribe?.()
      this.#unsubscribe = undefined
      this.#reached = undefined
      this.#ready = Promise.withResolvers<void>()
    }
    return true
  }
}

/** Whether an event matches a reader's filter, by the same rules as the event log. */
function fits({ event, session, user }: ToldEvent, wanted: OpenedEvents['wanted']): boolean {
  return (
    wanted.types?.includes(event.type) !== false &&
    (wanted.session === undefined ||
      (session !== undefined && sessionKey(session) === sessionKey(wanted.session))) &&
    (wanted.user === undefined || user === wanted.user)
  )
}
