/** Calls without the right token: counted, logged and slowed down per address. */
import { SvcError } from '../model/error.ts'
import { networkOf } from '../platform/address.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import { RoomPart } from '../platform/runtime.ts'
import { toProblemResponse } from './errors.ts'

/** Calls without the right token that an address, of IPv6 a network (/64), may make per minute without a delay. */
const freeAttempts = 100
const delayMs = 1000
/** Maximum delayed calls of one address, and of all. Further calls are rejected immediately. */
const maxDelayedOfAddress = 20
const maxDelayed = 500
const minuteMs = 60_000
/** Maximum addresses in memory. Beyond it, the oldest is removed. */
const maxAddresses = 10_000

/** Calls of one address without the right token. */
interface AttemptCount {
  /** Start of the minute that is counted (monotonic ms). */
  since: number
  count: number
  /** Calls that are being delayed. */
  waiting: number
}

interface FailedAttemptsOptions {
  readonly log: Log
  readonly clock?: Clock
  /** Called with the address of each call without the right token. */
  readonly onFailure?: (address: string, operation?: 'sign_in' | 'join') => void
}

/**
 * Slows down calls without the right token. Calls with the right token never come here, so no caller can
 * lock out another, not even behind the same proxy. So this does not protect a weak token against guessing.
 * A service that others can reach rejects a weak token at its start. The delay saves work and connections.
 */
export class FailedAttempts extends RoomPart<FailedAttemptsOptions> {
  readonly #clock = this.ports.clock ?? systemClock
  readonly #addresses = new Map<string, AttemptCount>()
  #waiting = 0

  /**
   * Passes a response on. A 401, for a wrong link (`join`) a 404, is delayed, or replaced by `rate_limited`, and closes its connection. Other
   * responses do not change.
   *
   * @param address of the caller
   * @param operation what the caller tried, if it is no call with a token
   */
  throttle(given: Response, address = '', operation?: 'sign_in' | 'join'): Response | Promise<Response> {
    if (given.status !== (operation === 'join' ? 404 : 401)) return given
    given.headers.set('connection', 'close')
    this.ports.onFailure?.(address, operation)
    const tries = this.#countAttempt(address)
    if (tries.count <= freeAttempts) return given
    if (tries.waiting < maxDelayedOfAddress && this.#waiting < maxDelayed) return this.#delay(given, tries)
    const retryAfter = (tries.since + minuteMs - this.#clock.monotonic()) / 1000
    const refusal = new SvcError('rate_limited', 'This address made too many calls without the right token', {
      retryAfter: Math.max(1, Math.ceil(retryAfter)),
      hint: 'Send the right token: such calls are answered without a delay.',
    })
    return toProblemResponse(refusal, { connection: 'close' })
  }

  async #delay(given: Response, tries: AttemptCount): Promise<Response> {
    tries.waiting++
    this.#waiting++
    await this.#clock.sleep(delayMs)
    tries.waiting--
    this.#waiting--
    return given
  }

  /** Counts a call. Logs each address once a minute, with the number of calls in the minute before. */
  #countAttempt(address: string): AttemptCount {
    const now = this.#clock.monotonic()
    const network = networkOf(address)
    const known = this.#addresses.get(network)
    const tries =
      known && now - known.since < minuteMs ? known : { since: now, count: 0, waiting: known?.waiting ?? 0 }
    tries.count++
    if (tries === known) return tries
    this.ports.log.warn('calls without the right token', { address, calls: known?.count ?? 1 })
    this.#addresses.delete(network)
    this.#addresses.set(network, tries)
    const [oldest] = this.#addresses.keys()
    if (oldest !== undefined && this.#addresses.size > maxAddresses) this.#addresses.delete(oldest)
    return tries
  }
}
