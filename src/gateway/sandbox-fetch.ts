/**
 * Requests to the sandbox, and its clock. The sandbox runs in one process; other processes use it and may
 * outlive it.
 */
import { type Fetch, type FetchInit, type ILinkError, networkErrorOf } from '../ilink/http.ts'
import { sandboxClockHeader } from '../ilink/wire.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import { RoomPart } from '../platform/runtime.ts'

const askEveryMs = 3000

/**
 * The sandbox's clock, from its last answer. If the sandbox's time is set a day ahead, so is the service's.
 */
export class SandboxClock extends RoomPart<{ clock: Clock; url: string }> implements Clock {
  #aheadMs = 0

  /** Takes over the time in an answer. */
  takeTime(response: Response): void {
    this.#aheadMs = Number(response.headers.get(sandboxClockHeader) ?? this.#aheadMs)
  }

  /** Asks the sandbox for its time. Changes nothing if there is no answer. */
  async ask(fetch: Fetch): Promise<void> {
    const init: FetchInit = { method: 'GET', signal: AbortSignal.timeout(2000) }
    const response = await fetch(`${this.ports.url}/phone/stats`, init).catch(() => undefined)
    if (response) this.takeTime(response)
    await response?.body?.cancel()
  }

  /**
   * Calls `ask` every few seconds until the signal aborts. A process that does not poll gets the time from
   * no poll.
   */
  async keepAsking(fetch: Fetch, signal: AbortSignal): Promise<void> {
    for (; !signal.aborted; await this.sleep(askEveryMs, signal)) await this.ask(fetch)
  }

  now(): number {
    return this.ports.clock.now() + this.#aheadMs
  }

  monotonic(): number {
    return this.ports.clock.monotonic()
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return this.ports.clock.sleep(ms, signal)
  }
}

/**
 * Wraps `fetch` for the simulated WeChat at `url`: its errors name the simulated WeChat. A missing sandbox
 * is logged once, until it is back. `clock` takes over the time in each answer.
 */
export function wrapFetchToSandbox(fetch: Fetch, url: string, log: Log, clock?: SandboxClock): Fetch {
  let isLogged = false
  return async (address: string, init: FetchInit) => {
    try {
      const response = await fetch(address, init)
      isLogged = false
      clock?.takeTime(response)
      return response
    } catch (error) {
      if (init.signal?.aborted) throw error
      const failed = sandboxError(error, url)
      if (failed.facts.neverSent && !isLogged) {
        isLogged = true
        log.warn(`the simulated WeChat is not there. ${failed.hint}`)
      }
      throw failed
    }
  }
}

/** Returns the error of a failed request to the simulated WeChat at `url`. */
export function sandboxError(error: unknown, url: string): ILinkError {
  // Use the same port: processes keep asking there, and a process that follows the sandbox takes over its
  // address.
  const { port } = new URL(url)
  const keep = `svc sandbox${port && ` --sandbox-port ${port}`}`
  const hint = `It ended with the process that ran it. Try again in some seconds, or keep it running with: ${keep} (for the same directory).`
  return networkErrorOf(error, undefined, 'the simulated WeChat', { hint })
}
