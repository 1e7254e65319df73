/**
 * Live changes for the panel, as server-sent events: messages as they are stored or settled, the sessions, the status.
 * Everything is read and encoded once, however many panels are open, and nothing while none is.
 */
import type { Gateway } from '../../gateway/gateway-api.ts'
import type { Clock } from '../../platform/clock.ts'
import type { Log } from '../../platform/log.ts'
import { eventStream, type Outlet } from '../event-stream.ts'

export interface EventPorts {
  /** What the event `status` carries. */
  status(): Promise<object>
  clock: Clock
  log: Log
}

/** The status leaves no mark anywhere, so it is looked at. */
const lookEveryMs = 1000
const quietMs = 15_000
/** A reader that is this many bytes behind is cut off: it comes again and looks anew. */
const behindBytes = 4 * 1024 * 1024

export class PanelEvents {
  readonly #ports: EventPorts
  /** With each, whether it may still listen. */
  readonly #readers = new Map<Outlet, () => Promise<boolean>>()
  readonly #encoder = new TextEncoder()
  #unsubscribe: (() => void) | undefined
  #looking: AbortController | undefined
  #stopped = false

  constructor(ports: EventPorts) {
    this.#ports = ports
  }

  /** How many panels listen. */
  get readers(): number {
    return this.#readers.size
  }

  /**
   * A stream of events, until the reader goes, may listen no more, or `stop`. The changes that the first reader was
   * given are followed for all.
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

  /** Ends the streams of those who have signed out, or whose sign-in is over. */
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
    const looking = new AbortController()
    this.#looking = looking
    this.#unsubscribe = changes.subscribe({
      message: message => this.#tell(this.#event('message', message, message.id)),
      marked: mark => this.#tell(this.#event(mark.up_to === undefined ? 'unread' : 'read', mark)),
      sessions: (sessions, before) => {
        this.#tell(this.#event('sessions', { sessions }))
        if (before.some(({ name }) => !sessions.some(one => one.name === name)))
          void this.#tellOfNames(looking.signal)
      },
    })
    void this.#look(looking.signal)
  }

  /** Whoever looks in the middle of a rename still finds the messages under the old name: this makes panels look again. */
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

  /** Tells of the status when it changes; and now and then the time, which says that we live. */
  async #look(signal: AbortSignal): Promise<void> {
    const { clock, log, status } = this.#ports
    let told: string | undefined
    let spokeAt = clock.monotonic()
    while (!signal.aborted) {
      try {
        await this.endSignedOut()
        if (signal.aborted) return
        const current = await status()
        const shown = JSON.stringify(current)
        if (told !== undefined && shown !== told) this.#tell(this.#event('status', current))
        told = shown
        if (clock.monotonic() - spokeAt > quietMs) {
          spokeAt = clock.monotonic()
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
