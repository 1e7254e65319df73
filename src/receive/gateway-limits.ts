/**
 * Long polls that end because a gateway in front of WeChat allows no longer ones.
 *
 * Such an end brings no messages, and that is all it says. The next polls of that address are expected to end then, so that a
 * dead connection is noticed earlier. But the gateway ends them, not we: upstream cannot be told how long to hold, and a poll
 * that we end may have a message on its way to us, which upstream may not repeat.
 */
import { isILinkError } from '../ilink/http.ts'

/** A poll that is answered later than this was held: nothing waited for it. A new connection to far away takes a second. */
export const heldMs = 4000

export class GatewayLimits {
  /** By address, after how many ms a gateway ends a poll. */
  readonly #ms = new Map<string, number>()

  /** How long a poll of that address is expected to be held. */
  expectedMs(address: string, holdMs: number): number {
    return Math.min(holdMs, this.#ms.get(address) ?? holdMs)
  }

  /** Notes how a poll failed. @returns whether a gateway has ended it */
  noteFailure(address: string, tookMs: number, error: unknown): boolean {
    const isEnded = tookMs >= heldMs && isEndedByGateway(error)
    if (isEnded) this.#ms.set(address, tookMs)
    return isEnded
  }

  /** Nobody ended a poll when that was expected: it was no gateway's limit. */
  forget(address: string): void {
    this.#ms.delete(address)
  }
}

/** A gateway's word that it waited long enough, or a connection that it closed. */
const isEndedByGateway = (error: unknown): boolean =>
  (isILinkError(error, 'http') && (error.facts.status === 524 || error.facts.status === 504)) ||
  (isILinkError(error, 'network') && !error.facts.neverSent)
