/** Calls of a service, and their end when the caller disconnects or the service stops. */

import { usageOf } from '../access/usage.ts'
import { type Call, Delivery } from '../model/call.ts'
import { SvcError } from '../model/error.ts'
import type { Principal } from '../model/principal.ts'
import type { ServiceFacts } from '../model/service.ts'
import { type LinkedSignal, linkSignals } from '../platform/signals.ts'
import { maxWaitOf, prefixOf } from './behind-proxy.ts'
import { callerAddressOf, principalOf, requestIdOf } from './caller.ts'
import type { EventLinks } from './event-links.ts'

/** Signals the stop of the service to all calls, and before that the end of waiting. */
export class ShutdownSignal {
  readonly #stop = new AbortController()
  readonly #drain = new AbortController()

  /** Aborts when the service stops. Each call then gives its normal answer, a long poll an empty one. */
  get signal(): AbortSignal {
    return this.#stop.signal
  }

  /** Aborts when calls that wait, and streams, have to end. Other calls go on until the stop. */
  get draining(): AbortSignal {
    return this.#drain.signal
  }

  /** The error for new calls after the stop; undefined while the service runs. */
  get stopError(): SvcError | undefined {
    return this.signal.reason
  }

  drain(): void {
    this.#drain.abort(new SvcError('shutting_down', 'The service is stopping'))
  }

  stop(): void {
    this.drain()
    this.#stop.abort(this.draining.reason)
  }
}

/** Facts about the interface that a call came through. */
interface CallInterface {
  /** The caller of a request on which none is noted. */
  readonly by: Principal
  readonly shutdown: ShutdownSignal
  /**
   * True if a call continues when the service stops: a download has until the end of the server's grace
   * period.
   */
  readonly survivesStop?: boolean
}

/**
 * A call that ends when its caller disconnects, its key ends or the service stops. Its signal is created on first use,
 * since most calls do not use it.
 */
export class InterfaceCall implements Call {
  readonly by: Principal
  readonly local: Call['local']
  readonly delivery = new Delivery()
  readonly #door: CallInterface
  readonly #caller: { readonly signal: AbortSignal }
  #linked: LinkedSignal | undefined
  #endWait: (() => void) | undefined

  /** @param caller its signal aborts when the caller has disconnected */
  constructor(
    caller: { readonly signal: AbortSignal },
    door: CallInterface,
    local: Call['local'],
    by: Principal = door.by,
  ) {
    this.by = by
    this.local = local
    this.#caller = caller
    this.#door = door
  }

  get signal(): AbortSignal {
    const { survivesStop, shutdown } = this.#door
    const { ended } = this.by
    if (survivesStop && !ended) return this.#caller.signal
    this.#linked ??= linkSignals(this.#caller.signal, survivesStop ? undefined : shutdown.signal, ended)
    return this.#linked.signal
  }

  onDelivered(listener: (delivered: boolean) => void, written?: () => void): void {
    this.delivery.onDelivered(listener, written)
  }

  /** Counts the call as a waiting one of its key. @throws SvcError `rate_limited` */
  beginWait(): void {
    this.#endWait ??= usageOf(this.by)?.beginWait()
    // The getter makes the link.
    if (!this.signal.aborted) this.#linked?.follow(this.#door.shutdown.draining)
  }

  /** Counts bytes for the key. @throws SvcError `rate_limited` */
  countBytes(count: number): void {
    usageOf(this.by)?.countBytes(count)
  }

  /** Releases the call's listeners. Call it when the answer exists. */
  end(): void {
    this.#linked?.[Symbol.dispose]()
    this.#endWait?.()
  }
}

/** Facts about an HTTP interface. */
export interface HttpInterface extends CallInterface {
  readonly links?: EventLinks
  readonly service?: ServiceFacts
}

/** One HTTP request as a call. */
export class HttpCall extends InterfaceCall {
  readonly request: Request
  readonly service: ServiceFacts | undefined
  readonly #links: EventLinks | undefined

  constructor(request: Request, door: HttpInterface) {
    super(request, door, false, principalOf(request))
    this.request = request
    this.service = door.service
    this.#links = door.links
  }

  get address(): string | undefined {
    return callerAddressOf(this.request)
  }

  get requestId(): string {
    return requestIdOf(this.request)
  }

  get longestWait(): number | undefined {
    return maxWaitOf(this.request)
  }

  async linkEvents(stream: Readonly<Record<string, string>>): Promise<{ url: string; expires_at: number }> {
    if (!this.#links) throw new Error('this service has no event links')
    return this.#links.add(stream, prefixOf(this.request) ?? '', this.by)
  }
}
