/**
 * Live changes for the panel, as server-sent events: new and changed messages, sessions, the status. Each
 * change is read and encoded once for all open panels. Without an open panel, nothing is read.
 */
import type { Gateway } from '../../gateway/gateway-api.ts'
import type { Clock } from '../../platform/clock.ts'
import type { Log } from '../../platform/log.ts'
import { eventStream, type Outlet } from '../event-stream.ts'

export interface EventPorts {
  /** Returns the content of the event `status`. */
  status(): Promise<object>
  clock: Clock
  log: Log
}

/** Interval at which the status is read: nothing announces its changes. */
const lookEveryMs = 1000
/** Interval of the event `time`. */
const quietMs = 15_000
/**
 * Maximum unread bytes of one reader. Beyond it the reader is disconnected; it reconnects and loads
 * everything again.
 */
const behindBytes = 4 * 1024 * 1024

/** The event streams of all open panels. */
export class PanelEvents {
  readonly #ports: EventPorts
  /** The readers. Each has a function that returns whether it still has access. */
  readonly #readers = new Map<Outlet, () => Promise<boolean>>()
  readonly #encoder = new TextEncoder()
  #unsubscribe: (() => void) | undefined
  #looking: AbortController | undefined
  #stopped = false

  constructor(ports: EventPorts) {
    this.#ports = ports
  }

  /** Number of open panels. */
  get readers(): number {
    return this.#readers.size
  }

  /**
   * Opens a stream of events. It ends when the reader disconnects or loses access, or at `stop`. The
   * `changes` of the first reader are used for all.
   */
  open(changes: Gateway['changes'], allowed: () => Promise<boolean>): Response {
    let own: Outlet
    return eventStream(behindBytes, {
      start: outlet => {
        own = outlet
        if (this.#stopped) return outlet.close()
        this.#readers.set(outlet, allowed)
        outlet.enqueue(this.#event('hello', {}))
        this.#begin(changes)
      },
      cancel: () => this.#leave(own),
    })
  }

  /** Ends all streams. */
  stop(): void {
    this.#stopped = true
    this.#end([...this.#readers.keys()])
  }

  /** Ends the streams of readers that signed out or whose sign-in expired. */
  async endSignedOut(): Promise<void> {
    for (const [reader, allowed] of [...this.#readers])
      if (!(await allowed()) && this.#readers.has(reader)) this.#end([reader])
  }

  #end(readers: Outlet[]): void {
    for (const reader of readers) {
      this.#leave(reader)
      reader.close()
    }
  }

  #begin(changes: Gateway['changes']): void {
    if (this.#looking) return
    const ending = new AbortController()
    this.#looking = ending
    this.#unsubscribe = changes.subscribe({
      message: message => this.#tell(this.#event('message', message, message.id)),
      marked: mark => this.#tell(this.#event(mark.up_to === undefined ? 'unread' : 'read', mark)),
      sessions: (sessions, before) => {
        this.#tell(this.#event('sessions', { sessions }))
        if (before.some(({ name }) => !sessions.some(session => session.name === name)))
          void this.#tellOfNames(ending.signal)
      },
    })
    void this.#look(ending.signal)
  }

  /**
   * Sends the event `names` a moment after a rename. A panel that loaded messages during the rename may
   * have the old name, and loads them again.
   */
  async #tellOfNames(signal: AbortSignal): Promise<void> {
    await this.#ports.clock.sleep(lookEveryMs, signal)
    if (!signal.aborted) this.#tell(this.#event('names', {}))
  }

  #leave(reader: Outlet): void {
    if (!this.#readers.delete(reader) || this.#readers.size > 0) return
    this.#looking?.abort()
    this.#looking = undefined
    this.#unsubscribe?.()
    this.#unsubscribe = undefined
  }

  /** Sends the status when it changes, and the time at intervals, which shows that the service runs. */
  async #look(signal: AbortSignal): Promise<void> {
    const { clock, log, status } = this.#ports
    let sent: string | undefined
    let timeSentAt = clock.monotonic()
    while (!signal.aborted) {
      try {
        await this.endSignedOut()
        if (signal.aborted) return
        const current = await status()
        const json = JSON.stringify(current)
        if (sent !== undefined && json !== sent) this.#tell(this.#event('status', current))
        sent = json
        if (clock.monotonic() - timeSentAt > quietMs) {
          timeSentAt = clock.monotonic()
          this.#tell(this.#event('time', { now: clock.now() }))
        }
      } catch (error) {
        if (!signal.aborted) log.warn('the status cannot be read', { error })
      }
      await clock.sleep(lookEveryMs, signal)
    }
  }

  #tell(bytes: Uint8Array): void {
    for (const reader of [...this.#readers.keys()]) {
      if (reader.waiting < behindBytes) reader.enqueue(bytes)
      else {
        this.#leave(reader)
        reader.error(new Error('too slow'))
      }
    }
  }

  #event(name: string, data: object, id?: number): Uint8Array {
    const head = id === undefined ? '' : `id: ${id}\n`
    return this.#encoder.encode(`${head}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`)
  }
}
