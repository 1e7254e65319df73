/**
 * Calls without the right token: slowed per address, and told in the log.
 *
 * The token is looked at first, so a call with the right one never comes here, and nobody locks anybody else out, behind
 * one proxy either. It follows that no delay keeps a token from being guessed: that takes a token that cannot be, and
 * where others can reach the service one that can is refused at the start. What this saves is work and connections.
 */
import { SvcError } from '../model/error.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Peer } from '../platform/serve.ts'
import { problemResponse } from './errors.ts'

/** An address has so many answers a minute at once; each further one waits. */
const freeTries = 100
const waitMs = 1000
/** More than so many do not wait, of one address and of all: they are refused at once. */
const waitingOfOne = 20
const waitingOfAll = 500
const minuteMs = 60_000
/** Of more addresses than these the oldest are forgotten. */
const maxAddresses = 10_000

interface Tries {
  since: number
  count: number
  waiting: number
}

export class FailedTries {
  readonly #log: Log
  readonly #clock: Clock
  readonly #addresses = new Map<string, Tries>()
  #waiting = 0

  constructor({ log, clock = systemClock }: { log: Log; clock?: Clock }) {
    this.#log = log
    this.#clock = clock
  }

  /** A 401 at its time, or `rate_limited` in its place, with the end of its connection; any other answer as it is. */
  answer(given: Response, peer: Peer | undefined): Response | Promise<Response> {
    if (given.status !== 401) return given
    given.headers.set('connection', 'close')
    const tries = this.#count(peer?.remoteAddress ?? '')
    if (tries.count <= freeTries) return given
    if (tries.waiting < waitingOfOne && this.#waiting < waitingOfAll) return this.#late(given, tries)
    const retryAfter = (tries.since + minuteMs - this.#clock.monotonic()) / 1000
    const refusal = new SvcError('rate_limited', 'Too many calls of this address have no right token', {
      retryAfter: Math.max(1, Math.ceil(retryAfter)),
      hint: 'Send the right token; calls that do are answered at once.',
    })
    return problemResponse(refusal, { connection: 'close' })
  }

  async #late(given: Response, tries: Tries): Promise<Response> {
    tries.waiting++
    this.#waiting++
    await this.#clock.sleep(waitMs)
    tries.waiting--
    this.#waiting--
    return given
  }

  /** The log hears of an address once a minute, with what came in the minute before. */
  #count(address: string): Tries {
    const now = this.#clock.monotonic()
    const known = this.#addresses.get(address)
    const tries =
      known && now - known.since < minuteMs ? known : { since: now, count: 0, waiting: known?.waiting ?? 0 }
    tries.count++
    if (tries === known) return tries
    this.#log.warn('calls without the right token', { address, calls: known?.count ?? 1 })
    this.#addresses.delete(address)
    this.#addresses.set(address, tries)
    const [oldest] = this.#addresses.keys()
    if (oldest !== undefined && this.#addresses.size > maxAddresses) this.#addresses.delete(oldest)
    return tries
  }
}
