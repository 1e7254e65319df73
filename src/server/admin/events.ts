/**
 * Live changes for the panel, as server-sent events: new and changed messages, sessions, the status. Each
 * change is read and encoded once for all open panels of a caller. Without an open panel, nothing is read.
 */

import type { Gateway } from '../../gateway/gateway-api.ts'
import { type Call, createDirectCall } from '../../model/call.ts'
import { isSvcError } from '../../model/error.ts'
import type { Principal } from '../../model/principal.ts'
import type { ServiceFacts } from '../../model/service.ts'
import type { SessionWithUsers } from '../../model/session.ts'
import type { Clock } from '../../platform/clock.ts'
import type { Log } from '../../platform/log.ts'
import { RoomPart } from '../../platform/runtime.ts'
import { createEventStream, type Outlet } from '../event-stream.ts'
import { beginStream } from '../limits.ts'

interface PanelEventPorts {
  /** Returns the content of the event `status`. */
  getStatus(): Promise<object>
  clock: Clock
  log: Log
  /** Called when the last reader has left. */
  onIdle?(): void
}

/** Interval at which the status is read: nothing announces its changes. */
const pollIntervalMs = 1000
/** Interval of the event `time`. */
const timeIntervalMs = 15_000
/**
 * Maximum unread bytes of one reader. Beyond it the reader is disconnected; it reconnects and loads
 * everything again.
 */
const maxUnreadBytes = 4 * 1024 * 1024

/** A reader of a stream. */
interface ReaderPorts {
  /** Whether it still has access. */
  isAllowed(): Promise<boolean>
  onEnd?: (() => void) | undefined
}

/** How the streams get what a caller may see. */
export interface LivePorts extends Pick<PanelEventPorts, 'clock' | 'log'> {
  service: ServiceFacts
  follow(call: Call): Promise<Gateway['changes']>
  getStatus(call: Call): Promise<object>
}

/** The event streams of all open panels, for each caller only what it may see. */
export class LiveChanges extends RoomPart<LivePorts> {
  readonly #byCaller = new Map<Principal, PanelEvents>()

  /** Opens a stream for a caller. @throws SvcError `forbidden`, `rate_limited` for a key with too many */
  async open(by: Principal, isAllowed: () => Promise<boolean>): Promise<Response> {
    const call = { ...createDirectCall(), by, service: this.ports.service }
    const changes = await this.ports.follow(call)
    const reader = { isAllowed, onEnd: beginStream(by) }
    return (this.#byCaller.get(by) ?? this.#follow(by, call)).open(changes, reader)
  }

  #follow(by: Principal, call: Call): PanelEvents {
    const { clock, getStatus, log } = this.ports
    const events = new PanelEvents({
      clock,
      log,
      getStatus: () =>
        getStatus(call).catch((error: unknown) => {
          if (isSvcError(error) && error.code === 'forbidden') return {}
          throw error
        }),
      onIdle: () => this.#byCaller.delete(by),
    })
    this.#byCaller.set(by, events)
    by.ended?.addEventListener('abort', () => events.stop(), { once: true })
    return events
  }

  /** Ends all streams. */
  stop(): void {
    for (const events of [...this.#byCaller.values()]) events.stop()
  }

  /** Ends the streams of readers that signed out or whose sign-in expired. */
  async endSignedOut(): Promise<void> {
    for (const events of [...this.#byCaller.values()]) await events.endSignedOut()
  }
}

/** The event streams of the open panels of one caller. */
class PanelEvents extends RoomPart<PanelEventPorts> {
  readonly #readers = new Map<Outlet, ReaderPorts>()
  readonly #encoder = new TextEncoder()
  #unsubscribe: (() => void) | undefined
  #polling: AbortController | undefined
  #isStopped = false

  /** Number of open panels. */
  get readers(): number {
    return this.#readers.size
  }

  /**
   * Opens a stream of events. It ends when the reader disconnects or loses access, or at `stop`. The
   * `changes` of the first reader are used for all.
   */
  open(changes: Gateway['changes'], reader: ReaderPorts): Response {
    let own: Outlet
    return createEventStream(maxUnreadBytes, {
      start: outlet => {
        own = outlet
        if (this.#isStopped) {
          reader.onEnd?.()
          return outlet.close()
        }
        this.#readers.set(outlet, reader)
        outlet.enqueue(this.#encodeEvent('hello', {}))
        this.#subscribe(changes)
      },
      cancel: () => this.#removeReader(own),
    })
  }

  /** Ends all streams. */
  stop(): void {
    this.#isStopped = true
    this.#endStreams([...this.#readers.keys()])
  }

  /** Ends the streams of readers that signed out or whose sign-in expired. */
  async endSignedOut(): Promise<void> {
    for (const [reader, { isAllowed }] of [...this.#readers])
      if (!(await isAllowed()) && this.#readers.has(reader)) this.#endStreams([reader])
  }

  #endStreams(readers: Outlet[]): void {
    for (const reader of readers) {
      this.#removeReader(reader)
      reader.close()
    }
  }

  #subscribe(changes: Gateway['changes']): void {
    if (this.#polling) return
    const ending = new AbortController()
    this.#polling = ending
    this.#unsubscribe = changes.subscribe({
      message: message => this.#send(this.#encodeEvent('message', message, message.id)),
      marked: mark => this.#send(this.#encodeEvent(mark.up_to === undefined ? 'unread' : 'read', mark)),
      sessions: (sessions, before) => {
        this.#send(this.#encodeEvent('sessions', { sessions }))
        if (isAnyGone(before, sessions)) void this.#sendNamesLater(ending.signal)
      },
    })
    void this.#pollStatus(ending.signal)
  }

  /**
   * Sends the event `names` a moment after a rename, or after a user was erased. A panel that loaded messages
   * meanwhile may have the old name or the user, and loads them again.
   */
  async #sendNamesLater(signal: AbortSignal): Promise<void> {
    await this.ports.clock.sleep(pollIntervalMs, signal)
    if (!signal.aborted) this.#send(this.#encodeEvent('names', {}))
  }

  #removeReader(reader: Outlet): void {
    this.#readers.get(reader)?.onEnd?.()
    if (!this.#readers.delete(reader) || this.#readers.size > 0) return
    this.#polling?.abort()
    this.#polling = undefined
    this.#unsubscribe?.()
    this.#unsubscribe = undefined
    this.ports.onIdle?.()
  }

  /** Sends the status when it changes, and the time at intervals, which shows that the service runs. */
  async #pollStatus(signal: AbortSignal): Promise<void> {
    const { clock, log, getStatus } = this.ports
    let sent: string | undefined
    let timeSentAt = clock.monotonic()
    while (!signal.aborted) {
      try {
        await this.endSignedOut()
        if (signal.aborted) return
        const current = await getStatus()
        const json = JSON.stringify(current)
        if (sent !== undefined && json !== sent) this.#send(this.#encodeEvent('status', current))
        sent = json
        if (clock.monotonic() - timeSentAt > timeIntervalMs) {
          timeSentAt = clock.monotonic()
          this.#send(this.#encodeEvent('time', { now: clock.now() }))
        }
      } catch (error) {
        if (!signal.aborted) log.warn('the status cannot be read', { error })
      }
      await clock.sleep(pollIntervalMs, signal)
    }
  }

  #send(bytes: Uint8Array): void {
    for (const reader of [...this.#readers.keys()]) {
      if (reader.unreadBytes < maxUnreadBytes) reader.enqueue(bytes)
      else {
        this.#removeReader(reader)
        reader.error(new Error('too slow'))
      }
    }
  }

  #encodeEvent(name: string, data: object, id?: number): Uint8Array {
    const head = id === undefined ? '' : `id: ${id}\n`
    return this.#encoder.encode(`${head}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`)
  }
}

/** Whether a session, or a user of one, is no longer there. */
function isAnyGone(before: readonly SessionWithUsers[], now: readonly SessionWithUsers[]): boolean {
  const idsOf = (all: typeof now) =>
    all.flatMap(({ name, users }) => [name, ...users.map(({ user_id }) => `${name}\n${user_id}`)])
  const there = new Set(idsOf(now))
  return idsOf(before).some(id => !there.has(id))
}
