/**
 * Knows after how many ms a proxy in front of WeChat ends long polls.
 *
 * Such an end brings no messages and means nothing else. The next polls of that address are then expected
 * to end after the same time, so that a dead connection is noticed earlier. We do not end the poll
 * ourselves at that time: a message may be on its way in it, and WeChat may not send that message again.
 */
import { isILinkError } from '../ilink/http.ts'

/**
 * A poll answered later than this was held, so no message was waiting for it. A new connection to a distant
 * server takes a second.
 */
export const heldMs = 4000

export class ProxyLimits {
  /** After how many ms a proxy ends a poll, by address. */
  readonly #ms = new Map<string, number>()

  /** Returns how many ms a poll of that address is expected to be held. */
  expectedMs(address: string, holdMs: number): number {
    return Math.min(holdMs, this.#ms.get(address) ?? holdMs)
  }

  /** Records how a poll failed. @returns whether a proxy ended it */
  noteFailure(address: string, tookMs: number, error: unknown): boolean {
    const isEnded = tookMs >= heldMs && isEndedByProxy(error)
    if (isEnded) this.#ms.set(address, tookMs)
    return isEnded
  }

  /** Removes the limit of an address, after a poll that no proxy ended in that time. */
  forget(address: string): void {
    this.#ms.delete(address)
  }
}

/** Returns whether a proxy reported its own timeout (HTTP 524 or 504) or closed the connection. */
const isEndedByProxy = (error: unknown): boolean =>
  (isILinkError(error, 'http') && (error.facts.status === 524 || error.facts.status === 504)) ||
  (isILinkError(error, 'network') && !error.facts.neverSent)
