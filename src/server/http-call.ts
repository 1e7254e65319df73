/** Calls at the doors of a service, and when they end. */
import { type Call, Delivery } from '../model/call.ts'
import { SvcError } from '../model/error.ts'
import type { Principal } from '../model/principal.ts'
import type { ServiceFacts } from '../model/service.ts'
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
interface Door {
  readonly by: Principal
  readonly waiting: Waiting
  /** A call goes on when the service stops: a download has until the server's grace is over. */
  readonly goesOn?: boolean
}

/** A call that ends when its caller is gone or the service stops. Its signal is made on first use: most calls never ask. */
export class DoorCall implements Call {
  readonly by: Principal
  readonly local: Call['local']
  readonly delivery = new Delivery()
  readonly #door: Door
  readonly #caller: { readonly signal: AbortSignal }
  #linked: Linked | undefined

  /** @param caller what tells when the caller is gone */
  constructor(caller: { readonly signal: AbortSignal }, door: Door, local: Call['local']) {
    this.by = door.by
    this.local = local
    this.#caller = caller
    this.#door = door
  }

  get signal(): AbortSignal {
    const { goesOn, waiting } = this.#door
    if (goesOn) return this.#caller.signal
    this.#linked ??= linked(this.#caller.signal, waiting.signal)
    return this.#linked.signal
  }

  onDelivered(listener: (delivered: boolean) => void): void {
    this.delivery.onDelivered(listener)
  }

  /** Nothing waits for this call any more. */
  end(): void {
    this.#linked?.[Symbol.dispose]()
  }
}

export interface HttpDoor extends Door {
  readonly links?: EventLinks
  readonly service?: ServiceFacts
}

/** One HTTP request as a call. */
export class HttpCall extends DoorCall {
  readonly request: Request
  readonly service: ServiceFacts | undefined
  readonly #links: EventLinks | undefined

  constructor(request: Request, door: HttpDoor) {
    super(request, door, false)
    this.request = request
    this.service = door.service
    this.#links = door.links
  }

  get longestWait(): number | undefined {
    return longestWait(this.request)
  }

  linkEvents(stream: Readonly<Record<string, string>>): { url: string; expires_at: number } {
    if (!this.#links) throw new Error('this door has no links')
    return this.#links.add(stream, prefixOf(this.request) ?? '')
  }
}
