/**
 * The readers of `GET /events`. Each is given what it missed page by page, as fast as it reads; from then on an event is read and
 * encoded once, however many readers there are.
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

/** A reader that is this many bytes behind is cut off: it comes again and reads on. */
const behindBytes = 256 * 1024
/** Of what it missed no more than this is read ahead of it. */
const aheadBytes = 16 * 1024
/** One that takes nothing of what it missed for so long is cut off too. */
const stuckMs = 60_000
/** That a named reader is there is noted this often. */
const seenEveryMs = 60 * 60_000
/** A comment goes at least this often. */
const quietMs = 7000
const pageEvents = 100

interface Reader {
  readonly events: OpenedEvents
  /** Everything up to here was given to it. */
  cursor: string
  readonly outlet: Outlet
  /** It is given what comes, as it comes. */
  live: boolean
  /** Aborts when it is gone. */
  readonly gone: AbortController
  /** Stops listening for a stop of the service. */
  stay(): void
  /** Called when it has room again. */
  hasRoom?: () => void
}

const encoder = new TextEncoder()
const encode = (event: Event) => encoder.encode(`id: ${event.id}\ndata: ${JSON.stringify(event)}\n\n`)

export class EventStreams {
  readonly #context: RouteContext
  readonly #readers = new Set<Reader>()
  /** Of those who are given what they missed. */
  readonly #turns = new SharedTurns(systemClock)
  #unsubscribe: (() => void) | undefined
  /** Up to here live readers were told everything. */
  #reached: string | undefined
  #ready = Promise.withResolvers<void>()

  constructor(context: RouteContext) {
    this.#context = context
  }

  /** A stream of events, until the reader goes or the service stops. */
  open(events: OpenedEvents): Response {
    const { waiting } = this.#context
    const gone = new AbortController()
    const stay = following(waiting.signal, gone)
    let reader: Reader
    return eventStream(behindBytes, {
      start: outlet => {
        reader = { events, outlet, cursor: events.cursor, live: false, gone, stay }
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
    // With the place at once: who is cut off before the first event reads on from here.
    reader.outlet.enqueue(encoder.encode(`: svc\nid: ${reader.cursor}\n\n`))
    this.#catchUp(reader).catch(error => {
      if (!reader.gone.signal.aborted) this.#context.log.warn('an event stream was cut off', { error })
      this.#cut(reader, error)
    })
  }

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
      const given = await this.#giveMissed(reader, page.events)
      if (signal.aborted) return
      if (given < page.events.length) {
        limit = Math.max(1, given)
        continue
      }
      limit = Math.min(limit * 2, pageEvents)
      reader.cursor = page.cursor
      await this.#ready.promise
      // From here to the next event nothing is awaited.
      if (this.#reached === undefined || placeOf(reader.cursor) < placeOf(this.#reached)) continue
      reader.live = true
      return
    }
  }

  /**
   * As far as it has room, or has it in the next round of the event loop. What has none is read again later: of thousands who
   * do not read, none holds a page meanwhile. @returns how many it was given
   */
  async #giveMissed(reader: Reader, missed: readonly ToldEvent[]): Promise<number> {
    const { gone, outlet } = reader
    for (const [nth, { event }] of missed.entries()) {
      if (outlet.waiting > aheadBytes) await new Promise(resolve => setImmediate(resolve))
      if (gone.signal.aborted || outlet.waiting > aheadBytes) return nth
      outlet.enqueue(encode(event))
      reader.cursor = event.id
    }
    return missed.length
  }

  /** Resolves when it has room. @throws Error when that takes too long */
  async #room(reader: Reader): Promise<void> {
    while (reader.outlet.waiting > aheadBytes && !reader.gone.signal.aborted) {
      const over = new AbortController()
      const leave = following(reader.gone.signal, over)
      reader.hasRoom = () => over.abort()
      await this.#context.clock.sleep(stuckMs, over.signal)
      leave()
      delete reader.hasRoom
      if (!over.signal.aborted) throw new Error('too slow')
    }
  }

  /** Everybody's events are followed once, by what the first reader has opened. */
  #begin(events: OpenedEvents): void {
    if (this.#unsubscribe) return
    const looking = new AbortController()
    const stop = events.subscribe({
      event: event => this.#tell(event),
      reached: cursor => {
        this.#reached = cursor
        this.#ready.resolve()
      },
    })
    this.#unsubscribe = () => {
      looking.abort()
      stop()
    }
    void this.#saySo(looking.signal)
  }

  #tell(told: ToldEvent): void {
    this.#reached = told.event.id
    let bytes: Uint8Array | undefined
    for (const reader of [...this.#readers]) {
      if (!reader.live || !fits(told, reader.events.wanted)) continue
      // It caught up while this one was on its way.
      if (placeOf(told.event.id) <= placeOf(reader.cursor)) continue
      bytes ??= encode(told.event)
      reader.cursor = told.event.id
      this.#give(reader, bytes)
    }
  }

  /** Sends the comment that keeps a stream open, with its place for readers that no event concerned. */
  async #saySo(signal: AbortSignal): Promise<void> {
    const { clock } = this.#context
    for (let seenAt = clock.monotonic(); !signal.aborted; ) {
      await clock.sleep(quietMs, signal)
      if (signal.aborted) return
      if (clock.monotonic() - seenAt >= seenEveryMs) {
        seenAt = clock.monotonic()
        this.#noteSeen()
      }
      const here = encoder.encode(': here\n\n')
      const place = encoder.encode(`: here\nid: ${this.#reached}\n\n`)
      for (const reader of [...this.#readers])
        if (reader.live) this.#give(reader, place)
        else if (reader.outlet.waiting < behindBytes) reader.outlet.enqueue(here)
    }
  }

  #noteSeen(): void {
    const { log } = this.#context
    const named = new Map([...this.#readers].map(({ events }) => [events.consumer, events]))
    for (const events of named.values())
      events.seen().catch(error => log.warn('a reader of events was not noted', { error }))
  }

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

  /** @returns whether it was there */
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

/** The same choice as that of the log. */
function fits({ event, session, user }: ToldEvent, wanted: OpenedEvents['wanted']): boolean {
  return (
    wanted.types?.includes(event.type) !== false &&
    (wanted.session === undefined ||
      (session !== undefined && sessionKey(session) === sessionKey(wanted.session))) &&
    (wanted.user === undefined || user === wanted.user)
  )
}
