/** Requests to the sandbox, and its clock: it lives in one process and is used by others, which outlive it. */
import { type Fetch, type FetchInit, type ILinkError, networkError } from '../ilink/http.ts'
import { sandboxClockHeader } from '../ilink/wire.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'

const askEveryMs = 3000

/** The sandbox's clock, as its last answer told it: what a day later is there is so for the service too. */
export class SandboxClock implements Clock {
  readonly #clock: Clock
  readonly #url: string
  #aheadMs = 0

  /** @param url of the sandbox */
  constructor(clock: Clock, url: string) {
    this.#clock = clock
    this.#url = url
  }

  /** Takes what an answer says. */
  follow(response: Response): void {
    this.#aheadMs = Number(response.headers.get(sandboxClockHeader) ?? this.#aheadMs)
  }

  /** Asks the sandbox; without an answer nothing changes. */
  async ask(fetch: Fetch): Promise<void> {
    const init: FetchInit = { method: 'GET', signal: AbortSignal.timeout(2000) }
    const response = await fetch(`${this.#url}/phone/stats`, init).catch(() => undefined)
    if (response) this.follow(response)
    await response?.body?.cancel()
  }

  /** The same every few seconds until the signal aborts: a process that follows another hears of the time from no poll. */
  async keepAsking(fetch: Fetch, signal: AbortSignal): Promise<void> {
    for (; !signal.aborted; await this.sleep(askEveryMs, signal)) await this.ask(fetch)
  }

  now(): number {
    return this.#clock.now() + this.#aheadMs
  }

  monotonic(): number {
    return this.#clock.monotonic()
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return this.#clock.sleep(ms, signal)
  }
}

/**
 * `fetch` to the simulated WeChat at `url`, whose failures name it as what it is. That it is gone is told once, until it is
 * there again. `clock` follows the one there.
 */
export function sandboxFetch(fetch: Fetch, url: string, log: Log, clock?: SandboxClock): Fetch {
  let told = false
  return async (address: string, init: FetchInit) => {
    try {
      const response = await fetch(address, init)
      told = false
      clock?.follow(response)
      return response
    } catch (error) {
      if (init.signal?.aborted) throw error
      const failed = sandboxError(error, url)
      if (failed.facts.neverSent && !told) {
        told = true
        log.warn(`the simulated WeChat is not there. ${failed.hint}`)
      }
      throw failed
    }
  }
}

/** A failed request to the simulated WeChat at `url`. */
export function sandboxError(error: unknown, url: string): ILinkError {
  // Whoever uses it goes on asking at this address, where a process that follows it takes its place.
  const { port } = new URL(url)
  const keep = `svc sandbox${port && ` --sandbox-port ${port}`}`
  const hint = `It ended with the process that ran it. Try again in some seconds, or keep it running with: ${keep} (for the same directory).`
  return networkError(error, undefined, 'the simulated WeChat', { hint })
}
