/**
 * One HTTP request as a call: when it ends.
 *
 * Everything here is made only when a tool asks for it, since most calls (sessions, history) never do.
 */
import { type Call, Delivery } from '../model/call.ts'
import { SvcError } from '../model/error.ts'
import type { Principal } from '../model/principal.ts'
import { type Linked, linked } from '../platform/signals.ts'
import { longestWait, prefixOf } from './behind-proxy.ts'
import type { EventLinks } from './event-links.ts'

/** Tells all that waits when the service stops. */
export class Waiting {
  readonly #stop = new AbortController()

  /** Aborts then; each call gives its normal answer, a long poll an empty one. */
  get signal(): AbortSignal {
    return this.#stop.signal
  }

  /** Why no new call is taken; `undefined` while the service runs. */
  get stopped(): SvcError | undefined {
    return this.signal.reason
  }

  stop(): void {
    this.#stop.abort(new SvcError('shutting_down', 'The service is stopping'))
  }
}

/** What a call knows of the door that it came through. */
export interface HttpDoor {
  readonly by: Principal
  readonly waiting: Waiting
  readonly links?: EventLinks
  /** A call goes on when the service stops: a download has until the server's grace is over. */
  readonly goesOn?: boolean
}

export class HttpCall implements Call {
  readonly by: Principal
  readonly local = false
  readonly delivery = new Delivery()
  readonly request: Request
  readonly #door: HttpDoor
  #linked: Linked | undefined

  constructor(request: Request, door: HttpDoor) {
    this.by = door.by
    this.request = request
    this.#door = door
  }

  get signal(): AbortSignal {
    const { goesOn, waiting } = this.#door
    if (goesOn) return this.request.signal
    this.#linked ??= linked(this.request.signal, waiting.signal)
    return this.#linked.signal
  }

  linkEvents(stream: Readonly<Record<string, string>>): { url: string; expires_at: number } {
    const { links } = this.#door
    if (!links) throw new Error('this door has no links')
    return links.add(stream, prefixOf(this.request) ?? '')
  }

  get longestWait(): number | undefined {
    return longestWait(this.request)
  }

  onDelivered(listener: (delivered: boolean) => void): void {
    this.delivery.onDelivered(listener)
  }

  /** Nothing waits for this call any more. */
  end(): void {
    this.#linked?.[Symbol.dispose]()
  }
}
